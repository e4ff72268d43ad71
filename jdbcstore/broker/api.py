"""The contract between connectors and the broker: broker, subscriptions, transactions, consumers.

A connector speaks a wire protocol with clients; the broker knows destinations, consumers and the store. All
of this runs on one event loop, and no call blocks: an operation that takes time returns a future of it.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, ProducerId, XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.util.futures import Unsettled

if TYPE_CHECKING:
    from jdbcstore.broker.large import LargeTransfers


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRequest:
    """A client's request to consume."""

    destination: Destination
    """May have wildcards, and may be a composite."""
    connection_id: str
    """The client's connection, which temporary destinations and ``no_local`` depend on."""
    prefetch: int | None = None
    """The maximum number of unacknowledged messages; None is the destination's policy, and 0 delivers only
    what is pulled."""
    prefetch_is_default: bool = False
    """Whether nobody has chosen ``prefetch``: then the policy's is in effect, even if that is 0."""
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
    """The client's own name of the consumer, for views of consumers."""


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
        """Whether it reads a message after ``deliver`` has returned: the broker then keeps it in memory."""

    def deliver(self, delivery: Delivery) -> None:
        """Send a message to the client. Never called before ``subscribe`` completes, or after ``close``."""

    def browsed(self) -> None:
        """Take note that a browser has shown all messages."""

    def end(self, error: Exception) -> None:
        """Take note that the broker has closed the subscription because of this error."""


class Subscription(Protocol):
    """The broker's end of a subscription."""

    @property
    def request(self) -> SubscriptionRequest: ...

    @property
    def prefetch(self) -> int:
        """The limit in effect: the request's, or the policy's."""

    def acknowledge(self, deliveries: Sequence[Delivery]) -> Future[None]:
        """Remove consumed messages. Completes once that is durable; makes room in the prefetch at once."""

    def reject(self, deliveries: Sequence[Delivery], cause: str | None = None) -> Future[None]:
        """Redeliver or dead-letter messages that could not be consumed, as the policy says.

        :param cause: why, for whoever reads the dead letters
        """

    def expire(self, deliveries: Sequence[Delivery]) -> Future[None]:
        """Treat messages as expired, as the dead letter strategy says."""

    def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Give the room of messages that the client has used, and will acknowledge later, to others."""

    def change_prefetch(self, prefetch: int) -> None:
        """Change the limit of the request."""

    def pull(self, count: int) -> None:
        """With a prefetch of 0, deliver so many messages from now on, whatever was left to be pulled."""

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call back once all that can be delivered now has been; never for a browser, which ends."""

    def pause(self) -> None:
        """Deliver nothing until :meth:`resume`: the client takes no more for now."""

    def resume(self) -> None: ...

    def close(self, unseen: Collection[Delivery] = (), *, has_left: bool = False) -> None:
        """End the subscription. Unacknowledged messages go back to their places, marked as redelivered.

        :param unseen: those that the client has not looked at, which are not marked
        :param has_left: whether the client has gone, or closes it: it was delivered for nothing
        """


