"""Turns of an event loop, as of Celery's workers: messages are delivered at wake-ups and at intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jdbcstore.stores.claims.wakeups import Wakeups
from jdbcstore.util.clock import Clock

SHORTEST_PAUSE = 0.05


class Look:
    """Schedule of looks at a queue that was found empty. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = -1
        self._pause = SHORTEST_PAUSE
        self._at = float("-inf")

    def seconds(self, count: int) -> float:
        """Return the seconds until the next look; ``count`` is that of the wake-ups of this queue."""
        return max(0.0, self._at - self._clock.monotonic()) if count == self._count else 0.0

    def found(self, *, more: bool, count: int, longest: float) -> None:
        """Note the result of a look, and whether there may be ``more``; ``count`` is from before the look."""
        if more or count != self._count:
            self._pause = SHORTEST_PAUSE
        self._count = count
        self._at = float("-inf") if more else self._clock.monotonic() + min(self._pause, longest)
        self._pause = min(2 * self._pause, longest)


class LoopTurns:
    """The turns that one connection has in an event loop of kombu's."""

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
        self._bell = wakeups.watch(names)
        loop.add_reader(self._bell, self._woken)
        self._bell.ring()

    def _woken(self) -> None:
        self._bell.clear()
        self._turn()

    def _turn(self) -> None:
        self._cancel()
        if self._bell.is_closed:
            return
        if self._deliver():
            # In the next round of the loop, which serves others before. A timer would be fired at once.
            self._bell.ring()
        else:
            self._timer = self.loop.call_later(self._seconds(), self._turn)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Stop taking turns."""
        self._cancel()
        if self.loop.readers.get(self._bell.fileno(), (None,))[0] == self._woken:
            self.loop.remove_reader(self._bell)
        self._wakeups.unwatch(self._bell)
