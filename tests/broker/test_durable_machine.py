"""Durable subscriptions under chance: nothing is lost, and nothing acknowledged comes again."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from jdbcstore import Store
from jdbcstore.broker.api import Delivery
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.topics.durable import DurableSubscriber
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy
from tests.support.broker.consuming import PATIENCE, Recorder, consume, message, quiet, running

pytestmark = pytest.mark.backends("memory", "sqlite")

TOPICS = ("A.1", "A.2", "A.3")
STEPS = 80


class History:
    """One wildcard subscription, what was sent for it, and what its consumers have acknowledged."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.sent: list[str] = []
        self.acknowledged: set[str] = set()
        self.delivered: dict[str, int] = {}
        self.said: dict[Delivery, str] = {}
        """What each delivery's message was."""

    def seen(self, consumer: Recorder) -> None:
        """Look at what a consumer has got since."""
        for delivery in consumer.deliveries[self._looked(consumer) :]:
            body = self.said[delivery] = consumer.said[delivery]
            assert body not in self.acknowledged, f"{body} comes again"
            before = self.delivered.get(body, 0)
            assert delivery.redelivered or not before, f"{body} is not marked"
            self.delivered[body] = before + 1
        consumer.looked = len(consumer.deliveries)  # type: ignore[attr-defined]

    def _looked(self, consumer: Recorder) -> int:
        return getattr(consumer, "looked", 0)

    def open_deliveries(self, consumer: Recorder) -> list[Delivery]:
        """Those that are with the consumer."""
        self.seen(consumer)
        subscription = consumer.subscription
        assert isinstance(subscription, DurableSubscriber)
        return [delivery for delivery in subscription.held if delivery not in subscription.lent]


class Run:
    """The life of one broker."""

    def __init__(self, engine: Engine, history: History) -> None:
        self.engine = engine
        self.history = history
        self.consumer: Recorder | None = None

    async def step(self) -> None:
        chance = self.history.chance
        await chance.choices(
            [self.send, self.acknowledge, self.reopen, self.transact, self.reject, self.settle],
            [6, 6, 1, 2, 1, 1],
        )[0]()
        if self.consumer is not None:
            self.history.seen(self.consumer)

    async def send(self) -> None:
        history = self.history
        bodies = [str(len(history.sent) + n) for n in range(history.chance.randint(1, 20))]
        history.sent += bodies
        sends = [
            self.engine.send(message(body, f"topic://{history.chance.choice(TOPICS)}"), "test")
            for body in bodies
        ]
        await asyncio.gather(*sends)

    async def subscribe(self) -> Recorder:
        if self.consumer is None:
            prefetch = self.history.chance.choice([1, 5, 50])
            self.consumer = await consume(
                self.engine,
                "topic://A.*",
                prefetch=prefetch,
                client_id="c",
                subscription_name="s",
                recorder=Recorder(keeps_messages=False),
            )
        return self.consumer

    async def reopen(self) -> None:
        if self.consumer is not None:
            self.history.seen(self.consumer)
            self.consumer.subscription.close()
            self.consumer = None

    def some(self, consumer: Recorder) -> list[Delivery]:
        found = self.history.open_deliveries(consumer)
        return self.history.chance.sample(found, self.history.chance.randint(0, len(found)))

    async def acknowledge(self) -> None:
        consumer = await self.subscribe()
        await quiet()
        some = self.some(consumer)
        await consumer.subscription.acknowledge(some)
        self.history.acknowledged.update(self.history.said[one] for one in some)

    async def transact(self) -> None:
        consumer = await self.subscribe()
        some, history = self.some(consumer), self.history
        transaction = self.engine.begin("test")
        transaction.acknowledge(consumer.subscription, some)
        bodies = {history.said[one] for one in some}
        if history.chance.random() < 0.4:
            await self.reopen()
        if history.chance.random() < 0.5:
            await transaction.commit()
            history.acknowledged |= bodies
        else:
            transaction.rollback()

    async def reject(self) -> None:
        consumer = await self.subscribe()
        await consumer.subscription.reject(self.some(consumer)[:3])

    async def settle(self) -> None:
        await self.engine.until_idle()
        await quiet()

    async def drain(self) -> None:
        """Until everything has been acknowledged."""
        history = self.history
        await self.reopen()
        consumer = await self.subscribe()
        while history.acknowledged != {*history.sent}:
            found = history.open_deliveries(consumer)
            if not found:
                await consumer.got(len(consumer.deliveries) + 1)
                continue
            await consumer.subscription.acknowledge(found)
            history.acknowledged.update(history.said[one] for one in found)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "cursor", ["storeDurableSubscriberCursor", "fileDurableSubscriberCursor", "vmDurableCursor"]
)
def test_by_chance(store: Store, cursor: str, seed: int) -> None:
    history = History(seed)
    policy = PolicyEntry(
        topic=">",
        max_page_size=history.chance.choice([3, 20, 200]),
        pending_durable_subscriber_policy=cursor,
        redelivery_policy=RedeliveryPolicy(
            maximum_redeliveries=-1, initial_redelivery_delay=0.0, redelivery_delay=0.0
        ),
    )

    # With the smaller one, what a consumer has is read again when it comes back.
    memory_limit = 20_000_000 if cursor == "vmDurableCursor" else 50_000

    async def live(steps: int) -> None:
        async with running(store, policy, memory_limit=memory_limit) as engine:
            run = Run(engine, history)
            await run.subscribe()
            for _ in range(steps):
                async with asyncio.timeout(PATIENCE):
                    await run.step()
            if steps == 0:
                async with asyncio.timeout(PATIENCE):
                    await run.drain()
                assert engine.resources.memory.used == 0

    for steps in (STEPS, STEPS, 0):
        asyncio.run(live(steps))
    for name in TOPICS:
        subscription = store.topic(name).subscription("c", "s")
        assert subscription.message_count() == 0
