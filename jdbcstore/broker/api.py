"""The contract between connectors and the broker: broker, subscriptions, transactions, consumers.

A connector speaks a wire protocol with clients; the broker knows destinations, consumers and the store. All
of this runs on one event loop, and no call blocks: an operation that takes time returns a future of it.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message


class Promise(Future[None]):
    """The future of a send or a commit, which can report success before any consumer gets the message.

    Callbacks of a future run in a later turn of the loop, when consumers may have been served already.
    """

    at_once: Callable[[], None] | None = None
    """Called once on success, in the middle of the broker's work: it may only append to an output buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRequest:
    """A client's request to consume."""

    destination: Destination
    """May have wildcards, and may be a composite."""
    connection_id: str
    """The client's connection, which temporary destinations and ``no_local`` depend on."""
    prefetch: int | None = None
    """The maximum number of unacknowledged messages; None is the destination's policy."""
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
        """A browser has shown all messages."""

    def end(self, error: Exception) -> None:
        """The broker has closed the subscription because of this error."""


class Subscription(Protocol):
    """The broker's end of a subscription."""

    @property
    def request(self) -> SubscriptionRequest: ...

    def acknowledge(self, deliveries: Sequence[Delivery]) -> Future[None]:
        """Remove consumed messages. Completes once that is durable; makes room in the prefetch at once."""

    def reject(self, deliveries: Sequence[Delivery]) -> Future[None]:
        """Redeliver or dead-letter messages that could not be consumed, as the policy says."""

    def pause(self) -> None:
        """Deliver nothing until :meth:`resume`: the client takes no more for now."""

    def resume(self) -> None: ...

    def close(self) -> None:
        """End the subscription. Unacknowledged messages go back to their places, marked as redelivered."""


class BrokerTransaction(Protocol):
    """Sends and acknowledgements of one connection that are committed together."""

    def send(self, message: Message) -> Future[None]:
        """Add a message. Completes when the connection may send more, before the message is durable."""

    def acknowledge(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None: ...

    def commit(self) -> Future[None]:
        """Completes once all is durable. If it fails, nothing is written, unless the error says so."""

    def rollback(self) -> None:
        """Drop the sends. The deliveries stay with their consumer, unacknowledged."""


class Broker(Protocol):
    """The broker as connectors use it."""

    def knows(self, destination: Destination) -> bool:
        """Whether a queue or topic of this name, without wildcards, exists."""

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Route a message to its ``destination``, which may be a composite.

        Completes when the message is durable, if it is persistent, and there is room for more. A connector
        stops reading from a connection with too many pending sends: that is the producer flow control.

        :raises StoreError: through the future; nothing was sent
        """

    def begin(self, connection_id: str) -> BrokerTransaction: ...

    def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Future[Subscription]:
        """Start to consume.

        :raises InvalidSelector: through the future
        :raises StoreError: through the future; no subscription was created
        """

    def unsubscribe(self, client_id: str, subscription_name: str) -> Future[None]:
        """Delete a durable subscription, which must not have a consumer."""

    def disconnected(self, connection_id: str) -> None:
        """Delete the temporary destinations of a connection that has ended with its subscriptions."""
