"""Durable subscriptions: stored for, taken up again, by one consumer at a time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Store
from jdbcstore.abc import Page
from jdbcstore.broker.cursors.backlog import MemoryCursor
from jdbcstore.broker.cursors.file import FileCursor
from jdbcstore.broker.cursors.store import LoadedCursor, StoreCursor
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.topics.durable import DurableFeed, DurableSubscriber
from jdbcstore.config.policy import IndividualDeadLetterStrategy, PolicyEntry, RedeliveryPolicy
from jdbcstore.errors import (
    InvalidDestination,
    InvalidSelector,
    InvalidSubscription,
    StoreClosed,
    StoreError,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from jdbcstore.testing import OpenStore
from jdbcstore.testing.clock import FakeClock
from tests.support.broker.consuming import PATIENCE, Recorder, consume, message, quiet, running, send
from tests.support.databases import Database

pytestmark = pytest.mark.backends("memory", "sqlite")
SLOW_WRITES = ("memory", "sqlite", "postgresql")
"""Also a database whose writes take their time."""

CURSORS = pytest.mark.parametrize(
    "cursor", ["storeDurableSubscriberCursor", "fileDurableSubscriberCursor", "vmDurableCursor"]
)


async def subscribe(engine: Engine, topic: str = "T", client: str = "c", **options: Any) -> Recorder:
    return await consume(engine, f"topic://{topic}", client_id=client, subscription_name="s", **options)


async def unsubscribe(engine: Engine, client: str = "c") -> None:
    async with asyncio.timeout(PATIENCE):
        await engine.unsubscribe(client, "s")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


def feed(recorder: Recorder) -> DurableFeed:
    assert isinstance(recorder.subscription, DurableSubscriber)
    [found] = recorder.subscription._feeds
    return found


def topic(body: Any, name: str = "T", **headers: Any) -> Any:
    return message(body, f"topic://{name}", **headers)


def pending(store: Store, name: str = "T", client: str = "c") -> int:
    return store.topic(name).subscription(client, "s").message_count()


@CURSORS
def test_what_comes_while_nobody_consumes_comes_later(store: Store, cursor: str) -> None:
    policy = PolicyEntry(topic=">", pending_durable_subscriber_policy=cursor)

    async def main() -> None:
        async with running(store, policy) as engine:
            await send(engine, topic("early"))
            assert store.destinations() == []
            consumer = await subscribe(engine)
            await send(engine, topic("a"), topic("b"))
            await consumer.got(2)
            await consumer.acknowledge(*consumer.deliveries)
            consumer.subscription.close()
            await send(engine, *[topic(str(n)) for n in range(50)], topic("x", persistent=False))
            assert pending(store) == 50
            again = await subscribe(engine)
            await send(engine, topic("last"))
            await again.got(52)
            assert [body for body in again.bodies if body != "x"] == [*[str(n) for n in range(50)], "last"]
            assert not any(delivery.redelivered for delivery in again.deliveries)
            await again.acknowledge(*again.deliveries)
            assert pending(store) == 0

    asyncio.run(main())


@pytest.mark.backends(*SLOW_WRITES)
@CURSORS
def test_after_a_restart_it_goes_on(store: Store, cursor: str) -> None:
    policy = PolicyEntry(topic=">", pending_durable_subscriber_policy=cursor)

    async def before() -> None:
        async with running(store, policy) as engine:
            consumer = await subscribe(engine, selector="JMSPriority > 3")
            await send(engine, *[topic(str(n)) for n in range(10)])
            await consumer.got(10)
            await consumer.acknowledge(*consumer.deliveries[:3], consumer.deliveries[5])

    async def after() -> None:
        async with running(store, policy) as engine:
            await send(engine, topic("new"))
            consumer = await subscribe(engine, selector="JMSPriority > 3")
            await consumer.got(7)
            assert consumer.bodies == ["3", "4", "6", "7", "8", "9", "new"]
            assert [delivery.redelivered for delivery in consumer.deliveries] == [True] * 6 + [False]
            await consumer.acknowledge(*consumer.deliveries)
            assert pending(store) == 0

    asyncio.run(before())
    asyncio.run(after())


def test_memory_is_bounded_and_the_window_comes_and_goes(store: Store) -> None:
    policy = PolicyEntry(topic=">", max_page_size=20)

    async def main() -> None:
        async with running(store, policy, memory_limit=200_000) as engine:
            consumer = await subscribe(engine, prefetch=5)
            await send(engine, topic("0"))
            await consumer.got(1)
            cursor = feed(consumer).pending.stored.cursor
            assert isinstance(cursor, StoreCursor)
            assert cursor._unread < 0
            for start in range(1, 1001, 100):
                await send(engine, *[topic(str(n)) for n in range(start, start + 100)])
                assert cursor._window.count <= 5 * 20
            assert cursor._unread >= 0
            most = 0
            while len(consumer.deliveries) < 1001:
                count = len(consumer.deliveries)
                await consumer.drain(count)
                await consumer.got(count + 1)
                most = max(most, cursor._window.count)
            await consumer.drain(1001)
            assert most <= 2 * 5 * 20
            assert consumer.bodies == [str(n) for n in range(1001)]
            await quiet()
            assert cursor._unread < 0
            assert pending(store) == 0
            assert engine.resources.memory.used == 0

    asyncio.run(main())


@pytest.mark.backends("memory")
def test_a_page_that_a_subscriber_has_not_waited_for_fails_quietly(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a broker's stop, when the store is closed before the page is read."""
    is_closed, unhandled = threading.Event(), list[str]()

    def recover(_limit: int, _after: object) -> Page:
        is_closed.wait(PATIENCE)
        raise StoreClosed()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(context["message"]))
        async with running(store) as engine:
            consumer = await subscribe(engine)
            waiting = feed(consumer)
            await until(lambda: not waiting.pending.is_reading)
            cursor = waiting.pending.stored.cursor
            assert isinstance(cursor, StoreCursor)
            monkeypatch.setattr(waiting.pending.rows, "recover", recover)
            waiting.pending.resync()
            await quiet()
            assert waiting.pending.is_reading
            consumer.subscription.close()
            is_closed.set()
            await until(lambda: not cursor._in_flight._reading)
        gc.collect()

    asyncio.run(main())
    assert unhandled == []


