"""How messages come into a queue: through the store, or past it, and not before there is room."""

from __future__ import annotations

from asyncio import Future
from typing import Protocol

from jdbcstore.abc import MessageStore
from jdbcstore.broker.api import Promise
from jdbcstore.broker.cursors import MessageCursor
from jdbcstore.broker.memory import FlowControl, MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.queues.concurrent import ConcurrentSends
from jdbcstore.broker.store_io.outbox import Letter, Receiver
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.message import Message


class IntakeQueue(Receiver, Protocol):
    """The queue that they come into."""

    def touch(self) -> None:
        """There is something to do in this turn of the loop."""


class Intake:
    """The sending side of one queue."""

    def __init__(
        self,
        parts: Parts,
        policy: PolicyEntry,
        memory: MemoryUsage,
        queue: IntakeQueue,
        store: MessageStore | None,
        stored: MessageCursor,
        transient: MessageCursor,
    ) -> None:
        self._parts = parts
        self._queue = queue
        self._store = store

        def flow(cursor: MessageCursor) -> FlowControl:
            return FlowControl(parts, queue.destination, policy, memory, lambda: cursor.is_full, queue.touch)

        self.concurrent: ConcurrentSends | None = None
        """For what may be given out before it is stored."""
        self._ahead = 0
        """Messages that are being written, and are to be given out before any that comes now."""
        self._stored_flow = flow(stored)
        self._transient_flow = flow(transient)

    def is_stored(self, message: Message) -> bool:
        """Whether it goes through the store."""
        return message.persistent and self._store is not None

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Done when it is durable, if persistent, and there is room for more."""
        stored = message.persistent and self._store is not None
        flow = self._stored_flow if stored else self._transient_flow
        if flow.must_wait:
            return flow.hold(message, connection_id)
        if not stored:
            self._queue.arrive(message, None, connection_id)
            return self._parts.done()
        promise = Promise(loop=self._parts.loop)
        if self.concurrent is not None:
            if not self._ahead and not self._parts.commits and self.concurrent.send(message, promise):
                return promise
            self._ahead += 1
            promise.add_done_callback(self._landed)
        self._write(message, connection_id, promise)
        return promise

    def _landed(self, _: Future[None]) -> None:
        self._ahead -= 1

    def _write(self, message: Message, connection_id: str, promise: Future[None]) -> None:
        self._parts.outbox.add(Letter(message, self._queue, connection_id, promise))

    def before(self, connection_id: str) -> list[Future[None]]:
        """What has to be done before the connection commits anything that it sends here."""
        passed = (self._stored_flow.passed(connection_id), self._transient_flow.passed(connection_id))
        return [future for future in passed if future is not None]

    def room(self, message: Message) -> Future[None]:
        """Done when a producer may send more, who has just sent this in a transaction."""
        flow = self._stored_flow if self.is_stored(message) else self._transient_flow
        return flow.room()

    def let_in(self) -> None:
        """Producers that have waited, if there is room now."""
        while (held := self._stored_flow.take()) is not None:
            self._write(held.message, held.connection_id, held.promise)
        while (held := self._transient_flow.take()) is not None:
            self._queue.arrive(held.message, None, held.connection_id)
            self._parts.settle(held.promise, None)

    @property
    def is_waiting(self) -> bool:
        """Whether something has to wait before it comes in, or is being written."""
        return bool(self._ahead or self._stored_flow.is_holding or self._transient_flow.is_holding)
