"""Queues of CoilMQ in a store, as the messages that ActiveMQ's STOMP connector would make of its frames."""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import uuid
from dataclasses import dataclass
from typing import Any

from coilmq.config import config
from coilmq.store import QueueStore
from coilmq.util.frames import MESSAGE, Frame

import jdbcstore
from jdbcstore.abc import Cursor, MessageStore, Store
from jdbcstore.broker.stomp import frames as stomp
from jdbcstore.broker.stomp.messages import DestinationNames, MessageFrames, to_message
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.util.clock import SystemClock

_PAGE = 100
_PREFIX = "/queue/"
_NOT_STORED = ("destination", "receipt", "transaction")
_URL = "qstore.jdbcstore.url"
_CONFIG = "qstore.jdbcstore.config"


class StoredFrame(Frame):  # type: ignore[misc]
    """A message of the store, as a frame of CoilMQ."""

    def __init__(self, headers: dict[str, Any], body: bytes, message: Message) -> None:
        super().__init__(MESSAGE, headers, body)
        self.message = message


class JdbcQueueStore(QueueStore):  # type: ignore[misc]
    """Usable from any thread. It closes the store that it is given.

    :meth:`dequeue` removes a message for good, which is all that CoilMQ's own manager knows of. :meth:`claim`
    hides it from others and leaves it stored, until :meth:`acknowledge` or :meth:`release`.
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
        """Durable when it returns; as many threads as wait at the same time share a commit."""
        backlog = self._backlog(destination)
        headers = {str(name): str(value) for name, value in frame.headers.items() if name not in _NOT_STORED}
        headers["persistent"] = "true"
        body = frame.body.encode() if isinstance(frame.body, str) else frame.body
        message = to_message(
            stomp.Frame("SEND", headers, body),
            backlog.destination,
            MessageId(self._producer, next(self._numbers)),
            self._clock.now_ms(),
            self._names,
        )
        backlog.messages.add_message(message)
        with self._lock:
            backlog.complete = False

    def dequeue(self, destination: str) -> StoredFrame | None:
        frame = self.claim(destination)
        if frame is not None:
            self.acknowledge(frame)
        return frame

    def claim(self, destination: str) -> StoredFrame | None:
        """The next message, which nobody else gets until it is released; None if there is none."""
        with self._lock:
            backlog = self._backlog(destination)
            if not backlog.fill():
                return None
            _, _, message = heapq.heappop(backlog.waiting)
            return self._frame(destination, backlog.destination, message)

    def acknowledge(self, frame: StoredFrame) -> None:
        """Remove a claimed message. Durable when it returns."""
        self._backlog(frame.headers["destination"]).messages.acknowledge(frame.message)

    def release(self, frame: StoredFrame) -> None:
        """Give a claimed message back, to its place and marked as redelivered."""
        message = frame.message
        with self._lock:
            again = message.replace(redelivery_counter=message.redelivery_counter + 1)
            self._backlog(frame.headers["destination"]).put(again)

    def size(self, destination: str) -> int:
        with self._lock:
            backlog = self._backlog(destination)
            return backlog.messages.message_count()

    def has_frames(self, destination: str) -> bool:
        """Whether one can be claimed."""
        with self._lock:
            return self._backlog(destination).fill()

    def destinations(self) -> set[str]:
        queues = (one for one in self._store.destinations() if one.kind is DestinationKind.QUEUE)
        return {_PREFIX + queue.name for queue in queues}

    def close(self) -> None:
        self._store.close()

    def _backlog(self, destination: str) -> _Backlog:
        with self._lock:
            backlog = self._backlogs.get(destination)
            if backlog is None:
                queue = Destination.queue(destination.removeprefix(_PREFIX))
                backlog = self._backlogs[destination] = _Backlog(queue, self._store.queue(queue))
            return backlog

    def _frame(self, name: str, destination: Destination, message: Message) -> StoredFrame:
        """CoilMQ reads no header with a colon in its value, so the message's id is its place in the store."""
        delivery = _Delivery(message, destination, message.redelivery_counter > 0)
        reader = stomp.FrameReader(stomp.Limits(head=1 << 30, line=1 << 30, headers=1 << 20, body=1 << 31))
        reader.feed(MessageFrames(self._names, stomp.Version.V1_0).encode(delivery, ""))
        headers: dict[str, str] = {}
        body = b""
        while frame := reader.read():
            headers, body = frame.headers, frame.body
        own = {"destination": name, "message-id": str(message.sequence)}
        return StoredFrame({**headers, **own}, body, message)


class _Backlog:
    """What one queue has for CoilMQ: a page, and what was released. For one thread at a time."""

    def __init__(self, destination: Destination, messages: MessageStore) -> None:
        self.destination = destination
        self.messages = messages
        self.waiting: list[tuple[int, int, Message]] = []
        self.complete = False
        """Whether nothing was stored behind what has been read."""
        self._cursor: Cursor | None = None

    def fill(self) -> bool:
        """Read on if nothing waits; whether something does then."""
        if not self.waiting and not self.complete:
            self.complete = True  # before reading: what is added meanwhile says otherwise
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


def make_store() -> JdbcQueueStore:
    """For ``qstore.factory``: the store of CoilMQ's configuration, else of the environment.

    :raises ConfigurationError: none is named
    """
    url = config.get("coilmq", _URL, fallback=None)
    path = config.get("coilmq", _CONFIG, fallback=None)
    if url is None and path is None and "JDBCSTORE_URL" not in os.environ:
        raise ConfigurationError(
            f"no store is named; set {_URL} or {_CONFIG} in the section [coilmq] of CoilMQ's configuration,"
            " or the environment variable JDBCSTORE_URL"
        )
    return JdbcQueueStore(jdbcstore.open(jdbcstore.load_config(path, url=url)))
