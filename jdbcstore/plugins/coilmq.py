"""A queue store and a queue manager for CoilMQ, a STOMP broker in Python; see docs/guide/coilmq.md.

``qstore.factory = jdbcstore.plugins.coilmq.make_store`` makes CoilMQ's own command use the store. ``python -m
jdbcstore.plugins.coilmq`` also replaces its queue manager with a manager that does not lose messages.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any

from coilmq.config import config
from coilmq.queue import QueueManager, lock
from coilmq.store import QueueStore
from coilmq.subscription import Subscription
from coilmq.util.frames import MESSAGE, Frame

import jdbcstore
from jdbcstore.abc import Cursor, MessageStore, Store
from jdbcstore.broker.stomp.frames import Frame as SendFrame
from jdbcstore.broker.stomp.frames import FrameLimits, Version
from jdbcstore.broker.stomp.messages import DestinationNames, MessageFrames, to_message
from jdbcstore.broker.stomp.reader import StompFrameReader
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.util.clock import SystemClock

_PAGE = 100
_PREFIX = "/queue/"
_NOT_STORED = ("destination", "receipt", "transaction")
_FACTORY = "jdbcstore.plugins.coilmq.make_store"
_URL = "qstore.jdbcstore.url"
_CONFIG = "qstore.jdbcstore.config"


class StoredFrame(Frame):  # type: ignore[misc]
    """The stored ``message``, as a frame of CoilMQ."""

    def __init__(self, headers: dict[str, Any], body: bytes, message: Message) -> None:
        super().__init__(MESSAGE, headers, body)
        self.message = message


class JdbcQueueStore(QueueStore):  # type: ignore[misc]
    """CoilMQ's queues in a store, with the messages that ActiveMQ's STOMP connector would store.

    :meth:`dequeue`, which CoilMQ's own manager uses, removes a message. :meth:`claim` hides it from other
        callers but leaves it stored, until :meth:`acknowledge` or :meth:`release`. Thread-safe. It closes the
        given store.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._lock = threading.RLock()
        self._backlogs: dict[str, _Backlog] = {}
        self._producer = ProducerId(f"ID:coilmq-{uuid.uuid4().hex}-1:1", -1, 1)
        self._numbers = itertools.count(1)
        self._names = DestinationNames(str(self._producer))
        self._clock = SystemClock()

    def enqueue(self, destination: str, frame: Frame) -> None:
        """Store a message. Durable on return; concurrent callers share a commit."""
        backlog = self._backlog(destination)
        headers = {str(name): str(value) for name, value in frame.headers.items() if name not in _NOT_STORED}
        headers["persistent"] = "true"
        body = frame.body.encode() if isinstance(frame.body, str) else frame.body
        message = to_message(
            SendFrame("SEND", headers, body),
            backlog.destination,
            MessageId(self._producer, next(self._numbers)),
            self._clock.now_ms(),
            self._names,
        )
        backlog.messages.add_message(message)
        with self._lock:
            backlog.complete = False

    def dequeue(self, destination: str) -> StoredFrame | None:
        """Remove the next message and return it; None if there is none. Durable on return."""
        frame = self.claim(destination)
        if frame is not None:
            self.acknowledge(frame)
        return frame

    def claim(self, destination: str) -> StoredFrame | None:
        """Claim the next message, hidden from other callers until it is released; None if there is none."""
        with self._lock:
            backlog = self._backlog(destination)
            if not backlog.fill():
                return None
            _, _, message = heapq.heappop(backlog.waiting)
            return self._frame(destination, backlog.destination, message)

    def acknowledge(self, frame: StoredFrame) -> None:
        """Remove a claimed message. Durable on return."""
        self._backlog(frame.headers["destination"]).messages.acknowledge(frame.message)

    def release(self, frame: StoredFrame) -> None:
        """Return a claimed message to its place in the queue, marked as redelivered."""
        message = frame.message
        with self._lock:
            redelivered = message.replace(redelivery_counter=message.redelivery_counter + 1)
            self._backlog(frame.headers["destination"]).put(redelivered)

    def size(self, destination: str) -> int:
        """Return the number of stored messages, claimed ones included."""
        with self._lock:
            return self._backlog(destination).messages.message_count()

    def has_frames(self, destination: str) -> bool:
        """Return whether a message can be claimed."""
        with self._lock:
            return self._backlog(destination).fill()

    def destinations(self) -> set[str]:
        """Return the queues that have messages, as ``/queue/NAME``."""
        queues = (
            destination
            for destination in self._store.destinations()
            if destination.kind is DestinationKind.QUEUE
        )
        return {_PREFIX + queue.name for queue in queues}

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _backlog(self, destination: str) -> _Backlog:
        with self._lock:
            backlog = self._backlogs.get(destination)
            if backlog is None:
                queue = Destination.queue(destination.removeprefix(_PREFIX))
                backlog = self._backlogs[destination] = _Backlog(queue, self._store.queue(queue))
            return backlog

    def _frame(self, name: str, destination: Destination, message: Message) -> StoredFrame:
        """Convert a message to a frame; message-id is its sequence, as CoilMQ cannot parse colons in
        values."""
        delivery = _Delivery(message, destination, message.redelivery_counter > 0)
        reader = StompFrameReader(FrameLimits(head=1 << 30, line=1 << 30, headers=1 << 20, body=1 << 31))
        reader.feed(MessageFrames(self._names, Version.V1_0).encode(delivery, ""))
        headers: dict[str, str] = {}
        body = b""
        while frame := reader.read():
            headers, body = frame.headers, frame.body
        own = {"destination": name, "message-id": str(message.sequence)}
        return StoredFrame({**headers, **own}, body, message)


