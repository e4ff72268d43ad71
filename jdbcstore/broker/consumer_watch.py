"""The watch over consumers: since when each rests, and which are slow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from jdbcstore.broker.subscription import BaseSubscription

SLOW = 30.0
"""Seconds after which a consumer is slow that has messages and acknowledges none: by default so many are the
``maxTimeSinceLastAck`` and the ``maxSlowDuration`` of ActiveMQ's strategies that abort slow consumers."""


@dataclass(slots=True)
class _Seen:
    """A consumer as it was when it was looked at last, by a clock that only goes forward."""

    dispatched: int
    settled: int
    """Deliveries that it has acknowledged or rejected, also in a transaction."""
    changed: float
    """When either was first seen as it is."""
    unsettled: float | None
    """Since when it has messages and settles none; None while it has none."""


class ConsumerWatch:
    """The watch over consumers, which looks at them from time to time: a delivery costs nothing more."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[BaseSubscription, _Seen] = WeakKeyDictionary()

    def look(self, consumers: Iterable[BaseSubscription], now: float) -> None:
        """Note what each has done until now."""
        for one in consumers:
            waiting = len(one.held) - len(one.lent)
            settled = one.dispatched - waiting
            seen = self._seen.get(one)
            if seen is None:
                seen = self._seen[one] = _Seen(one.dispatched, settled, now, None)
            elif (seen.dispatched, seen.settled) != (one.dispatched, settled):
                seen.changed = now
            if not waiting or one.request.browser:
                seen.unsettled = None
            elif seen.unsettled is None or seen.settled != settled:
                seen.unsettled = now
            seen.dispatched, seen.settled = one.dispatched, settled

    def idle(self, one: BaseSubscription, now: float) -> float | None:
        """Return the seconds without a delivery or an acknowledgement, as far as was looked."""
        seen = self._seen.get(one)
        return None if seen is None else max(now - seen.changed, 0.0)

    def unsettled(self, one: BaseSubscription, now: float) -> float | None:
        """Return the seconds for which it has had messages and settled none; None while it has none."""
        seen = self._seen.get(one)
        return None if seen is None or seen.unsettled is None else max(now - seen.unsettled, 0.0)
