"""Checkpoints: they write the overlay to the backing store, and release the journal's files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import JournalFailed, LockLost, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.message import openwire
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.openwire.reference import SEQUENCE_AT, refer
from jdbcstore.stores.journaled.bodies import Bodies
from jdbcstore.stores.journaled.cache import SubscriptionCache
from jdbcstore.stores.journaled.entries import JournalUnit
from jdbcstore.stores.journaled.overlay import SMALL, Layer, PreparedBranch
from jdbcstore.stores.journaled.records import PREPARE
from jdbcstore.stores.journaled.refused import FOLDER, Refused, refuses_a_row, row_of
from jdbcstore.stores.journaled.writer import JournalWriter
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark, SubscriptionKey
from jdbcstore.stores.shared.operations import RecordedOperation
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)


def changes_of(
    layer: Layer, start: JournalMark, end: JournalMark, size: int, left_out: Collection[int]
) -> list[Changes]:
    """Transactions of about ``size`` bytes that write a layer and take the store from one mark to another.

    Messages come first, in order, so that a reader of the tables never skips one; the last transaction has
    the end mark. ``left_out`` are messages that all subscriptions have consumed. Messages with a location in
    the journal are written as references.
    """
    batches = _Batches(start, size)
    for sequence, message in layer.adds.items():
        if sequence not in left_out:
            batches.add(sequence, message, layer.found.get(sequence))
    for container, destination in layer.destinations.items():
        for sequence, message in destination.updates.items():
            batches.updates.append((sequence, message))
            batches.grow(len(message.blob))
        for sequence in destination.removes:
            batches.removes.append((container, sequence))
            batches.grow(SMALL)
    for key, consumed in layer.acknowledged.items():
        for sequence, priority in consumed.items():
            if sequence not in left_out:
                batches.acknowledged.setdefault(key, []).append((sequence, priority))
                batches.grow(SMALL)
    batches.end(end)
    return batches.full


class _Batches:
    """Fills one transaction after another."""

    def __init__(self, mark: JournalMark, size: int) -> None:
        self.full: list[Changes] = []
        self._mark = mark
        self._most = size
        self._begin()

    def _begin(self) -> None:
        self.adds: list[tuple[int, EncodedMessage]] = []
        self.updates: list[tuple[int, EncodedMessage]] = []
        self.removes: list[tuple[str, int]] = []
        self.acknowledged: dict[SubscriptionKey, list[tuple[int, int]]] = {}
        self._size = 0

    def add(self, sequence: int, message: EncodedMessage, place: tuple[int, int] | None) -> None:
        """Add a message, or with its location in the journal a reference to it there."""
        if place is not None:
            reference = refer(self._mark.journal, *place, message.blob, message.slot)
            message = message._replace(blob=reference, slot=SEQUENCE_AT)
            if not self._mark.referred:
                self._mark = replace(self._mark, referred=sequence)
            self._size += SMALL
        self.adds.append((sequence, message))
        self.grow(len(message.blob))

    def grow(self, size: int) -> None:
        """Count added bytes, and end a transaction that is full."""
        self._size += size
        if self._size >= self._most:
            written = self.adds[-1][0] if self.adds else self._mark.written
            self.end(replace(self._mark, written=written))

    def end(self, mark: JournalMark) -> None:
        self._mark = replace(self._mark, written=mark.written)
        mark = replace(mark, referred=self._mark.referred)
        self.full.append(Changes(mark, self.adds, self.updates, self.removes, self.acknowledged))
        self._begin()


_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_RETAINED = 4
"""Prepared transactions are written again when they retain this many times their own bytes."""
_LOOK = 1.0
"""Seconds between readings of the clock, which may differ from the clock that threads wait by."""


@dataclass(slots=True)
class _Plan:
    """A checkpoint in progress."""

    layer: Layer
    cut: int
    """The last record that it covers."""
    last: int
    """The last sequence given out when it began."""
    prepared: list[tuple[XATransactionId, PreparedBranch]]
    """Transactions, undecided when it began, whose prepare is written again after the cut."""
    operation: RecordedOperation | None = None
    """An operation that follows its writes."""
    changes: list[Changes] | None = None
    """Changes that are not in the backing store yet, one transaction each."""


class Checkpointer:
    """Makes checkpoints: in the background when they are due, and on request. Thread-safe.

    A failed checkpoint is tried again with increasing pauses, up to 30 s. Rows that the database refuses are
    set aside one by one, and do not hold up others.
    """

    def __init__(
        self,
        store: CheckpointedStore,
        writer: JournalWriter,
        *,
        subscriptions: SubscriptionCache,
        bodies: Bodies,
        config: JournalConfig,
        clock: Clock,
        due: threading.Event,
        releasable: Callable[[int], int],
    ) -> None:
        """``releasable`` returns up to which record the log may be released, of those up to a number."""
        self._store = store
        self._overlay = writer.overlay
        self._failure: StoreError | None = None
        """Why the last checkpoint failed."""
        self._writer = writer
        self._subscriptions = subscriptions
        self._releasable = releasable
        self._bodies = bodies
        self._batch_size = config.max_checkpoint_message_add_size
        self._interval = config.checkpoint_interval
        self._clock = clock
        self._one = threading.RLock()
        """Held by a checkpoint, and by operations that need the backing store to be up to date."""
        self.gate = threading.Lock()
        """Held while a transaction is written: its holder sees the backing store unchanged."""
        self._plan: _Plan | None = None
        self.mark = JournalMark(0, 0, 0)
        """The mark in the backing store."""
        self._wakened = due
        self._stopping = threading.Event()
        self._last = clock.monotonic()
        self._finishing = False
        self._thread: threading.Thread | None = None

    @cached_property
    def refused(self) -> Refused:
        """The messages that the backing store has refused."""
        return Refused(self._writer.log.aside(FOLDER))

    @property
    def age(self) -> float:
        """Seconds since the last checkpoint began, or since the store was opened."""
        return max(self._clock.monotonic() - self._last, 0.0)

    @property
    def failure(self) -> str | None:
        """Why the last checkpoint failed; None if it did not."""
        return None if self._failure is None else str(self._failure)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="jdbcstore-checkpoint", daemon=True)
        self._thread.start()

    def finish(self, timeout: float | None) -> None:
        """Make the last checkpoint within a timeout, and detach the journal if everything is applied."""
        self._finishing = True
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout)

    def stop(self) -> None:
        """Begin no more checkpoints in the background."""
        self._stopping.set()
        self._wakened.set()

    def checkpoint(self, *, is_replay: bool = False) -> None:
        """Write everything that is in the overlay now to the backing store.

        During a replay nothing is added to the journal: a prepare that is undecided so far may have its
        outcome further on, and would come back behind it.

        :raises StoreError: the backing store failed; the next checkpoint continues where this one stopped
        """
        with self._one:
            try:
                if self._plan is not None:
                    self._write(self._plan)
                self._last = self._clock.monotonic()
                if self._overlay.last_number > self.mark.applied:
                    self._plan = self._begin(is_replay=is_replay)
                    self._write(self._plan)
            except StoreError as error:
                self._failure = error
                raise
            self._failure = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Run a block in which no checkpoint is made."""
        with self._one:
            yield

    @contextmanager
    def up_to_date(self) -> Iterator[None]:
        """Run a block in which no checkpoint is made, after one of everything written before."""
        with self._one:
            self.checkpoint()
            yield

    def _begin(self, *, is_replay: bool) -> _Plan:
        overlay = self._overlay
        with overlay.lock:
            layer, cut = overlay.freeze(), overlay.last_number
            self._writer.begin_checkpoint()
            prepared = [] if is_replay else self._to_be_rewritten()
            operation, overlay.operation = overlay.operation, None
            return _Plan(layer, cut, overlay.last_sequence, prepared, operation)

    def _to_be_rewritten(self) -> list[tuple[XATransactionId, PreparedBranch]]:
        """Return prepared transactions whose record is to be written again; the overlay's lock is held.

        Each retains the journal's files from its record on. That is cheaper than writing it again at each
        checkpoint, until these files are much larger than the transactions.
        """
        overlay = self._overlay
        first = min((held.journaled for held in overlay.prepared.values()), default=overlay.journaled)
        is_long = overlay.journaled - first >= _RETAINED * overlay.prepared_size
        return [(xid, held) for xid, held in overlay.prepared.items() if is_long or held.is_changed]

    def _write(self, plan: _Plan) -> None:
        while plan.prepared:
            self._rewrite(*plan.prepared[-1])
            plan.prepared.pop()
        if plan.changes is None:
            plan.changes = self._changes(plan)
        self._sync()
        while plan.changes:
            self._apply_accepted(plan.changes[0])
            del plan.changes[0]
        if plan.operation is not None:
            self._subscriptions.operated(plan.operation)
        self._drop_consumed()
        with self._overlay.lock:
            self._overlay.drop_frozen()
            self._writer.admission.room_made()
        self._plan = None
        self._release(everything=False)

    def _sync(self) -> None:
        """Make the journal durable, so that no crash removes records that the backing store has."""
        self._writer.journal.sync()

    def _release(self, *, everything: bool) -> None:
        """Release files of the journal, after the backing store got the bodies that it refers to in them."""
        for up_to, number in self._bodies.due(self.mark, everything=everything):
            for changes in self._bodies.moves(self.mark, up_to):
                self._apply_accepted(changes)
            self.mark = self._bodies.moved(self.mark, up_to)
            with self._overlay.lock:
                kept = min((held.number for held in self._overlay.prepared.values()), default=number + 1)
            self._writer.log.release(self._releasable(min(number, kept - 1)))

    def _changes(self, plan: _Plan) -> list[Changes]:
        layer, mark = plan.layer, self.mark
        end = replace(mark, applied=plan.cut, written=max(plan.last, mark.written))
        if plan.operation is not None and plan.operation.writer:
            end = replace(end, writer=plan.operation.writer)
        every = changes_of(layer, mark, end, self._batch_size, self._left_out(layer))
        every[-1] = replace(every[-1], operation=plan.operation)
        return every

    def _left_out(self, layer: Layer) -> set[int]:
        """Return the messages of a layer that need not be written: all subscriptions have consumed them."""
        if self._store.config.cleanup_period <= 0:
            return set()
        return set().union(*self._subscriptions.consumed(self._overlay, layer).values())

    def _rewrite(self, xid: XATransactionId, held: PreparedBranch) -> None:
        """Write a prepare that is undecided again, after the cut: earlier files can then be released."""
        with held.deciding:
            if self._overlay.prepared.get(xid) is held and not held.is_decided:
                unit = JournalUnit(held.writes, kind=PREPARE, xid=xid)
                self._writer.write_now(unit)
                self._writer.discount(unit.size)

    def _apply_accepted(self, changes: Changes) -> None:
        """Apply a transaction, without the messages that the backing store refuses: these are set aside."""
        try:
            with self.gate:
                self.apply(changes)
        except StoreError as error:
            if not self._sets_aside(error):
                raise
            self._apply_separately(changes, error)

    def _sets_aside(self, error: StoreError) -> bool:
        """Return whether to set aside the messages that the backing store refuses with an error."""
        return refuses_a_row(error)

    def _apply_separately(self, changes: Changes, error: StoreError) -> None:
        """Apply it by halves, until a refused row is alone."""
        adds, updates, bodies = changes.adds, changes.updates, changes.bodies
        rows = len(adds) + len(updates) + len(bodies)
        if not rows:
            raise error
        if rows == 1:
            self._apply_accepted(self._without(changes, error))
            return
        half = rows // 2
        of_updates = max(half - len(adds), 0)
        of_bodies = max(of_updates - len(updates), 0)
        # The first half does not complete the transaction's mark.
        written = max([self.mark.written, *(sequence for sequence, _ in adds[:half])])
        begun = replace(changes.mark, applied=self.mark.applied, written=written)
        self._apply_accepted(Changes(begun, adds[:half], updates[:of_updates], bodies=bodies[:of_bodies]))
        self._apply_accepted(
            replace(changes, adds=adds[half:], updates=updates[of_updates:], bodies=bodies[of_bodies:])
        )

    def _without(self, changes: Changes, error: StoreError) -> Changes:
        """Return the rest of a transaction whose only message is set aside."""
        removes = [*changes.removes]
        for sequence, message in changes.adds:
            self._set_aside(sequence, message, error)
        for sequence, message in changes.updates:
            self._set_aside(sequence, message, error, is_update=True)
        for sequence, body in changes.bodies:
            row = row_of(openwire.decode(body, sequence=sequence))
            self._set_aside(sequence, row, error)
            removes.append((row.container, sequence))  # its reference is in the backing store
        return replace(changes, adds=(), updates=(), bodies=(), removes=removes)

    def _set_aside(
        self, sequence: int, message: EncodedMessage, error: StoreError, *, is_update: bool = False
    ) -> None:
        container = message.container
        with self._overlay.lock:
            if self._overlay.is_gone(container, sequence, self._overlay.active):
                return  # acknowledged meanwhile
        self.refused.keep(sequence, message, str(error), self._clock.now_ms(), is_update=is_update)
        log.error(
            "a message of %s with the ID %d was refused, and is set aside (jdbcstore journal refused): %s",
            container,
            sequence,
            error,
        )
        with self._overlay.lock:
            self._overlay.refused[sequence] = container

    def _drop_consumed(self) -> None:
        """Delete rejected messages that consumers had received earlier and have acknowledged."""
        with self._overlay.lock:
            consumed = [*self._overlay.consumed]
        for sequence in consumed:
            self.refused.drop(sequence)
        with self._overlay.lock:
            del self._overlay.consumed[: len(consumed)]

    def find_refused(self) -> None:
        """Load the messages that an earlier process set aside; :class:`StoreError` if they cannot be read."""
        for refused in self.refused.every():
            if refused.sequence > self.mark.written and not refused.is_update:
                self.refused.drop(refused.sequence)  # the journal has it, and it is tried again
            else:
                self._overlay.refused[refused.sequence] = refused.destination
        if self._overlay.refused:
            log.error(
                "%d messages that the database refused are set aside; jdbcstore journal refused lists them",
                len(self._overlay.refused),
            )

    def check(self) -> None:
        """Raise :class:`StoreError` if checkpoints fail, although the backing store answers."""
        failure = self._failure
        if failure is not None and not isinstance(failure, StoreUnavailable):
            raise StoreError(f"no checkpoint can be made: {failure}") from failure

    def apply(self, changes: Changes) -> None:
        """Commit one transaction in the backing store."""
        admission, lock = self._writer.admission, self._overlay.lock
        with lock:
            admission.write_begun()
        try:
            self._store.apply(changes)
        except BaseException as error:
            if isinstance(error, LockLost):
                self._writer.stop(error)
            with lock:
                admission.write_ended(error if isinstance(error, StoreError) else StoreError(str(error)))
            raise
        self.mark = changes.mark
        with lock:
            self._overlay.written = changes.mark.written
            admission.write_ended(None)

    def _run(self) -> None:
        backoff, failing = Backoff(_LONGEST_PAUSE, first=_FIRST_PAUSE), False
        while self._wait_until_due():
            try:
                self.checkpoint()
            except (StoreClosed, LockLost, JournalFailed) as error:
                log.error("checkpointing stopped: %s", error)
                return
            except StoreError as error:
                if not failing:
                    log.error("a checkpoint failed, and is tried again until it succeeds: %s", error)
                failing = True
                self._stopping.wait(backoff.pause())
            except BaseException:
                log.exception("checkpoints stopped on an unexpected error; the store accepts no more writes")
                self._writer.stop(
                    StoreClosed("checkpoints stopped on an unexpected error; open the store again")
                )
                return
            else:
                if failing:
                    log.warning("checkpoints succeed again")
                    failing = False
                    backoff.reset()
        if self._finishing:
            self._end()

    def _end(self) -> None:
        try:
            self.checkpoint()
            if self.mark.referred:
                self._release(everything=True)
            self._detach()
        except StoreError as error:
            log.warning(
                "the store is closed before its last checkpoint; the rest stays in the journal: %s", error
            )

    def _detach(self) -> None:
        """Note in the backing store that it has everything; unless there are undecided transactions."""
        if not self._overlay.prepared:
            self._writer.journal.check()  # a prepared transaction is not applied
            self._writer.journal.sync()  # only the holder of the lock may say that it is applied
            self.apply(Changes(replace(self.mark, journal=0)))

    def _wait_until_due(self) -> bool:
        while not self._stopping.is_set():
            if self._is_due():
                return True
            self._wakened.wait(_LOOK)
            self._wakened.clear()
        return False

    def _is_due(self) -> bool:
        if self._plan is not None:
            return True
        if self._interval and self._clock.monotonic() >= self._last + self._interval:
            return True
        with self._overlay.lock:
            is_due, last = self._writer.is_due, self._overlay.last_number
        if is_due or not self._writer.journal.log.is_at_risk(self.mark.applied):
            return is_due
        return last > self.mark.applied and self._clock.monotonic() >= self._last + _LOOK


class ReplicatedCheckpointer(Checkpointer):
    """Makes the checkpoints of one of several databases, which get the same."""

    def _left_out(self, layer: Layer) -> set[int]:  # noqa: ARG002
        return set()

    def _sets_aside(self, error: StoreError) -> bool:  # noqa: ARG002
        return False  # the others may have it

    def _sync(self) -> None:
        """Do nothing: the records of a stream are durable."""

    def _detach(self) -> None:
        """Nothing: it is never without its journal, because nothing else may be written to it."""
