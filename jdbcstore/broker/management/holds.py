"""Messages that an administrator consumes, held until they are acknowledged or returned."""

from __future__ import annotations

import asyncio
from asyncio import Future, TimerHandle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from secrets import token_urlsafe

from jdbcstore.broker.api import Delivery, SubscriptionRequest
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.management.audit import Actor, Audit
from jdbcstore.broker.management.master import CONNECTION, queue_of
from jdbcstore.broker.management.messages import Consumed, MessageChoice, defect_of
from jdbcstore.broker.operations import MAX_BROWSED, OperationOutcome
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.durable import Durable
from jdbcstore.errors import CorruptMessage, DestinationFull, MessageNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.util.clock import Clock

HOLD = 60.0
"""Seconds after which unacknowledged messages are returned."""
_MOST = 100
_PATIENCE = 60.0
"""Seconds to wait for the first messages of a subscription."""


@dataclass(frozen=True, slots=True)
class MessageHold:
    """Messages of the destination ``name`` that no consumer gets meanwhile."""

    name: str
    count: int
    is_lost: Callable[[], bool]
    """Whether the broker has returned them because it is stopping."""
    acknowledge: Callable[[], Future[None]]
    """Removes them; completes when the removal is durable."""
    give_back: Callable[[], None]
    """Returns them, so that they are delivered again."""


@dataclass(eq=False, repr=False)
class Collector:
    """A :class:`jdbcstore.broker.api.Consumer` of the first messages, up to a number."""

    most: int
    keeps_messages: bool = True
    deliveries: list[Delivery] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ready: Future[None] = asyncio.get_running_loop().create_future()

    def deliver(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        if len(self.deliveries) == self.most:
            self.settled()

    def settled(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def browsed(self) -> None: ...

    def end(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)


async def first_of_subscription(
    engine: Engine, durable: Durable, connection_id: str, most: int
) -> tuple[BaseSubscription, list[Delivery]]:
    """Become the consumer of a durable subscription, and get its first messages, if there are any.

    :raises SubscriptionInUse: it has a consumer
    :raises InvalidSelector: its selector is invalid
    :raises TimeoutError: they do not arrive
    :raises StoreError: the store cannot be read
    """
    client_id, name = durable.key
    request = SubscriptionRequest(
        destination=durable.destination,
        connection_id=connection_id,
        prefetch=0,  # later messages stay where they are
        selector=durable.selector,
        client_id=client_id,
        subscription_name=name,
    )
    collector = Collector(most)
    subscription = await engine.subscribe(request, collector)
    assert isinstance(subscription, BaseSubscription)  # noqa: S101 - an engine makes no others
    try:
        subscription.pull(most)
        subscription.when_settled(collector.settled)
        async with asyncio.timeout(_PATIENCE):
            await collector.ready
    except BaseException:
        subscription.close()
        raise
    subscription.pull(0)
    return subscription, collector.deliveries


class HoldOperations:
    """Messages held for administrators; each batch has a token that is hard to guess."""

    def __init__(self, *, audit: Audit, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._held: dict[str, tuple[MessageHold, TimerHandle]] = {}

    async def consume(self, actor: Actor, queue: Destination, choice: MessageChoice) -> Consumed:
        """Take the first unexpired messages of a queue; they return after a minute unless acknowledged.

        Call :meth:`acknowledge` with the token within that minute.

        :raises DestinationFull: too many batches are held
        :raises DestinationNotFound: the queue does not exist
        :raises InvalidDestination: it is a topic
        :raises InvalidSelector: the selector is invalid
        :raises StoreError: the store cannot be read
        """
        wanted, now_ms, taken = choice.wanted(), self._clock.now_ms(), list[Entry]()
        damaged: list[CorruptMessage] = []

        def chosen(message: Message) -> bool:
            if 0 < message.expiration_ms <= now_ms or not wanted(message):
                return False
            defect = defect_of(message)
            damaged.extend([] if defect is None else [defect])
            return defect is None

        def keep(entries: Sequence[Entry]) -> Future[None]:
            taken.extend(entries)
            done: Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        with self._audit.on_messages(actor, "consume", queue, choice) as (engine, line):
            source = queue_of(engine, queue)
            self._check_room()
            most = min(choice.limit or MAX_BROWSED, MAX_BROWSED)
            line["count"] = await source.take(chosen, keep, most=most, ids=choice.message_ids())
        hold = MessageHold(
            name=str(queue),
            count=len(taken),
            is_lost=lambda: engine.is_stopping,
            acknowledge=partial(source.pending.acknowledge, taken),
            give_back=partial(source.pending.give_back, taken),
        )
        token = self._hold(hold) if taken else None
        return Consumed(token, tuple(entry.message for entry in taken), tuple(damaged))

    async def consume_subscription(
        self, actor: Actor, client_id: str, name: str, *, limit: int = MAX_BROWSED
    ) -> Consumed:
        """Take the first messages of a durable subscription without a consumer, as from a queue.

        The subscription is in use until they are acknowledged or returned. Damaged messages stay.

        :raises DestinationFull: too many batches are held
        :raises InvalidSelector: the subscription's own selector is invalid
        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        :raises StoreError: the store cannot be read
        """
        most = min(limit, MAX_BROWSED)
        names = {"client_id": client_id, "subscription": name}
        with self._audit.operation(actor, "consume", **names) as (engine, line):
            self._check_room()
            durable = engine.durables.unused(client_id, name)
            subscription, deliveries = await first_of_subscription(engine, durable, CONNECTION, most)
            damaged = [
                defect for delivery in deliveries if (defect := defect_of(delivery.message)) is not None
            ]
            deliveries = [delivery for delivery in deliveries if defect_of(delivery.message) is None]
            line["count"] = len(deliveries)
        if not deliveries:
            subscription.close()
            return Consumed(None, (), tuple(damaged))

        def acknowledge() -> Future[None]:
            done = subscription.acknowledge(deliveries)
            subscription.close()
            return done

        hold = MessageHold(
            name=str(subscription.request.destination),
            count=len(deliveries),
            is_lost=lambda: subscription.closed,
            acknowledge=acknowledge,
            give_back=subscription.close,
        )
        return Consumed(self._hold(hold), tuple(delivery.message for delivery in deliveries), tuple(damaged))

    async def acknowledge(self, actor: Actor, token: str) -> OperationOutcome:
        """Remove the messages that ``consume`` has returned.

        :raises MessageNotFound: they were returned meanwhile
        :raises StoreError: they could not be removed
        """
        with self._audit.operation(actor, "acknowledge") as (_, line):
            held, timer = self._held.pop(token, (None, None))
            if held is None or timer is None or held.is_lost():
                raise MessageNotFound(
                    "these messages are no longer held, and are delivered again; consume again"
                )
            timer.cancel()
            await held.acknowledge()
            line |= {"destination": held.name, "count": held.count}
        return OperationOutcome(count=held.count)

    def _check_room(self) -> None:
        """Raise DestinationFull if too many are held."""
        if len(self._held) >= _MOST:
            raise DestinationFull(f"{_MOST} batches of messages are held; acknowledge them first")

    def _hold(self, hold: MessageHold) -> str:
        """Hold messages until their token is used or the time is over, and return the token."""
        token = token_urlsafe(16)
        timer = asyncio.get_running_loop().call_later(HOLD, self._give_back, token)
        self._held[token] = hold, timer
        return token

    def _give_back(self, token: str) -> None:
        held, _ = self._held.pop(token, (None, None))
        if held is not None and not held.is_lost():
            held.give_back()
