"""Delivery from an event loop, as in Celery's workers: at wake-ups and at intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jdbcstore.stores.claims import Wakeups
from jdbcstore.util.clock import Clock

SHORTEST_PAUSE = 0.05


class PollSchedule:
    """Polling schedule of an empty queue. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = -1
        self._pause = SHORTEST_PAUSE
        self._at = float("-inf")

    def seconds(self, count: int) -> float:
        """Return the seconds until the next poll; ``count`` is the number of the queue's wake-ups."""
        return max(0.0, self._at - self._clock.monotonic()) if count == self._count else 0.0

    def record(self, *, more: bool, count: int, longest: float) -> None:
        """Record the result of a poll, and whether there may be ``more``; ``count`` is from before the
        poll."""
        if more or count != self._count:
            self._pause = SHORTEST_PAUSE
        self._count = count
        self._at = float("-inf") if more else self._clock.monotonic() + min(self._pause, longest)
        self._pause = min(2 * self._pause, longest)


class LoopTurns:
    """The polling of one connection in kombu's event loop."""

    def __init__(
        self,
        loop: Any,
        wakeups: Wakeups,
        names: Callable[[], Iterable[str]],
        deliver: Callable[[], bool],
        seconds: Callable[[], float],
    ) -> None:
        self.loop = loop
        """The loop."""
        self._wakeups = wakeups
        self._deliver = deliver
        self._seconds = seconds
        self._timer: Any = None
        self._pipe = wakeups.watch(names)
        loop.add_reader(self._pipe, self._woken)
        self._pipe.signal()

    def _woken(self) -> None:
        self._pipe.clear()
        self._turn()

    def _turn(self) -> None:
        self._cancel()
        if self._pipe.is_closed:
            return
        if self._deliver():
            # In the next iteration of the loop, after other work. A timer would fire immediately.
            self._pipe.signal()
        else:
            self._timer = self.loop.call_later(self._seconds(), self._turn)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Stop polling."""
        self._cancel()
        if self.loop.readers.get(self._pipe.fileno(), (None,))[0] == self._woken:
            self.loop.remove_reader(self._pipe)
        self._wakeups.unwatch(self._pipe)
