"""The path of every write: into the journal, from there into the overlay, and then its caller is notified."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import JournalFailed, OutcomeUnknown, StoreClosed, StoreError
from jdbcstore.journal.abc import RecordLog
from jdbcstore.journal.layout import JournalEntry, WrittenEntry
from jdbcstore.journal.log import Journal
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.admission import Admission
from jdbcstore.stores.journaled.entries import Add, JournalUnit
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.journaled.records import (
    COMMIT,
    PREPARE,
    ROLLBACK,
    RecordedWrites,
)
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.encoding import Name, nothing
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.clock import Clock
from jdbcstore.util.futures import Burst, QueuedFuture, StoreFuture, Waiter


class JournalAudit:
    """The duplicate audit, which decides about a message when it is its turn to be written.

    Only durable messages are seen: a message sent again while its first copy is in flight is stored itself if
    that copy is cancelled or refused. Prepared messages are seen until they are rolled back. Only the thread
    that writes or replays the journal uses it.
    """

    def __init__(self, audit: DuplicateAudit, overlay: Overlay) -> None:
        self._audit = audit
        self._overlay = overlay

    def review(self, entries: Sequence[JournalEntry]) -> Sequence[JournalEntry]:
        """Return the entries without the messages that were seen, or that an earlier one of them has."""
        decided: dict[Name, bool] = {}
        return [self._reviewed(unit, decided) for unit in cast("Sequence[JournalUnit]", entries)]

    def _reviewed(self, unit: JournalUnit, decided: dict[Name, bool]) -> JournalUnit:
        """``decided`` says whether a message will have been seen once the entries before are written."""
        names = [(add.producer, add.producer_sequence) for add in unit.adds]
        if unit.kind == ROLLBACK:
            decided.update(dict.fromkeys(names, False))
        # Messages committed, or prepared once more for a checkpoint, were seen when they were prepared.
        if unit.kind in (COMMIT, ROLLBACK) or (unit.kind == PREPARE and unit.xid in self._overlay.prepared):
            return unit
        is_new = []
        for name in names:
            seen = decided.get(name)
            is_new.append(not (self._audit.has_seen(*name) if seen is None else seen))
            decided[name] = True
        return unit if all(is_new) else unit.without_duplicates(is_new)

    def written(self, kind: int, messages: Iterable[EncodedMessage]) -> None:
        """Note that a record of this kind, with these messages, is durable."""
        note = self._audit.forget if kind == ROLLBACK else self._audit.is_duplicate
        for message in messages:
            note(message.producer, message.producer_sequence)


_PRESSED = 0.7
"""The fraction of memory_limit at which a checkpoint begins."""
_LEAST = 0.05
"""The fraction of memory_limit below which a checkpoint is not worthwhile."""


class JournalWriter:
    """Writes units to the journal and applies them to the overlay. Thread-safe.

    A unit goes to the journal at once, or through :class:`Admission` while memory is full or writing is
    paused. The journal calls :meth:`committed` or :meth:`failed` in its order. ``wake`` is called when a
    checkpoint is due; ``timeout`` is how many seconds a unit waits for room while the backing store commits
    nothing.
    """

    journal: Journal
    log: RecordLog
    """The source of records: the journal, or a journal that another process writes."""

    def __init__(
        self,
        overlay: Overlay,
        config: JournalConfig,
        audit: JournalAudit | None,
        wake: Callable[[], None],
        clock: Clock,
        timeout: float,
    ) -> None:
        self.overlay = overlay
        self._audit = audit
        self._wake = wake
        self._limit = config.memory_limit
        self._least = config.memory_limit * _LEAST
        self._checkpoint_size = config.checkpoint_size
        self._locates = config.use_quick_journal
        self._lock = overlay.lock
        self._waiting = 0
        self._bytes_in_flight = 0
        self._in_flight = 0
        """Units that the journal has, and that are not applied yet."""
        self._written = 0
        """The bytes of records since the last checkpoint began."""
        self._paused = False
        self._stopped: StoreError | None = None
        self.admission = Admission(
            overlay,
            clock,
            timeout,
            is_full=self._is_full,
            enter=self._enter,
            write=self._append_admitted,
            wake=wake,
        )
        self._changed = self.admission.left
        """There is room, nothing is in flight, or nothing is written any more."""

    @property
    def is_due(self) -> bool:
        """Whether there is enough for a checkpoint; the lock is held."""
        return self.is_pressed or self._written >= self._checkpoint_size

    @property
    def is_pressed(self) -> bool:
        """Whether memory requires a checkpoint, which does not free prepared messages; the lock is held."""
        overlay = self.overlay
        size = overlay.active.size
        if size >= self._least and size >= (self._limit - overlay.prepared_size) * _PRESSED:
            return True
        return self.admission.is_busy and size > 0 and self.admission.wants_room

    def execute(self, unit: JournalUnit) -> Any:
        """Write a unit; returns its result once it is durable."""
        waiter: Waiter[Any] = Waiter()
        unit.completion = waiter
        self._append(unit, waits=True)
        try:
            return waiter.result()
        except StoreError:
            raise
        except BaseException:
            # A signal handler has ended the call: a unit that is not begun must not be written.
            self.withdraw(unit)
            raise

    def submit(self, unit: JournalUnit) -> StoreFuture[Any]:
        """As :meth:`execute`, without waiting."""
        unit.completion = result = QueuedFuture(self, unit)
        self._append(unit, waits=False)
        return result

    def prepare(self, writes: RecordedWrites, xid: XATransactionId) -> bool:
        """Prepare a transaction, and sync it in any case; false if it does nothing, and is not prepared."""
        if not (writes.adds or writes.removes or writes.acknowledgements):
            return False
        if not self.execute(JournalUnit(writes, lambda _: True, kind=PREPARE, xid=xid)):
            return False
        self._sync()
        return True

    def decide(self, unit: JournalUnit) -> None:
        """Write the outcome of a prepared transaction, as :meth:`write_now` does.

        It is synced, as the prepare was, also where other writes are not: after a crash other stores and
        transaction managers rely on it.
        """
        self.write_now(unit)
        self._sync()

    def _sync(self) -> None:
        try:
            self.journal.sync()
        except JournalFailed as error:
            raise OutcomeUnknown(f"{error}; whether this was written is not known") from error

    def write_now(self, unit: JournalUnit) -> None:
        """Write a unit that needs no more memory, past any queue; returns once it is written."""
        unit.cost = 0
        waiter: Waiter[Any] = Waiter()
        unit.completion = waiter
        counted = False
        try:
            with self._lock:
                self._in_flight += 1
                counted = True
            self.journal.append(unit, waits=_may_write())
        except BaseException:
            self._abandon(unit, counted=counted)
            raise
        try:
            waiter.result()
        except StoreError:
            raise
        except BaseException:
            self.withdraw(unit)  # as in execute
            raise

    def skip_sequences(self, last: int) -> None:
        """Give out no sequence up to this one; nothing else is in flight."""
        overlay = self.overlay
        if last > overlay.last_sequence:
            self.write_now(JournalUnit(RecordedWrites(), nothing, passed=last - overlay.last_sequence))
            with self._lock:
                overlay.last_sequence = last
                overlay.written = max(overlay.written, last)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run a block that :meth:`paused` waits for, and that waits for it."""
        counted = False
        try:
            with self._lock:
                while self._stopped is None and self._paused:
                    self._wait()
                self.check()
                self._in_flight += 1
                counted = True
            yield
        finally:
            if counted:
                with self._lock:
                    self._ended(1, 0)

    def _append(self, unit: JournalUnit, *, waits: bool) -> None:
        """Queue a unit for the journal, or write it. Blocks only while the queues are full."""
        counted = False
        try:
            with self._lock:
                if self._stopped is not None:
                    self.check()
                admission = self.admission
                if (admission.is_busy or self._is_full(unit)) and admission.put(unit, waits=waits):
                    return
                self._enter(unit)
                counted = True
            self.journal.append(unit, waits=waits and _may_write())
        except BaseException:
            self._abandon(unit, counted=counted)
            raise

    def _abandon(self, unit: JournalUnit, *, counted: bool) -> None:
        """Remove a unit whose caller leaves with an error, or by an exception of a signal handler.

        If the journal has begun to write it, it ends as any other.
        """
        with self._lock:
            if self.admission.withdraw(unit):
                return
        if unit.taken and not self.journal.withdraw(unit):
            return
        unit.taken = False
        if counted:
            with self._lock:
                self._ended(1, unit.cost)

    def _is_full(self, unit: JournalUnit) -> bool:
        return unit.cost > 0 and self._bytes_in_flight + self.overlay.size >= self._limit

    def _enter(self, unit: JournalUnit) -> None:
        self._bytes_in_flight += unit.cost
        self._in_flight += 1

    def _append_admitted(self, unit: JournalUnit) -> None:
        try:
            self.journal.append(unit)
        except StoreError as error:
            with self._lock:
                self._ended(1, unit.cost)
            unit.completion.set_exception(error)

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._changed.wait()
        finally:
            self._waiting -= 1

    def check_open(self) -> None:
        """Raise :class:`StoreClosed` if the store is closed."""
        if isinstance(self._stopped, StoreClosed):
            raise self._stopped.with_traceback(None)

    def check(self) -> None:
        """Raise the error for which nothing is written any more, if any; the lock is held."""
        if self._stopped is not None:
            raise self._stopped.with_traceback(None)

    def withdraw(self, unit: JournalUnit) -> bool:
        """Cancel a unit; false if its writing has begun."""
        with self._lock:
            has_waited = self.admission.withdraw(unit)
        if not has_waited:
            if not self.journal.withdraw(unit):
                return False
            unit.taken = False
            with self._lock:
                self._ended(1, unit.cost)
        return True

    def _ended(self, units: int, cost: int) -> None:
        self._in_flight -= units
        self._bytes_in_flight -= cost
        if self._waiting:
            self._changed.notify_all()
        if self.admission.is_busy:
            self.admission.room_made()

    def committed(self, batch: Sequence[WrittenEntry]) -> None:
        """Apply durable entries, and then notify their callers."""
        overlay, cost, size = self.overlay, 0, 0
        units = cast("list[tuple[JournalUnit, int, int, int, int]]", batch)
        with self._lock:
            rows: list[EncodedMessage] = []
            first = 0
            for unit, number, sequence, _, _ in units:
                if type(unit) is Add:
                    first = first if rows else sequence
                    rows.append(unit.message)
                else:
                    overlay.add_all(first, rows)
                    rows.clear()
                    unit.apply(overlay, sequence, number)
                cost += unit.cost
                size += unit.size
            overlay.add_all(first, rows)
            if self._locates:
                for unit, _, sequence, segment, offset in units:
                    overlay.locate(sequence, [(segment, offset + at) for at in unit.blobs_at()])
            overlay.last_number = batch[-1].number
            overlay.journaled += size
            self._written += size
            self._ended(len(batch), cost)
            is_due = self.is_due
        if self._audit is not None:
            for unit, *_ in units:
                self._audit.written(unit.kind, unit.adds)
        if is_due:
            self._wake()
        with Burst():
            for unit, _, sequence, _, _ in units:
                unit.complete(sequence)

    def failed(self, entries: Sequence[JournalEntry], error: StoreError) -> None:
        """Notify the callers of units that were not written, or are in doubt."""
        units = cast("Sequence[JournalUnit]", entries)
        with self._lock:
            self._ended(len(units), sum(unit.cost for unit in units))
        with Burst():
            for unit in units:
                unit.completion.set_exception(error)

    def stop(self, error: StoreError) -> None:
        """Accept no more units, for this reason; units in flight continue."""
        with self._lock:
            if self._stopped is None or isinstance(error, StoreClosed):
                self._stopped = error
                self.admission.stop(error)
            self._changed.notify_all()

    def cancel_waiting(self) -> int:
        """Fail the units that wait for admission; returns their number."""
        with self._lock:
            waiting = self.admission.cancel()
        with Burst():
            for unit in waiting:
                unit.completion.set_exception(StoreClosed("the store was closed before this was written"))
        return len(waiting)

    def has_ended(self, timeout: float | None) -> bool:
        """Wait until nothing is in flight; false after the timeout, in seconds."""
        with self._lock:
            self._waiting += 1
            try:
                return self._changed.wait_for(
                    lambda: not self._in_flight and self.admission.is_empty, timeout
                )
            finally:
                self._waiting -= 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run a block in which all other writers wait, and nothing is in flight."""
        with self._lock:
            self._paused = True
            self.admission.pause(True)
            while self._in_flight:
                self._wait()
        try:
            yield
        finally:
            with self._lock:
                self._paused = False
                self.admission.pause(False)
                self._changed.notify_all()

    def begin_checkpoint(self) -> None:
        """Count bytes for the next checkpoint from now on; the lock is held."""
        self._written = 0

    def discount(self, size: int) -> None:
        """Do not count bytes that a checkpoint wrote itself."""
        with self._lock:
            self._written -= size


def _may_write() -> bool:
    """Return whether the caller may write its record: not in the main thread, where signals arrive."""
    return threading.get_ident() != threading.main_thread().ident
