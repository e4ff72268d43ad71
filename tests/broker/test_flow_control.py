"""Producers wait, or are refused, where there is no room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jdbcstore import Store
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import DestinationFull
from tests.broker.consuming import consume, message, quiet, running, send

pytestmark = pytest.mark.backends("memory", "sqlite")

LIMIT = 20_000


def test_a_producer_waits_until_there_is_room(store: Store) -> None:
    policy = PolicyEntry(queue="Q", memory_limit=LIMIT, pending_queue_policy="vmQueueCursor")

    async def main() -> None:
        async with running(store, policy) as engine:
            sends = [engine.send(message(str(n), persistent=False), "test") for n in range(100)]
            await quiet()
            done = [future for future in sends if future.done()]
            assert 5 < len(done) < 50
            # What would go to the store waits, too, for it is to be in memory as well.
            sends.append(engine.send(message("stored"), "test"))
            await send(engine, message("elsewhere", "OTHER", persistent=False))
            consumer = await consume(engine, "Q", prefetch=10)
            await consumer.drain(101)
            assert [body for body in consumer.bodies if body != "stored"] == [str(n) for n in range(100)]
            await asyncio.gather(*sends)

    asyncio.run(main())


def test_the_brokers_memory_is_shared(store: Store) -> None:
    async def main() -> None:
        policy = PolicyEntry(pending_queue_policy="vmQueueCursor")
        async with running(store, policy, memory_limit=LIMIT) as engine:
            sends = [engine.send(message(str(n), f"Q{n % 5}", persistent=False), "test") for n in range(50)]
            await quiet()
            assert not all(future.done() for future in sends)
            consumers = [await consume(engine, f"Q{n}") for n in range(5)]
            for consumer in consumers:
                await consumer.got(1)
            while not all(future.done() for future in sends):
                for consumer in consumers:
                    await consumer.acknowledge(*consumer.deliveries)
                await quiet()
            assert [len(consumer.deliveries) for consumer in consumers] == [10] * 5

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [None, 0.01])
def test_a_producer_is_refused_where_the_policy_says_so(store: Store, timeout: float | None) -> None:
    policy = PolicyEntry(
        queue="Q",
        memory_limit=LIMIT,
        pending_queue_policy="vmQueueCursor",
        send_fail_if_no_space=timeout is None,
        send_fail_if_no_space_after_timeout=timeout,
    )

    async def main() -> None:
        async with running(store, policy) as engine:
            sends = [engine.send(message(str(n), persistent=False), "test") for n in range(100)]
            with pytest.raises(DestinationFull, match="memory_limit"):
                await asyncio.gather(*sends)
            await asyncio.wait(sends)
            consumer = await consume(engine, "Q")
            await consumer.got(1)
            await consumer.acknowledge(*consumer.deliveries)
            await send(engine, message("again", persistent=False))

    asyncio.run(main())


def test_what_a_lost_connection_could_not_send_is_not_sent(store: Store) -> None:
    policy = PolicyEntry(queue="Q", memory_limit=LIMIT, pending_queue_policy="vmQueueCursor")

    async def main() -> None:
        async with running(store, policy) as engine:
            sends = [engine.send(message(str(n), persistent=False), f"c{n % 2}") for n in range(50)]
            await quiet()
            count = sum(future.done() for future in sends)
            engine.disconnected("c0")
            consumer = await consume(engine, "Q", prefetch=1)
            expected = [str(n) for n in range(50) if n < count or n % 2]
            await consumer.drain(len(expected))
            assert consumer.bodies == expected

    asyncio.run(main())


def test_a_transaction_waits_for_room_and_is_not_without_bounds(store: Store) -> None:
    policy = PolicyEntry(queue="Q", memory_limit=LIMIT, pending_queue_policy="vmQueueCursor")

    async def main() -> None:
        async with running(store, policy, memory_limit=10 * LIMIT) as engine:
            sends = [engine.send(message(str(n), persistent=False), "test") for n in range(50)]
            transaction = engine.begin("test")
            sent = transaction.send(message("more", persistent=False))
            await quiet()
            assert not sent.done()
            consumer = await consume(engine, "Q", prefetch=50)
            while not all(future.done() for future in [sent, *sends]):
                await consumer.acknowledge(*consumer.deliveries)
                await quiet()
            sends = [transaction.send(message(str(n))) for n in range(1000)]
            with pytest.raises(DestinationFull):
                await asyncio.gather(*sends)
            await asyncio.wait(sends)

    asyncio.run(main())


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_the_producers_of_a_topic_wait_for_subscribers_in_memory(
    store: Store, durable: bool, persistent: bool
) -> None:
    policy = PolicyEntry(
        topic=">",
        memory_limit=LIMIT,
        pending_subscriber_policy="vmCursor",
        pending_durable_subscriber_policy="vmDurableCursor",
    )
    names: dict[str, Any] = {"client_id": "c", "subscription_name": "s"} if durable else {}

    async def main() -> None:
        async with running(store, policy) as engine:
            consumer = await consume(engine, "topic://T", prefetch=2, **names)
            sends = []
            for n in range(100):
                sends.append(engine.send(message(str(n), "topic://T", persistent=persistent), "test"))
                await engine._parts.settled()
            done = [future for future in sends if future.done()]
            assert 5 < len(done) < 50
            await consumer.drain(100)
            assert consumer.bodies == [str(n) for n in range(100)]
            await asyncio.gather(*sends)

    asyncio.run(main())


@pytest.mark.parametrize("durable", [True, False])
def test_the_producers_of_a_topic_do_not_wait_for_others(store: Store, durable: bool) -> None:
    names: dict[str, Any] = {"client_id": "c", "subscription_name": "s"} if durable else {}

    async def main() -> None:
        async with running(store, PolicyEntry(topic=">", memory_limit=LIMIT)) as engine:
            consumer = await consume(engine, "topic://T", prefetch=1000, **names)
            await send(engine, *[message(f"{n:1000}", "topic://T") for n in range(300)])
            await quiet()
            held = len(consumer.deliveries)
            assert held * 2500 < 2 * LIMIT
            await consumer.drain(300)
            assert [int(body) for body in consumer.bodies] == [*range(300)]
            assert engine._parts.memory.used == 0

    asyncio.run(main())


def test_what_was_sent_before_a_transaction_comes_before_it(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            first = engine.send(message("1"), "test")
            transaction = engine.begin("test")
            second = transaction.send(message("2"))
            await asyncio.gather(first, second, transaction.commit())
            consumer = await consume(engine, "Q")
            await consumer.got(2)
            assert consumer.bodies == ["1", "2"]

    asyncio.run(main())
