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
        async with running(MemoryStore(), counted=True) as engine:
            views = managed(engine, clock).views

            async def seen() -> SubscriptionView:
                [view] = await views.subscriptions()
                assert views.slow_consumers() == ([view] if view.is_slow else [])
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