@pytest.mark.parametrize(
    ("policy", "kind"), [("fileDurableSubscriberCursor", FileCursor), ("vmDurableCursor", MemoryCursor)]
)
def test_the_backlog_is_read_into_other_cursors(store: Store, policy: str, kind: type) -> None:
    entry = PolicyEntry(topic=">", max_page_size=20, pending_durable_subscriber_policy=policy)

    async def main() -> None:
        async with running(store, entry, memory_limit=100_000) as engine:
            consumer = await subscribe(engine, prefetch=5)
            consumer.subscription.close()
            await send(engine, *[topic(str(n)) for n in range(500)])
            again = await subscribe(engine, prefetch=5)
            cursor = feed(again).pending.stored.cursor
            assert isinstance(cursor, LoadedCursor)
            assert isinstance(cursor._cursor, kind)
            await again.drain(500)
            assert again.bodies == [str(n) for n in range(500)]
            assert engine.resources.memory.used == 0
            assert pending(store) == 0

    asyncio.run(main())


def test_what_a_closed_consumer_had_comes_again_and_counts(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine)
            await send(engine, *[topic(str(n)) for n in range(4)])
            await consumer.got(4)
            await consumer.acknowledge(consumer.deliveries[1])
            for count in (1, 2):
                consumer.subscription.close()
                consumer = await subscribe(engine)
                await send(engine, topic(f"new {count}"))
                await consumer.got(3 + count)
                assert [
                    (delivery.message.redelivery_counter, delivery.redelivered)
                    for delivery in consumer.deliveries
                ] == [(count, True)] * 3 + [(1, True)] * (count - 1) + [(0, False)]
            assert consumer.bodies == ["0", "2", "3", "new 1", "new 2"]

    asyncio.run(main())


@CURSORS
def test_what_waits_for_its_redelivery_is_not_kept_from_the_next_consumer(store: Store, cursor: str) -> None:
    policy = PolicyEntry(
        topic=">",
        pending_durable_subscriber_policy=cursor,
        redelivery_policy=RedeliveryPolicy(redelivery_delay=3600.0, initial_redelivery_delay=3600.0),
    )

    async def main() -> None:
        async with running(store, policy) as engine:
            consumer = await subscribe(engine)
            await send(engine, topic("a"), topic("b"))
            await consumer.got(2)
            await consumer.subscription.reject([consumer.deliveries[0]])
            consumer.subscription.close()
            again = await subscribe(engine)
            assert [(d.message.body, d.redelivered) for d in await again.got(2)] == [("a", True), ("b", True)]
            await again.acknowledge(*again.deliveries)
            assert pending(store) == 0

    asyncio.run(main())


