"""Monitoring of consumers: idle times, rates of acknowledgements, and slow consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from jdbcstore.broker.subscription import BaseSubscription

SLOW = 30.0
"""Seconds with messages but without an acknowledgement after which a consumer is slow: the default of
``maxTimeSinceLastAck`` and ``maxSlowDuration`` in ActiveMQ's strategies that abort slow consumers."""
_MINUTE = 60.0
_STEP = 5.0
"""The least seconds between two counts for the rate."""


@dataclass(slots=True)
class _Seen:
    """The state of a consumer at the last check, by a monotonic clock."""

    dispatched: int
    settled: int
    """Acknowledged or rejected deliveries, also in a transaction."""
    changed: float
    """The time of the last change of either."""
    unsettled: float | None
    """The time since which it has held messages without settling any; None while it has none."""
    counts: deque[tuple[float, int]] = field(default_factory=deque)
    """Times of the last minute, the latest first, and the acknowledgements until then."""

    def count(self, now: float, acknowledged: int) -> None:
        """Record the acknowledgements at a time, unless the last record is recent."""
        if not self.counts or now - self.counts[0][0] >= _STEP:
            self.counts.appendleft((now, acknowledged))
            while len(self.counts) > 1 and now - self.counts[-2][0] >= _MINUTE:
                self.counts.pop()


class ConsumerWatch:
    """Monitoring of consumers by periodic checks, so that a delivery costs nothing more."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[BaseSubscription, _Seen] = WeakKeyDictionary()

    def observe(self, consumers: Iterable[BaseSubscription], now: float) -> None:
        """Record the progress of each consumer."""
        for consumer in consumers:
            waiting = len(consumer.held) - len(consumer.lent)
            settled = consumer.dispatched - waiting
            seen = self._seen.get(consumer)
            if seen is None:
                seen = self._seen[consumer] = _Seen(consumer.dispatched, settled, now, None)
            elif (seen.dispatched, seen.settled) != (consumer.dispatched, settled):
                seen.changed = now
            if not waiting or consumer.request.browser:
                seen.unsettled = None
            elif seen.unsettled is None or seen.settled != settled:
                seen.unsettled = now
            seen.dispatched, seen.settled = consumer.dispatched, settled
            seen.count(now, settled - consumer.rejected)

    def idle(self, consumer: BaseSubscription, now: float) -> float | None:
        """Return the seconds without a delivery or an acknowledgement, to the precision of the checks."""
        seen = self._seen.get(consumer)
        return None if seen is None else max(now - seen.changed, 0.0)

    def unsettled(self, consumer: BaseSubscription, now: float) -> float | None:
        """Return the seconds for which it has held messages without settling any; None while it has none."""
        seen = self._seen.get(consumer)
        return None if seen is None or seen.unsettled is None else max(now - seen.unsettled, 0.0)

    def acknowledged_per_second(self, consumer: BaseSubscription, now: float) -> float | None:
        """Return the acknowledgements per second in the last minute; None for a new consumer."""
        seen = self._seen.get(consumer)
        if seen is None:
            return None
        began, before = seen.counts[-1]
        elapsed = now - began
        return None if elapsed < _STEP else max(seen.settled - consumer.rejected - before, 0) / elapsed
