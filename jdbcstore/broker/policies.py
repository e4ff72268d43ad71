"""Which policy holds for a destination."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationMap


class Policies:
    """The policy entries of a broker.

    One entry holds for a destination, whole: the one of its name, else of the most specific wildcard that
    matches it, else the one for neither queues nor topics, else the defaults. Temporary destinations
    have the last two alone.
    """

    def __init__(self, entries: Sequence[PolicyEntry] = ()) -> None:
        named = [(entry.destination, entry) for entry in entries]
        self._by_destination = DestinationMap((where, entry) for where, entry in named if where is not None)
        self._others = next((entry for where, entry in named if where is None), PolicyEntry())

    def of(self, destination: Destination) -> PolicyEntry:
        return self._by_destination.find(destination) or self._others