def test_one_consumer_at_a_time(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            first, second = await asyncio.gather(subscribe(engine), subscribe(engine), return_exceptions=True)
            assert isinstance(first, Recorder)
            assert isinstance(second, SubscriptionInUse)
            with pytest.raises(SubscriptionInUse, match="client: c and subscriptionName: s"):
                await subscribe(engine)
            with pytest.raises(SubscriptionInUse):
                await unsubscribe(engine)
            other = await subscribe(engine, client="d")
            first.subscription.close()
            third = await subscribe(engine)
            await send(engine, topic("x"))
            await third.got(1)
            await other.got(1)
            assert first.deliveries == []

    asyncio.run(main())


def test_it_ends_when_it_is_unsubscribed(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            with pytest.raises(SubscriptionNotFound, match="clientID: c and subscriptionName: s"):
                await unsubscribe(engine)
            consumer = await subscribe(engine)
            consumer.subscription.close()
            await unsubscribe(engine)
            await send(engine, topic("x"))
            assert store.destinations() == []
            again = await subscribe(engine)
            await send(engine, topic("y"))
            await again.got(1)
            assert again.bodies == ["y"]

    asyncio.run(main())


def test_another_selector_or_destination_makes_it_anew(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine)
            consumer.subscription.close()
            await send(engine, topic("a"))
            with pytest.raises(InvalidSelector):
                await subscribe(engine, selector="x =")
            consumer = await subscribe(engine, selector="JMSPriority > 5")
            await send(engine, topic("b"), topic("c", priority=6))
            await consumer.got(1)
            assert consumer.bodies == ["c"]
            consumer.subscription.close()
            consumer = await subscribe(engine, "U")
            await send(engine, topic("d"), topic("e", "U"))
            await consumer.got(1)
            assert consumer.bodies == ["e"]
            assert store.topic("T").subscriptions() == []
            [info] = store.topic("U").subscriptions()
            assert info.selector is None

    asyncio.run(main())


def test_what_the_selector_does_not_want_is_acknowledged_for_it(store: Store) -> None:
    async def main() -> None:
        async with running(store, PolicyEntry(topic=">", max_page_size=10)) as engine:
            consumer = await subscribe(engine, selector="JMSPriority > 5")
            await send(engine, *[topic(str(n), priority=6 if n % 10 == 0 else 1) for n in range(100)])
            await consumer.got(10)
            await quiet()
            assert consumer.bodies == [str(n) for n in range(0, 100, 10)]
            consumer.subscription.close()
            await send(engine, *[topic(str(n), priority=1) for n in range(60)])
            again = await subscribe(engine, selector="JMSPriority > 5")
            await send(engine, topic("z", priority=9))
            await again.got(11)
            await again.acknowledge(*again.deliveries)
            await engine.until_idle()
            assert pending(store) == 0
            assert engine.resources.memory.used == 0

    asyncio.run(main())


@pytest.mark.backends(*SLOW_WRITES)
def test_wildcards_have_a_row_for_each_topic(store: Store) -> None:
    async def rows() -> list[tuple[str, str]]:
        infos = [info for where in store.destinations() for info in store.topic(where).subscriptions()]
        return sorted((info.destination.name, info.subscribed_destination.name) for info in infos)

    async def before() -> None:
        async with running(store) as engine:
            await send(engine, topic("x", "A.OLD"), topic("x", "B.OLD"))
            consumer = await subscribe(engine, "A.*")
            assert await rows() == [("A.*", "A.*"), ("A.OLD", "A.*")]
            consumer.subscription.close()
            # The row of a new topic is there before its first message.
            transaction = engine.begin("test")
            await transaction.send(topic("in", "A.TX"))
            sends = [engine.send(topic(str(n), "A.NEW"), "test") for n in range(3)]
            await asyncio.gather(transaction.commit(), *sends)
            await send(engine, topic("y", "A.OLD"), topic("y", "B.NEW"))
            assert await rows() == [(name, "A.*") for name in ("A.*", "A.NEW", "A.OLD", "A.TX")]

    async def after() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine, "A.*")
            await consumer.got(5)
            assert sorted(consumer.bodies) == ["0", "1", "2", "in", "y"]
            await send(engine, topic("later", "A.LATER"))
            await consumer.got(6)
            assert str(consumer.deliveries[5].destination) == "topic://A.LATER"
            await consumer.acknowledge(*consumer.deliveries)
            consumer.subscription.close()
            await unsubscribe(engine)
            assert await rows() == []

    asyncio.run(before())
    asyncio.run(after())


def test_a_retroactive_one_gets_what_is_stored(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await subscribe(engine)
            await send(engine, topic("a"), topic("b"))
            late, retroactive = (
                await subscribe(engine, client="late"),
                await subscribe(engine, client="r", retroactive=True),
            )
            await send(engine, topic("c"))
            await late.got(1)
            await retroactive.got(3)
            assert (late.bodies, retroactive.bodies) == (["c"], ["a", "b", "c"])

    asyncio.run(main())


@pytest.mark.backends(*SLOW_WRITES)
def test_what_is_not_stored_keeps_its_place_behind_what_is(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await subscribe(engine)
            plain = await consume(engine, "topic://T")
            await send(engine, *[topic(str(n), persistent=n % 3 == 0) for n in range(50)])
            assert plain.bodies == [str(n) for n in range(50)]

    asyncio.run(main())


def test_what_is_not_stored_goes_to_those_who_are_there(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine)
            await send(engine, topic("a", persistent=False))
            await consumer.got(1)
            assert pending(store) == 0
            await consumer.acknowledge(*consumer.deliveries)
            assert engine.resources.memory.used == 0

    asyncio.run(main())


def test_what_is_not_stored_waits_for_the_next_consumer(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def main() -> None:
        async with running(store, memory_limit=100_000) as engine:
            consumer = await subscribe(engine, selector="n >= 0")
            sent = [topic(f"{n:100}", persistent=False, properties={"n": n}) for n in range(-2, 500)]
            await send(engine, *sent[:4])
            await consumer.got(2)
            consumer.subscription.close()
            await send(engine, *sent[4:])
            assert engine.resources.memory.used < 100_000
            again = await subscribe(engine, selector="n >= 0")
            await again.drain(500)
            assert [int(body) for body in again.bodies] == [*range(500)]
            assert [delivery.redelivered for delivery in again.deliveries] == [True] * 2 + [False] * 498
            assert engine.resources.memory.used == 0
            await send(engine, *sent[:50])
            again.subscription.close()
            await send(engine, *sent)
            await unsubscribe(engine)
            assert engine.resources.memory.used == 0
            await subscribe(engine)
            await send(engine, *sent)

    asyncio.run(main())


def test_a_transaction_of_sends_and_acknowledgements(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine)
            await send(engine, topic("a"), topic("b"))
            await consumer.got(2)
            transaction = engine.begin("test")
            transaction.acknowledge(consumer.subscription, consumer.deliveries[:1])
            await transaction.send(topic("c"))
            transaction.rollback()
            await quiet()
            assert consumer.bodies == ["a", "b"]
            transaction = engine.begin("test")
            transaction.acknowledge(consumer.subscription, consumer.deliveries[:1])
            await transaction.send(topic("d"))
            await transaction.commit()
            await consumer.got(3)
            assert consumer.bodies == ["a", "b", "d"]
            assert pending(store) == 2

    asyncio.run(main())


@pytest.mark.backends(*SLOW_WRITES)
def test_a_transaction_outlives_its_consumer(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine)
            await send(engine, *[topic(str(n)) for n in range(4)])
            await consumer.got(4)
            kept, dropped = engine.begin("test"), engine.begin("test")
            kept.acknowledge(consumer.subscription, consumer.deliveries[:1])
            dropped.acknowledge(consumer.subscription, consumer.deliveries[1:2])
            consumer.subscription.close()
            again = await subscribe(engine)
            await again.got(2)
            assert again.bodies == ["2", "3"]
            await kept.commit()
            dropped.rollback()
            await again.got(3)
            assert again.bodies == ["2", "3", "1"]
            assert pending(store) == 3
            again.subscription.close()
            last = await subscribe(engine)
            await last.got(3)
            assert last.bodies == ["1", "2", "3"]

    asyncio.run(main())


@pytest.mark.backends(*SLOW_WRITES)
def test_what_is_rejected_is_redelivered_and_then_dead(store: Store) -> None:
    policy = PolicyEntry(
        topic=">",
        redelivery_policy=RedeliveryPolicy(
            maximum_redeliveries=1, initial_redelivery_delay=0.0, redelivery_delay=0.0
        ),
    )

    async def main() -> None:
        async with running(store, policy) as engine:
            consumer, other = await subscribe(engine), await subscribe(engine, client="d")
            await send(engine, topic("a"), topic("b"))
            await consumer.got(2)
            await consumer.subscription.reject(consumer.deliveries[:1])
            await consumer.got(3)
            assert consumer.deliveries[2].message.redelivery_counter == 1
            await consumer.subscription.reject(consumer.deliveries[2:3])
            dead = await consume(engine, "ActiveMQ.DLQ")
            await dead.got(1)
            assert dead.bodies == ["a"]
            assert (pending(store), pending(store, client="d")) == (1, 2)
            await other.got(2)

    asyncio.run(main())


@pytest.mark.parametrize("apart", [False, True])
def test_dead_letters_may_be_apart_for_each_subscriber(store: Store, *, apart: bool) -> None:
    strategy = IndividualDeadLetterStrategy(topic_prefix="DLQ.", destination_per_durable_subscriber=apart)

    async def main() -> None:
        async with running(store, PolicyEntry(topic=">", dead_letter_strategy=strategy)) as engine:
            consumer = await subscribe(engine)
            await send(engine, topic("a"))
            await consumer.got(1)
            await consumer.subscription.reject(consumer.deliveries)
            dead = await consume(engine, "DLQ.T.c:s" if apart else "DLQ.T")
            assert [delivery.message.body for delivery in await dead.got(1)] == ["a"]

    asyncio.run(main())


def test_what_has_expired_is_a_dead_letter_and_acknowledged_for_it(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)

    async def main() -> None:
        async with running(store, clock=clock) as engine:
            consumer = await subscribe(engine)
            consumer.subscription.close()
            soon = clock.now_ms() + 1000
            await send(engine, topic("a", expiration_ms=soon), topic("b"), topic("c", expiration_ms=soon))
            clock.advance(2)
            again = await subscribe(engine)
            await again.got(1)
            assert again.bodies == ["b"]
            dead = await consume(engine, "ActiveMQ.DLQ")
            await dead.got(2)
            assert dead.bodies == ["a", "c"]
            await engine.until_idle()
            assert pending(store) == 1

    asyncio.run(main())


@pytest.mark.backends(*SLOW_WRITES)
def test_a_prioritised_topic(store: Store) -> None:
    async def main() -> None:
        async with running(store, PolicyEntry(topic=">", prioritized_messages=True)) as engine:
            consumer = await subscribe(engine)
            consumer.subscription.close()
            await send(engine, *[topic(f"{n % 10}", priority=n % 10) for n in range(40)])
            again = await subscribe(engine)
            await again.got(40)
            assert again.bodies == [str(n // 4) for n in reversed(range(40))]
            await send(engine, topic("low", priority=0), topic("high", priority=9))
            await again.got(42)
            await again.acknowledge(*again.deliveries)
            assert pending(store) == 0

    asyncio.run(main())


@pytest.mark.parametrize("name", ["topic://A,B", "temp-topic://test:1"])
def test_what_cannot_be_durable(store: Store, name: str) -> None:
    async def main() -> None:
        async with running(store) as engine:
            with pytest.raises(InvalidDestination):
                await consume(engine, name, client_id="c", subscription_name="s")

    asyncio.run(main())


@pytest.mark.backends("sqlite")
def test_the_rows_of_a_new_topic_cannot_be_written(open_store: OpenStore, database: Database) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine, "A.*")
            database.execute("ALTER TABLE ACTIVEMQ_ACKS RENAME TO AWAY")
            with pytest.raises(StoreError):
                await subscribe(engine, "A.*", client="d")
            transaction = engine.begin("test")
            await transaction.send(topic("0", "A.NEW"))
            results = await asyncio.gather(
                transaction.commit(),
                engine.send(topic("1", "A.NEW"), "test"),
                engine.send(topic("2", "A.NEW", persistent=False), "test"),
                return_exceptions=True,
            )
            assert all(isinstance(result, StoreError) for result in results)
            assert store.topic("A.NEW").message_count() == 0
            database.execute("ALTER TABLE AWAY RENAME TO ACTIVEMQ_ACKS")
            await send(engine, topic("3", "A.NEW"))
            await consumer.got(1)
            assert consumer.bodies == ["3"]
            other = await subscribe(engine, "A.*", client="d")
            await send(engine, topic("4", "A.NEW"))
            await other.got(1)
            assert other.bodies == ["4"]

    asyncio.run(main())


@pytest.mark.backends("sqlite")
def test_what_is_acknowledged_in_vain_comes_again(open_store: OpenStore, database: Database) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine)
            await send(engine, topic("a"), topic("b"))
            await consumer.got(2)
            database.execute("ALTER TABLE ACTIVEMQ_ACKS RENAME TO AWAY")
            with pytest.raises(StoreError):
                await consumer.subscription.acknowledge(consumer.deliveries[:1])
            database.execute("ALTER TABLE AWAY RENAME TO ACTIVEMQ_ACKS")
            await consumer.got(3)
            assert consumer.bodies == ["a", "b", "a"]
            assert consumer.deliveries[2].redelivered
            await consumer.acknowledge(*consumer.deliveries[1:])
            assert pending(store) == 0
            assert engine.resources.memory.used == 0

    asyncio.run(main())


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("name", ["queue://T", "topic://T"])
def test_a_damaged_row_is_told_and_not_delivered(
    open_store: OpenStore, database: Database, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    store = open_store()
    names: dict[str, Any] = {"client_id": "c", "subscription_name": "s"} if name.startswith("topic") else {}

    async def main() -> None:
        async with running(store) as engine:
            first = await consume(engine, name, **names)
            first.subscription.close()
            await send(engine, *[message(str(n), name) for n in range(3)])
            database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = x'00' WHERE ID = 2")
        async with running(store) as engine:
            consumer = await consume(engine, name, **names)
            await consumer.got(2)
            await send(engine, message("3", name))
            await consumer.got(3)
            assert consumer.bodies == ["0", "2", "3"]
            await consumer.acknowledge(*consumer.deliveries)

    asyncio.run(main())
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS WHERE ID = 2") == [(2,)]
    assert caplog.text.count("a message is not delivered: cannot decode a message (ID 2") == 1


def test_one_stored_selector_that_cannot_be_read_does_not_stop_the_others(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.topic("T").subscribe("theirs", "s", selector="XPATH '//a'")
    store.topic("T").subscribe("c", "s", selector="a = 1")

    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine, selector="a = 1")
            await send(engine, topic("1", properties={"a": 1}), topic("2", persistent=False))
            await consumer.got(1)
            assert consumer.bodies == ["1"]
            with pytest.raises(InvalidSelector):
                await subscribe(engine, client="theirs", selector="XPATH '//a'")
            assert pending(store, client="theirs") == 1
            renewed = await subscribe(engine, client="theirs", selector="a = 2")
            await send(engine, topic("3", properties={"a": 2}))
            await renewed.got(1)

    asyncio.run(main())
    [told] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert all(part in told for part in ("topic://T", "theirs", "subscription s", "XPATH"))


def test_one_that_is_offline_for_too_long_is_deleted(store: Store, clock: FakeClock) -> None:
    """The time begins with the broker, and when its consumer has gone."""

    async def main() -> None:
        options: dict[str, Any] = {"clock": clock, "offline_durable_timeout": 60.0}
        async with running(store, **options) as engine:
            for client in ("gone", "here"):
                await subscribe(engine, client=client)
        clock.advance(1000)
        async with running(store, **options) as engine:
            here = await subscribe(engine, client="here")
            await send(engine, message("x", "topic://T"))
            clock.advance(59)
            await engine.offline.delete()
            assert {one.key[0] for one in engine.durables} == {"gone", "here"}
            clock.advance(1)
            await engine.offline.delete()
            assert {one.client_id for one in store.topic("T").subscriptions()} == {"here"}
            here.subscription.close()
            clock.advance(59)
            await engine.offline.delete()
            again = await subscribe(engine, client="here")
            await again.got(1)
            again.subscription.close()
            clock.advance(60)
            await engine.offline.delete()
            assert [*engine.durables] == []
            assert store.topic("T").subscriptions() == []

    asyncio.run(main())


def test_one_that_comes_back_while_others_are_deleted_stays(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(store, clock=clock, offline_durable_timeout=60.0) as engine:
            for client in ("first", "second"):
                (await subscribe(engine, client=client)).subscription.close()
            clock.advance(100)
            unsubscribe = engine.durables.unsubscribe

            async def slowly(client_id: str, subscription_name: str) -> None:
                (await subscribe(engine, client="second")).subscription.close()
                await unsubscribe(client_id, subscription_name)

            monkeypatch.setattr(engine.durables, "unsubscribe", slowly)
            await engine.offline.delete()
            assert {one.key[0] for one in engine.durables} == {"second"}

    asyncio.run(main())


def test_offline_durables_expire(store: Store) -> None:
    async def main() -> None:
        often: dict[str, Any] = {"offline_durable_timeout": 0.001, "offline_durable_period": 0.001}
        async with running(store, **often) as engine:
            await subscribe(engine, client="here")
            (await subscribe(engine, client="gone")).subscription.close()
            await until(lambda: {one.key[0] for one in engine.durables} == {"here"})

    asyncio.run(main())


def test_none_where_they_are_refused(store: Store) -> None:
    async def main() -> None:
        async with running(store, reject_durables=True) as engine:
            with pytest.raises(InvalidSubscription, match="Durable Consumers are not allowed"):
                await subscribe(engine)
            await consume(engine, "topic://T")
            assert store.topic("T").subscriptions() == []

    asyncio.run(main())


TOO_LONG = "x" * 300


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": TOO_LONG},
        {"topic": f"NEWS.{TOO_LONG}.>"},
        {"client": TOO_LONG},
        {"selector": f"a = '{TOO_LONG}'"},
    ],
    ids=["topic", "wildcard", "client", "selector"],
)
def test_one_that_the_store_refuses_does_not_exist(store: Store, wrong: dict[str, str]) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, topic("before", "NEWS.A"))
            with pytest.raises((InvalidDestination, InvalidSubscription)):
                await subscribe(engine, **wrong)
            assert [*engine.durables] == []
            await send(engine, topic("after", "NEWS.A"))
            consumer = await subscribe(engine, "NEWS.>")
            await send(engine, topic("news", "NEWS.A"))
            await consumer.got(1)
            assert consumer.bodies == ["news"]

    asyncio.run(main())


@pytest.mark.parametrize("name", ["T", "NEWS.>"])
def test_one_that_exists_stays_when_the_store_refuses_another_selector(store: Store, name: str) -> None:
    there = name.replace(">", "A")

    async def main() -> None:
        async with running(store) as engine:
            consumer = await subscribe(engine, name, selector="a = 1")
            await send(engine, topic("first", there, properties={"a": 1}))
            consumer.subscription.close()
            with pytest.raises(InvalidSubscription):
                await subscribe(engine, name, selector=f"a = '{TOO_LONG}'")
            await send(engine, topic("second", there, properties={"a": 1}), topic("no", there))
            [durable] = engine.durables
            assert durable.selector == "a = 1"
            again = await subscribe(engine, name, selector="a = 1")
            await again.got(2)
            assert again.bodies == ["first", "second"]
            await again.acknowledge(*again.deliveries)
            assert pending(store, there) == 0

    asyncio.run(main())


@pytest.mark.backends(*SLOW_WRITES)
def test_expired_messages_of_an_absent_subscriber_are_dead_letters(
    open_store: OpenStore, clock: FakeClock
) -> None:
    """As in ActiveMQ, each once; those that its selector does not match are only removed."""
    store = open_store(clock=clock)
    policy = PolicyEntry(expire_messages_period=0.01, max_expire_page_size=7)

    async def main() -> None:
        async with running(store, policy, clock=clock) as engine:
            for client in ("absent", "here"):
                recorder = await subscribe(engine, client=client, selector="n < 30", prefetch=0)
                if client == "absent":
                    recorder.subscription.close()
            soon = clock.now_ms() + 1000
            sent = [
                message(str(n), "topic://T", expiration_ms=soon if n % 2 else 0, properties={"n": n})
                for n in range(40)
            ]
            await send(engine, *sent)
            absent = store.topic("T").subscription("absent", "s")
            clock.advance(1.5)
            dead = await consume(engine, "ActiveMQ.DLQ", prefetch=200)
            await dead.got(15)
            await until(lambda: not any(one.expiration_ms for one in absent.recover()))
            await quiet()
            assert [int(body) for body in dead.bodies] == list(range(1, 30, 2))
            kept = [n for n in range(40) if not n % 2]
            assert [int(str(one.body)) for one in absent.recover()] == kept
            assert store.topic("T").subscription("here", "s").message_count() == 40
            again = await subscribe(engine, client="absent", selector="n < 30")
            await again.got(15)
            assert [int(body) for body in again.bodies] == kept[:15]

    asyncio.run(main())
