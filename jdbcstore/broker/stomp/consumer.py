"""One subscription of a STOMP client: what is with the client, and what it says of it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from asyncio import Future
from collections import OrderedDict
from typing import Protocol

from jdbcstore.broker.api import Delivery, Subscription, SubscriptionRequest
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.broker.stomp.messages import MessageFrames
from jdbcstore.broker.stomp.requests import AckMode
from jdbcstore.errors import CorruptMessage, ProtocolError

log = logging.getLogger(__name__)

Taken = list[tuple[str, Delivery]]
"""Deliveries that the client has answered for, under the names it uses for them."""


class Owner(Protocol):
    """The session, as its consumers know it."""

    @property
    def paused(self) -> bool:
        """Whether the client takes nothing for now."""

    def write(self, data: bytes) -> None: ...

    def written(self, consumer: StompConsumer) -> None:
        """The consumer has deliveries that are consumed once the output is given to the transport."""

    def forget(self, consumer: StompConsumer, error: Exception) -> None:
        """The broker has ended the subscription."""


class StompConsumer:
    """The broker's consumer, and the client's subscription.

    :param ack_prefix: the beginning of the names that the client acknowledges by, in version 1.2
    """

    __slots__ = (
        "_auto", "_frames", "_lent", "_line", "_numbers", "_owner", "_pending",
        "_subscription", "_version", "ack_prefix", "mode", "request", "subscription_id",
    )  # fmt: skip

    def __init__(
        self,
        owner: Owner,
        request: SubscriptionRequest,
        mode: AckMode,
        subscription_id: str | None,
        frames: MessageFrames,
        version: Version,
        ack_prefix: str,
    ) -> None:
        self.request = request
        self.mode = mode
        self.subscription_id = subscription_id
        self._owner = owner
        self._frames = frames
        self._version = version
        self.ack_prefix = ack_prefix
        self._line = frames.line("subscription", subscription_id)
        self._numbers = itertools.count(1)
        self._subscription: Subscription | None = None
        self._pending: OrderedDict[str, Delivery] = OrderedDict()
        self._lent: dict[str, str] = {}
        """The open transaction that each has been acknowledged in."""
        self._auto: list[Delivery] = []

    @property
    def keeps_messages(self) -> bool:
        """No: it has written them."""
        return False

    @property
    def subscription(self) -> Subscription:
        """The broker's end; there is one from :meth:`open` on, before which the client has nothing."""
        if self._subscription is None:
            raise AssertionError("a consumer was used before it had subscribed")
        return self._subscription

    def open(self, subscription: Subscription) -> None:
        """The broker has taken it: deliveries follow."""
        self._subscription = subscription
        if self._owner.paused:
            subscription.pause()

    def deliver(self, delivery: Delivery) -> None:
        try:
            self._deliver(delivery)
        except CorruptMessage as error:
            # Damage in a body shows late. What nobody can read must not keep the rest from being read.
            log.error("a message of %s is rejected: %s", delivery.destination, error)
            asyncio.get_running_loop().call_soon(self._reject, delivery)

    def _reject(self, delivery: Delivery) -> None:
        if self._subscription is not None:
            self._subscription.reject([delivery])

    def _deliver(self, delivery: Delivery) -> None:
        if self.mode is AckMode.AUTO:
            self._owner.write(self._frames.encode(delivery, self._line))
            if not self._auto:
                self._owner.written(self)
            self._auto.append(delivery)
            return
        if self._version is Version.V1_2:
            key = str(next(self._numbers))
            ack = f"ack:{self.ack_prefix}{key}\n"
        else:
            key, ack = str(delivery.message.message_id), ""
        self._owner.write(self._frames.encode(delivery, self._line, ack))
        self._pending[key] = delivery

    def browsed(self) -> None:
        self._owner.write(self._frames.end_of_browser(self._line, self.request.destination))

    def end(self, error: Exception) -> None:
        # Not now: the broker is in the middle of something.
        asyncio.get_running_loop().call_soon(self._owner.forget, self, error)

    def given(self) -> Future[None] | None:
        """The output is with the transport: consume what was to be consumed with that."""
        deliveries, self._auto = self._auto, []
        return self.subscription.acknowledge(deliveries) if deliveries else None

    def has(self, key: str, transaction: str | None = None) -> bool:
        """Whether it is with the client, who has not acknowledged it but in this transaction."""
        return key in self._pending or (transaction is not None and self._lent.get(key) == transaction)

    def take(self, key: str) -> Taken:
        """What an ACK is for: this one, or in mode ``client`` all up to it. They are not pending any more."""
        pending = self._pending
        if key not in pending:
            return []
        if self.mode is not AckMode.CLIENT:
            return [(key, pending.pop(key))]
        taken = []
        while True:
            one = pending.popitem(last=False)
            taken.append(one)
            if one[0] == key:
                return taken

    def take_one(self, key: str) -> Delivery:
        """What a NACK is for."""
        if self.request.browser:
            raise ProtocolError("Cannot NACK a message of a browser, which consumes nothing")
        return self._pending.pop(key)

    def lend(self, taken: Taken, transaction: str) -> None:
        """A transaction acknowledges them, which may be rolled back."""
        self._lent.update((key, transaction) for key, _ in taken)

    def settle(self, taken: Taken) -> None:
        """The transaction has come to its end."""
        for key, _ in taken:
            self._lent.pop(key, None)

    def put_back(self, taken: Taken) -> None:
        """It was rolled back: they are pending again, before the others."""
        self.settle(taken)
        for key, delivery in reversed(taken):
            self._pending[key] = delivery
            self._pending.move_to_end(key, last=False)

    def pause(self) -> None:
        if self._subscription is not None:
            self._subscription.pause()

    def resume(self) -> None:
        if self._subscription is not None:
            self._subscription.resume()

    def close(self) -> None:
        """Give back to the broker what the client has not answered for."""
        self._pending.clear()
        self._auto = []
        if self._subscription is not None:
            self._subscription.close()
