"""The last hour and the last day of each busy destination, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from math import isnan, nan
from typing import NamedTuple

from jdbcstore.broker.counters import Counters
from jdbcstore.broker.management.views import Activity, BrokerView
from jdbcstore.message.destination import Destination

INTERVAL = 10.0
"""Seconds between samples."""
LENGTH = 360
"""Samples per destination: an hour."""
MOST = 500
"""The most destinations with their own history, of 22 KB each."""
SIZE, ENQUEUED, DEQUEUED, DEAD, DISPATCHED = range(5)
_MINUTE = 6
_STEP, _DAY = 30, 288
"""Samples per five-minute sample, and five-minute samples per destination: a day."""
_OF_DAY = (SIZE, ENQUEUED, DEQUEUED)
"""The kinds of samples that are kept for a day."""
_NOTHING = (nan, nan, nan, nan, nan)
_IDLE = 60.0
"""Seconds without changes after which a destination without a history is known to be idle."""

Values = Sequence[float]
"""One value per sample, the oldest first; NaN for a missing sample."""
Tallies = Mapping[Destination, tuple[int, Counters]]
"""The size and the counters of each destination."""


class HistorySpan(NamedTuple):
    """The part of the history that ends now."""

    seconds: float
    samples: int
    interval: float
    """Seconds between two values."""


SPANS = {
    "10min": HistorySpan(600.0, 60, INTERVAL),
    "hour": HistorySpan(3600.0, LENGTH, INTERVAL),
    "day": HistorySpan(86400.0, _DAY, _STEP * INTERVAL),
}


class Series:
    """The samples of one destination, or of all destinations together."""

    __slots__ = ("_day", "_rings", "changed", "last")

    def __init__(self, changed: int) -> None:
        self._rings = [array("d", [nan]) * LENGTH for _ in _NOTHING]
        self._day = [array("d", [nan]) * _DAY for _ in _OF_DAY]
        self.changed = changed
        """The tick of the last change."""
        self.last: tuple[float, ...] = ()

    def put(self, tick: int, values: tuple[float, ...]) -> None:
        """Write the sample of a tick."""
        for ring, value in zip(self._rings, values, strict=True):
            ring[tick % LENGTH] = value
        for kind, ring in zip(_OF_DAY, self._day, strict=True):  # the last sample of five minutes stays
            ring[tick // _STEP % _DAY] = values[kind]
        if values != self.last:
            self.last, self.changed = values, tick

    def forget(self, tick: int) -> None:
        """Clear the sample of a tick."""
        for ring in self._rings:
            ring[tick % LENGTH] = nan

    def values(self, kind: int, tick: int) -> Values:
        """Return the samples up to a tick."""
        at = (tick + 1) % LENGTH
        ring = self._rings[kind]
        return [*ring[at:], *ring[:at]]

    def forget_of_day(self, step: int) -> None:
        """Clear the sample of a day's five minutes."""
        for ring in self._day:
            ring[step % _DAY] = nan

    def of_day(self, kind: int, tick: int) -> Values:
        """Return the samples of a day up to a tick."""
        at = (tick // _STEP + 1) % _DAY
        ring = self._day[kind]
        return [*ring[at:], *ring[:at]]

    def latest(self, kind: int, tick: int, count: int) -> Values:
        """Return the latest values."""
        ring = self._rings[kind]
        return [ring[(tick - ago) % LENGTH] for ago in range(count - 1, -1, -1)]


class CounterHistory:
    """The samples of a broker's destinations.

    The busiest destinations have their own history. A new destination replaces the one without a change for
    the longest time, unless all have changed within a minute.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._tick: int | None = None
        self._total = Series(0)
        self._series: dict[Destination, Series] = {}
        self._used: dict[Destination, tuple[int, float]] = {}
        """The message count of each destination, and the time when it was first seen."""

    def add(self, now: float, tallies: Tallies, total: tuple[int, Counters | BrokerView]) -> None:
        """Take a sample at a time of a monotonic clock."""
        tick = int(now // INTERVAL)
        self._skip(tick)
        self._total.put(tick, _values(*total))
        new: dict[Destination, tuple[float, ...]] = {}
        before, self._used = self._used, {}
        for name, tally in tallies.items():
            series, values = self._series.get(name), _values(*tally)
            mark, used = tally[1].enqueued + tally[1].dequeued + tally[1].dispatched, before.get(name)
            self._used[name] = used if used is not None and used[0] == mark else (mark, now)
            if series is not None:
                series.put(tick, values)
            elif any(values) and len(new) < self._most:
                new[name] = values
        self._make_room(tick, len(new), tallies)
        for name, values in new.items():
            if len(self._series) == self._most:
                break
            series = self._series[name] = Series(tick)
            series.put(tick, values)

    def _skip(self, tick: int) -> None:
        """Clear the samples that were missed since the last time."""
        first = tick if self._tick is None else max(self._tick + 1, tick - LENGTH + 1)
        for missing in range(first, tick + 1):
            for series in (self._total, *self._series.values()):
                series.forget(missing)
        step = tick // _STEP
        last = step - 1 if self._tick is None else self._tick // _STEP
        for missing in range(max(last + 1, step - _DAY + 1), step + 1):
            for series in (self._total, *self._series.values()):
                series.forget_of_day(missing)
        self._tick = tick

    def _make_room(self, tick: int, wanted: int, present: Container[Destination]) -> None:
        """Forget destinations that ended an hour ago, and replace the longest unchanged if others need its
        place."""
        idle = sorted(self._series, key=lambda name: self._series[name].changed)
        excess = len(self._series) + wanted - self._most
        for at, name in enumerate(idle):
            age = tick - self._series[name].changed
            if (at < excess and age > _MINUTE) or (age >= LENGTH and name not in present):
                del self._series[name]

    def __len__(self) -> int:
        return len(self._series)

    def has(self, name: Destination) -> bool:
        """Return whether a destination has its own history."""
        return name in self._series

    def sizes(self, name: Destination | None = None) -> Values:
        """Return the messages of a destination, or of all queues, at each sample."""
        return self._values(name, SIZE)

    def shown(self, kind: int, span: HistorySpan, name: Destination | None = None) -> Values:
        """Return the samples of a span: messages for ``SIZE``, otherwise the growth of a counter per
        second."""
        series = self._total if name is None else self._series.get(name)
        if series is None or self._tick is None:
            return [nan] * span.samples
        if span.interval == INTERVAL:
            values = series.latest(kind, self._tick, min(span.samples + 1, LENGTH))
        else:
            values = series.of_day(kind, self._tick)
        if kind != SIZE:
            values = [nan, *(_rate(*pair, span.interval) for pair in pairwise(values))]
        return [*[nan] * (span.samples - len(values)), *values[-span.samples :]]

    def rate(self, kind: int, name: Destination | None = None, samples: int = _MINUTE) -> float | None:
        """Return the growth of a counter per second over the last minute; None if it is unknown."""
        series = self._total if name is None else self._series.get(name)
        if series is None or self._tick is None:
            return None
        values = series.latest(kind, self._tick, samples + 1)
        known = [rate for rate in map(_rate, values, values[1:]) if not isnan(rate)]
        return sum(known) / len(known) if known else None

    def activity(self, name: Destination, now: float) -> Activity:
        """Return the rates of a destination and its idle time, in steps of ten seconds."""
        used = self._used.get(name)
        idle = None if used is None else max(now - used[1], 0.0)
        if name not in self._series:
            resting = 0.0 if idle is not None and idle > _IDLE else None
            return Activity(resting, resting, resting, idle)
        enqueued, dispatched, dequeued = (self.rate(kind, name) for kind in (ENQUEUED, DISPATCHED, DEQUEUED))
        return Activity(enqueued, dispatched, dequeued, idle)

    def growth(self, kind: int, name: Destination | None = None, samples: int = LENGTH) -> float:
        """Return the growth of a counter over the last samples.

        A counter begins at 0, so its value at the first sample, or after it fell, counts as growth.
        """
        return sum(self._steps(kind, name, samples).values())

    def since(self, kind: int, name: Destination | None = None, samples: int = LENGTH) -> int:
        """Return the age, in samples, of a counter's first growth within the last samples; 0 without
        growth."""
        return next((ago for ago, step in self._steps(kind, name, samples).items() if step > 0), 0)

    def _steps(self, kind: int, name: Destination | None, samples: int) -> dict[int, float]:
        """Return the growth of a counter up to each of the last samples, by the age of the sample."""
        values = self._values(name, kind)
        before = next((value for value in reversed(values[:-samples]) if not isnan(value)), 0.0)
        steps = {}
        for ago, value in zip(range(samples, 0, -1), values[-samples:], strict=True):
            if not isnan(value):
                steps[ago] = value - before if value >= before else value
                before = value
        return steps

    def _values(self, name: Destination | None, kind: int) -> Values:
        series = self._total if name is None else self._series.get(name)
        if series is None or self._tick is None:
            return [nan] * LENGTH
        return series.values(kind, self._tick)


def _values(size: int, counters: Counters | BrokerView) -> tuple[float, ...]:
    return size, counters.enqueued, counters.dequeued, counters.dead, counters.dispatched


def _rate(before: float, after: float, interval: float = INTERVAL) -> float:
    """NaN also after a restart of the counter."""
    return (after - before) / interval if after >= before else nan
