"""A world of kombu: processes with channels of the transport, whose messages return in all its ways."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

from jdbcstore import Message
from jdbcstore.errors import ClaimLost, StoreError, StoreUnavailable
from jdbcstore.plugins.kombu import LockedOut, Transport
from jdbcstore.plugins.sharing import SharedClaims
from tests.simulation.claims import DEAD, LEASE, MOST, PATIENCE, QUEUES, THERE, Shared, Worker
from tests.simulation.scheduler import Process, current
from tests.support.histories.events import Delivery

_PREFETCH = 3


class Refused(Exception):
    """A consumer's own error."""


class Consumer:
    """The connection of one thread: a channel that consumes from both queues, and what it was delivered."""

    def __init__(self, world: Kombu, client: str, shared: SharedClaims) -> None:
        self._world, self._client = world, client
        self.transport = Transport(SimpleNamespace(hostname="", transport_options={}))
        self.transport.shared = shared
        self._channel: Any = None
        self.tags: dict[tuple[str, str], str] = {}
        """By queue and name, what was not settled yet."""
        self.refuses = self.cancels = False
        """Whether the consumer fails at the next message, or stops to consume."""

    @property
    def channel(self) -> Any:
        """The channel; another one after it was closed."""
        if self._channel is None:
            channel = self.transport.create_channel(self.transport)
            channel.qos._on_collect.cancel()  # processes that were killed do nothing when this one ends
            channel.basic_qos(0, _PREFETCH, False)
            self._channel = channel
        for queue in QUEUES:
            if queue not in self._channel._active_queues:
                self._channel.basic_consume(queue, False, self._receiver(queue), queue)
        return self._channel

    def _receiver(self, queue: str) -> Callable[[Any], None]:
        def on_message(message: Any) -> None:
            world, name = self._world, str(message.payload)
            again = message.delivery_info["redelivered"] or (queue, name) in world.released
            world.note(Delivery(current().now, self._client, queue, name, again))
            self.tags[queue, name] = message.delivery_tag
            if self.cancels:
                self.cancels = False
                message.channel.basic_cancel(queue)
            if self.refuses:
                self.refuses = False
                raise Refused

        return on_message

    def publish(self, queue: str, name: str) -> None:
        """Send a message."""
        channel = self.channel
        properties = {"delivery_mode": 2}
        message = channel.prepare_message(
            name, content_type="text/plain", content_encoding="utf-8", headers={}, properties=properties
        )
        try:
            channel.basic_publish(message, "", queue)
        except LockedOut as error:
            raise StoreUnavailable(str(error)) from error

    def consume(self, timeout: float) -> bool:
        """Have messages delivered, as long as there are some at once; whether there were."""
        assert self.channel is not None
        try:
            self.transport.drain_events(self.transport, timeout=timeout)
        except (TimeoutError, Refused):
            return False
        return True

    def close(self) -> None:
        """Close the channel: what it was delivered returns, which is no redelivery."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._world.released.update(self.tags)
            self.tags.clear()
            with contextlib.redirect_stderr(io.StringIO()):  # where kombu says how many
                channel.close()


class CeleryWorker(Worker):
    """A process whose threads have a connection each, over claims that they share."""

    def __init__(self, world: Kombu, number: int) -> None:
        super().__init__(world, number)
        self.consumers: dict[str, Consumer] = {}

    def _live(self, process: Process) -> None:  # noqa: ARG002
        scheduler = current()
        while True:
            self.consumers = {}
            try:
                self.store = SharedClaims(self.world.server.url, LEASE, MOST, DEAD, "")
            except StoreError:
                scheduler.sleep(0.1)
                continue
            for _ in range(self.workers):
                self.wake()
            return

    def consumer(self, client: str) -> Consumer:
        """Return the connection of a thread."""
        if client not in self.consumers:
            assert isinstance(self.world, Kombu)
            self.consumers[client] = Consumer(self.world, client, self.store)
        return self.consumers[client]

    def do_add(self, client: str, chance: random.Random) -> None:
        queue, name = chance.choice(QUEUES), self.world.new_name(client)
        consumer = self.consumer(client)
        self.write(client, lambda: consumer.publish(queue, name), sends=[(queue, name)])

    def do_claim(self, client: str, chance: random.Random) -> None:
        consumer = self.consumer(client)
        consumer.refuses, consumer.cancels = chance.random() < 0.1, chance.random() < 0.1
        consumer.consume(chance.choice((0.0, 0.0, 0.3)))

    def do_acknowledge(self, client: str, chance: random.Random) -> None:
        self.acknowledge_all(client, chance.choice((1, 1, 2)))

    def acknowledge_all(self, client: str, count: int) -> None:
        """Acknowledge the first messages that were delivered."""
        consumer = self.consumer(client)
        for key in [*consumer.tags][:count]:
            tag = consumer.tags[key]
            with self._settled(consumer, key):
                self.write(client, lambda tag=tag: consumer.channel.basic_ack(tag), acks=(key,))  # type: ignore[misc]

    def do_reject(self, client: str, chance: random.Random) -> None:
        consumer = self.consumer(client)
        requeues = chance.random() < 0.8
        if not consumer.tags:
            return
        key, tag = next(iter(consumer.tags.items()))

        def reject(*_: Any, **_delay: Any) -> None:
            consumer.channel.basic_reject(tag, requeue=requeues)

        with self._settled(consumer, key):
            if requeues:
                self._give_back(client, *key, reject, None, 0.0)
            else:
                self.write(client, reject, acks=(key,))

    @contextlib.contextmanager
    def _settled(self, consumer: Consumer, key: tuple[str, str]) -> Any:
        """Forget a message that is settled, or lost."""
        try:
            yield
        except ClaimLost:
            consumer.tags.pop(key, None)
            raise
        consumer.tags.pop(key, None)

    def do_close(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        self.consumer(client).close()


class Kombu(Shared):
    """Three processes of Celery's, or alike."""

    operations: ClassVar = {"add": 8, "claim": 12, "acknowledge": 7, "reject": 3, "close": 2, "rest": 1}
    worker_class = CeleryWorker

    def name_of(self, message: Message) -> str:
        return str(json.loads(str(message.body))["body"])

    def drain(self) -> None:
        """Let one process consume everything, once the leases of others have expired."""
        scheduler = self.scheduler
        drainer, *others = self.members
        for other in others:
            other.kill()
        for consumer in drainer.consumers.values():
            consumer.close()
        client = f"{drainer.name}d"
        end = scheduler.now + PATIENCE
        while (self.server.rows(THERE) or self.server.has_late()) and scheduler.now < end:
            with contextlib.suppress(StoreError):
                while drainer.consumer(client).consume(0.0) or drainer.consumer(client).tags:
                    drainer.acknowledge_all(client, _PREFETCH)
            scheduler.sleep(0.7)
