"""Consumers as they are watched: since when each rests, and which are slow."""

from __future__ import annotations

import asyncio

import pytest

from jdbcstore import MemoryStore
from jdbcstore.broker.consumer_watch import SLOW
from jdbcstore.broker.management.views import SubscriptionView
from jdbcstore.testing.clock import FakeClock
from tests.support.broker.consuming import consume, message, running, send
from tests.support.broker.managed import managed

pytestmark = pytest.mark.backends("memory")


def test_a_consumer_that_acknowledges_nothing_for_long_is_slow() -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running(MemoryStore(), clock=clock, counted=True) as engine:
            views = managed(engine, clock).views

            async def seen() -> SubscriptionView:
                [view] = await views.subscriptions()
                assert views.failing_consumers() == ([view] if view.is_slow else [])
                return view

            consumer = await consume(engine, "Q", prefetch=10)
            assert (await seen()).idle == 0
            clock.advance(2 * SLOW)
            rested = await seen()
            assert (rested.idle, rested.unsettled, rested.is_slow) == (2 * SLOW, None, False)
            await send(engine, *[message(str(number)) for number in range(4)])
            await consumer.got(4)
            assert ((await seen()).idle, (await seen()).unsettled) == (0, 0)
            clock.advance(SLOW - 1)
            await consumer.acknowledge(consumer.deliveries[0])
            assert not (await seen()).is_slow
            clock.advance(SLOW - 1)
            assert not (await seen()).is_slow
            clock.advance(1)
            slow = await seen()
            assert (slow.idle, slow.unsettled, slow.is_slow) == (SLOW, SLOW, True)
            await send(engine, message("one more"))
            await consumer.got(5)
            given = await seen()
            assert (given.idle, given.is_slow) == (0, True)  # what it is given is not what it does
            transaction = engine.begin("test")
            transaction.acknowledge(consumer.subscription, consumer.deliveries[1:3])
            assert not (await seen()).is_slow
            clock.advance(SLOW)
            assert (await seen()).is_slow  # it has two others
            await transaction.commit()
            assert (await seen()).is_slow
            await consumer.acknowledge(*consumer.deliveries[3:])
            assert (await seen()).unsettled is None

    asyncio.run(main())


def test_the_consumer_with_the_oldest_message_is_the_first() -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running(MemoryStore(), clock=clock) as engine:
            views = managed(engine, clock).views
            quick = await consume(engine, "A", prefetch=4)
            stuck = await consume(engine, "B", prefetch=2)
            assert [view.oldest_unacknowledged for view in await views.subscriptions()] == [None, None]
            for name in "BBAAAA":
                await send(engine, message("m", name))
            await stuck.got(2)
            await quick.got(4)
            clock.advance(20)
            await quick.acknowledge(*quick.deliveries[:3])
            await send(engine, message("m", "A"))
            await quick.got(5)
            clock.advance(10)
            await quick.acknowledge(quick.deliveries[3])
            first, second = await views.subscriptions()
            assert (first.destination, first.in_flight, first.utilisation) == ("queue://B", 2, 1.0)
            assert (first.oldest_unacknowledged, first.acknowledged_per_second) == (30, 0)
            assert (second.in_flight, second.utilisation) == (1, 0.25)
            assert second.oldest_unacknowledged == 10  # since it was delivered, not since it was sent
            assert second.acknowledged_per_second == pytest.approx(4 / 30)
            by_name = {view.name: view for view in await views.destinations()}
            assert (by_name["queue://B"].ready, by_name["queue://B"].utilisation) == (0, 1.0)

    asyncio.run(main())
