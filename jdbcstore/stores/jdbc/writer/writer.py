"""The group-commit writer: one connection commits all units of work that are queued.

Sequences are assigned in the order of the queue, and one transaction follows another, so messages commit in
the order of their sequences and a reader's page never skips one. Where much is queued, a batch is sent before
the one before it is answered, and has no effect without it. N waiting producers share one commit; a
single producer waits for no other. Callers that wait commit for each other, one after the other; the writer's
thread does work that no caller waits for, and calls.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable
from math import inf
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, cast

from jdbcstore.database.adapters.sql import EpochGuard
from jdbcstore.database.connection import Connection, Recorder, StatisticsRefresher
from jdbcstore.database.session import DatabaseSession, is_owned
from jdbcstore.errors import (
    ConfigurationError,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
)
from jdbcstore.lockers import Fence
from jdbcstore.stores.jdbc.writer.audited import AuditedCommitter
from jdbcstore.stores.jdbc.writer.commits import Commits, fail
from jdbcstore.stores.jdbc.writer.committer import Begun, Committer
from jdbcstore.stores.jdbc.writer.driver import LoopDriver, is_awaited
from jdbcstore.stores.jdbc.writer.queue import Follower, WriteQueue
from jdbcstore.stores.jdbc.writer.units import Call, WriteUnit
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.encoding import Name
from jdbcstore.util.futures import QueuedFuture, StoreFuture, Waiter
from jdbcstore.util.timings import Timings

log = logging.getLogger(__name__)

_AT_EXIT = 10.0
"""Seconds that a process waits for the database at its end."""
_FEW = 6
"""Callers that commit for each other; for more, the thread does it."""
_MOST = 128
"""Messages of a full batch, where the next one can be sent before its answer."""
_RUN = 100
"""The most batches for which the thread keeps the writer's lock."""
_LOOK = 1.0
"""Poll interval for a closed driver loop, in seconds."""


