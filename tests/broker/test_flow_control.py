"""Producers wait, or are refused, where there is no room."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import JournaledStore, MemoryStore, Message, Store, StoreConfig
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy, TimedSubscriptionRecoveryPolicy
from jdbcstore.errors import DestinationFull
from tests.conftest import small_journal
from tests.support.broker.consuming import PATIENCE, Recorder, consume, message, quiet, running, send
from tests.support.journaled.world import Behind

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
                # The subscription has read its first page then; until it has, nothing it holds is in memory.
                await consumer.got(1)
                await engine.until_idle()
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
            assert engine.resources.memory.used == 0

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


def to_topic(body: Any, **headers: Any) -> Message:
    return message(body, "topic://T", **headers)


@pytest.mark.parametrize("persistent", [True, False])
def test_everybody_gets_everything_though_all_acknowledge_at_the_end(store: Store, persistent: bool) -> None:
    async def main() -> None:
        async with running(store, memory_limit=2_000_000) as engine:
            consumers = [await consume(engine, "topic://T") for _ in range(25)]
            await send(engine, *[to_topic("x" * 20_000, persistent=persistent) for _ in range(40)])
            for consumer in consumers:
                await consumer.got(40)
            for consumer in consumers:
                await consumer.acknowledge(*consumer.deliveries)
            assert engine.resources.memory.used == 0

    asyncio.run(main())


@pytest.mark.parametrize("late", [True, False])
def test_every_durable_subscriber_gets_everything(store: Store, late: bool) -> None:
    async def main() -> None:
        async with running(store, memory_limit=2_000_000) as engine:
            names = [{"client_id": str(n), "subscription_name": "s"} for n in range(100)]
            consumers = [await consume(engine, "topic://T", **one) for one in names]  # type: ignore[arg-type]
            if late:  # each reads pages of its own
                for consumer in consumers:
                    consumer.subscription.close()
            for n in range(20):
                await send(engine, to_topic(f"{n}:{'x' * 500}"))
            if late:
                consumers = [await consume(engine, "topic://T", **one) for one in names]  # type: ignore[arg-type]
            for consumer in consumers:
                await consumer.got(20)
            for consumer in consumers:
                await consumer.acknowledge(*consumer.deliveries)
            assert engine.resources.memory.used == 0

    asyncio.run(main())


@pytest.mark.parametrize("durable", [True, False])
def test_a_consumer_that_acknowledges_at_the_end_gets_more_than_there_is_memory(
    store: Store, durable: bool
) -> None:
    names: dict[str, Any] = {"client_id": "c", "subscription_name": "s"} if durable else {}
    name = "topic://T" if durable else "Q"
    policy = PolicyEntry(redelivery_policy=RedeliveryPolicy(maximum_redeliveries=0))

    async def main() -> None:
        async with running(store, policy, memory_limit=LIMIT * 10) as engine:
            consumer = await consume(
                engine, name, prefetch=1000, recorder=Recorder(keeps_messages=False), **names
            )
            bodies = [f"{n}:{'x' * 10_000}" for n in range(60)]
            await send(engine, *[message(body, name) for body in bodies])
            await consumer.got(60)
            assert consumer.given == bodies
            # What is with the client is read again if it comes back.
            assert engine.resources.memory.used < LIMIT * 10
            consumer.subscription.close()
            consumer = await consume(engine, name, recorder=Recorder(keeps_messages=False), **names)
            await consumer.got(60)
            assert consumer.given == bodies
            assert all(delivery.redelivered for delivery in consumer.deliveries)
            async with asyncio.timeout(PATIENCE):
                await consumer.subscription.reject(consumer.deliveries)
            assert engine.resources.memory.used < LIMIT * 10
        dead = store.queue("ActiveMQ.DLQ").recover()
        assert [one.body for one in dead] == bodies
        assert store.queue("Q").message_count() == 0

    asyncio.run(main())


@pytest.mark.parametrize("header", [True, False])
def test_messages_that_nobody_consumes_take_the_memory_that_there_is(store: Store, header: bool) -> None:
    large = "x" * 100_000
    properties = {"large": large} if header else {}

    async def main() -> None:
        async with running(store, memory_limit=1_000_000) as engine:
            memory = engine.resources.memory
            for n in range(50):
                await send(engine, message("" if header else large, f"Q{n % 2}", properties=properties))
            assert memory.used <= 1_000_000
            consumers = [await consume(engine, f"Q{n}", prefetch=2) for n in range(2)]
            for consumer in consumers:
                while len(consumer.deliveries) < 25:
                    await consumer.drain(len(consumer.deliveries) + 1)
                    assert memory.used < 1_500_000
                await consumer.acknowledge(*consumer.deliveries)
            assert memory.used == 0
        async with running(store, memory_limit=1_000_000) as engine:
            assert engine.resources.memory.used == 0

    asyncio.run(main())


def test_what_earlier_messages_are_kept_counts_and_is_bounded(store: Store) -> None:
    policy = PolicyEntry(topic=">", subscription_recovery_policy=TimedSubscriptionRecoveryPolicy())

    async def main() -> None:
        async with running(store, policy, memory_limit=LIMIT * 10) as engine:
            await send(engine, *[to_topic(f"{n}:{'x' * 10_000}", persistent=False) for n in range(100)])
            assert LIMIT < engine.resources.memory.used <= LIMIT * 11
            consumer = await consume(engine, "topic://T", retroactive=True)
            await consumer.got(5)
            assert consumer.bodies[0].partition(":")[0] != "0"

    asyncio.run(main())


def test_what_the_memory_holds_up_is_told_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(store, PolicyEntry(topic=">", memory_limit=LIMIT)) as engine:
            consumer = await consume(engine, "topic://T", connection_id="ID:slow")
            await send(engine, *[to_topic(f"{n:1000}", persistent=False) for n in range(100)])
            await quiet()
            assert len(consumer.deliveries) < 100
            await consumer.drain(100)

    asyncio.run(main())
    told = [record for record in caplog.records if record.name == "jdbcstore.broker.notices"]
    assert len(told) == 1
    text = told[0].getMessage()
    assert all(part in text for part in ("topic://T", "ID:slow", f"memory_limit of {LIMIT} bytes"))


def test_whoever_is_held_up_goes_on_when_others_let_go(store: Store) -> None:
    """Though it acknowledges nothing itself until it has two."""

    async def main() -> None:
        async with running(store, PolicyEntry(topic=">", memory_limit=LIMIT)) as engine:
            first = await consume(engine, "topic://T", selector="n = 1")
            second = await consume(engine, "topic://T", selector="n = 2")
            for n in (2, 1, 1, 2):
                sent = to_topic("x" * 9_000, persistent=False, properties={"n": n})
                await send(engine, sent)
            await first.got(1)
            await second.got(1)
            await quiet()
            assert (len(first.deliveries), len(second.deliveries)) == (1, 1)
            await first.drain(2)
            await second.got(2)

    asyncio.run(main())


def test_open_transactions_are_bounded_for_one_connection_and_for_all(store: Store) -> None:
    async def main() -> None:
        async with running(store, memory_limit=LIMIT) as engine:
            begun = []
            for n in range(10):
                transaction = engine.begin(f"c{n}")
                room = [
                    transaction.send(message("x" * 10_000)),
                    engine.begin(f"c{n}").send(message("y" * 9_000)),
                ]
                begun.append((transaction, room))
            failed = [one for _, room in begun for one in room if one.exception() is not None]
            # Of each its second does not fit, and there is no place for those of all.
            assert all("of this connection" in str(room[1].exception()) for _, room in begun[:6])
            assert any("of all connections" in str(room[0].exception()) for _, room in begun[6:])
            assert {type(one.exception()) for one in failed} == {DestinationFull}
            assert all("memory_limit" in str(one.exception()) for one in failed)
            for transaction, room in begun:
                if room[0].exception() is None:
                    await transaction.commit()
                else:
                    transaction.rollback()
            assert engine._transactions.used == 0
            again = engine.begin("c9")
            await again.send(message("z" * 10_000))
            again.rollback()
            assert engine._transactions.used == 0

    asyncio.run(main())


def test_a_journal_without_room_does_not_keep_the_loop_waiting(tmp_path: Path) -> None:
    behind = Behind(MemoryStore(StoreConfig(cleanup_period=0)))
    journaled = JournaledStore(behind, small_journal(tmp_path, memory_limit=LIMIT))
    # A loop that waits for the store behind is let go after far too long, to say so.
    rescue = threading.Timer(20, lambda: setattr(behind, "down", False))

    async def main() -> None:
        async with running(journaled, concurrent_store_and_dispatch_queues=True) as engine:
            behind.down = True
            rescue.start()
            sends = []
            for number in range(40):
                sends.append(engine.send(message(f"{number:04}" * 250), "test"))
                await quiet()
            transaction = engine.begin("test")
            transaction.send(message("committed"))
            sends.append(transaction.commit())
            await sends[5]
            await send(engine, message("not stored", "OTHER", persistent=False))
            rescue.cancel()
            assert behind.down, "the loop has waited"
            done = [future.done() for future in sends]
            assert done == sorted(done, reverse=True)
            assert not done[-2]
            behind.down = False
            await asyncio.gather(*sends)
            consumer = await consume(engine, "Q", prefetch=100)
            await consumer.drain(41)
            bodies = [f"{number:04}" * 250 for number in range(40)]
            assert consumer.bodies == [*bodies, "committed"]

    asyncio.run(main())
    journaled.close()


@pytest.mark.parametrize("name", ["queue://Q", "topic://T"])
def test_what_a_store_has_in_memory_is_bounded(name: str, caplog: pytest.LogCaptureFixture) -> None:
    body = "x" * 1000
    names = {"client_id": "c", "subscription_name": "s"}
    durable: dict[str, Any] = names if name.startswith("topic") else {}

    async def main() -> None:
        with MemoryStore() as store:
            async with running(store, memory_limit=2 * LIMIT, bounds_stored=True) as engine:
                if durable:
                    (await consume(engine, name, **durable)).subscription.close()
                sends = []
                for _ in range(30):
                    sends.append(engine.send(message(body, name), "test"))
                    await quiet()
                    assert store.memory_size < 2 * LIMIT + 3000
                assert 5 < sum(future.done() for future in sends) < 20
                assert "memory_limit of 40000 bytes is reached" in caplog.text
                await send(engine, message("transient", "ELSEWHERE", persistent=False))
                consumer = await consume(engine, name, **durable)
                await consumer.drain(30)
                await asyncio.gather(*sends)

    asyncio.run(main())


def test_what_is_removed_from_memory_by_a_thread_makes_room() -> None:
    async def main() -> None:
        with MemoryStore() as store:
            async with running(store, memory_limit=LIMIT, bounds_stored=True) as engine:
                sends = [engine.send(message("x" * 1000, f"Q{n % 3}"), "test") for n in range(6)]
                await asyncio.gather(*sends)
                await send(engine, *[message("x" * 1000, "Q0") for _ in range(2)])
                blocked = engine.send(message("more", "Q1"), "test")
                while not blocked.done():
                    for n in range(3):
                        await asyncio.to_thread(store.queue(f"Q{n}").remove_all_messages)
                    await quiet()
                assert engine.resources.stored is not None
                await send(engine, message("again", "Q2"))

    asyncio.run(main())
