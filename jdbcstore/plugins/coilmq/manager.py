"""A manager of queues that keeps a message until it is acknowledged."""

from __future__ import annotations

from typing import Any

from coilmq.queue import QueueManager, lock
from coilmq.subscription import Subscription
from coilmq.util.frames import MESSAGE, Frame

from jdbcstore.errors import ConfigurationError
from jdbcstore.plugins.coilmq.store import JdbcQueueStore, StoredFrame


class KeepingQueueManager(QueueManager):  # type: ignore[misc]
    """CoilMQ's, with three differences.

    A message is stored before anybody gets it, also when a subscriber waits. It is removed when it is
    acknowledged, or once it was handed to the socket of a subscriber with ``ack:auto``. And it goes back
    to its place, to the next subscriber, when its own one disconnects or unsubscribes.
    """

    store: JdbcQueueStore

    def __init__(self, store: Any, *schedulers: Any, **named: Any) -> None:
        if not isinstance(store, JdbcQueueStore):
            raise ConfigurationError(
                f"this manager keeps messages in a JdbcQueueStore, not in a {type(store).__name__};"
                " set qstore.factory = jdbcstore.plugins.coilmq.make_store"
            )
        super().__init__(store, *schedulers, **named)

    def send(self, message: Frame) -> None:
        """Durable when it returns, which is before the receipt."""
        destination = message.headers.get("destination")
        if not destination:
            raise ValueError(f"Cannot send frame with no destination: {message}")
        message.cmd = MESSAGE
        self.store.enqueue(destination, message)  # not under the lock: those who wait share a commit
        with lock:
            self._deliver(destination)

    def subscribe(self, connection: Any, destination: str, id: Any = None) -> None:  # noqa: A002
        with lock:
            self._subscriptions.subscribe(connection, destination, id=id)
            self._deliver(destination)

    def unsubscribe(self, connection: Any, destination: str, id: Any = None) -> None:  # noqa: A002
        with lock:
            self._subscriptions.unsubscribe(connection, destination, id=id)
            self._release({Subscription.factory(connection, id)})

    def disconnect(self, connection: Any) -> None:
        with lock:
            self._subscriptions.disconnect(connection)
            self._release({one for one in self._pending if one.connection is connection})

    def ack(self, connection: Any, frame: Frame, transaction: Any = None, id: Any = None) -> None:  # noqa: A002, ARG002
        """CoilMQ keeps the ACKs of a transaction itself, and calls this for each at its COMMIT."""
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
            for destination in self._destinations_of(subscription):
                self._deliver(destination)

    def _deliver(self, destination: str) -> None:
        """Give what waits to those who take it."""
        while True:
            takers = [one for one in self._subscriptions.subscribers(destination) if one not in self._pending]
            if not takers:
                return
            frame = self.store.claim(destination)
            if frame is None:
                return
            subscription = self.subscriber_scheduler.choice(takers, frame)
            try:
                self._send_frame(subscription, frame)
            except OSError as error:
                # Its own thread will hear of it too, and disconnect; the producer has nothing to do with it.
                self.log.warning("%s is gone: %s", subscription, error)
                self._pending.pop(subscription, None)
                self._subscriptions.disconnect(subscription.connection)
                self.store.release(frame)
                continue
            if subscription not in self._pending:
                self.store.acknowledge(frame)

    def _release(self, subscriptions: set[Subscription]) -> None:
        """Take back what they have not acknowledged."""
        frames = [self._pending.pop(one) for one in subscriptions if one in self._pending]
        for frame in frames:
            self.store.release(frame)
        for destination in {frame.headers["destination"] for frame in frames}:
            self._deliver(destination)

    def _destinations_of(self, subscription: Subscription) -> list[str]:
        everyone = self._subscriptions.all_subscribers()
        return [destination for destination, subscribers in everyone if subscription in subscribers]
