"""Concurrent store and dispatch: messages are given out while they are being written."""

from __future__ import annotations

import asyncio

import pytest

from jdbcstore.testing import OpenStore
from tests.support.broker.consuming import consume, message, quiet, running, send
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held

pytestmark = pytest.mark.backends("sqlite", "postgresql")

COUNT = 300
"""More than the writer takes at once, so that what comes behind it waits."""


def test_an_acknowledgement_cancels_a_write_that_has_not_begun(
    open_store: OpenStore, database: Database
) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store, concurrent_store_and_dispatch_queues=True) as engine:
            consumer = await consume(engine, "Q")
            await quiet()
            with writes_held(database):
                first = [
                    store.queue("OTHER", prioritized=False).add_message_async(message("x", "OTHER"))
                    for _ in range(COUNT)
                ]
                sent = [engine.send(message(str(n)), "test") for n in range(3)]
                await consumer.got(3)
                await quiet()
                # The producer's receipt waits until it is durable, unless it is consumed.
                assert not any(future.done() for future in sent)
                await consumer.acknowledge(*consumer.deliveries[:2])
                await asyncio.gather(*sent[:2])
                assert not sent[2].done()
            await asyncio.gather(sent[2], *map(asyncio.wrap_future, first))
            assert [each.body for each in store.queue("Q").recover()] == ["2"]
            await consumer.acknowledge(consumer.deliveries[2])
            assert store.queue("Q").message_count() == 0

    asyncio.run(main())


def test_an_acknowledgement_that_comes_later_is_written_behind(
    open_store: OpenStore, database: Database
) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store, concurrent_store_and_dispatch_queues=True) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, message("0"))
            await consumer.got(1)
            with writes_held(database):
                sent = [engine.send(message(str(n)), "test") for n in range(1, COUNT)]
                await consumer.got(COUNT)
                acknowledged = consumer.subscription.acknowledge(consumer.deliveries)
                await quiet()
                assert not acknowledged.done()
            await asyncio.gather(acknowledged, *sent)
            assert store.queue("Q").message_count() == 0
            assert consumer.bodies == [str(n) for n in range(COUNT)]

    asyncio.run(main())


def test_what_comes_back_before_it_is_written_waits_for_that(
    open_store: OpenStore, database: Database
) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store, concurrent_store_and_dispatch_queues=True) as engine:
            one, dead = await consume(engine, "Q", prefetch=3), await consume(engine, "ActiveMQ.DLQ")
            await quiet()
            with writes_held(database):
                sent = [engine.send(message(str(n)), "test") for n in range(5)]
                await one.got(3)
                rejected = one.subscription.reject(one.deliveries[:1])
                one.subscription.close()
                two = await consume(engine, "Q")
                await quiet()
                assert two.deliveries == []
            await asyncio.gather(rejected, *sent)
            await two.drain(4)
            await dead.drain(1)
            assert two.bodies == ["1", "2", "3", "4"]
            assert [delivery.redelivered for delivery in two.deliveries] == [True, True, False, False]
            assert dead.bodies == ["0"]
            assert store.destinations() == []

    asyncio.run(main())


def test_a_transaction_acknowledges_what_is_being_written(open_store: OpenStore, database: Database) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store, concurrent_store_and_dispatch_queues=True) as engine:
            consumer = await consume(engine, "Q")
            await quiet()
            with writes_held(database):
                sent = engine.send(message("a"), "test")
                await consumer.got(1)
                transaction = engine.begin("test")
                transaction.acknowledge(consumer.subscription, consumer.deliveries)
                committed = transaction.commit()
            await asyncio.gather(sent, committed)
            assert store.queue("Q").message_count() == 0

    asyncio.run(main())


def test_what_follows_a_commit_is_written_behind_it(open_store: OpenStore, database: Database) -> None:
    """Also when the commit has to wait for the write of what it acknowledges."""
    store = open_store()

    async def main() -> None:
        async with running(store, concurrent_store_and_dispatch_queues=True) as engine:
            consumer = await consume(engine, "Q")
            await quiet()
            with writes_held(database):
                pending = [engine.send(message("a"), "test")]
                await consumer.got(1)
                for number in (1, 3):
                    transaction = engine.begin("test")
                    transaction.acknowledge(consumer.subscription, consumer.deliveries)
                    pending.append(transaction.send(message(str(number), "R")))
                    pending.append(transaction.commit())
                    pending.append(engine.send(message(str(number + 1), "R"), "test"))
                    await quiet()
            await asyncio.gather(*pending)
            assert [each.body for each in store.queue("R").recover()] == ["1", "2", "3", "4"]
            assert store.queue("Q").message_count() == 0

    asyncio.run(main())
