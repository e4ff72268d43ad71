"""Which messages are meant."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination


@dataclass(frozen=True, slots=True)
class Window:
    """Messages older than a moment, or acknowledged, or both; of some destinations, or of all.

    A message's time is its JMSTimestamp, or where its producer set none, when the broker took it. One
    that does not decode has none, and is never old.

    Queues keep nothing that was acknowledged. So only a topic's message can be: every durable subscription of
    its topic has acknowledged it, there is one at least, and cleanup has not removed it yet.
    """

    before_ms: int | None = None
    """Its time is before this."""
    acknowledged: bool = False
    destinations: frozenset[str] = frozenset()
    """Qualified names; none are all."""

    @classmethod
    def of(
        cls,
        older_than: float | None = None,
        *,
        acknowledged: bool = False,
        destinations: Iterable[Destination] = (),
    ) -> Self:
        """The window as of now; ``older_than`` is in seconds.

        :raises ConfigurationError: it would have every message of the store
        """
        if older_than is None and not acknowledged:
            raise ConfigurationError("say which messages: older than an age, or acknowledged, or both")
        before = None if older_than is None else time.time_ns() // 1_000_000 - round(older_than * 1000)
        names = frozenset(destination.qualified_name for destination in destinations)
        return cls(before, acknowledged, names)

    def has(self, container: str, time_ms: int | None) -> bool:
        """Whether a message of this destination and time is meant, but for its acknowledgements."""
        if self.destinations and container not in self.destinations:
            return False
        return self.before_ms is None or (time_ms is not None and time_ms < self.before_ms)
