"""A writer's turns on an event loop: the loop sends a batch and reads the answer, and no thread is woken.

Four changes of threads cost more than a commit of one message. What could make the loop wait is left to the
writer's thread: a first connection, the reservation of sequences, calls, and anything that fails.
"""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop, TimerHandle
from threading import get_ident
from typing import Any, Protocol

from jdbcstore.database.adapters.sending import SentWrite
from jdbcstore.errors import StoreError
from jdbcstore.stores.jdbc.writer.committer import Begun, Committer
from jdbcstore.stores.jdbc.writer.queue import WriteQueue
from jdbcstore.stores.jdbc.writer.units import Call, WriteUnit
from jdbcstore.util.futures import QueuedFuture

_MANY = 32
"""Messages that are not waited for, because there are enough."""
_PATIENCE = 0.001
"""Seconds to wait for senders that have just received their answers."""
_VAIN = 8


class DrivenWriter(Protocol):
    """The writer, as its driver sees it. Only the holder of the writer lock changes it."""

    committer: Committer
    writer_lock: Any
    """A lock."""
    pending: WriteQueue
    """The queue, which is only looked at here, and without the writer's lock."""
    begun: Begun | None
    """The batch that was taken last, until it is finished."""

    def take_at_once(self, unit: WriteUnit) -> bool:
        """Take a unit that was not queued as the next batch; false if another has to be written first."""

    def take(self) -> list[WriteUnit]:
        """Return the next batch; empty if there is none, or a call is next."""

    def finish(self, begun: Begun) -> None:
        """Complete a batch that is answered."""

    def call_thread(self) -> None:
        """Wake the writer's thread for pending work."""


class LoopDriver:
    """Drives a writer on one event loop. To be used on that loop, except :meth:`call`.

    While an answer is pending, no thread holds the writer lock, and :attr:`DrivenWriter.begun` is the sent
    batch.
    The writer's thread finishes it when anything else is to be written. So a caller that blocks the loop
    until something is written gets its answer.
    """

    def __init__(self, writer: DrivenWriter, loop: AbstractEventLoop) -> None:
        self._writer = writer
        self.loop = loop
        self._thread = get_ident()
        self._is_running = False
        self._line: object = None
        """The connection whose answers are awaited."""
        self._watched: int | None = None
        """Its descriptor. The loop has one of its own: the number of a closed one may be given again while
        the loop still has it."""
        self._is_sending = False
        self._expected = 0
        """The messages of those whose last one was just committed, or is queued: they may all send again."""
        self._gathering: TimerHandle | None = None
        """Set while others are waited for."""
        self._vain = self._alone = 0
        """Attempts in vain, and batches until the next attempt."""

    @property
    def is_here(self) -> bool:
        """Whether this is the loop's thread."""
        return get_ident() == self._thread

    def call(self) -> bool:
        """Have the loop go on, from any thread; False if it is closed."""
        try:
            self.loop.call_soon_threadsafe(self.go_on)
        except RuntimeError:
            return False
        return True

    def go_on(self) -> None:
        """Finish an answered batch and begin the next one, as far as that does not wait."""
        if self._is_running:
            return  # a callback of the batch that is finished below
        if not self._run():
            self._writer.call_thread()

    def begin(self, unit: WriteUnit) -> bool:
        """Begin to write a unit at once, if nothing else is queued or under way; false if not."""
        writer = self._writer
        if (
            self._is_running
            or writer.begun is not None
            or writer.pending.units
            or get_ident() != self._thread
        ):
            return False
        unit.measure()
        if self._gathering is not None or unit.rows < min(self._expected, _MANY):
            return False
        if not writer.writer_lock.acquire(blocking=False):
            return False
        try:
            self._is_running = True
            if not writer.take_at_once(unit):
                return False
            goes_on = self._send([unit])
        finally:
            self._is_running = False
            writer.writer_lock.release()
        if not goes_on:
            writer.call_thread()
        return True

    def _on_event(self) -> None:
        """There is an answer, or room to send more."""
        if self._writer.begun is None:
            # The line was lost, or the thread has the answer; the expected senders may never come.
            is_gathering = self._gathering is not None
            self.stop()
            if is_gathering:
                self._writer.call_thread()
        elif not (self._is_running or self._run()):
            self.stop()
            self._writer.call_thread()

    def _run(self) -> bool:
        """Take the writer lock, and write; return false if the thread has to go on."""
        writer = self._writer
        if not writer.writer_lock.acquire(blocking=False):
            return False
        try:
            self._is_running = True
            begun = writer.begun
            if begun is not None:
                sent = begun.sent
                if sent is None:
                    return False
                if self._is_sending or not sent.is_flushed:
                    self._flush(sent)
                if not (sent.is_flushed and sent.is_answered()):
                    return True
                if not sent.is_done:
                    return False
                writer.finish(begun)
                self._expected = writer.pending.rows
                for unit in begun.units:
                    self._expected += unit.rows
            if not writer.pending.units or self._is_gathering():
                return True
            units = writer.take()
            return not units or self._send(units)
        finally:
            self._is_running = False
            writer.writer_lock.release()

    def _send(self, units: list[WriteUnit]) -> bool:
        """Send a batch, and await the answer; false if the thread has to go on."""
        writer = self._writer
        try:
            sent = writer.committer.send(units)
        except StoreError:
            sent = None  # the thread gets the same error
        writer.begun = Begun(units, sent)
        if sent is None or sent.has_failed or (sent.line is not self._line and not self._watch(sent)):
            return False
        if self._is_sending or not sent.is_flushed:
            self._flush(sent)
        return not sent.has_failed

    def _watch(self, sent: SentWrite) -> bool:
        """Await what its line answers; False if no descriptor is left."""
        self.stop()
        try:
            watched = os.dup(sent.socket)
        except OSError:
            return False
        self._line, self._watched = sent.line, watched
        self.loop.add_reader(watched, self._on_event)
        return True

    def _is_gathering(self) -> bool:
        """Return whether to wait for the senders of the last messages, so that they share the next commit.

        Otherwise senders that come during a commit, and the senders of that commit, take turns forever.
        """
        queued = self._writer.pending.rows
        if not queued:
            return False
        if queued >= min(self._expected, _MANY):
            if self._gathering is not None:
                self._gathering.cancel()
                self._gathering, self._vain = None, 0
            return False
        if self._gathering is None:
            if self._alone:
                self._alone -= 1
                return False
            self._gathering = self.loop.call_later(_PATIENCE, self._gathered)
        return True

    def _gathered(self) -> None:
        self._gathering = None
        self._vain = min(self._vain + 1, _VAIN)
        self._alone, self._expected = 2**self._vain, 0
        self.go_on()

    def _flush(self, sent: SentWrite) -> None:
        done = sent.flush()
        if done is self._is_sending and self._watched is not None:
            self._is_sending = not done
            if done:
                self.loop.remove_writer(self._watched)
            else:
                self.loop.add_writer(self._watched, self._on_event)

    def stop(self) -> None:
        """Await no answer any more."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        watched, self._watched, self._line = self._watched, None, None
        if watched is None:
            return
        if not self.loop.is_closed():
            self.loop.remove_reader(watched)
            self.loop.remove_writer(watched)
        self._is_sending = False
        os.close(watched)


def is_awaited(unit: WriteUnit | Call) -> bool:
    """Return whether no thread waits for it."""
    return isinstance(unit, WriteUnit) and isinstance(unit.completion, QueuedFuture)
