"""An event loop that does what a turn has collected at the end of that turn, and not in one of its own.

Each turn of asyncio's loop asks the operating system for events first. So what is scheduled with
``call_soon``, to be done once for all that has arrived, costs one more system call, and the time of a turn.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

_Values = TypeVarTuple("_Values")
_PASSES = 4
"""Calls at an end may ask for others there, as dispatching does for output: so often at most, and then in the
next turn, after a look for events."""


class TurnLoop(asyncio.SelectorEventLoop):
    """A loop of a broker; any other does as well, with more turns."""

    def __init__(self) -> None:
        self._ends: list[Callable[[], object]] = []
        self._is_changed = False
        """Whether anything was scheduled since the loop has decided how long to wait for events."""
        super().__init__(_Selector(self._end))
        self.time = time.monotonic  # type: ignore[method-assign]  # the same; it is asked for several times a turn

    def call_at_end(self, function: Callable[[], object]) -> None:
        """Call a function once at the end of this turn, after the callbacks that are ready; on the loop."""
        self._ends.append(function)

    def call_soon(
        self, callback: Callable[[*_Values], object], *args: *_Values, context: Context | None = None
    ) -> asyncio.Handle:
        self._is_changed = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Values], object],
        *args: *_Values,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._is_changed = True
        return super().call_at(when, callback, *args, context=context)

    def _end(self) -> bool:
        """Do what this turn has collected; return whether there is more to do at once."""
        if not self._ends:
            return False
        self._is_changed = False
        for _ in range(_PASSES):
            ends, self._ends = self._ends, []
            for end in ends:
                try:
                    end()
                except Exception as error:
                    text = "unexpected error at the end of a turn"
                    self.call_exception_handler({"message": text, "exception": error})
            if not self._ends:
                break
        return self._is_changed or bool(self._ends)


class _Selector(selectors.DefaultSelector):
    """Calls ``end`` before it waits, which returns whether not to wait."""

    def __init__(self, end: Callable[[], bool]) -> None:
        super().__init__()
        self._end = end

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(0 if self._end() else timeout)


def at_end_of(loop: AbstractEventLoop) -> Callable[[Callable[[], object]], object]:
    """Return what has a function called once at the end of a turn of the loop, or in its next turn."""
    return loop.call_at_end if isinstance(loop, TurnLoop) else loop.call_soon
