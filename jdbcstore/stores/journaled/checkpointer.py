"""Checkpoints: what the overlay has goes to the store behind, and the journal's files become free."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import JournalFailed, LockLost, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.message import openwire
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.bodies import Bodies
from jdbcstore.stores.journaled.changes import changes_of
from jdbcstore.stores.journaled.layers import Layer
from jdbcstore.stores.journaled.operations import PREPARE
from jdbcstore.stores.journaled.overlay import Held, Overlay
from jdbcstore.stores.journaled.refused import Refused, refuses_a_row, row_of
from jdbcstore.stores.journaled.subscriptions import Subscriptions
from jdbcstore.stores.journaled.units import Unit
from jdbcstore.stores.journaled.writing import JournalWriter
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark
from jdbcstore.stores.shared.encoding import EncodedMessage
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_KEPT = 4
"""Times the bytes of what is prepared: so much is in the files that it keeps, before it is written again."""
_LOOK = 1.0
"""Seconds after which the clock is looked at again: it may be another than the one that threads wait by."""


@dataclass(slots=True)
class _Plan:
    """A checkpoint that has begun."""

    layer: Layer
    cut: int
    """The last record that it covers."""
    last: int
    """The last sequence given by then."""
    prepared: list[tuple[XATransactionId, Held]]
    """Undecided when it began, and to be written behind the cut."""
    changes: list[Changes] | None = None
    """What is not in the store behind yet, a transaction each."""


class Checkpointer:
    """Makes checkpoints when they are due and when it is asked to. For any number of threads."""

    def __init__(
        self,
        store: CheckpointedStore,
        overlay: Overlay,
        writer: JournalWriter,
        subscriptions: Subscriptions,
        bodies: Bodies,
        config: JournalConfig,
        clock: Clock,
        due: threading.Event,
    ) -> None:
        self._cleans = store.config.cleanup_period > 0
        """Whether what nobody waits for may go by itself."""
        self._store = store
        self._overlay = overlay
        self.refused = Refused(Path(config.directory))
        """What the store behind did not take."""
        self._failure: StoreError | None = None
        """Why the last one was not done."""
        self._writer = writer
        self._subscriptions = subscriptions
        self._bodies = bodies
        self._batch_size = config.max_checkpoint_message_add_size
        self._interval = config.checkpoint_interval
        self._clock = clock
        self._one = threading.RLock()
        """One checkpoint at a time, or one of what needs a store that has everything."""
        self.gate = threading.Lock()
        """Held while one of its transactions is written: whoever has it sees the store behind stand still."""
        self._plan: _Plan | None = None
        self.mark = JournalMark(0, 0, 0)
        """As it is in the store behind."""
        self._wakened = due
        self._stopping = threading.Event()
        self._last = clock.monotonic()
        self._finishing = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make them in the background from now on, too."""
        self._thread = threading.Thread(target=self._run, name="jdbcstore-checkpoint", daemon=True)
        self._thread.start()

    def finish(self, timeout: float | None) -> None:
        """Make the last one, and say that the store behind has all there is, if there is time for it."""
        self._finishing = True
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout)

    def stop(self) -> None:
        """Make no more in the background, but for the one under way."""
        self._stopping.set()
        self._wakened.set()

    def checkpoint(self) -> None:
        """Have all that is written now in the store behind.

        :raises StoreError: the store behind did not take it; what it took is not written again
        """
        with self._one:
            try:
                if self._plan is not None:
                    self._write(self._plan)
                self._last = self._clock.monotonic()
                if self._overlay.last_number > self.mark.applied:
                    self._plan = self._begin()
                    self._write(self._plan)
            except StoreError as error:
                self._failure = error
                raise
            self._failure = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A while in which no checkpoint is made."""
        with self._one:
            yield

    @contextmanager
    def everything_behind(self) -> Iterator[None]:
        """A while in which the store behind has all that was there before, and no checkpoint is made."""
        with self._one:
            self.checkpoint()
            yield

    def _begin(self) -> _Plan:
        overlay = self._overlay
        with overlay.lock:
            layer, cut = overlay.freeze(), overlay.last_number
            self._writer.begin_checkpoint()
            return _Plan(layer, cut, overlay.last_sequence, self._to_be_kept())

    def _to_be_kept(self) -> list[tuple[XATransactionId, Held]]:
        """Prepared transactions that are to be written once more; the overlay's lock is held.

        Each keeps the files of the journal from its record on. That is cheaper than to write it at each
        checkpoint, until there is so much in them that they weigh more than it.
        """
        overlay = self._overlay
        first = min((held.journaled for held in overlay.prepared.values()), default=overlay.journaled)
        is_long = overlay.journaled - first >= _KEPT * overlay.prepared_size
        return [(xid, held) for xid, held in overlay.prepared.items() if is_long or held.is_changed]

    def _write(self, plan: _Plan) -> None:
        while plan.prepared:
            self._keep(*plan.prepared[-1])
            plan.prepared.pop()
        if plan.changes is None:
            plan.changes = self._changes(plan)
        # Nothing may be in the store behind that a crash takes out of the journal.
        self._writer.journal.sync()
        while plan.changes:
            self._take(plan.changes[0])
            del plan.changes[0]
        self._drop_consumed()
        with self._overlay.lock:
            self._overlay.melt()
            self._writer.make_room()
        self._plan = None
        self._release(everything=False)

    def _release(self, *, everything: bool) -> None:
        """Let go of files of the journal, and first have the store behind take what it refers to in them."""
        for up_to, number in self._bodies.due(self.mark, everything=everything):
            for changes in self._bodies.moves(self.mark, up_to):
                self._take(changes)
            self.mark = self._bodies.moved(self.mark, up_to)
            with self._overlay.lock:
                kept = min((held.number for held in self._overlay.prepared.values()), default=number + 1)
            self._writer.journal.release(min(number, kept - 1))

    def _changes(self, plan: _Plan) -> list[Changes]:
        layer, mark = plan.layer, self.mark
        left_out: set[int] = set()
        if self._cleans:
            left_out.update(*self._subscriptions.done(self._overlay, layer).values())
        end = replace(mark, applied=plan.cut, written=max(plan.last, mark.written))
        return list(changes_of(layer, mark, end, self._batch_size, left_out))

    def _keep(self, xid: XATransactionId, held: Held) -> None:
        """Write what is still undecided behind the cut once more, so that files before it can go."""
        with held.deciding:
            if self._overlay.prepared.get(xid) is held:
                unit = Unit(held.writes, kind=PREPARE, xid=xid)
                self._writer.write_now(unit)
                self._writer.leave_out(unit.size)

    def _take(self, changes: Changes) -> None:
        """Have the store behind take this, but for messages that it refuses: these are put aside."""
        try:
            with self.gate:
                self.apply(changes)
        except StoreError as error:
            if not refuses_a_row(error):
                raise
            self._take_apart(changes, error)

    def _take_apart(self, changes: Changes, error: StoreError) -> None:
        """By halves, until what is refused stands alone."""
        adds, updates, bodies = changes.adds, changes.updates, changes.bodies
        rows = len(adds) + len(updates) + len(bodies)
        if not rows:
            raise error
        if rows == 1:
            self._take(self._without(changes, error))
            return
        half = rows // 2
        of_updates = max(half - len(adds), 0)
        of_bodies = max(of_updates - len(updates), 0)
        # What comes first is not the end of anything yet.
        written = max([self.mark.written, *(sequence for sequence, _ in adds[:half])])
        begun = replace(changes.mark, applied=self.mark.applied, written=written)
        self._take(Changes(begun, adds[:half], updates[:of_updates], bodies=bodies[:of_bodies]))
        self._take(
            replace(changes, adds=adds[half:], updates=updates[of_updates:], bodies=bodies[of_bodies:])
        )

    def _without(self, changes: Changes, error: StoreError) -> Changes:
        """The rest, once the only message in it stands aside."""
        removes = [*changes.removes]
        for sequence, message in changes.adds:
            self._put_aside(sequence, message, error)
        for sequence, message in changes.updates:
            self._put_aside(sequence, message, error, is_update=True)
        for sequence, body in changes.bodies:
            row = row_of(openwire.decode(body, sequence=sequence))
            self._put_aside(sequence, row, error)
            removes.append((row.container, sequence))  # the store behind has what refers to it
        return replace(changes, adds=(), updates=(), bodies=(), removes=removes)

    def _put_aside(
        self, sequence: int, message: EncodedMessage, error: StoreError, *, is_update: bool = False
    ) -> None:
        container = message.container
        with self._overlay.lock:
            if self._overlay.is_gone(container, sequence, self._overlay.active):
                return  # it was consumed meanwhile
        self.refused.keep(sequence, message, str(error), self._clock.now_ms(), is_update=is_update)
        log.error(
            "a message of %s with the ID %d was refused, and stands aside (jdbcstore journal refused): %s",
            container,
            sequence,
            error,
        )
        with self._overlay.lock:
            self._overlay.refused[sequence] = container

    def _drop_consumed(self) -> None:
        """Those that stand aside, and were acknowledged all the same by who had them before."""
        with self._overlay.lock:
            consumed = [*self._overlay.consumed]
        for sequence in consumed:
            self.refused.drop(sequence)
        with self._overlay.lock:
            del self._overlay.consumed[: len(consumed)]

    def find_refused(self) -> None:
        """What an earlier process has put aside.

        :raises StoreError: it cannot be read
        """
        for one in self.refused.every():
            if one.sequence > self.mark.written and not one.is_update:
                self.refused.drop(one.sequence)  # the journal still has it, and it is tried again
            else:
                self._overlay.refused[one.sequence] = one.destination
        if self._overlay.refused:
            log.error(
                "%d messages that the database refused stand aside; jdbcstore journal refused lists them",
                len(self._overlay.refused),
            )

    def check(self) -> None:
        """
        :raises StoreError: checkpoints fail, and not because the store behind does not answer
        """
        failure = self._failure
        if failure is not None and not isinstance(failure, StoreUnavailable):
            raise StoreError(f"no checkpoint can be made: {failure}") from failure

    def apply(self, changes: Changes) -> None:
        """One transaction of the store behind."""
        admission, lock = self._writer.admission, self._overlay.lock
        with lock:
            admission.asked()
        try:
            self._store.apply(changes)
        except BaseException as error:
            if isinstance(error, LockLost):
                self._writer.stop(error)
            with lock:
                admission.answered(error if isinstance(error, StoreError) else StoreError(str(error)))
            raise
        self.mark = changes.mark
        with lock:
            self._overlay.written = changes.mark.written
            admission.answered(None)

    def _run(self) -> None:
        backoff, failing = Backoff(_LONGEST_PAUSE, first=_FIRST_PAUSE), False
        while self._wait_until_due():
            try:
                self.checkpoint()
            except (StoreClosed, LockLost, JournalFailed) as error:
                log.error("no more checkpoints are made: %s", error)
                return
            except StoreError as error:
                if not failing:
                    log.error("a checkpoint failed, and is tried again until it is done: %s", error)
                failing = True
                self._stopping.wait(backoff.pause())
            except BaseException:
                log.exception("checkpoints stopped; the store takes nothing any more")
                self._writer.stop(
                    StoreClosed("checkpoints stopped on an unexpected error; open the store again")
                )
                return
            else:
                if failing:
                    log.warning("checkpoints are made again")
                    failing = False
                    backoff.reset()
        if self._finishing:
            self._end()

    def _end(self) -> None:
        try:
            self.checkpoint()
            if self.mark.referred:
                self._release(everything=True)
            if not self._overlay.prepared:
                self._writer.journal.sync()  # only who still has the journal says that there is nothing in it
                self.apply(Changes(replace(self.mark, journal=0)))
        except StoreError as error:
            log.warning("the store is closed before its last checkpoint; the journal has the rest: %s", error)

    def _wait_until_due(self) -> bool:
        """False once it is to stop."""
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
            return self._writer.is_due
