"""What is written goes into the journal, from there into the overlay, and then its caller is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from jdbcstore.abc import MessageReference
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import JournalFailed, OutcomeUnknown, StoreClosed, StoreError
from jdbcstore.journal import Entry, Journal, Written
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.admission import Admission
from jdbcstore.stores.journaled.audit import JournalAudit
from jdbcstore.stores.journaled.operations import PREPARE, Writes
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.journaled.units import Add, Removal, Unit
from jdbcstore.stores.shared.encoding import EncodedMessage, nothing
from jdbcstore.util.clock import Clock
from jdbcstore.util.futures import Promise, StoreFuture, Waiter, burst

_PRESSED = 0.7
"""Of the memory: where a checkpoint begins."""
_LEAST = 0.05
"""Of the memory: less is not worth one, whatever else is there."""


class JournalWriter:
    """The way of every write. For any number of threads.

    ``wake`` is called when a checkpoint is due.
    """

    journal: Journal

    def __init__(
        self,
        overlay: Overlay,
        config: JournalConfig,
        audit: JournalAudit | None,
        wake: Callable[[], None],
        clock: Clock,
        patience: float,
    ) -> None:
        self.overlay = overlay
        self._audit = audit
        self._wake = wake
        self._limit = config.memory_limit
        self._least = config.memory_limit * _LEAST
        self._checkpoint_size = config.checkpoint_size
        self._locates = config.use_quick_journal
        self._lock = overlay.lock
        self._changed = threading.Condition(overlay.lock)
        """There is room, nothing is under way any more, or nothing is to be written any more."""
        self._waiting = 0
        self._bytes_under_way = 0
        self._under_way = 0
        """Units that the journal has, and that were not applied."""
        self._written = 0
        """Bytes of records since the last checkpoint began."""
        self._paused = False
        self._stopped: StoreError | None = None
        self.admission = Admission(
            overlay,
            clock,
            patience,
            self._changed,
            is_full=self._is_full,
            enter=self._enter,
            write=self._let_in,
            refuse=self._refuse,
            wake=wake,
        )

    @property
    def is_due(self) -> bool:
        """Whether there is so much that a checkpoint is to begin; the lock is held."""
        return self.is_pressed or self._written >= self._checkpoint_size

    @property
    def is_pressed(self) -> bool:
        """Whether there is so much in memory; the lock is held. No checkpoint takes what is prepared out."""
        overlay = self.overlay
        size = overlay.active.size
        if size >= self._least and size >= (self._limit - overlay.prepared_size) * _PRESSED:
            return True
        return self.admission.is_busy and size > 0 and self.admission.wants_room

    def add(self, message: EncodedMessage) -> MessageReference:
        """Add one message, and wait until it is durable."""
        reference: MessageReference = self._execute(Add(message))
        return reference

    def add_async(self, message: EncodedMessage) -> StoreFuture[MessageReference]:
        """As :meth:`add`, without waiting."""
        return self._submit(Add(message))

    def remove(self, container: str, sequences: Sequence[int]) -> None:
        """Remove messages of a destination, and wait until they are durably gone."""
        self._execute(Removal(container, sequences))

    def remove_async(self, container: str, sequences: Sequence[int]) -> StoreFuture[None]:
        """As :meth:`remove`, without waiting."""
        return self._submit(Removal(container, sequences))

    def execute(self, unit: Unit) -> Any:
        """Write a unit, wait until it is durable, and return its result."""
        return self._execute(unit)

    def submit(self, unit: Unit) -> StoreFuture[Any]:
        """Have a unit written; the future has its result once it is durable."""
        return self._submit(unit)

    def _execute(self, unit: Unit) -> Any:
        waiter: Waiter[Any] = Waiter()
        unit.completion = waiter
        self._append(unit, waits=True)
        try:
            return waiter.result()
        except StoreError:
            raise
        except BaseException:
            # A signal's handler has ended the call: what nobody has begun with is not to happen either.
            self.withdraw(unit)
            raise

    def _submit(self, unit: Unit) -> StoreFuture[Any]:
        unit.completion = result = Promise(self, unit)
        self._append(unit, waits=False)
        return result

    def prepare(self, writes: Writes, xid: XATransactionId) -> bool:
        """Prepare a transaction; false if it does nothing, and so was not. Synced in any case."""
        if not (writes.adds or writes.removes or writes.acknowledgements):
            return False
        if not self._execute(Unit(writes, lambda _: True, kind=PREPARE, xid=xid)):
            return False
        self._sync()
        return True

    def decide(self, unit: Unit) -> None:
        """Write the outcome of what was prepared, as :meth:`write_now` does.

        It is synced, and so is what is prepared, also where the journal's writes are not: other stores, and
        transaction managers, go by it, and would do one thing here and another there after a crash.
        """
        self.write_now(unit)
        self._sync()

    def _sync(self) -> None:
        try:
            self.journal.sync()
        except JournalFailed as error:
            raise OutcomeUnknown(f"{error}; nobody knows whether this was written") from error

    def write_now(self, unit: Unit) -> None:
        """Write what is in memory as it is, and wait: whether or not there is room, and while others wait."""
        unit.cost = 0
        waiter: Waiter[Any] = Waiter()
        unit.completion = waiter
        counted = False
        try:
            with self._lock:
                self._under_way += 1
                counted = True
            self.journal.append(unit, waits=_may_write())
        except BaseException:
            self._abandon(unit, counted=counted)
            raise
        waiter.result()

    def pass_over(self, last: int) -> None:
        """Give no sequence up to this one any more; nothing else is under way."""
        overlay = self.overlay
        if last > overlay.last_sequence:
            self.write_now(Unit(Writes(), nothing, passed=last - overlay.last_sequence))
            with self._lock:
                overlay.last_sequence = last
                overlay.written = max(overlay.written, last)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """A while in which nobody has all others wait."""
        counted = False
        try:
            with self._lock:
                while self._stopped is None and self._paused:
                    self._wait()
                self.check()
                self._under_way += 1
                counted = True
            yield
        finally:
            if counted:
                with self._lock:
                    self._ended(1, 0)

    def _append(self, unit: Unit, *, waits: bool) -> None:
        """Have it written, at once or when it is its turn. Waits only while the queues are full."""
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

    def _abandon(self, unit: Unit, *, counted: bool) -> None:
        """Its caller goes, by a refusal or by what a signal handler raised.

        What the journal has begun with is written, and ends as any other.
        """
        with self._lock:
            if self.admission.withdraw(unit):
                return
        if unit.taken and not self.journal.withdraw(unit):
            return
        if counted:
            with self._lock:
                self._ended(1, unit.cost)

    def _is_full(self, unit: Unit) -> bool:
        return unit.cost > 0 and self._bytes_under_way + self.overlay.size >= self._limit

    def _enter(self, unit: Unit) -> None:
        self._bytes_under_way += unit.cost
        self._under_way += 1

    def _let_in(self, unit: Unit) -> None:
        """It has waited for its turn."""
        try:
            self.journal.append(unit)
        except StoreError as error:
            with self._lock:
                self._ended(1, unit.cost)
            self._refuse(unit, error)

    def _refuse(self, unit: Unit, error: StoreError) -> None:
        unit.completion.set_exception(error)

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._changed.wait()
        finally:
            self._waiting -= 1

    def check_open(self) -> None:
        """:class:`StoreClosed` once the store is."""
        if isinstance(self._stopped, StoreClosed):
            raise self._stopped.with_traceback(None)

    def check(self) -> None:
        """Raise why nothing is written any more, if so; the lock is held."""
        if self._stopped is not None:
            raise self._stopped.with_traceback(None)

    def withdraw(self, unit: Unit) -> bool:
        """Take a unit back; whether its writing had not begun."""
        with self._lock:
            has_waited = self.admission.withdraw(unit)
        if not has_waited:
            if not self.journal.withdraw(unit):
                return False
            with self._lock:
                self._ended(1, unit.cost)
        return True

    def _ended(self, units: int, cost: int) -> None:
        self._under_way -= units
        self._bytes_under_way -= cost
        if self._waiting:
            self._changed.notify_all()
        if self.admission.is_busy:
            self.admission.look()

    def committed(self, batch: Sequence[Written]) -> None:
        """The journal has made these durable: they are seen from now on, and then their callers are told."""
        overlay, cost, size = self.overlay, 0, 0
        units = cast("list[tuple[Unit, int, int, int, int]]", batch)
        with self._lock:
            for unit, number, sequence, segment, offset in units:
                unit.apply(overlay, sequence, number)
                if self._locates:
                    overlay.locate(sequence, [(segment, offset + at) for at in unit.blobs_at()])
                cost += unit.cost
                size += unit.size
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
        with burst():
            for unit, _, sequence, _, _ in units:
                unit.complete(sequence)

    def failed(self, entries: Sequence[Entry], error: StoreError) -> None:
        """The journal did not write these, or nobody knows."""
        units = cast("Sequence[Unit]", entries)
        with self._lock:
            self._ended(len(units), sum(unit.cost for unit in units))
        with burst():
            for unit in units:
                unit.completion.set_exception(error)

    def stop(self, error: StoreError) -> None:
        """Take nothing more, for this reason; what is under way goes on."""
        with self._lock:
            if self._stopped is None or isinstance(error, StoreClosed):
                self._stopped = error
                self.admission.stop(error)
            self._changed.notify_all()

    def give_up(self) -> int:
        """Let nothing in any more that waits; how many units that were."""
        with self._lock:
            left = self.admission.give_up()
        with burst():
            for unit in left:
                self._refuse(unit, StoreClosed("the store was closed before this was written"))
        return len(left)

    def has_ended(self, timeout: float | None) -> bool:
        """Wait until nothing is under way any more; whether that was in time."""
        with self._lock:
            self._waiting += 1
            try:
                return self._changed.wait_for(
                    lambda: not self._under_way and self.admission.is_empty, timeout
                )
            finally:
                self._waiting -= 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """All others wait; nothing of theirs is under way."""
        with self._lock:
            self._paused = True
            self.admission.pause(True)
            while self._under_way:
                self._wait()
        try:
            yield
        finally:
            with self._lock:
                self._paused = False
                self.admission.pause(False)
                self._changed.notify_all()

    def begin_checkpoint(self) -> None:
        """What is written from now on is for the next one; the lock is held."""
        self._written = 0

    def leave_out(self, size: int) -> None:
        """So many bytes were written by a checkpoint, and are not to begin the next one."""
        with self._lock:
            self._written -= size

    def make_room(self) -> None:
        """Something is in the store behind; the lock is held."""
        self.admission.look()


def _may_write() -> bool:
    """Whether the caller may write its record itself: not where a signal handler can raise in the middle."""
    return threading.get_ident() != threading.main_thread().ident
