"""Wildcards in destination names: ``*`` is one element between dots, a ``>`` at the end all that follow."""

from __future__ import annotations

from jdbcstore.destination import Destination

ANY_CHILD = "*"
ANY_DESCENDANT = ">"


class DestinationPattern:
    """What a destination's name with wildcards matches: names of its own kind.

    As in ActiveMQ, ``A.>`` matches ``A`` too, and ``A.*`` does not match ``A.B.C``. A name without
    wildcards matches itself.
    """

    __slots__ = ("_elements", "destination", "is_wildcard")

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self._elements = tuple(destination.name.split("."))
        self.is_wildcard = is_wildcard(destination)

    def matches(self, destination: Destination) -> bool:
        if destination.kind is not self.destination.kind:
            return False
        if not self.is_wildcard:
            return destination.name == self.destination.name
        return _matches(self._elements, destination.name.split("."))

    def __repr__(self) -> str:
        return f"DestinationPattern({str(self.destination)!r})"


def is_wildcard(destination: Destination) -> bool:
    """Whether the name has an element that is a wildcard: ``A.*`` and ``A.>``, not ``A*``."""
    elements = destination.name.split(".")
    return ANY_CHILD in elements or elements[-1] == ANY_DESCENDANT


def _matches(pattern: tuple[str, ...], elements: list[str]) -> bool:
    if pattern[-1] == ANY_DESCENDANT:
        fixed = pattern[:-1]
        elements = elements[: len(fixed)]
    else:
        fixed = pattern
    return len(fixed) == len(elements) and all(
        expected in (ANY_CHILD, found) for expected, found in zip(fixed, elements, strict=True)
    )