class Writer:
    """Commits units from any number of threads, in the order in which they are queued.

    A unit is durable when :meth:`execute` returns or the future of :meth:`submit` completes. After an error
    it was not written, except for :class:`OutcomeUnknown`, or :class:`LockLost` with ``in_doubt``. Futures
    complete on the writer's thread.

    A signal handler may run, and raise, between any two bytecodes of a caller in the main thread. So the
    state is consistent after each step that a caller makes, and a caller acquires locks only by ``with``,
    which no signal can interrupt.
    """

    def __init__(
        self,
        session: DatabaseSession,
        *,
        fence: Fence | None = None,
        audit: DuplicateAudit | None = None,
        recorder: Recorder | None = None,
        journaled: bool = False,
    ) -> None:
        """``audit`` has the message ids that were stored; see :class:`Committer` for the others."""
        parts: dict[str, Any] = {"fence": fence, "recorder": recorder, "journaled": journaled}
        self._lock = threading.RLock()
        """Protects the queue; never held during I/O."""
        self.committer = (
            Committer(session, **parts) if audit is None else AuditedCommitter(session, audit, **parts)
        )
        self._statistics = StatisticsRefresher(session.refresh_statistics)
        self._commits = Commits(self.committer, statistics=self._statistics, lock=self._lock)
        self.timings = self._commits.timings
        """The commits of this writer, and their rows."""
        self.pending = WriteQueue(
            max_count=session.config.max_pending_count, max_bytes=session.config.max_pending_bytes
        )
        self._queue = self.pending.units
        self._most: float = _MOST if self.committer.sends_ahead else inf
        """The messages of a full batch; infinite where none is sent ahead."""
        self.writer_lock = threading.RLock()
        """Held while writing, by the writer's thread or by a caller that writes its own unit."""
        self._idle = (0, threading.main_thread().ident)
        """Leaders that never hand over: none (0), and the main thread, which signals may interrupt."""
        self._leader = 0
        """The thread that writes, or is to write next; 0: none. Unless it is the main thread, no other thread
        takes from the queue, and this one passes the lead on afterwards."""
        self.begun: Begun | None = None
        """The batch that the driver has sent; the next holder of the writer lock finishes it first."""
        self._crowd = 1
        """The callers of the last batch, if one of them committed it, else 1."""
        self._closed = False
        self._closing: threading.Thread | None = None
        """The thread that has begun to close it."""
        self._driver: LoopDriver | None = None
        self._called = False
        """Work is queued that only the thread can do."""
        self._asleep = False
        """The thread is waiting, or about to wait, for an item in :attr:`_wakes`."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._process = os.getpid()
        _open.add(self)
        self._thread = threading.Thread(target=self._run, name="jdbcstore-writer", daemon=True)
        self._thread.start()

    @property
    def last_sequence(self) -> int:
        """The last sequence that this writer assigned; 0 if none yet."""
        return self.committer.sequence.last

    def submit(self, unit: WriteUnit) -> StoreFuture[Any]:
        """Queue a unit, waiting while the queue is full; the future completes after the commit.

        :raises StoreClosed: the store is closed
        """
        unit.completion = result = QueuedFuture(self, unit)
        driver = self._driver
        if driver is None or not driver.begin(unit):
            self._enqueue(unit)
        return result

    def withdraw(self, unit: WriteUnit) -> bool:
        """Cancel a queued unit; return whether it will not be written."""
        with self._lock:
            return unit.withdraw()

    def guard_by(self, epoch: EpochGuard) -> None:
        """See :meth:`Committer.guard_by`; waits for the current write."""
        with self.writer_lock:
            self.committer.guard_by(epoch)

    def use_loop(self, loop: AbstractEventLoop | None) -> None:
        """Write units that are submitted on this loop's thread on the loop; see :class:`LoopDriver`."""
        if not self.committer.sends:
            return
        with self._lock:
            before, self._driver = self._driver, None if loop is None else LoopDriver(self, loop)
            self._wake()
        if before is not None:
            before.stop()

    def _enqueue(self, unit: WriteUnit | Call, *, follows: bool = False) -> None:
        """Queue a unit; ``follows``: a caller waits for it, and the leader writes it."""
        size = unit.measure()
        driver = self._driver
        if driver is not None and not (driver.is_here and is_awaited(unit)):
            driver = None
        while True:
            with self._lock:
                if self._closed:
                    raise StoreClosed()
                if driver is None and not follows:  # first: a signal behind it must not leave it asleep
                    self._called = True
                    if self._asleep:
                        self._wake()
                if self.pending.put(unit, size):
                    if follows and self._leader in self._idle and not self._lead_next():
                        self._wake()
                    break
                if self._driver is not None:
                    self._wake()
                room = self.pending.wait_for_room()
            room.acquire()
        if driver is not None:
            driver.go_on()

    def _wake(self) -> None:
        self._called = True
        # In this order: a signal between the two must not leave the thread asleep.
        self._wakes.put(None)
        self._asleep = False

    def call_thread(self) -> None:
        """Wake the thread for pending work."""
        with self._lock:
            self._wake()

    def _refuse_within(self) -> None:
        if is_owned(self.writer_lock) or is_owned(self._lock):
            raise StoreError(
                "this thread is in the middle of a write already: in a signal handler, or a callback of a"
                " future, use the _async calls, and do not wait for what they return"
            )

    def _wait_written(self, call: Call, waiter: Waiter[Any]) -> Any:
        self._refuse_within()
        self._enqueue(call)
        return waiter.result()

    def execute(self, unit: WriteUnit) -> Any:
        """Write a unit, wait until it is committed, and return its result.

        A caller that finds the writer idle commits the unit in its own thread: a single producer then saves
        the change of threads, which costs as much as the commit. A few callers commit for each other.

        :raises StoreError: it was not written; also when the calling thread is in the middle of a write
        """
        me = threading.get_ident()
        if self._crowd <= 1 and not (self._leader or self._queue):
            with self.writer_lock:
                if self._is_next(me):
                    try:
                        return self._commits.write_alone(unit)
                    finally:
                        self._end_lead(me)
        self._refuse_within()
        unit.completion = follower = Follower(me)
        self._enqueue(unit, follows=me not in self._idle)
        follower.wait()
        if follower.leads:
            self._lead(me)
        return follower.outcome()

    def _is_next(self, me: int) -> bool:
        """Let this thread lead if nothing is queued; return whether it does. The writer lock is held."""
        with self._lock:
            if self._leader or self._queue or self._closed or self.begun is not None:
                return False
            self._leader = me
            return True

    def _lead(self, me: int) -> None:
        """Commit what callers wait for, the unit of this thread first."""
        with self.writer_lock:
            try:
                self._crowd = self.pending.gather(self._crowd)
                self._work(followers=True)
            except BaseException as error:
                failure = OutcomeUnknown()
                failure.__cause__ = error
                fail(self._commits.take(), failure)
                raise
            finally:
                self._end_lead(me)

    def _end_lead(self, me: int) -> None:
        """Let the caller that waits longest lead, or call the thread.

        The main thread does neither: it may be interrupted, and later units have called the thread.
        """
        with self._lock:
            if self._leader != me:
                return
            self._leader = 0
            if (self._queue or self._closed) and me not in self._idle and not self._lead_next():
                self._wake()

    def _lead_next(self) -> bool:
        """Have the caller of the first unit lead; false if the thread is to do it. The lock is held.

        It does if there are many, because then no wake-up lies between two batches.
        """
        if self._leader or self._called or self._closed or not 0 < len(self._queue) <= _FEW:
            return False
        follower = self._queue[0].completion
        if not isinstance(follower, Follower) or follower.thread in self._idle:
            return False
        if self._driver is not None or self.begun is not None:
            return False
        self._leader = follower.thread
        follower.lead()
        return True

    def call(
        self,
        function: Callable[[Connection], Any],
        *,
        behind: int = 0,
        rows: int = 0,
        removes: int = 0,
    ) -> Any:
        """Run ``function(connection)`` between two batches and return its result; see :class:`Call`."""
        waiter: Waiter[Any] = Waiter()
        run = Call(waiter, _no_sequences, lambda connection, _: function(connection), behind, rows, removes)
        return self._wait_written(run, waiter)

    def call_numbered(
        self,
        count: Callable[[Connection], int],
        function: Callable[[Connection, int], Any],
        *,
        adding: WriteUnit | None = None,
        removed: Callable[[], Iterable[Name]] = tuple,
    ) -> Any:
        """As :meth:`call`, with ``count(connection)`` new sequences; the function gets the first."""
        waiter: Waiter[Any] = Waiter()
        call = Call(waiter, count, function, adding=adding, removed=removed)
        return self._wait_written(call, waiter)

    @property
    def is_entered(self) -> bool:
        """Whether this thread is in the middle of a write, or of closing: it would wait for itself."""
        here = threading.current_thread()
        return is_owned(self.writer_lock) or is_owned(self._lock) or here in (self._thread, self._closing)

    def close(self, timeout: float | None = None) -> None:
        """Write everything queued, return unused sequences, and close the connection.

        :raises StoreClosed: it was not done after ``timeout`` seconds; ``unwritten`` units have failed
        """
        self._closing = threading.current_thread()
        with self._lock:
            self._closed = True
            self._wake()
            self.pending.make_room()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            return
        doubtful = self._commits.cancel()
        fail(doubtful, OutcomeUnknown("the store was closed while this was being written: look for it"))
        abandoned = self._abandon(StoreClosed("the store was closed before this was written"))
        if doubtful or abandoned:
            raise StoreClosed(
                f"closed after {timeout} seconds: {len(doubtful)} operations in doubt, {abandoned} unwritten",
                unwritten=abandoned + len(doubtful),
            )

    def end_with_process(self) -> None:
        """Flush the queue when the process ends, for at most ``_AT_EXIT`` seconds."""
        with self._lock:
            waiting = len(self._queue) + len(self._commits.in_flight)
        if self._closed or not waiting or self._process != os.getpid():
            return
        log.warning(
            "exiting with %d queued writes and the store still open; flushing: close the store, which reports"
            " errors to its callers",
            waiting,
        )
        try:
            self.close(_AT_EXIT)
        except StoreClosed as error:
            log.error("the program has ended before all was written: %s", error)

    def _abandon(self, error: StoreError) -> int:
        with self._lock:
            units = self.pending.clear()
        fail(units, error)
        return len(units)

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                with self.writer_lock:
                    self._work()
                self._pass_on()
            self._statistics.stop()
            driver = self._driver
            if driver is not None and driver.loop.is_closed():
                self._leave(driver)
            with self.writer_lock:
                if self.begun is not None:  # the loop had taken it when the store was closed
                    self.finish(self.begun)
                self.committer.close()
        except BaseException as error:
            log.exception("the writer stopped; the store is closed")
            with self._lock:
                self._closed = True
            failure = StoreClosed("the writer stopped on an unexpected error; open the store again")
            failure.__cause__ = error
            fail(self._commits.take(), failure)
            self._abandon(failure)

    def _wait_for_work(self) -> bool:
        """Wait for a unit, and lead; False once the writer is closed and the queue is empty."""
        while True:
            with self._lock:
                is_led = self._leader not in self._idle
                if self._queue or self.begun is not None:
                    if not is_led and (self._called or self._driver is None):
                        self._leader = threading.get_ident()
                        return True
                elif self._closed:
                    return False
                if not is_led:
                    self._called = False
                self._asleep = True
                driver = self._driver
            try:
                self._wakes.get(timeout=None if driver is None else _LOOK)
            except Empty:
                if driver is not None and driver.loop.is_closed():
                    self._leave(driver)

    def _leave(self, driver: LoopDriver) -> None:
        """Take over the work of a closed loop."""
        with self._lock:
            if self._driver is driver:
                self._driver = None
                driver.stop()

    def _pass_on(self) -> None:
        """Pass the lead to the driver or to waiting callers, if no work is left for the thread."""
        with self._lock:
            driver, self._leader = self._driver, 0
            if driver is None:
                self._lead_next()
            # The driver may have begun a batch since the lock was released, and left it to the thread.
            if driver is None or self._closed or self.begun is not None:
                return
            if not all(is_awaited(unit) for unit in self._queue):
                return
            self._called = False
            goes_on = not self._queue or driver.call()
        if not goes_on:
            self._leave(driver)

    def take_at_once(self, unit: WriteUnit) -> bool:
        """Take a unit that was not queued, for the driver, under the writer lock; false if not first."""
        with self._lock:
            if self._closed or self._leader not in self._idle or self._queue or self.begun is not None:
                return False
            unit.taken = True
            self._commits.in_flight.append(unit)
        return True

    def take(self) -> list[WriteUnit]:
        """Return the next batch under the writer lock, for the driver; empty if that is a call or nothing."""
        with self._lock:
            if self._closed or self._leader not in self._idle or not self._queue:
                return []
            if isinstance(self._queue[0], Call):
                return []
            taken: list[Any] = self.pending.take_batch()
            self._commits.in_flight += taken
        return taken

    def finish(self, begun: Begun) -> None:
        """Complete the driver's batch; the writer lock is held."""
        self.begun = None
        self._commits.write(begun.units, begun)
        self._commits.take()

    def _work(self, *, followers: bool = False) -> None:
        if self.begun is not None:
            self.finish(self.begun)
            return
        with self._lock:
            taken = self.pending.take_batch(
                Follower if followers else None, most=inf if followers else self._most
            )
            if not followers:
                self._crowd = 1
                if self._driver is None:
                    self._called = bool(self._queue) or len(taken) > _FEW
            self._commits.in_flight += taken
        if not taken:
            return
        if isinstance(taken[0], Call):
            self._commits.call(taken[0])
        else:
            units = cast("list[WriteUnit]", taken)
            if followers or self.pending.rows < self._most:
                self._commits.write(units)
            else:
                self._write_ahead(units)
        self._commits.take()

    def _write_ahead(self, units: list[WriteUnit]) -> None:
        """Commit batches; while there is enough for another, it is sent before the last one is answered."""
        begun, left = self.committer.send_ahead(units), _RUN
        while True:
            taken = self._take_next() if left and begun.sent is not None else []
            following = self.committer.send_ahead(taken, begun) if taken else None
            error = self._commits.write(begun.units, begun)
            if following is None:
                return
            # Behind a batch that was answered otherwise, nothing is under way any more.
            left = left - 1 if begun.sent is not None and begun.sent.is_done else 0
            try:
                begun = self.committer.confirm(following, error)
            except StoreError as doubt:
                self._commits.refuse(following.units, doubt)
                return

    def _take_next(self) -> list[WriteUnit]:
        """Take another batch while one is not answered; empty if there is not enough for one."""
        with self._lock:
            if self.pending.rows < self._most or isinstance(self._queue[0], Call):
                return []
            taken: list[Any] = self.pending.take_batch(most=self._most)
            self._commits.in_flight += taken
        return taken


class RefusingWriter:
    """The writer of a read-only store: each write is an error, and there is nothing to close."""

    last_sequence = 0
    is_entered = False

    def __init__(self) -> None:
        self.timings = Timings()

    def use_loop(self, loop: AbstractEventLoop | None) -> None:
        """See :meth:`Writer.use_loop`."""

    def close(self, timeout: float | None = None) -> None:
        """See :meth:`Writer.close`."""

    def execute(self, *_: Any, **_options: Any) -> NoReturn:
        """Refuse a write.

        :raises ConfigurationError: the store is read-only
        """
        raise ConfigurationError("this store was opened with read_only; open it without to write")

    submit = call = call_numbered = guard_by = execute


UnitWriter = Writer | RefusingWriter
"""The writer of a store, as what writes there uses it."""

_open: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _end_with_process() -> None:
    for writer in [*_open]:
        writer.end_with_process()


def _no_sequences(_connection: Connection) -> int:
    return 0
