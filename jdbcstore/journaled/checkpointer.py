"""Checkpoints: what the overlay has goes to the store behind, and the journal's files become free."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from jdbcstore.backoff import Backoff
from jdbcstore.checkpoint import Changes, CheckpointedStore, JournalMark
from jdbcstore.clock import Clock
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import JournalFailed, LockLost, StoreClosed, StoreError
from jdbcstore.ids import XATransactionId
from jdbcstore.journaled.bodies import Bodies
from jdbcstore.journaled.changes import changes_of
from jdbcstore.journaled.layers import Layer
from jdbcstore.journaled.operations import PREPARE
from jdbcstore.journaled.overlay import Held, Overlay
from jdbcstore.journaled.subscriptions import Subscriptions
from jdbcstore.journaled.units import Unit
from jdbcstore.journaled.writing import JournalWriter

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
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
    """Undecided when it began, and not written behind the cut yet."""
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
            if self._plan is not None:
                self._write(self._plan)
            self._last = self._clock.monotonic()
            if self._overlay.last_number > self.mark.applied:
                self._plan = self._begin()
                self._write(self._plan)

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
            return _Plan(layer, cut, overlay.last_sequence, list(overlay.prepared.items()))

    def _write(self, plan: _Plan) -> None:
        if plan.changes is None:
            plan.changes = self._changes(plan)
        while plan.prepared:
            self._keep(*plan.prepared[-1])
            plan.prepared.pop()
        # Nothing may be in the store behind that a crash takes out of the journal.
        self._writer.journal.sync()
        while plan.changes:
            with self.gate:
                self.apply(plan.changes[0])
            del plan.changes[0]
        with self._overlay.lock:
            self._overlay.melt()
            self._writer.make_room()
        self._plan = None
        self._release(everything=False)

    def _release(self, *, everything: bool) -> None:
        """Let go of files of the journal, and first have the store behind take what it refers to in them."""
        for up_to, number in self._bodies.due(self.mark, everything=everything):
            for changes in self._bodies.moves(self.mark, up_to):
                with self.gate:
                    self.apply(changes)
            self.mark = self._bodies.moved(self.mark, up_to)
            self._writer.journal.release(number)

    def _changes(self, plan: _Plan) -> list[Changes]:
        layer, mark = plan.layer, self.mark
        left_out: set[int] = set()
        if self._cleans:
            left_out.update(*self._subscriptions.done(self._overlay, layer).values())
        end = replace(mark, applied=plan.cut, written=max(plan.last, mark.written))
        return list(changes_of(layer, mark, end, self._batch_size, left_out))

    def _keep(self, xid: XATransactionId, held: Held) -> None:
        """Write what is still undecided behind the cut once more: the mark is going to pass over it."""
        with held.deciding:
            if self._overlay.prepared.get(xid) is held:
                self._writer.write_now(Unit(held.writes, kind=PREPARE, xid=xid))

    def apply(self, changes: Changes) -> None:
        """One transaction of the store behind."""
        try:
            self._store.apply(changes)
        except LockLost as lost:
            self._writer.stop(lost)
            raise
        self.mark = changes.mark
        with self._overlay.lock:
            self._overlay.written = changes.mark.written

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