class BrokerTransaction(Protocol):
    """Sends and acknowledgements of one connection that are committed together."""

    def send(self, message: Message) -> Future[None]:
        """Add a message. Completes when the connection may send more, before the message is durable."""

    def acknowledge(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None: ...

    def commit(self) -> Future[None]:
        """Commit; completes once all is durable. A failure writes nothing, unless its error says so."""

    def prepare(self) -> Future[bool]:
        """Do phase one of an XA transaction: completes once all is stored, to be committed or rolled back
        later by its id. False if there was nothing to do: then the transaction has ended.

        :raises StoreError: through the future; the transaction has been rolled back
        """

    def rollback(self) -> None:
        """Drop the sends. The deliveries stay with their consumer, unacknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """A client's connection that has logged in."""

    connection_id: str
    client_id: str | None = None
    user: str | None = None
    peer: str = ""
    """The client's address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo:
    """A producer that a client has made for one destination."""

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
"""The clients of a broker; a consumer is its request. Of durable subscriptions only the deletion
is announced."""


class MessageEventKind(StrEnum):
    """Events of messages, by ActiveMQ's names."""

    EXPIRED = "Expired"
    DEAD = "MessageDLQd"
    """It has become a dead letter."""
    DELIVERED = "MessageDelivered"
    """It has arrived at its destination."""
    DISPATCHED = "MessageDispatched"
    """It has been passed to a consumer, which is not a browser."""
    CONSUMED = "MessageConsumed"
    """A consumer has acknowledged it."""
    DISCARDED = "MessageDiscarded"
    """A subscriber of a topic has lost it, because too many were pending."""
    UNWANTED = "NoConsumer"
    """It has arrived where nobody consumes."""
    FULL = "FULL"
    """It has to wait, because there is no memory for it."""
    FAST_PRODUCER = "FastProducer"
    """Its producer has to wait, for the same reason."""
    SLOW_CONSUMER = "SlowConsumer"
    """It has to wait for a subscriber of a topic that does not keep up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """Something has happened to a message."""

    kind: MessageEventKind
    destination: Destination
    """The queue or topic where it was."""
    message: Message
    includes_body: bool
    """Whether notifications have the body, too."""
    request: SubscriptionRequest | None = None
    """The consumer that has discarded it, or that is slow."""
    count: int = 0
    """The messages that this consumer has lost in all, or the bytes of memory in use."""


class Watcher(Protocol):
    """A connector's connection that notifies its client of what is there. It may only append to an output
    buffer: the broker is in the middle of its work."""

    def added(self, what: Known) -> None:
        """Take note of what is there now; of a temporary destination before anything is sent to it."""

    def removed(self, what: Known) -> None:
        """Take note of what is there no more."""

    def happened(self, event: MessageEvent) -> None:
        """Take note of an event; not called where only temporary destinations are watched."""


class ClientDirectory(Protocol):
    """The clients of a broker, as connectors use them."""

    def add(self, what: ConnectionInfo | ProducerInfo) -> None:
        """List a client that has logged in, or a producer, until it is removed or its connection ends."""

    def remove_producer(self, connection_id: str, producer_id: ProducerId) -> None:
        """Remove a producer that has ended; do nothing if it was not listed."""

    def all_known(self, *, only_temporary: bool) -> list[Known]:
        """Return what is there now: connections and destinations first, then producers and consumers.

        :param only_temporary: only temporary destinations
        """

    def count_consumers(self, destination: Destination) -> int:
        """Return the number of consumers of a destination, which may have wildcards."""

    def count_producers(self, destination: Destination) -> int:
        """Return the number of producers that were made for a destination."""

    def watch(self, watcher: Watcher, *, only_temporary: bool) -> None:
        """Notify a watcher of every change from now on, or only of temporary destinations."""

    def unwatch(self, watcher: Watcher) -> None:
        """Notify a watcher no more."""


Accept = Callable[[Message, str, Unsettled[None]], None]
"""Takes a message of a connection, and completes once it is durable, if it is to be stored."""


class Broker(Protocol):
    """The broker as connectors use it."""

    @property
    def directory(self) -> ClientDirectory: ...

    @property
    def large(self) -> LargeTransfers | None:
        """The bodies that its store keeps in pieces; None if it cannot."""

    def knows(self, destination: Destination) -> bool:
        """Return whether a queue or topic of this name, without wildcards, exists."""

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Route a message to its ``destination``, which may be a composite.

        Completes when the message is durable, if it is persistent, and there is room for more; as a
        :class:`~jdbcstore.broker.loop.Promise`, unless that is known at once. A connector
        stops reading from a connection with too many pending sends: that is the producer flow control.

        :raises StoreError: through the future; nothing was sent
        """

    def lane_to(self, message: Message, connection_id: str) -> Accept | None:
        """Return what takes a message that is only to be stored; None if there is more to decide about it.

        Then :meth:`send` decides. The next message may be another case.
        """

    def begin(self, connection_id: str, xid: XATransactionId | None = None) -> BrokerTransaction:
        """Begin a transaction: of this connection, or the branch of a distributed one.

        :raises TransactionError: the branch has an id that cannot be stored, or is prepared already
        """

    def prepared(self) -> Future[list[XATransactionId]]:
        """Return the ids of all prepared transactions, of earlier brokers on the store too."""

    def commit_prepared(self, xid: XATransactionId) -> Future[None]:
        """Do phase two: completes once it is durable.

        :raises TransactionNotFound: through the future; it is not prepared
        """

    def rollback_prepared(self, xid: XATransactionId) -> Future[None]:
        """Drop the sends of a prepared transaction, and deliver its messages again.

        :raises TransactionNotFound: through the future; it is not prepared
        """

    def last_producer_sequence(self, producer_id: ProducerId) -> Future[int | None]:
        """Return the number of the last message of a producer that is stored, for one that sends again."""

    def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Future[Subscription]:
        """Start to consume.

        :raises InvalidSelector: through the future
        :raises StoreError: through the future; no subscription was created
        """

    def unsubscribe(self, client_id: str, subscription_name: str) -> Future[None]:
        """Delete a durable subscription, which must not have a consumer."""

    def create_temporary(self, destination: Destination, connection_id: str) -> None:
        """Create a temporary destination before it is used.

        :raises InvalidDestination: it is not this connection's, or the connection has too many
        """

    def delete_temporary(self, destination: Destination, connection_id: str) -> None:
        """Delete a temporary destination and its messages; do nothing if it does not exist.

        :raises InvalidDestination: it is not this connection's, or it has consumers
        """

    def delete_destination(self, destination: Destination) -> Future[None]:
        """Delete a queue or topic and its messages; do nothing if it does not exist.

        :raises InvalidDestination: through the future; it has consumers or durable subscriptions
        :raises StoreError: through the future; some of it could not be deleted, which stays
        """

    def disconnected(self, connection_id: str) -> None:
        """Forget a connection that has ended with its subscriptions; its temporary destinations end."""
