"""What a source of configuration gives: values, each with its place, in sections."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jdbcstore.config.secret import PASSWORD_OPTIONS

LOGIN = ("user", *PASSWORD_OPTIONS)
"""What belongs to a URL, and to no other."""


@dataclass(frozen=True, slots=True)
class Given:
    """One value, and where it was given."""

    value: Any
    place: str
    text: bool = False
    """The source knows only text: numbers and truth are read from it."""
    theirs: bool = False
    """The value is in ActiveMQ's unit, whatever the name is."""
    problem: str | None = None
    """Why the value cannot be had; told only if no other source gives it."""

    def __repr__(self) -> str:
        return f"Given(..., {self.place!r})"  # the value may be a password


Section: TypeAlias = "dict[str, Given | Section | list[Section]]"


class Kind(enum.Enum):
    """What a note is about."""

    MISSING = "missing"
    UNKNOWN = "unknown"
    DANGEROUS = "not obeyed"
    NOT_RUN = "not run yet"
    IGNORED = "no meaning here"


@dataclass(frozen=True, slots=True)
class Note:
    """Something given that jdbcstore does not do, or not as it was given."""

    kind: Kind
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text} ({self.kind.value})"


def merge(lower: Section, upper: Section) -> Section:
    """Both, where ``upper`` wins. Lists are replaced as a whole.

    A URL that is replaced takes with it what was given to log in there, and a URL stands for several stores.
    """
    merged = dict(lower)
    if "url" in upper and "url" in lower:
        merged = {name: value for name, value in merged.items() if name not in LOGIN}
    if "url" in upper:
        merged.pop("stores", None)
    if any(name in upper for name in PASSWORD_OPTIONS):
        merged = {name: value for name, value in merged.items() if name not in PASSWORD_OPTIONS}
    for name, value in upper.items():
        below = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = merge(below, value) if both else value  # type: ignore[arg-type]
    return merged
