"""Wildcards in destination names: ``*`` matches one element between dots, a final ``>`` any that follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from jdbcstore.message.destination import Destination

T = TypeVar("T")

ANY_CHILD = "*"
ANY_DESCENDANT = ">"


class DestinationPattern:
    """A destination name with wildcards, which matches destinations of the same kind.

    As in ActiveMQ, ``A.>`` matches ``A`` too, ``A.>.>`` is the same, and ``A.*`` does not match ``A.B.C``.
    A name without wildcards matches itself.
    """

    __slots__ = ("_elements", "destination", "is_wildcard")

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        elements = destination.name.split(".")
        while elements[-2:] == [ANY_DESCENDANT, ANY_DESCENDANT]:
            elements.pop()
        self._elements = tuple(elements)
        self.is_wildcard = is_wildcard(destination)

    def matches(self, destination: Destination) -> bool:
        if destination.kind is not self.destination.kind:
            return False
        if not self.is_wildcard:
            return destination.name == self.destination.name
        return _matches(self._elements, destination.name.split("."))

    def matches_any(self, destination: Destination | None) -> bool:
        """Return whether it matches a destination, or a member of a composite one; None does not match."""
        return destination is not None and any(map(self.matches, destination.members))

    def covers(self, other: DestinationPattern) -> bool:
        """Return whether this matches every destination that ``other`` matches."""
        mine, others = self._elements, other._elements
        if other.destination.kind is not self.destination.kind:
            return False
        if mine[-1] != ANY_DESCENDANT:
            return others[-1] != ANY_DESCENDANT and _matches(mine, [*others])
        if others[-1] == ANY_DESCENDANT:
            others = others[:-1]
        return _matches(mine, [*others])

    def overlaps(self, other: DestinationPattern) -> bool:
        """Return whether both may match the same destination."""
        if other.destination.kind is not self.destination.kind:
            return False
        mine, others = self._elements, other._elements
        for one, another in zip(mine, others, strict=False):
            if ANY_DESCENDANT in (one, another):
                return True
            if one != another and ANY_CHILD not in (one, another):
                return False
        rest = mine[len(others) :] or others[len(mine) :]
        return rest in ((), (ANY_DESCENDANT,))

    def __repr__(self) -> str:
        return f"DestinationPattern({str(self.destination)!r})"


class DestinationMap(Generic[T]):
    """Values by destination pattern; a destination has the value of the most specific pattern that matches.

    As in ActiveMQ, that is its own name, or else the pattern covered by all other matching ones; of patterns
    that only overlap, as ``A.*`` and ``*.B``, the alphabetically first. A composite is an entry for each of
    its members. Of equal patterns the first counts.
    """

    def __init__(self, entries: Iterable[tuple[Destination, T]]) -> None:
        self._entries: dict[Destination, tuple[DestinationPattern, T]] = {}
        for destination, value in entries:
            for member in destination.members:
                self._entries.setdefault(member, (DestinationPattern(member), value))

    def find(self, destination: Destination) -> T | None:
        """Return the value for a destination; None if no pattern matches."""
        exact = self._entries.get(destination)
        if exact is not None:
            return exact[1]
        matching = [entry for entry in self._entries.values() if entry[0].matches(destination)]
        innermost = [
            entry
            for entry in matching
            if not any(entry is not other and entry[0].covers(other[0]) for other in matching)
        ]
        chosen = min(innermost, key=lambda entry: entry[0].destination.name, default=None)
        return None if chosen is None else chosen[1]


def is_wildcard(destination: Destination) -> bool:
    """Return whether an element of the name is a wildcard: in ``A.*`` and ``A.>``, not in ``A*``."""
    elements = destination.name.split(".")
    return ANY_CHILD in elements or elements[-1] == ANY_DESCENDANT


def _matches(pattern: tuple[str, ...], elements: list[str]) -> bool:
    if pattern[-1] == ANY_DESCENDANT:
        fixed = pattern[:-1]
        elements = elements[: len(fixed)]
    else:
        fixed = pattern
    return len(fixed) == len(elements) and all(
        expected in (ANY_CHILD, element) for expected, element in zip(fixed, elements, strict=True)
    )
