"""An event loop that runs collected work at the end of the same iteration instead of in another one.

Each iteration of asyncio's loop asks the operating system for events first. So work scheduled with
``call_soon``, to run once for all arrived data, costs one more system call and the time of an iteration.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable

_Events = list[tuple[selectors.SelectorKey, int]]
_PASSES = 4
"""The most rounds of calls at an end, which may request others there, as dispatching does for output. Further
calls run in the next iteration, after a check for events."""


class TurnLoop(asyncio.SelectorEventLoop):
    """A loop for a broker; any other loop works too, with more iterations.

    For ``busy_poll`` seconds after an event it looks for the next one instead of sleeping.
    """

    def __init__(self, busy_poll: float = 0.0) -> None:
        self.ends: list[Callable[[], object]] = []
        """Functions to call once at the end of this iteration, after the ready callbacks."""
        selector = selectors.DefaultSelector()
        self._wait = busy_polling(selector.select, busy_poll) if busy_poll else selector.select
        selector.select = self._select  # type: ignore[method-assign]
        super().__init__(selector)
        self.time = time.monotonic  # type: ignore[method-assign]  # the same; it is asked for several times a turn

    def _select(self, timeout: float | None = None) -> _Events:
        """Run the collected work of this iteration, then wait for events, unless there is more to do."""
        if not self.ends:
            return self._wait(timeout)
        timers = len(self._scheduled)  # type: ignore[attr-defined]  # asyncio's; none is removed in a turn
        for _ in range(_PASSES):
            ends = [*self.ends]
            self.ends.clear()  # the same list: callers hold its append
            for end in ends:
                try:
                    end()
                except Exception as error:
                    text = "unexpected error at the end of a turn"
                    self.call_exception_handler({"message": text, "exception": error})
            if not self.ends:
                break
        is_changed = self._ready or len(self._scheduled) > timers  # type: ignore[attr-defined]
        return self._wait(0 if is_changed or self.ends else timeout)


def busy_polling(
    select: Callable[[float | None], _Events], seconds: float, clock: Callable[[], float] = time.monotonic
) -> Callable[[float | None], _Events]:
    """Return a select that does not sleep until some seconds after its last event.

    Its timeout begins when it sleeps, so a timer may be late by these seconds.
    """
    until = 0.0

    def wait(timeout: float | None) -> _Events:
        nonlocal until
        events = select(0)
        while not events and timeout != 0 and clock() < until:
            events = select(0)
        if not events and timeout != 0:
            events = select(timeout)
        if events:
            until = clock() + seconds
        return events

    return wait


def at_end_of(loop: AbstractEventLoop) -> Callable[[Callable[[], object]], object]:
    """Return a scheduler of calls at the end of an iteration of the loop, or in its next iteration."""
    return loop.ends.append if isinstance(loop, TurnLoop) else loop.call_soon
