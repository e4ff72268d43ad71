"""The contract between connectors and the engine: subscriptions, transactions, consumers.

A connector speaks a wire protocol with clients; the broker knows destinations, consumers and the store. All
code runs on one event loop, and no call blocks: an operation that takes time returns a future.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, ProducerId
from jdbcstore.message.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRequest:
    """A client's request to consume."""

    destination: Destination
    """The destination; may have wildcards, and may be a composite."""
    connection_id: str
    """The client's connection, for temporary destinations and ``no_local``."""
    prefetch: int | None = None
    """The maximum number of unacknowledged messages; None means the destination's policy, and with 0 messages
    are delivered only when pulled."""
    prefetch_is_default: bool = False
    """Whether ``prefetch`` is a client's default, so that the policy's value applies, even if that is 0."""
    selector: str | None = None
    browser: bool = False
    """Show the messages of a queue once, and consume nothing."""
    client_id: str | None = None
    subscription_name: str | None = None
    """With ``client_id``, a durable subscription of a topic."""
    retroactive: bool = False
    no_local: bool = False
    exclusive: bool = False
    priority: int = 0
    """Consumers of a higher priority get messages first."""
    consumer_id: ConsumerId | None = None
    """The client's own name for the consumer, for views of consumers."""
    client: str = ""
    """The client, for people: its client id, user, address and connection."""


class Delivery(Protocol):
    """One message delivered to one consumer and not yet acknowledged."""

    @property
    def message(self) -> Message: ...

    @property
    def destination(self) -> Destination:
        """The queue or topic it came from, without wildcards."""

    @property
    def redelivered(self) -> bool:
        """Whether a consumer may have received it before."""


class Consumer(Protocol):
    """The connector's end of a subscription."""

    @property
    def keeps_messages(self) -> bool:
        """Whether it reads a message after ``deliver`` has returned, so that the broker keeps the message in
        memory."""

    def deliver(self, delivery: Delivery) -> None:
        """Send a message to the client. Never called before ``subscribe`` completes, or after ``close``."""

    def browsed(self) -> None:
        """Notify a browser that all messages were shown."""

    def end(self, error: Exception) -> None:
        """Notify the consumer that the broker closed the subscription because of this error."""


class Subscription(Protocol):
    """The broker's end of a subscription."""

    @property
    def request(self) -> SubscriptionRequest: ...

    @property
    def prefetch(self) -> int:
        """The limit in effect: the request's, or the policy's."""

    def acknowledge(self, deliveries: Sequence[Delivery]) -> Future[None]:
        """Remove consumed messages. Completes when that is durable, but makes room in the prefetch
        immediately."""

    def reject(self, deliveries: Sequence[Delivery], cause: str | None = None) -> Future[None]:
        """Redeliver or dead-letter messages that could not be consumed, according to the policy.

        :param cause: the reason to record in dead letters
        """

    def expire(self, deliveries: Sequence[Delivery]) -> Future[None]:
        """Treat messages as expired, according to the dead letter strategy."""

    def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Free the room of messages that the client has consumed and will acknowledge later."""

    def change_prefetch(self, prefetch: int) -> None:
        """Change the limit of the request."""

    def pull(self, count: int) -> None:
        """With a prefetch of 0, deliver this number of messages from now on, replacing an earlier pull."""

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call back once all messages that can be delivered now have been; never for a browser, which
        ends."""

    def pause(self) -> None:
        """Deliver nothing until :meth:`resume`, because the client does not read."""

    def resume(self) -> None: ...

    def close(self, unseen: Collection[Delivery] = (), *, has_left: bool = False) -> None:
        """End the subscription. Unacknowledged messages go back to their places, marked as redelivered.

        :param unseen: messages that the client has not looked at; they are not marked
        :param has_left: whether the client has disconnected or closed it, so that the delivery was in vain
        """


class BrokerTransaction(Protocol):
    """Sends and acknowledgements of one connection that are committed together."""

    def send(self, message: Message) -> Future[None]:
        """Add a message. Completes when the connection may send more, before the message is durable."""

    def acknowledge(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None: ...

    def commit(self) -> Future[None]:
        """Commit; completes when everything is durable. A failure writes nothing, unless its error says
        otherwise."""

    def prepare(self) -> Future[bool]:
        """Perform phase one of an XA transaction; completes when all is stored, for a later commit or
        rollback by id.

        False if there was nothing to do; the transaction has then ended.

        :raises StoreError: through the future; the transaction has been rolled back
        """

    def rollback(self) -> None:
        """Drop the sends. The deliveries stay with their consumer, unacknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """A client's connection after login."""

    connection_id: str
    client_id: str | None = None
    user: str | None = None
    peer: str = ""
    """The client's address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo:
    """A client's producer for one destination."""

    connection_id: str
    producer_id: ProducerId
    destination: Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableInfo:
    """A durable subscription."""

    client_id: str
    subscription_name: str
    destination: Destination


Known = ConnectionInfo | ProducerInfo | SubscriptionRequest | Destination | DurableInfo
"""The clients of a broker; a consumer is represented by its request. Only the deletion of durable
subscriptions is announced."""


class MessageEventKind(StrEnum):
    """Message events, with ActiveMQ's names."""

    EXPIRED = "Expired"
    DEAD = "MessageDLQd"
    """It became a dead letter."""
    DELIVERED = "MessageDelivered"
    """It arrived at its destination."""
    DISPATCHED = "MessageDispatched"
    """It was passed to a consumer that is not a browser."""
    CONSUMED = "MessageConsumed"
    """A consumer acknowledged it."""
    DISCARDED = "MessageDiscarded"
    """A subscriber of a topic lost it, because too many messages were pending."""
    UNWANTED = "NoConsumer"
    """It arrived at a destination without consumers."""
    FULL = "FULL"
    """It must wait, because there is no memory for it."""
    FAST_PRODUCER = "FastProducer"
    """Its producer must wait, for the same reason."""
    SLOW_CONSUMER = "SlowConsumer"
    """It must wait for a slow subscriber of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """An event of a message."""

    kind: MessageEventKind
    destination: Destination
    """The queue or topic where it was."""
    message: Message
    includes_body: bool
    """Whether notifications include the body."""
    request: SubscriptionRequest | None = None
    """The consumer that has discarded it, or that is slow."""
    count: int = 0
    """The total number of messages that this consumer lost, or the bytes of memory in use."""


class Watcher(Protocol):
    """A connector's connection that notifies its client of changes.

    It may only append to an output buffer, because the broker is in the middle of its work.
    """

    def added(self, what: Known) -> None:
        """Receive notice of a new object; for a temporary destination, before the first message is sent to
        it."""

    def removed(self, what: Known) -> None:
        """Receive notice of a removed object."""

    def happened(self, event: MessageEvent) -> None:
        """Receive an event; not called if only temporary destinations are watched."""
