"""The queue of units that cannot be written yet: memory is full, or writing is paused.

Their callers are not blocked. A thread admits units in order, and fails those for which there is no room
within the reconnect timeout of the backing store, counted from its last successful write.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from jdbcstore.errors import StoreClosed, StoreError, StoreUnavailable
from jdbcstore.stores.journaled.entries import JournalUnit
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.util.clock import Clock
from jdbcstore.util.futures import Burst

log = logging.getLogger(__name__)

_MAX = 16_384
_MAX_BYTES = 64 << 20
_BATCH = 256
_LOOK = 1.0
"""Seconds between readings of the clock, which may differ from the clock that threads wait by."""
_SLOW = 5.0
"""Seconds for one transaction of a checkpoint, after which it is logged."""


@dataclass(slots=True, eq=False)
class _Waiting:
    unit: JournalUnit
    since: float
    is_waited_for: bool
    """A caller is blocked on it, and is notified at once when the store is closed."""


class Admission:
    """The queue before the journal. Its methods are called under the overlay's lock.

    ``is_full`` says whether there is no room for a unit, and ``enter`` counts an admitted unit; ``write``
    is called under no lock. ``wake`` requests a checkpoint. ``left`` is notified when a unit leaves the
    queue. ``timeout`` is in seconds.
    """

    def __init__(
        self,
        overlay: Overlay,
        clock: Clock,
        timeout: float,
        *,
        is_full: Callable[[JournalUnit], bool],
        enter: Callable[[JournalUnit], None],
        write: Callable[[JournalUnit], None],
        wake: Callable[[], None],
    ) -> None:
        self._overlay = overlay
        self._lock = overlay.lock
        self._clock = clock
        self._timeout = max(timeout, _LOOK)
        self._is_full = is_full
        self._enter = enter
        self._write = write
        self._wake = wake
        self._changed = threading.Condition(overlay.lock)
        self.left = threading.Condition(overlay.lock)
        self._for_room: deque[_Waiting] = deque()
        self._for_turn: deque[_Waiting] = deque()
        """Units that need no room, and wait for the end of a pause."""
        self._bytes = 0
        self._admitting = 0
        """Units that have left this queue, and are not in the journal's yet."""
        self._paused = False
        self._stopped: StoreError | None = None
        self._ended = False
        self._thread: threading.Thread | None = None
        self._committed_at = clock.monotonic()
        """When the backing store last committed something."""
        self._failure: StoreError | None = None
        """Why its last transaction failed."""
        self._begun_at: float | None = None
        """When the transaction in flight began."""
        self._late_since: float | None = None
        """Since when it is logged as not answering."""
        self._is_refusing = False
        self.is_busy = False
        """Whether units must go through this queue."""

    @property
    def is_empty(self) -> bool:
        return not (self._for_room or self._for_turn or self._admitting)

    @property
    def wants_room(self) -> bool:
        return bool(self._for_room)

    def put(self, unit: JournalUnit, *, waits: bool) -> bool:
        """Queue a unit that cannot be written now; false if it can be. Blocks while the queue is full.

        ``waits`` says that the caller is about to block on the unit.

        :raises StoreError: the store was closed meanwhile, or accepts no more writes
        """
        while self._has_to_wait(unit):
            if len(self._for_room) < _MAX and self._bytes < _MAX_BYTES:
                waiting = _Waiting(unit, self._clock.monotonic(), waits)
                if unit.cost:
                    self._for_room.append(waiting)
                    self._bytes += unit.size
                else:
                    self._for_turn.append(waiting)
                self._update()
                return True
            self.left.wait()
            if self._stopped is not None:
                raise self._stopped.with_traceback(None)
        return False

    def _has_to_wait(self, unit: JournalUnit) -> bool:
        if self._paused or self._admitting:
            return True
        return bool(unit.cost and (self._for_room or self._is_full(unit)))

    def withdraw(self, unit: JournalUnit) -> bool:
        """Remove a unit; false if it is not here."""
        for queue in (self._for_room, self._for_turn):
            for index, waiting in enumerate(queue):
                if waiting.unit is unit:
                    del queue[index]
                    self._gone(waiting)
                    return True
        return False

    def pause(self, paused: bool) -> None:
        self._paused = paused
        self._update()

    def room_made(self) -> None:
        """Wake writers that wait for room."""
        if self._for_room:
            self._changed.notify()

    def write_begun(self) -> None:
        """Note that a transaction of the backing store has begun."""
        self._begun_at = self._clock.monotonic()
        self._start()
        self._changed.notify()

    def write_ended(self, failure: StoreError | None) -> None:
        """Note that the transaction was committed, unless there is a failure."""
        now = self._clock.monotonic()
        self._begun_at, self._failure = None, failure
        if failure is not None:
            return
        self._committed_at = now
        self._is_refusing = False
        if self._late_since is not None:
            log.warning(
                "the journal's backing store answers again after %.0f seconds", now - self._late_since
            )
            self._late_since = None

    def stop(self, error: StoreError) -> None:
        """Accept no more units, for this reason. On a close, units that no caller waits for are admitted."""
        self._stopped = error
        self.left.notify_all()
        self._update()

    def cancel(self) -> list[JournalUnit]:
        """Admit nothing more, and return the queue, for the caller to refuse."""
        self._ended = True
        rest = [waiting.unit for waiting in (*self._for_turn, *self._for_room)]
        self._for_turn.clear()
        self._for_room.clear()
        self._bytes = 0
        self.left.notify_all()
        self._changed.notify()
        return rest

    def _update(self) -> None:
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
        self.left.notify_all()

    def _run(self) -> None:
        while True:
            with self._lock:
                units, refused = self._next()
            if not units and not refused:
                return
            with Burst():
                for unit, error in refused:
                    unit.completion.set_exception(error)
            for unit in units:
                self._write(unit)
            with self._lock:
                self._admitting = 0
                self.is_busy = self._paused or not self.is_empty
                self.left.notify_all()

    def _next(self) -> tuple[list[JournalUnit], list[tuple[JournalUnit, StoreError]]]:
        """Return the units to write now, and those to refuse; nothing at the end."""
        while not self._ended:
            self._log_if_late()
            refused = self._refused()
            units = self._admit()
            if refused or units:
                return units, refused
            if self._for_room:
                self._wake()
            waits = (
                self._for_room or self._for_turn or (self._begun_at is not None and self._late_since is None)
            )
            self._changed.wait(_LOOK if waits else None)
        return [], []

    def _admit(self) -> list[JournalUnit]:
        units: list[JournalUnit] = []
        if self._paused:
            return units
        for queue in (self._for_turn, self._for_room):
            while queue and len(units) < _BATCH and not (queue[0].unit.cost and self._is_full(queue[0].unit)):
                waiting = queue.popleft()
                self._enter(waiting.unit)
                units.append(waiting.unit)
                self._admitting += 1
                self._gone(waiting)
        return units

    def _refused(self) -> list[tuple[JournalUnit, StoreError]]:
        """Units that found no room in time, or cannot be written any more."""
        stopped = self._stopped
        if stopped is not None:
            refusals = [
                waiting
                for queue in (self._for_turn, self._for_room)
                for waiting in queue
                if waiting.is_waited_for or not isinstance(stopped, StoreClosed)
            ]
            if refusals:
                for waiting in refusals:
                    self.withdraw(waiting.unit)
                return [(waiting.unit, stopped.with_traceback(None)) for waiting in refusals]
        late: list[tuple[JournalUnit, StoreError]] = []
        before = self._clock.monotonic() - self._timeout
        while self._for_room and max(self._for_room[0].since, self._committed_at) <= before:
            waiting = self._for_room.popleft()
            late.append((waiting.unit, self._unavailable()))
            self._gone(waiting)
        if late and not self._is_refusing:
            self._is_refusing = True
            log.error("writes are refused: %s", late[0][1])
        return late

    def _unavailable(self) -> StoreUnavailable:
        prepared = self._overlay.prepared_size
        if prepared > self._overlay.size / 2:
            return StoreUnavailable(
                f"the journal's memory_limit is reached: prepared transactions take {prepared:,} bytes of it;"
                " decide them (jdbcstore xa list shows them) or raise the limit; nothing was written"
            )
        error = StoreUnavailable(
            "the journal's memory_limit is reached, and its backing store has committed nothing for"
            f" {self._timeout:g} seconds{'' if self._failure is None else f' ({self._failure})'}; nothing was"
            " written: try again later"
        )
        error.__cause__ = self._failure
        return error

    def _log_if_late(self) -> None:
        if self._begun_at is None or self._late_since is not None:
            return
        seconds = self._clock.monotonic() - self._begun_at
        if seconds >= _SLOW:
            self._late_since = self._begun_at
            log.warning(
                "the journal's backing store has not answered a checkpoint for %.0f seconds; writes stay in"
                " the journal until memory_limit is reached",
                seconds,
            )
