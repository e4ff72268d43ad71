"""What an option may be: its type, its bounds, and how a text or ActiveMQ's own name means it.

ActiveMQ's names are camelCase and its durations milliseconds. Ours are snake_case and seconds. Where
an option is given under ActiveMQ's name, its value is in ActiveMQ's unit.
"""

from __future__ import annotations

import difflib
import functools
import math
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
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True}
_BOOLEANS |= {"false": False, "no": False, "off": False, "0": False}
_ACRONYMS = {word.lower(): word for word in ("DB", "DLQ", "GC", "JMS", "SQL")}
_FEW = 20
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def option(
    default: Any,
    *,
    at_least: float | None = None,
    milliseconds: bool = False,
    negative_is_off: bool = False,
    size: bool = False,
    choices: tuple[str, ...] = (),
    **more: Any,
) -> Any:
    """A field of a configuration.

    :param at_least: the lowest value
    :param milliseconds: a duration, which ActiveMQ's own name gives in milliseconds
    :param negative_is_off: ActiveMQ takes a negative number as our 0
    :param size: bytes, which may also be text such as ``20 mb``
    :param choices: the only values
    """
    metadata = {
        "at_least": at_least,
        "milliseconds": milliseconds,
        "negative_is_off": negative_is_off,
        "size": size,
        "choices": choices,
    }
    return field(default=default, metadata=metadata, **more)


def snake(name: str) -> str:
    """``maxAllowableDiffFromDBTime`` as ``max_allowable_diff_from_db_time``; snake_case stays."""
    return _HUMP.sub("_", name).lower()


def camel(name: str) -> str:
    """``max_allowable_diff_from_db_time`` as ActiveMQ spells it."""
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


def is_camel(name: str) -> bool:
    """Whether this is ActiveMQ's spelling and not ours."""
    return name != name.lower()


@functools.cache
def types_of(kind: Any) -> Mapping[str, tuple[type, ...]]:
    """The types that each field of a dataclass may hold; NoneType among them where None may stand."""
    hints = typing.get_type_hints(kind)
    return types.MappingProxyType({one.name: _alternatives(hints[one.name]) for one in fields(kind)})


def _alternatives(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, types.UnionType):
        return tuple(found for one in typing.get_args(hint) for found in _alternatives(one))
    origin = typing.get_origin(hint)
    return (origin or hint,)


def check(instance: Any) -> None:
    """:class:`ConfigurationError` unless each field has its type and is within its bounds."""
    for one in fields(instance):
        value = getattr(instance, one.name)
        _check_type(one.name, value, types_of(instance.__class__)[one.name])
        _check_bounds(one, value)


def _check_type(name: str, value: object, wanted: tuple[type, ...]) -> None:
    allowed = (*wanted, int) if float in wanted else wanted
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in wanted):
        raise ConfigurationError(
            f"{name} must be {_kind(wanted)}, not of type {type(value).__name__}", option=name
        )


def _kind(wanted: Iterable[type]) -> str:
    names = [_KINDS.get(kind, f"of type {kind.__name__}") for kind in wanted if kind is not types.NoneType]
    return " or ".join(names)


def _check_bounds(one: Field[Any], value: Any) -> None:
    at_least, choices = one.metadata.get("at_least"), one.metadata.get("choices")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigurationError(f"{one.name} must be a finite number, not {value}", option=one.name)
    if at_least is not None and value is not None and value < at_least:
        raise ConfigurationError(f"{one.name} must be at least {at_least}, not {value}", option=one.name)
    if choices and value is not None and value not in choices:
        raise ConfigurationError(
            f"{one.name} must be one of {', '.join(choices)}, not {value!r}", option=one.name
        )


def find_field(kind: type, name: str) -> Field[Any] | None:
    """The field that a name means, in our spelling or ActiveMQ's."""
    wanted = snake(name) if is_camel(name) else name
    return next((one for one in fields(kind) if one.name == wanted), None)


def unknown(what: str, name: str, known: Iterable[str], where: str = "") -> str:
    """What to say of a name that is none of ``known``: the one meant, or all of them."""
    by_snake = {snake(one): one for one in sorted(known)}
    close = difflib.get_close_matches(snake(name), by_snake, n=1)
    if close:
        cure = f"did you mean {by_snake[close[0]]}?"
    elif 0 < len(by_snake) <= _FEW:
        cure = f"take one of {', '.join(by_snake.values())}"
    else:
        cure = "correct it or remove it; jdbcstore config show lists what there is"
    return f"unknown {what} {name!r}{where}; {cure}"


def convert(kind: type, one: Field[Any], value: Any, *, theirs: bool, text: bool = False) -> Any:
    """A value as its field needs it.

    :param theirs: it is in ActiveMQ's unit, and a negative number is ActiveMQ's way to say "off"
    :param text: the source knows only text: numbers and truth are read from it
    """
    wanted = types_of(kind)[one.name]
    if isinstance(value, str):
        if one.metadata.get("size"):
            value = _size(one.name, value)
        elif text and str not in wanted:
            value = _read(one.name, value, wanted)
    if not theirs or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if value < 0 and types.NoneType in wanted:
        return None
    if value < 0 and one.metadata.get("negative_is_off"):
        return 0.0
    return value / 1000 if one.metadata.get("milliseconds") else value


def _size(name: str, value: str) -> int:
    found = _SIZE.fullmatch(value)
    if found is None:
        raise ConfigurationError(f"{name} must be a number of bytes, or such as '20 mb', not {value!r}")
    return int(found[1]) * _UNITS[(found[2] or "").lower()[:1]]


def _read(name: str, value: str, wanted: tuple[type, ...]) -> Any:
    try:
        if bool in wanted:
            return _BOOLEANS[value.strip().lower()]
        return float(value) if float in wanted else int(value)
    except (KeyError, ValueError):
        raise ConfigurationError(f"{name} must be {_kind(wanted)}, not {value!r}") from None
