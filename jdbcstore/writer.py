"""The group-commit writer: one thread, one connection, as many units in a commit as are waiting.

Sequences are given in the order in which units are taken, and one transaction follows another, so
they commit in order and a reader's page can never skip one. N waiting producers cost one commit; a
lone one waits for nothing.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from jdbcstore.abc import MessageReference
from jdbcstore.acknowledgement import plan_all
from jdbcstore.adapters.base import Batch, Failure
from jdbcstore.errors import OutcomeUnknown, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.sequence import SequenceAllocator
from jdbcstore.session import Connection, Session
from jdbcstore.units import Call, Unit, Waiter, future

log = logging.getLogger(__name__)

_BATCH_UNITS = 2_000
_BATCH_BYTES = 8 * 1024 * 1024
_TRANSIENT_RETRIES = 8
_FOREIGN_RETRIES = 4
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0


class Writer:
    """Takes units from any thread, in order; completes each once, on its own thread, under no lock."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._config = session.config
        self.sequence = SequenceAllocator(session.statements)
        self._connection: Connection | None = None
        self._queue: deque[Unit | Call] = deque()
        self._lock = threading.Lock()
        self._space = threading.Condition(self._lock)
        self._pending_bytes = 0
        self._closed = False
        self._idle = False
        self._wake = threading.Lock()
        self._wake.acquire()
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jdbcstore-writer", daemon=True)
        self._thread.start()

    def submit(self, unit: Unit | Call) -> None:
        """Queue a unit; waits while the queue is full.

        :raises StoreClosed: the store is closed
        """
        size = unit.measure()
        with self._lock:
            while not self._closed and self._is_full():
                self._space.wait()
            if self._closed:
                raise StoreClosed()
            self._queue.append(unit)
            self._pending_bytes += size
            wake, self._idle = self._idle, False
        if wake:
            self._wake.release()

    def call(self, function: Callable[[Connection], Any]) -> Any:
        """Run ``function(connection)`` between two batches and return what it returns; see :class:`Call`."""
        waiter: Waiter[Any] = Waiter()
        self.submit(Call(waiter, function))
        return waiter.result()

    def call_async(self, function: Callable[[Connection], Any]) -> Future[Any]:
        """As :meth:`call`, without waiting."""
        result = future()
        self.submit(Call(result, function))
        return result

    def close(self, timeout: float | None = None) -> None:
        """Write what is queued, give unused sequences back, close the connection.

        :raises StoreClosed: not done after ``timeout`` seconds; ``unwritten`` units have failed
        """
        with self._lock:
            self._closed = True
            wake, self._idle = self._idle, False
            self._space.notify_all()
        if wake:
            self._wake.release()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            return
        self._give_up.set()
        abandoned = self._abandon(StoreClosed("the store was closed before this was written"))
        raise StoreClosed(
            f"closed after {timeout} seconds with {abandoned} operations unwritten;"
            " their callers were told so",
            unwritten=abandoned,
        )

    def _is_full(self) -> bool:
        return bool(self._queue) and (
            len(self._queue) >= self._config.max_pending_count
            or self._pending_bytes >= self._config.max_pending_bytes
        )

    def _abandon(self, error: StoreError) -> int:
        with self._lock:
            units = list(self._queue)
            self._queue.clear()
            self._pending_bytes = 0
            self._space.notify_all()
        _fail(units, error)
        return len(units)

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                if isinstance(taken, Call):
                    self._run_call(taken)
                else:
                    self._write(taken)
            self._finish()
        except BaseException as error:
            log.exception("the writer stopped; the store is closed")
            with self._lock:
                self._closed = True
            failure = StoreClosed("the writer stopped on an unexpected error; open the store again")
            failure.__cause__ = error
            self._abandon(failure)

    def _take(self) -> list[Unit] | Call | None:
        """The next batch, waiting for one; None when the store is closed and all is written."""
        while True:
            with self._lock:
                if self._queue:
                    return self._take_queued()
                if self._closed:
                    return None
                self._idle = True
            self._wake.acquire()

    def _take_queued(self) -> list[Unit] | Call:
        queue = self._queue
        units: list[Unit] = []
        size = 0
        while queue and len(units) < _BATCH_UNITS and size < _BATCH_BYTES:
            head = queue[0]
            if isinstance(head, Call):
                if units:
                    break
                queue.popleft()
                self._pending_bytes -= head.size
                self._space.notify_all()
                return head
            queue.popleft()
            units.append(head)
            size += head.size
        self._pending_bytes -= size
        self._space.notify_all()
        return units

    def _write(self, units: list[Unit]) -> None:
        """Commit the units, alone those that can only be committed alone, and complete each."""
        try:
            results = _Attempts(self).write(units)
        except StoreError as error:
            if len(units) == 1 or isinstance(error, StoreUnavailable | StoreClosed):
                _fail(units, error)
                return
            # Somewhere in here is a unit that cannot be written: halve until it stands alone.
            middle = len(units) // 2
            self._write(units[:middle])
            self._write(units[middle:])
            return
        except Exception as error:
            _fail(units, error)
            raise
        for unit, result in zip(units, results, strict=True):
            unit.completion.set_result(unit.result(result))

    def _run_call(self, call: Call) -> None:
        try:
            result = _Attempts(self).call(call)
        except StoreError as error:
            call.completion.set_exception(error)
        except Exception as error:
            call.completion.set_exception(error)
            raise
        else:
            call.completion.set_result(result)

    def connection(self) -> Connection:
        """The writer's connection, made anew if it was lost."""
        if self._connection is None:
            self._connection = self._session.connect()
        return self._connection

    def disconnect(self) -> None:
        """Drop a connection that cannot be trusted any more."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def pause(self, seconds: float) -> None:
        """Wait before a retry; ends at once, with :class:`StoreClosed`, when a close gives up."""
        if self._give_up.wait(seconds * random.uniform(0.5, 1.0)):  # noqa: S311
            raise StoreClosed("the store was closed before this was written")

    def _finish(self) -> None:
        if self._connection is None:
            return
        try:
            self.sequence.give_back(self._connection)
        except self._session.failures as error:
            # Only a gap in the sequence is left behind.
            log.info("unused sequences were not returned: %s", error)
        self.disconnect()


class _Attempts:
    """One piece of work, tried until it is committed or known not to be."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._session = writer._session
        self._deadline = time.monotonic() + self._session.config.reconnect_timeout
        self._pause = _FIRST_PAUSE
        self._transient = _TRANSIENT_RETRIES
        self._foreign = _FOREIGN_RETRIES
        self._sent = False
        """A batch has gone out, and its answer has not come yet."""
        self._doubtful = False
        """The connection was lost after a batch had gone out."""
        self._duplicate = False
        """The IDs of the last try exist."""

    def write(self, units: list[Unit]) -> list[list[MessageReference]]:
        """Commit the units together; the references of each one's messages."""
        while True:
            try:
                if self._doubtful and self._was_committed(units):
                    return self._accept(units)
                if self._duplicate:
                    # The IDs are another writer's: a broker's on the same tables, or an ActiveMQ's.
                    # Ours were never committed, for a batch commits whole.
                    self._writer.sequence.forget()
                    self._doubtful = self._duplicate = False
                return self._write_once(units)
            except self._session.failures as error:
                self._recover(error)
            except StoreUnavailable as error:
                self._reconnect_later(error)

    def call(self, call: Call) -> Any:
        """Run a function in a transaction; what it returns."""
        while True:
            try:
                connection = self._writer.connection()
                with connection.transaction():
                    return call.function(connection)
            except self._session.failures as error:
                self._recover(error)
            except StoreUnavailable as error:
                self._reconnect_later(error)

    def _write_once(self, units: list[Unit]) -> list[list[MessageReference]]:
        connection = self._writer.connection()
        adds = [add for unit in units for add in unit.adds]
        first = self._writer.sequence.reserve(connection, len(adds)) if adds else 0
        acknowledgements = [ack for unit in units for ack in unit.acknowledgements]
        plan = plan_all(connection, acknowledgements)
        batch = Batch(
            adds=[add.row(sequence) for sequence, add in enumerate(adds, first)],
            updates=[row for unit in units for row in unit.updates],
            removes=[id_ for unit in units for id_ in unit.removes],
            others=plan.statements,
        )
        self._sent = True
        connection.write(batch)
        self._sent = False
        plan.apply()
        return self._accept(units)

    def _accept(self, units: list[Unit]) -> list[list[MessageReference]]:
        """The batch is committed under the sequences it was sent with."""
        sequence = self._writer.sequence
        results = []
        for unit in units:
            first = sequence.last + 1
            adds = enumerate(unit.adds, first)
            results.append([MessageReference(id_, add.message_id) for id_, add in adds])
            sequence.use(len(unit.adds))
        return results

    def _was_committed(self, units: list[Unit]) -> bool:
        """Whether the commit whose answer was lost took place: its first message speaks for all.

        A batch without messages is written again instead, for everything else is idempotent.
        """
        add = next((add for unit in units for add in unit.adds), None)
        if add is None:
            return False
        find = self._session.statements.find_id_owner
        owner = self._writer.connection().fetch(find, id_=self._writer.sequence.last + 1)
        if not owner or tuple(owner[0]) != (add.producer, add.producer_sequence, add.container):
            return False
        for unit in units:
            for acknowledgement in unit.acknowledgements:
                acknowledgement.tracker.reset()  # what was planned is in the tables now
        return True

    def _recover(self, error: Exception) -> None:
        """Make the next try possible, or raise what makes it useless."""
        sent, self._sent = self._sent, False
        failure = self._session.classify(error)
        if failure in (Failure.DISCONNECTED, Failure.REFUSED):
            self._doubtful |= sent
            self._writer.disconnect()
            self._reconnect_later(self._session.translate(error), error)
            return
        self._writer.connection().rollback()
        if failure is Failure.TRANSIENT and self._transient > 0:
            self._transient -= 1
            self._wait()
        elif failure is Failure.DUPLICATE and sent and self._foreign > 0:
            self._foreign -= 1
            self._duplicate = True
            log.warning("the next ID is taken; does another process write to these tables?")
        else:
            raise self._session.translate(error) from error

    def _reconnect_later(self, error: StoreError, cause: BaseException | None = None) -> None:
        if time.monotonic() < self._deadline:
            self._wait()
            return
        if self._doubtful:
            raise OutcomeUnknown(
                "the connection died during a commit, and the database has not answered since;"
                " it was written completely or not at all: look before adding it again"
            ) from (cause or error)
        raise error from cause

    def _wait(self) -> None:
        self._writer.pause(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def _fail(units: list[Unit] | list[Unit | Call], error: Exception) -> None:
    for unit in units:
        unit.completion.set_exception(error)
