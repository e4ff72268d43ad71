"""The group-commit writer: one thread, one connection, as many units in a commit as are waiting.

Sequences are given in the order in which units are taken, and one transaction follows another, so
they commit in order and a reader's page can never skip one. N waiting producers cost one commit; a
lone one waits for nothing.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from types import FrameType
from typing import Any, cast

from jdbcstore.abc import MessageReference, Outcome
from jdbcstore.database.connection import Connection, StatisticsRefresher
from jdbcstore.database.session import Session
from jdbcstore.errors import LockLost, OutcomeUnknown, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.lockers import Fence
from jdbcstore.stores.jdbc.writer.audited import AuditedCommitter
from jdbcstore.stores.jdbc.writer.committer import Committer
from jdbcstore.stores.jdbc.writer.units import ROW_OVERHEAD, Call, Unit
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.encoding import EncodedMessage, Name
from jdbcstore.util.futures import Promise, StoreFuture, Waiter, burst

log = logging.getLogger(__name__)

_LOST = (LockLost, StoreClosed, StoreUnavailable)
"""Errors that a write meets whatever is in it."""
_BATCH_UNITS = 256
"""Few enough that a caller with a thousand futures under way fills one batch while another commits."""
_HOLDING = {
    __name__,
    "jdbcstore.stores.shared.audit",
    "jdbcstore.stores.jdbc.writer.audited",
    "jdbcstore.stores.jdbc.writer.committer",
    "jdbcstore.database.session",
}
_AT_EXIT = 10.0
"""Seconds for which a program that ends waits for the database."""
_BATCH_BYTES = 8 * 1024 * 1024


class Writer:
    """Takes units from any thread, in order; completes each once, on its own thread.

    A signal handler may run, and raise, between any two steps of a caller's. So what a caller changes here is
    whole after each step, and what it holds it has by a ``with`` of a lock, which no signal can come between.
    """

    audit: DuplicateAudit | None = None
    """What has seen the messages that are stored."""

    def __init__(
        self, session: Session, fence: Fence | None = None, audit: DuplicateAudit | None = None
    ) -> None:
        self.audit = audit
        self._session = session
        self._config = session.config
        self._committer = (
            Committer(session, fence) if audit is None else AuditedCommitter(session, audit, fence)
        )
        self._statistics = StatisticsRefresher(session.refresh_statistics)
        self._queue: deque[Unit | Call] = deque()
        self._lock = threading.RLock()
        """Of the queue; held for a moment."""
        self._turn = threading.RLock()
        """Held by whoever writes: the writer's own thread, or a caller for itself."""
        self._busy = False
        """Somebody probably has the turn."""
        self._pending_bytes = 0
        self._held: list[threading.Lock] = []
        """Each releases a caller that waits for room in the queue."""
        self._in_hand: list[Unit | Call] = []
        """Taken from the queue and not completed."""
        self._closed = False
        self._asleep = False
        """The thread waits, or is about to, for something in :attr:`_wakes`."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._given_up = False
        self._process = os.getpid()
        _open.add(self)
        self._thread = threading.Thread(target=self._run, name="jdbcstore-writer", daemon=True)
        self._thread.start()

    @property
    def last_sequence(self) -> int:
        """The last sequence this writer gave, 0 if none yet."""
        return self._committer.sequence.last

    def submit(self, unit: Unit) -> StoreFuture[Any]:
        """Queue a unit, waiting while the queue is full; the future has its result once committed.

        :raises StoreClosed: the store is closed
        """
        unit.completion = result = Promise(self, unit)
        self._enqueue(unit)
        return result

    def withdraw(self, unit: Unit) -> bool:
        """Take a unit back; whether its writing had not begun."""
        with self._lock:
            unit.withdrawn = not unit.taken
            return unit.withdrawn

    def _enqueue(self, unit: Unit | Call) -> None:
        size = _measured(unit)
        while True:
            with self._lock:
                if self._closed:
                    raise StoreClosed()
                if not self._is_full():
                    if self._asleep:
                        self._wake()
                    self._pending_bytes += size
                    self._queue.append(unit)
                    return
                room = threading.Lock()
                room.acquire()
                self._held.append(room)
            room.acquire()

    def _wake(self) -> None:
        # In this order, or a signal between the two would leave it asleep.
        self._wakes.put(None)
        self._asleep = False

    def _wait_written(self, unit: Unit | Call, waiter: Waiter[Any]) -> Any:
        """Queue it, and wait until it is committed."""
        if _is_owned(self._turn) or _is_owned(self._lock):
            raise StoreError(
                "this thread is in the middle of a write already: in a signal handler, or a callback of a"
                " future, use the _async calls, and do not wait for what they return"
            )
        self._enqueue(unit)
        return waiter.result()

    def execute(self, unit: Unit) -> Any:
        """Write a unit, wait until it is committed, and return its result.

        A caller that finds nobody writing writes for itself: a lone producer then pays for no
        change of threads, which costs as much as the commit.

        :raises StoreError: among others, when called by a thread that is writing
        """
        if not (self._busy or self._queue):
            with self._turn:
                if self._is_next(unit):
                    return self._write_alone(unit)
        unit.completion = waiter = Waiter[Any]()
        return self._wait_written(unit, waiter)

    def _is_next(self, unit: Unit) -> bool:
        """Whether nothing is before it, for whoever has the turn."""
        with self._lock:
            if self._busy or self._queue or self._closed:
                return False
            self._in_hand = [unit]
            return True

    def _write_alone(self, unit: Unit) -> Any:
        try:
            self._busy = True
            [references] = self._committer.write([unit])
        finally:
            self._busy = False
            self._in_hand = []
        self._statistics.count(len(unit.adds) + len(unit.removes))
        return unit.result(references)

    def call(self, function: Callable[[Connection], Any], *, behind: int = 0, rows: int = 0) -> Any:
        """Run ``function(connection)`` between two batches and return what it returns; see :class:`Call`."""
        waiter: Waiter[Any] = Waiter()
        run = Call(waiter, _none, lambda connection, _: function(connection), behind, rows)
        return self._wait_written(run, waiter)

    def call_numbered(
        self,
        count: Callable[[Connection], int],
        function: Callable[[Connection, int], Any],
        *,
        adding: Unit | None = None,
        removed: Callable[[], Iterable[Name]] = tuple,
    ) -> Any:
        """As :meth:`call`, with ``count(connection)`` sequences, of which the function gets the first."""
        waiter: Waiter[Any] = Waiter()
        call = Call(waiter, count, function, adding=adding, removed=removed)
        return self._wait_written(call, waiter)

    def close(self, timeout: float | None = None) -> None:
        """Write what is queued, give unused sequences back, close the connection.

        :raises StoreClosed: not done after ``timeout`` seconds; ``unwritten`` units have failed
        """
        with self._lock:
            self._closed = True
            self._wake()
            self._make_room()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            return
        self._given_up = True
        self._committer.give_up()
        doubtful = self._finish_in_hand()
        _fail(doubtful, OutcomeUnknown("the store was closed while this was being written: look for it"))
        abandoned = self._abandon(StoreClosed("the store was closed before this was written"))
        if doubtful or abandoned:
            raise StoreClosed(
                f"closed after {timeout} seconds: {len(doubtful)} operations in doubt, {abandoned} unwritten",
                unwritten=abandoned + len(doubtful),
            )

    def end_with_process(self) -> None:
        """Write what is still queued when the program ends, for so long as that may be waited for."""
        with self._lock:
            waiting = len(self._queue) + len(self._in_hand)
        if self._closed or not waiting or self._process != os.getpid():
            return
        log.warning(
            "the program ends with %d operations queued, and the store is open: they are written now;"
            " close the store, which tells whoever waits",
            waiting,
        )
        try:
            self.close(_AT_EXIT)
        except StoreClosed as error:
            log.error("the program has ended before all was written: %s", error)

    def _finish_in_hand(self) -> list[Unit | Call]:
        """Whoever gets the work in hand completes it: the writer, or a close that waited too long."""
        with self._lock:
            taken, self._in_hand = self._in_hand, []
        return taken

    def _is_full(self) -> bool:
        return bool(self._queue) and (
            len(self._queue) >= self._config.max_pending_count
            or self._pending_bytes >= self._config.max_pending_bytes
        )

    def _abandon(self, error: StoreError) -> int:
        with self._lock:
            units = [unit for unit in self._queue if not _is_withdrawn(unit)]
            self._queue.clear()
            self._pending_bytes = 0
            self._make_room()
        _fail(units, error)
        return len(units)

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                with self._turn:
                    self._busy = True
                    self._work()
                    self._busy = False
            self._statistics.stop()
            with self._turn:
                self._committer.close()
        except BaseException as error:
            log.exception("the writer stopped; the store is closed")
            with self._lock:
                self._closed = True
            failure = StoreClosed("the writer stopped on an unexpected error; open the store again")
            failure.__cause__ = error
            _fail(self._finish_in_hand(), failure)
            self._abandon(failure)

    def _wait_for_work(self) -> bool:
        """Whether there is any; not when closed and all is taken."""
        while True:
            with self._lock:
                if self._queue:
                    return True
                if self._closed:
                    return False
                self._asleep = True
            self._wakes.get()

    def _work(self) -> None:
        with self._lock:
            taken = self._take_queued()
            self._in_hand = list(taken)
        if not taken:
            return
        if isinstance(taken[0], Call):
            self._run_call(taken[0])
        else:
            self._write(taken)  # type: ignore[arg-type]
        self._finish_in_hand()

    def _make_room(self) -> None:
        """Let those try again who wait for room, under the lock."""
        held, self._held = self._held, []
        for room in held:
            room.release()

    def _take_queued(self) -> list[Unit | Call]:
        """The next batch, or one call; nothing where all was withdrawn."""
        queue, size = self._queue, 0
        taken: list[Unit | Call] = []
        while queue and len(taken) < _BATCH_UNITS and size < _BATCH_BYTES:
            alone = isinstance(queue[0], Call)
            if alone and taken:
                break
            unit = queue.popleft()
            size += unit.size
            if not _is_withdrawn(unit):
                taken.append(unit)
            if alone:
                break
        # Who was interrupted may have counted what never came.
        self._pending_bytes = self._pending_bytes - size if queue else 0
        self._make_room()
        return taken

    def _write(self, units: list[Unit]) -> None:
        """Commit the units, alone those that can only be committed alone, and complete each."""
        try:
            results = self._committer.write(units)
        except StoreError as error:
            if isinstance(error, _LOST) or (len(units) == 1 and not units[0].apart):
                self._complete(units, [error] * len(units))
                return
            if len(units) == 1:
                self._write_apart(units[0], error)
                return
            # Somewhere in here is a unit that cannot be written: halve until it stands alone.
            middle = len(units) // 2
            self._write(units[:middle])
            self._write(units[middle:])
            return
        self._statistics.count(sum(len(unit.adds) + len(unit.removes) for unit in units))
        self._complete(units, [unit.result(result) for unit, result in zip(units, results, strict=True)])

    def _write_apart(self, unit: Unit, refusal: StoreError) -> None:
        outcomes = _outcomes_apart(unit.adds, refusal, self._committer.write)
        self._statistics.count(sum(not isinstance(outcome, StoreError) for outcome in outcomes))
        self._complete([unit], [unit.result(outcomes)])

    def _run_call(self, call: Call) -> None:
        try:
            result = self._committer.call(call)
            self._statistics.count(call.rows)
        except StoreError as error:
            result = error
        self._complete([call], [result])

    def _complete(self, units: Sequence[Unit | Call], results: Sequence[Any]) -> None:
        """Tell the callers, outside the lock, unless a close has already told them."""
        with self._lock:
            if self._given_up:
                return
            # A batch that was halved is completed from its front.
            del self._in_hand[: len(units)]
        with burst():
            for unit, result in zip(units, results, strict=True):
                if unit.completion is None:
                    continue
                if isinstance(result, StoreError):
                    unit.completion.set_exception(result)
                else:
                    unit.completion.set_result(result)


_open: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _end_with_process() -> None:
    for writer in [*_open]:
        writer.end_with_process()


def is_writing() -> bool:
    """Whether this very thread is in the middle of a write or a read, and may hold what others wait for."""
    frame: FrameType | None = sys._getframe()
    while (frame := frame.f_back if frame else None) is not None:
        module = frame.f_globals.get("__name__", "")
        if module in _HOLDING or module.startswith("jdbcstore.database.adapters."):
            return True
    return False


def _is_owned(lock: threading.RLock) -> bool:
    """Whether this very thread holds it."""
    return bool(cast("Any", lock)._is_owned())


def _none(_connection: Connection) -> int:
    return 0


def _fail(units: Sequence[Unit | Call], error: Exception) -> None:
    with burst():
        for unit in units:
            if unit.completion is not None:  # else its caller is writing it, and will see for itself
                unit.completion.set_exception(error)


def _measured(unit: Unit | Call) -> int:
    """The size of a unit that is complete, now set."""
    if isinstance(unit, Unit):
        size = ROW_OVERHEAD
        for add in unit.adds:
            size += len(add.blob) + ROW_OVERHEAD
        for _, row in unit.updates:
            size += sum(len(value) for value in row if isinstance(value, bytes))
        unit.size = size
    return unit.size


def _is_withdrawn(unit: Unit | Call) -> bool:
    """Whether it was cancelled, which is no longer possible after this; the lock is held."""
    if isinstance(unit, Call):
        return False
    unit.taken = not unit.withdrawn
    return unit.withdrawn


def _outcomes_apart(
    messages: Sequence[EncodedMessage],
    refusal: StoreError,
    write: Callable[[list[Unit]], list[list[MessageReference]]],
) -> list[Outcome]:
    """The outcomes of messages that were refused together: written by halves, in their order."""
    if len(messages) == 1 or isinstance(refusal, _LOST):
        return [refusal] * len(messages)
    middle = len(messages) // 2
    outcomes: list[Outcome] = []
    for half in (messages[:middle], messages[middle:]):
        try:
            [references] = write([Unit(adds=[*half])])
            outcomes += references
        except StoreError as error:
            outcomes += _outcomes_apart(half, error, write)
    return outcomes
