"""What a connector asks of the broker, and what it is to the broker in turn.

A connector speaks a protocol with clients; the broker knows destinations, consumers and the store.
Everything here runs on one event loop and returns at once: what takes a while is a future of that loop.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message


class Promise(Future[None]):
    """The future of a send or a commit, which can say that it has succeeded before anybody gets the message.

    Callbacks of a future run when the loop comes round, and consumers may have been served by then.
    """

    at_once: Callable[[], None] | None = None
    """Called once when it succeeds, in the middle of the broker's work: it may only write something down."""

    def tell(self) -> None:
        """It is about to succeed."""
        at_once, self.at_once = self.at_once, None
        if at_once is not None:
            at_once()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRequest:
    """What a client wants to consume."""

    destination: Destination
    """May have wildcards, and may be a composite."""
    connection_id: str
    """Whose it is: temporary destinations are consumed by their own connection, see ``no_local`` too."""
    prefetch: int | None = None
    """How many messages may be with the consumer unacknowledged; None is the destination's policy."""
    selector: str | None = None
    browser: bool = False
    """Show what a queue holds, once, and consume nothing."""
    client_id: str | None = None
    subscription_name: str | None = None
    """With ``client_id``, a durable subscription of a topic."""
    retroactive: bool = False
    no_local: bool = False
    exclusive: bool = False
    priority: int = 0
    """Of two consumers, the one with more gets messages first."""


class Delivery(Protocol):
    """One message that is with one consumer."""

    @property
    def message(self) -> Message: ...

    @property
    def destination(self) -> Destination:
        """The queue or topic it came from, without wildcards."""

    @property
    def redelivered(self) -> bool:
        """Whether a consumer may have got it before."""


class Consumer(Protocol):
    """The connector's end of a subscription."""

    @property
    def keeps_messages(self) -> bool:
        """Whether it asks a delivery for its message after ``deliver``: the broker then keeps it."""

    def deliver(self, delivery: Delivery) -> None:
        """Send a message to the client. Never called before ``subscribe`` is done, or after ``close``."""

    def browsed(self) -> None:
        """A browser has seen everything."""

    def end(self, error: Exception) -> None:
        """The broker has ended the subscription, for this reason; it is closed already."""


class Subscription(Protocol):
    """The broker's end of a subscription."""

    @property
    def request(self) -> SubscriptionRequest: ...

    def acknowledge(self, deliveries: Sequence[Delivery]) -> Future[None]:
        """They are consumed. Done once that is durable; makes room in the prefetch at once."""

    def reject(self, deliveries: Sequence[Delivery]) -> Future[None]:
        """They could not be consumed: they are redelivered or become dead letters, as the policy says."""

    def pause(self) -> None:
        """The client takes no more for now: nothing is delivered until :meth:`resume`."""

    def resume(self) -> None: ...

    def close(self) -> None:
        """The consumer goes. What it has not acknowledged goes back, in its place, marked redelivered."""


class BrokerTransaction(Protocol):
    """Sends and acknowledgements of one connection that happen together."""

    def send(self, message: Message) -> Future[None]:
        """Done when the connection may send more, which is not yet durable."""

    def acknowledge(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None: ...

    def commit(self) -> Future[None]:
        """Done once all of it is durable. When it fails, nothing of it happened, unless it says so."""

    def rollback(self) -> None:
        """Drop the sends. The deliveries stay with their consumer, as if not acknowledged."""


class Broker(Protocol):
    """What connectors are given."""

    def knows(self, destination: Destination) -> bool:
        """Whether it has a queue or topic of this name, without wildcards."""

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Route a message to its ``destination``, which may be a composite.

        Done when it is durable, if persistent, and there is room for more: a connector reads no
        more from a connection with too much under way, and that is the producer flow control.

        :raises StoreError: through the future; nothing was sent
        """

    def begin(self, connection_id: str) -> BrokerTransaction: ...

    def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Future[Subscription]:
        """Begin to consume.

        :raises InvalidSelector: through the future
        :raises StoreError: through the future; there is no subscription
        """

    def unsubscribe(self, client_id: str, subscription_name: str) -> Future[None]:
        """Delete a durable subscription, which nobody may be consuming."""

    def disconnected(self, connection_id: str) -> None:
        """A connection is gone, its subscriptions closed: its temporary destinations go too."""
