"""Options as dataclass fields: types, bounds, units, and the two spellings of a name.

ActiveMQ's names are camelCase and its durations milliseconds. Ours are snake_case and seconds. An option
given under ActiveMQ's name has a value in ActiveMQ's unit.
"""

from __future__ import annotations

import difflib
import functools
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import Field, field, fields
from typing import Any

from jdbcstore.errors import ConfigurationError

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SIZE = re.compile(r"\s*(\d+)\s*(b|ki?b?|mi?b?|gi?b?)?\s*", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_ACRONYMS = {word.lower(): word for word in ("DB", "DLQ", "GC", "JMS", "SQL")}
_FEW = 20
LONGEST = 1e9
"""The highest value of a float, such as a duration in seconds; threads cannot wait ten times as long."""
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def option(
    default: Any,
    *,
    at_least: float | None = None,
    milliseconds: bool = False,
    negative_is_off: bool = False,
    size: bool = False,
    choices: tuple[str, ...] = (),
    secret: bool = False,
) -> Any:
    """Declare a field of a configuration.

    :param at_least: the lowest allowed value
    :param milliseconds: a duration in seconds, which is milliseconds under ActiveMQ's name
    :param negative_is_off: ActiveMQ disables the option by a negative number, jdbcstore by 0
    :param size: a number of bytes, which may be given as a string such as ``20 mb``
    :param choices: the allowed values
    :param secret: it is never shown
    """
    bounds = {"at_least": at_least, "choices": choices}
    units = {"milliseconds": milliseconds, "negative_is_off": negative_is_off, "size": size}
    return field(default=default, repr=not secret, metadata={**bounds, **units, "secret": secret})


class Options:
    """Base of the dataclasses of a configuration: types and bounds are checked on construction.

    :raises ConfigurationError: a field has the wrong type or is out of bounds
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        check(self)


def snake(name: str) -> str:
    """Convert a name to snake_case: ``maxAllowableDiffFromDBTime`` to ``max_allowable_diff_from_db_time``."""
    return _HUMP.sub("_", name).lower()


def camel(name: str) -> str:
    """Convert a name to ActiveMQ's spelling, the inverse of :func:`snake`."""
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


def is_camel(name: str) -> bool:
    """Return whether a name is in ActiveMQ's spelling."""
    return name != name.lower()


@functools.cache
def types_of(kind: Any) -> Mapping[str, tuple[type, ...]]:
    """Return the types that each field of a dataclass may hold, with NoneType where None is allowed."""
    hints = typing.get_type_hints(kind)
    return types.MappingProxyType(
        {definition.name: _alternatives(hints[definition.name]) for definition in fields(kind)}
    )


def _alternatives(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, types.UnionType):
        return tuple(kind for arg in typing.get_args(hint) for kind in _alternatives(arg))
    origin = typing.get_origin(hint)
    return (origin or hint,)


def check(instance: Any) -> None:
    """Raise :class:`ConfigurationError` unless each field has its type and is within its bounds."""
    for definition in fields(instance):
        value, wanted = getattr(instance, definition.name), types_of(instance.__class__)[definition.name]
        complaint = _type_error(value, wanted) or _bounds_error(definition, value, wanted)
        if complaint:
            raise ConfigurationError(f"{definition.name} must be {complaint}", option=definition.name)


def _type_error(value: object, wanted: tuple[type, ...]) -> str:
    allowed = (*wanted, int) if float in wanted else wanted
    if isinstance(value, allowed) and (not isinstance(value, bool) or bool in wanted):
        return ""
    return f"{_kind(wanted)}, not of type {type(value).__name__}"


def _kind(wanted: Iterable[type]) -> str:
    names = [_KINDS.get(kind, f"of type {kind.__name__}") for kind in wanted if kind is not types.NoneType]
    return " or ".join(names)


def _bounds_error(definition: Field[Any], value: Any, wanted: tuple[type, ...]) -> str:
    at_least, choices = definition.metadata.get("at_least"), definition.metadata.get("choices")
    if float in wanted and value is not None and not abs(value) <= LONGEST:
        return f"a number of at most {LONGEST:,.0f}, not {value}"
    if at_least is not None and value is not None and value < at_least:
        return f"at least {at_least}, not {value}"
    if choices and value is not None and value not in choices:
        return f"one of {', '.join(choices)}, not {value!r}"
    return ""


def find_field(kind: type, name: str) -> Field[Any] | None:
    """Find the field of a dataclass by its name, in our spelling or ActiveMQ's."""
    wanted = snake(name) if is_camel(name) else name
    return next((definition for definition in fields(kind) if definition.name == wanted), None)


def unknown(what: str, name: str, known: Iterable[str], where: str = "") -> str:
    """Format the error about a name that is not among ``known``, with the closest one or the list of all."""
    by_snake = {snake(name): name for name in sorted(known)}
    close = difflib.get_close_matches(snake(name), by_snake, n=1)
    if close:
        cure = f"did you mean {by_snake[close[0]]}?"
    elif 0 < len(by_snake) <= _FEW:
        cure = f"use one of {', '.join(by_snake.values())}"
    else:
        cure = "correct it or remove it; jdbcstore config show lists all options"
    return f"unknown {what} {name!r}{where}; {cure}"


def convert(
    kind: type, definition: Field[Any], value: Any, *, activemq_units: bool, text: bool = False
) -> Any:
    """Convert a value to the type and unit of its field.

    :param activemq_units: durations are milliseconds, and a negative number means "off"
    :param text: the source has only strings: parse numbers and booleans
    """
    wanted = types_of(kind)[definition.name]
    if isinstance(value, str):
        if definition.metadata.get("size"):
            value = _parse_size(definition.name, value)
        elif text and str not in wanted:
            value = _parse(definition.name, value, wanted)
    if not activemq_units or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if value < 0 and types.NoneType in wanted:
        return None
    if value < 0 and definition.metadata.get("negative_is_off"):
        return 0.0
    return min(value / 1000, LONGEST) if definition.metadata.get("milliseconds") else value


def _parse_size(name: str, value: str) -> int:
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ConfigurationError(
            f"{name} must be a number of bytes, or a size such as '20 mb', not {value!r}"
        )
    return int(match[1]) * _UNITS[(match[2] or "").lower()[:1]]


def _parse(name: str, value: str, wanted: tuple[type, ...]) -> Any:
    try:
        if bool in wanted:
            return _BOOLEANS[value.strip().lower()]
        return float(value) if float in wanted else int(value)
    except (KeyError, ValueError):
        raise ConfigurationError(f"{name} must be {_kind(wanted)}, not {value!r}") from None
