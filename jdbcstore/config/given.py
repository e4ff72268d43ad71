"""Values as the sources of a configuration give them, each with its place, and notes on them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jdbcstore.config.data_source import PASSWORD_OPTIONS
from jdbcstore.errors import ConfigurationError

_LOGIN = ("user", *PASSWORD_OPTIONS)


@dataclass(frozen=True, slots=True)
class Given:
    """A value and the place where it was given."""

    value: Any
    place: str
    text: bool = False
    """The source has only strings: numbers and booleans are parsed."""
    activemq_units: bool = False
    """The value is in ActiveMQ's unit, whichever the spelling of the name."""
    problem: str | None = None
    """Reason why the value cannot be determined; raised only if no other source gives it."""
    of_default: bool = False
    """The file does not name a store, and this is of the default one: another URL replaces that."""

    def __repr__(self) -> str:
        return f"Given(..., {self.place!r})"  # the value may be a password


Section: TypeAlias = "dict[str, Given | Section | list[Section]]"


class Kind(enum.Enum):
    """The subject of a note.

    ``MISSING`` is an option that is needed, ``UNKNOWN`` a name that jdbcstore does not know. The others are
    unsupported settings: ``REFUSED`` where that would change which messages are kept, or who may
    read them, so that ``jdbcstore broker`` does not start; ``DANGEROUS`` where ActiveMQ would behave
    differently in a way that matters, ``UNSUPPORTED`` where ``jdbcstore broker`` does not have the feature,
    ``IGNORED`` where nothing is lost.
    """

    MISSING = "missing"
    UNKNOWN = "unknown"
    REFUSED = "the broker does not start"
    DANGEROUS = "not obeyed"
    UNSUPPORTED = "not supported"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Note:
    """A setting that jdbcstore does not obey, or not as it was given.

    ``kind`` is its subject, ``place`` where it was given, such as a line of a file, and ``text`` says why.
    """

    kind: Kind
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text} ({self.kind.value})"


def merge(lower: Section, upper: Section) -> Section:
    """Merge two sections; where both have an option, ``upper`` wins. Lists are replaced as a whole.

    A URL in ``upper`` replaces the login of the URL in ``lower`` too, and several stores, and the rest of a
    store that the source did not name.
    """
    merged = dict(lower)
    if "url" in upper and "url" in lower:
        merged = {name: value for name, value in merged.items() if name not in _LOGIN}
    if "url" in upper:
        merged.pop("stores", None)
        merged = {name: value for name, value in merged.items() if not _is_of_default(value)}
    if any(name in upper for name in PASSWORD_OPTIONS):
        merged = {name: value for name, value in merged.items() if name not in PASSWORD_OPTIONS}
    for name, value in upper.items():
        below = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = merge(below, value) if both else value  # type: ignore[arg-type]
    return merged


def _is_of_default(value: Given | Section | list[Section]) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(map(_is_of_default, value.values()))
    return isinstance(value, Given) and value.of_default


def put(section: Section, path: str, given: Given) -> None:
    """Add a value at a path, unless there is one."""
    *inside, name = path.split(".")
    for part in inside:
        section = section.setdefault(part, {})  # type: ignore[assignment]
    section.setdefault(name, given)


def parse_toml(data: bytes, place: str) -> dict[str, Any]:
    """Parse TOML.

    :raises ConfigurationError: it is not TOML
    """
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # of tomllib's, also for numbers of thousands of digits
        raise ConfigurationError(f"this is not TOML: {error}; correct it", place=place) from error