@dataclass(eq=False, repr=False)
class _Backlog:
    """The claimable messages of one queue: a page, and released messages. For one thread at a time."""

    destination: Destination
    messages: MessageStore
    waiting: list[tuple[int, int, Message]] = field(default_factory=list)
    complete: bool = False
    """Whether the last page reached the end of the queue."""
    _cursor: Cursor | None = None

    def fill(self) -> bool:
        """Read the next page if no message is waiting; return whether there are messages."""
        if not self.waiting and not self.complete:
            self.complete = True  # before reading, because a message added meanwhile resets it
            page = self.messages.recover(_PAGE, self._cursor)
            self._cursor = page.cursor
            self.complete = self.complete and page.at_end
            for message in page:
                self.put(message)
        return bool(self.waiting)

    def put(self, message: Message) -> None:
        priority = -message.priority if self.messages.prioritized else 0
        heapq.heappush(self.waiting, (priority, message.sequence or 0, message))


@dataclass(slots=True)
class _Delivery:
    message: Message
    destination: Destination
    redelivered: bool


class DurableQueueManager(QueueManager):  # type: ignore[misc]
    """CoilMQ's queue manager, with three differences.

    A message is stored before it is delivered, even if a subscriber waits for it. It is removed when it is
    acknowledged, or, with ``ack:auto``, once it has been written to the subscriber's socket. It returns to
    its place in the queue, for the next subscriber, when its subscriber disconnects or unsubscribes.

    :raises ConfigurationError: the store is not a :class:`JdbcQueueStore`
    """

    store: JdbcQueueStore
    """The queues, with their messages."""

    def __init__(self, store: Any, *schedulers: Any, **named: Any) -> None:
        if not isinstance(store, JdbcQueueStore):
            raise ConfigurationError(
                f"this manager needs a JdbcQueueStore, not a {type(store).__name__};"
                f" set qstore.factory = {_FACTORY}"
            )
        super().__init__(store, *schedulers, **named)

    def send(self, message: Frame) -> None:
        """Store a message; durable on return, which is before the receipt."""
        destination = message.headers.get("destination")
        if not destination:
            raise ValueError(f"Cannot send frame with no destination: {message}")
        message.cmd = MESSAGE
        # Outside the lock, so that concurrent senders share a commit.
        self.store.enqueue(destination, message)
        with lock:
            self._deliver(destination)

    def subscribe(self, connection: Any, destination: str, id: Any = None) -> None:  # noqa: A002
        """Add a subscriber, and deliver pending messages to it."""
        with lock:
            self._subscriptions.subscribe(connection, destination, id=id)
            self._deliver(destination)

    def unsubscribe(self, connection: Any, destination: str, id: Any = None) -> None:  # noqa: A002
        """Remove a subscriber; its unacknowledged messages return to the queue."""
        with lock:
            self._subscriptions.unsubscribe(connection, destination, id=id)
            self._release({Subscription.factory(connection, id)})

    def disconnect(self, connection: Any) -> None:
        """Remove the subscribers of a connection; their unacknowledged messages return to the queues."""
        with lock:
            self._subscriptions.disconnect(connection)
            self._release(
                {subscription for subscription in self._pending if subscription.connection is connection}
            )

    def ack(self, connection: Any, frame: Frame, transaction: Any = None, id: Any = None) -> None:  # noqa: A002, ARG002
        """Remove a delivered message. For the ACKs of a transaction, CoilMQ calls this at COMMIT."""
        with lock:
            subscription = Subscription.factory(connection, id)
            pending: StoredFrame | None = self._pending.get(subscription)
            if pending is None:
                return
            if pending.headers["message-id"] != frame.headers.get("message-id"):
                self.log.warning("ACK of %s, which was not sent", frame.headers.get("message-id"))
                return
            self.store.acknowledge(pending)
            del self._pending[subscription]
            everyone = self._subscriptions.all_subscribers()
            for destination in [name for name, subscribers in everyone if subscription in subscribers]:
                self._deliver(destination)

    def _deliver(self, destination: str) -> None:
        """Send waiting messages to subscribers without a pending one."""
        while True:
            idle = [
                subscriber
                for subscriber in self._subscriptions.subscribers(destination)
                if subscriber not in self._pending
            ]
            if not idle:
                return
            frame = self.store.claim(destination)
            if frame is None:
                return
            subscription = self.subscriber_scheduler.choice(idle, frame)
            try:
                self._send_frame(subscription, frame)
            except OSError as error:
                # The subscriber's own thread will notice, and disconnect; the producer is not affected.
                self.log.warning("lost the connection of %s: %s", subscription, error)
                self._pending.pop(subscription, None)
                self._subscriptions.disconnect(subscription.connection)
                self.store.release(frame)
                continue
            if subscription not in self._pending:
                self.store.acknowledge(frame)

    def _release(self, subscriptions: set[Subscription]) -> None:
        """Return the unacknowledged messages of these subscribers to their queues."""
        frames = [
            self._pending.pop(subscription) for subscription in subscriptions if subscription in self._pending
        ]
        for frame in frames:
            self.store.release(frame)
        for destination in {frame.headers["destination"] for frame in frames}:
            self._deliver(destination)


def make_store() -> JdbcQueueStore:
    """Open the store that CoilMQ's configuration or the environment names: the ``qstore.factory``.

    :raises ConfigurationError: neither names one
    """
    url = config.get("coilmq", _URL, fallback=None)
    path = config.get("coilmq", _CONFIG, fallback=None)
    if url is None and path is None and "JDBCSTORE_URL" not in os.environ:
        raise ConfigurationError(
            f"the URL of the store is not set; set {_URL} or {_CONFIG} in the section [coilmq] of CoilMQ's"
            " configuration, or the environment variable JDBCSTORE_URL"
        )
    return JdbcQueueStore(jdbcstore.open(jdbcstore.load_config(path, url=url)))


def main() -> None:
    """Run CoilMQ's command with this store and this manager."""
    from coilmq import start

    config.set("coilmq", "qstore.factory", _FACTORY)
    start.QueueManager = DurableQueueManager  # CoilMQ has an option for the store but not for the manager
    start.main()


if __name__ == "__main__":
    # CoilMQ imports this module by name, so its classes differ from those in __main__.
    from jdbcstore.plugins import coilmq

    coilmq.main()
