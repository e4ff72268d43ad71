"""The policy entries of a broker, found by destination."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.broker.topics.queries import make_query
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationMap


class Policies:
    """The policy entries of a broker.

    Exactly one entry applies to a destination: the entry with its name, else with the most specific matching
    wildcard, else the entry without a destination, else the defaults. Only the last two apply to temporary
    destinations.
    """

    def __init__(self, entries: Sequence[PolicyEntry] = ()) -> None:
        named = [(entry.destination, entry) for entry in entries]
        self._by_destination = DestinationMap((name, entry) for name, entry in named if name is not None)
        self._default = next((entry for name, entry in named if name is None), PolicyEntry())
        self.report_dispatches = any(entry.advisory_for_dispatched for entry in entries)
        """Whether any entry enables advisories about dispatched messages."""

        for _, entry in named:
            make_query(entry.subscription_recovery_policy)  # which must exist
        own = self._default.slow_consumer_strategy
        strategies = [entry.slow_consumer_strategy for entry in entries]
        self.slow_consumer_strategies = tuple(
            strategy for strategy in (own, *strategies) if strategy is not None
        )
        """The strategies of all entries for slow consumers."""

    def of(self, destination: Destination) -> PolicyEntry:
        """Return the entry for a destination."""
        return self._by_destination.find(destination) or self._default
