"""Units that wait: for room in memory, or until nobody has all others wait.

Their callers do not wait in here. A thread lets the units in, in their order, and fails those for which there
is no room within the patience of the store behind, counted from when that last took something.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jdbcstore.errors import StoreClosed, StoreError, StoreUnavailable
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.util.clock import Clock
from jdbcstore.util.futures import burst

if TYPE_CHECKING:
    from jdbcstore.stores.journaled.units import Unit

log = logging.getLogger(__name__)

_MOST = 16_384
_MOST_BYTES = 64 << 20
_TURN = 256
"""Units that are let in at once."""
_LOOK = 1.0
"""Seconds after which the clock is looked at again: it may be another than the one that threads wait by."""
_LONG = 5.0
"""Seconds for one transaction of a checkpoint, after which somebody should hear of it."""


@dataclass(slots=True, eq=False)
class _Waiting:
    unit: Unit
    since: float
    is_waited_for: bool
    """A caller waits for it, and would rather hear now that the store was closed."""


class Admission:
    """The queue before the journal. Whatever is not said to lock is called under the overlay's lock.

    ``is_full`` says whether there is no room for a unit, and ``enter`` counts one that is let in; ``write``
    and ``refuse`` are called under no lock. ``wake`` has a checkpoint made. ``left`` is notified when a unit
    has left.
    """

    def __init__(
        self,
        overlay: Overlay,
        clock: Clock,
        patience: float,
        left: threading.Condition,
        *,
        is_full: Callable[[Unit], bool],
        enter: Callable[[Unit], None],
        write: Callable[[Unit], None],
        refuse: Callable[[Unit, StoreError], None],
        wake: Callable[[], None],
    ) -> None:
        self._overlay = overlay
        self._lock = overlay.lock
        self._clock = clock
        self._patience = max(patience, _LOOK)
        self._is_full = is_full
        self._enter = enter
        self._write = write
        self._refuse = refuse
        self._wake = wake
        self._changed = threading.Condition(overlay.lock)
        self._left = left
        self._for_room: deque[_Waiting] = deque()
        self._for_turn: deque[_Waiting] = deque()
        """What needs no room, and waits for the end of a pause."""
        self._bytes = 0
        self._letting_in = 0
        """Units that have left the queue, and are not in the journal's yet."""
        self._paused = False
        self._stopped: StoreError | None = None
        self._ended = False
        self._thread: threading.Thread | None = None
        self._taken_at = clock.monotonic()
        """When the store behind last took something."""
        self._failure: StoreError | None = None
        """Why it took nothing when it was last asked."""
        self._asked_at: float | None = None
        """When it was asked for what it has not answered yet."""
        self._late_since: float | None = None
        """It was said that it does not answer since then."""
        self._is_refusing = False
        self.is_busy = False
        """Whether a unit has to ask before it goes to the journal."""

    @property
    def is_empty(self) -> bool:
        return not (self._for_room or self._for_turn or self._letting_in)

    @property
    def wants_room(self) -> bool:
        return bool(self._for_room)

    def put(self, unit: Unit, *, waits: bool) -> bool:
        """Take a unit that cannot go on now; False if it can.

        Waits while as much waits as may. ``waits``: the caller is going to wait for it.

        :raises StoreError: the store was closed meanwhile, or takes nothing any more
        """
        while self._has_to_wait(unit):
            if len(self._for_room) < _MOST and self._bytes < _MOST_BYTES:
                waiting = _Waiting(unit, self._clock.monotonic(), waits)
                if unit.cost:
                    self._for_room.append(waiting)
                    self._bytes += unit.size
                else:
                    self._for_turn.append(waiting)
                self._look()
                return True
            self._left.wait()
            if self._stopped is not None:
                raise self._stopped.with_traceback(None)
        return False

    def _has_to_wait(self, unit: Unit) -> bool:
        if self._paused or self._letting_in:
            return True
        return bool(unit.cost and (self._for_room or self._is_full(unit)))

    def withdraw(self, unit: Unit) -> bool:
        """Take a unit back; whether it was here."""
        for queue in (self._for_room, self._for_turn):
            for index, waiting in enumerate(queue):
                if waiting.unit is unit:
                    del queue[index]
                    self._gone(waiting)
                    return True
        return False

    def pause(self, paused: bool) -> None:
        """Let nothing in, or go on."""
        self._paused = paused
        self._look()

    def look(self) -> None:
        """There may be room."""
        if self._for_room:
            self._changed.notify()

    def asked(self) -> None:
        """The store behind is to take something."""
        self._asked_at = self._clock.monotonic()
        self._start()
        self._changed.notify()

    def answered(self, failure: StoreError | None) -> None:
        """It has taken it, unless there is a failure."""
        now = self._clock.monotonic()
        self._asked_at, self._failure = None, failure
        if failure is not None:
            return
        self._taken_at = now
        self._is_refusing = False
        if self._late_since is not None:
            log.warning(
                "the store behind the journal answers again, after %.0f seconds", now - self._late_since
            )
            self._late_since = None

    def stop(self, error: StoreError) -> None:
        """Take nothing more, for this reason. What nobody waits for is let in if the store is only closed."""
        self._stopped = error
        self._left.notify_all()
        self._look()

    def give_up(self) -> list[Unit]:
        """Everything that is left, for the caller to refuse. Nothing is let in any more."""
        self._ended = True
        left = [waiting.unit for waiting in (*self._for_turn, *self._for_room)]
        self._for_turn.clear()
        self._for_room.clear()
        self._bytes = 0
        self._left.notify_all()
        self._changed.notify()
        return left

    def _look(self) -> None:
        self.is_busy = self._paused or not self.is_empty
        if not self.is_empty:
            self._start()
        self._changed.notify()

    def _start(self) -> None:
        if self._thread is None and not self._ended:
            self._thread = threading.Thread(target=self._run, name="jdbcstore-journal-room", daemon=True)
            self._thread.start()

    def _gone(self, waiting: _Waiting) -> None:
        if waiting.unit.cost:
            self._bytes -= waiting.unit.size
        self.is_busy = self._paused or not self.is_empty
        self._left.notify_all()

    def _run(self) -> None:
        while True:
            with self._lock:
                units, refused = self._next()
            if not units and not refused:
                return
            with burst():
                for unit, error in refused:
                    self._refuse(unit, error)
            for unit in units:
                self._write(unit)
            with self._lock:
                self._letting_in = 0
                self.is_busy = self._paused or not self.is_empty
                self._left.notify_all()

    def _next(self) -> tuple[list[Unit], list[tuple[Unit, StoreError]]]:
        """What is to be written now, and what is not; nothing at the end."""
        while not self._ended:
            self._say_if_late()
            refused = self._refused()
            units = self._let_in()
            if refused or units:
                return units, refused
            if self._for_room:
                self._wake()
            waits = (
                self._for_room or self._for_turn or (self._asked_at is not None and self._late_since is None)
            )
            self._changed.wait(_LOOK if waits else None)
        return [], []

    def _let_in(self) -> list[Unit]:
        units: list[Unit] = []
        if self._paused:
            return units
        for queue in (self._for_turn, self._for_room):
            while queue and len(units) < _TURN and not (queue[0].unit.cost and self._is_full(queue[0].unit)):
                waiting = queue.popleft()
                self._enter(waiting.unit)
                units.append(waiting.unit)
                self._letting_in += 1
                self._gone(waiting)
        return units

    def _refused(self) -> list[tuple[Unit, StoreError]]:
        """Those for which there is no room in time, or that nothing is done for any more."""
        stopped = self._stopped
        if stopped is not None:
            found = [
                waiting
                for queue in (self._for_turn, self._for_room)
                for waiting in queue
                if waiting.is_waited_for or not isinstance(stopped, StoreClosed)
            ]
            if found:
                for waiting in found:
                    self.withdraw(waiting.unit)
                return [(waiting.unit, stopped.with_traceback(None)) for waiting in found]
        late: list[tuple[Unit, StoreError]] = []
        before = self._clock.monotonic() - self._patience
        while self._for_room and max(self._for_room[0].since, self._taken_at) <= before:
            waiting = self._for_room.popleft()
            late.append((waiting.unit, self._unavailable()))
            self._gone(waiting)
        if late and not self._is_refusing:
            self._is_refusing = True
            log.error("writes are refused: %s", late[0][1])
        return late

    def _unavailable(self) -> StoreUnavailable:
        prepared = self._overlay.prepared_size
        if prepared >= self._overlay.size / 2:
            return StoreUnavailable(
                f"the journal's memory_limit is reached: prepared transactions take {prepared:,} bytes of it;"
                " decide them, which jdbcstore xa list shows, or raise it; nothing of this was written"
            )
        error = StoreUnavailable(
            "the journal's memory_limit is reached, and the store behind it has taken nothing for"
            f" {self._patience:g} seconds{'' if self._failure is None else f' ({self._failure})'}; nothing of"
            " this was written: try again later"
        )
        error.__cause__ = self._failure
        return error

    def _say_if_late(self) -> None:
        if self._asked_at is None or self._late_since is not None:
            return
        seconds = self._clock.monotonic() - self._asked_at
        if seconds >= _LONG:
            self._late_since = self._asked_at
            log.warning(
                "the store behind the journal has not answered a checkpoint for %.0f seconds; what is written"
                " stays in the journal, until memory_limit is reached",
                seconds,
            )
