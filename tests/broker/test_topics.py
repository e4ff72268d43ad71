"""Topics and the consumers that are not durable."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from jdbcstore import Destination, MessageId, Store
from jdbcstore.broker.cursors.file import FileCursor
from jdbcstore.broker.topics.subscriber import TopicSubscriber
from jdbcstore.config.policy import (
    FixedCountSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    PolicyEntry,
)
from jdbcstore.errors import InvalidDestination, InvalidSelector, SpillFailed
from jdbcstore.testing import OpenStore
from jdbcstore.testing.clock import FakeClock
from tests.support.broker.consuming import PATIENCE, Recorder, consume, message, quiet, running, send
from tests.support.broker.files import files

pytestmark = pytest.mark.backends("memory", "sqlite")

CURSORS = pytest.mark.parametrize("cursor", ["fileCursor", "vmCursor"])


def subscriber(recorder: Recorder) -> TopicSubscriber:
    assert isinstance(recorder.subscription, TopicSubscriber)
    return recorder.subscription


def test_all_subscribers_get_the_very_same_message(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumers = [await consume(engine, "topic://T") for _ in range(3)]
            sent = [message(str(n), "topic://T") for n in range(10)]
            await send(engine, *sent)
            for consumer in consumers:
                await consumer.got(10)
                assert all(
                    delivery.message is one for delivery, one in zip(consumer.deliveries, sent, strict=True)
                )
                assert not any(delivery.redelivered for delivery in consumer.deliveries)
                await consumer.acknowledge(*consumer.deliveries)
            assert store.destinations() == []

    asyncio.run(main())


def test_a_topic_delivers_only_what_comes_later(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, message("early", "topic://T"))
            consumer = await consume(engine, "topic://T")
            await send(engine, message("late", "topic://T"), message("else", "topic://U"))
            await quiet()
            assert consumer.bodies == ["late"]
            consumer.subscription.close()
            await send(engine, message("too late", "topic://T"))
            await quiet()
            assert consumer.bodies == ["late"]

    asyncio.run(main())


@CURSORS
def test_what_a_subscriber_cannot_take_waits_for_it(store: Store, cursor: str) -> None:
    policy = PolicyEntry(topic=">", pending_subscriber_policy=cursor)

    async def main() -> None:
        async with running(store, policy) as engine:
            slow, fast = await consume(engine, "topic://T", prefetch=2), await consume(engine, "topic://T")
            await send(engine, *[message(str(n), "topic://T") for n in range(100)])
            await fast.got(100)
            await slow.got(2)
            assert fast.bodies == [str(n) for n in range(100)]
            assert slow.bodies == ["0", "1"]
            for n in range(2, 102, 2):
                await slow.acknowledge(*slow.deliveries[n - 2 : n])
                await slow.got(min(n + 2, 100))
            assert slow.bodies == fast.bodies

    asyncio.run(main())


def test_a_slow_subscriber_goes_on_in_files(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def main() -> None:
        async with running(store, memory_limit=100_000) as engine:
            slow = await consume(engine, "topic://T", prefetch=1)
            await send(engine, *[message(f"{n:1000}", "topic://T") for n in range(1000)])
            await slow.got(1)
            cursor = subscriber(slow)._cursor
            assert isinstance(cursor, FileCursor)
            assert subscriber(slow).pending == 999
            assert 0 < cursor.in_memory.count * 2000 < 100_000
            await slow.drain(1000)
            assert [int(body) for body in slow.bodies] == [*range(1000)]
            assert engine.resources.memory.used == 0

    asyncio.run(main())


def test_the_oldest_go_beyond_the_limit(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(store, PolicyEntry(topic=">", pending_message_limit=3)) as engine:
            slow = await consume(engine, "topic://T", prefetch=2)
            await quiet()
            await send(engine, *[message(str(n), "topic://T") for n in range(10)])
            await slow.got(2)
            await slow.acknowledge(*slow.deliveries)
            await slow.got(4)
            await slow.acknowledge(*slow.deliveries)
            await slow.got(5)
            assert slow.bodies == ["0", "1", "7", "8", "9"]
            assert subscriber(slow).discarded == 5

    asyncio.run(main())
    assert caplog.text.count("loses messages") == 1


def test_wildcards_and_composites(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, message("x", "topic://A.OLD"))
            child = await consume(engine, "topic://A.*")
            below = await consume(engine, "topic://A.>")
            both = await consume(engine, "topic://A.B,C")
            names = ["A", "A.B", "A.B.C", "C", "A.OLD", "B"]
            await send(engine, *[message(name, f"topic://{name}") for name in names])
            await quiet()
            assert child.bodies == ["A.B", "A.OLD"]
            assert below.bodies == ["A", "A.B", "A.B.C", "A.OLD"]
            assert both.bodies == ["A.B", "C"]
            assert [str(delivery.destination) for delivery in child.deliveries] == [
                "topic://A.B",
                "topic://A.OLD",
            ]
            below.subscription.close()
            await send(engine, message("again", "topic://A.NEW"))
            await child.got(3)
            await quiet()
            assert child.bodies == ["A.B", "A.OLD", "again"]
            assert len(below.bodies) == 4

    asyncio.run(main())


def test_a_wildcard_subscriber_that_is_slow_gets_all_in_order(store: Store) -> None:
    async def main() -> None:
        async with running(store, memory_limit=20_000) as engine:
            slow = await consume(engine, "topic://A.>", prefetch=1)
            sent = [message(f"{n}", f"topic://A.{n % 7}") for n in range(200)]
            await send(engine, *sent)
            await slow.drain(200)
            assert slow.bodies == [one.body for one in sent]
            assert [one.destination for one in slow.deliveries] == [one.destination for one in sent]

    asyncio.run(main())


def test_selectors_and_no_local(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            red = await consume(engine, "topic://T", selector="colour = 'red'")
            others = await consume(engine, "topic://T", no_local=True, connection_id="c-1")
            with pytest.raises(InvalidSelector):
                await consume(engine, "topic://T", selector="colour =")
            mine = message("mine", "topic://T", message_id=MessageId.parse("ID:c-1:1:1:1"))
            theirs = MessageId.parse("c-1:1:1:1").producer_id
            await send(
                engine,
                message("red", "topic://T", properties={"colour": "red"}),
                mine.replace(producer_id=theirs),
            )
            await quiet()
            assert red.bodies == ["red"]
            assert others.bodies == ["red"]

    asyncio.run(main())


def test_a_retroactive_subscriber_gets_what_the_policy_keeps(store: Store) -> None:
    policies = (
        PolicyEntry(
            topic="COUNT.*", subscription_recovery_policy=FixedCountSubscriptionRecoveryPolicy(maximum_size=2)
        ),
        PolicyEntry(
            topic="LAST.*",
            subscription_recovery_policy=LastImageSubscriptionRecoveryPolicy(),
            always_retroactive=True,
        ),
    )

    async def main() -> None:
        async with running(store, *policies) as engine:
            for name in ("COUNT.A", "COUNT.B", "LAST.A", "NONE"):
                await send(engine, *[message(f"{name} {n}", f"topic://{name}") for n in range(4)])
            asks = await consume(engine, "topic://COUNT.*", retroactive=True)
            asks_not = await consume(engine, "topic://COUNT.*")
            need_not = await consume(engine, "topic://LAST.*")
            in_vain = await consume(engine, "topic://NONE", retroactive=True)
            chooses = await consume(engine, "topic://COUNT.A", retroactive=True, selector="JMSPriority > 4")
            await quiet()
            assert sorted(asks.bodies) == ["COUNT.A 2", "COUNT.A 3", "COUNT.B 2", "COUNT.B 3"]
            assert need_not.bodies == ["LAST.A 3"]
            assert asks_not.bodies == in_vain.bodies == chooses.bodies == []
            await send(engine, message("new", "topic://COUNT.A"))
            await asks.got(5)
            await asks_not.got(1)
            assert asks.bodies[4:] == asks_not.bodies == ["new"]

    asyncio.run(main())


def test_what_expires_while_it_waits_is_not_delivered(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)

    async def main() -> None:
        async with running(store, clock=clock) as engine:
            slow = await consume(engine, "topic://T", prefetch=1)
            soon = clock.now_ms() + 1000
            await send(
                engine,
                message("a", "topic://T"),
                message("b", "topic://T", expiration_ms=soon),
                message("c", "topic://T"),
            )
            await slow.got(1)
            clock.advance(2)
            await send(engine, message("d", "topic://T", expiration_ms=soon))
            await slow.acknowledge(*slow.deliveries)
            await slow.got(2)
            await slow.acknowledge(*slow.deliveries)
            await quiet()
            assert slow.bodies == ["a", "c"]
            await slow.acknowledge(*slow.deliveries)
            assert engine.resources.memory.used == 0

    asyncio.run(main())


def test_a_paused_subscriber_gets_nothing(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "topic://T")
            consumer.subscription.pause()
            await send(engine, *[message(str(n), "topic://T") for n in range(3)])
            await quiet()
            assert consumer.bodies == []
            consumer.subscription.resume()
            await consumer.got(3)
            assert consumer.bodies == ["0", "1", "2"]

    asyncio.run(main())


def test_rejected_or_held_by_a_closed_subscriber_it_is_gone(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "topic://T")
            await send(engine, message("a", "topic://T"), message("b", "topic://T"))
            await consumer.got(2)
            await consumer.subscription.reject(consumer.deliveries[:1])
            consumer.subscription.close()
            await quiet()
            assert consumer.bodies == ["a", "b"]
            assert engine.resources.memory.used == 0
            assert store.destinations() == []

    asyncio.run(main())


def test_acknowledged_in_a_transaction(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "topic://T", prefetch=1)
            await send(engine, message("a", "topic://T"), message("b", "topic://T"))
            await consumer.got(1)
            transaction = engine.begin("test")
            await transaction.send(message("c", "topic://T"))
            transaction.acknowledge(consumer.subscription, consumer.deliveries[:1])
            await consumer.got(2)
            assert consumer.bodies == ["a", "b"]
            await transaction.commit()
            await consumer.acknowledge(consumer.deliveries[1])
            await consumer.got(3)
            assert consumer.bodies == ["a", "b", "c"]
            assert store.destinations() == []

    asyncio.run(main())


def test_queues_and_topics_are_not_subscribed_to_together(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            with pytest.raises(InvalidDestination, match="subscribe to each"):
                await consume(engine, "topic://A,queue://B")

    asyncio.run(main())


def test_a_subscriber_whose_file_is_damaged_is_told(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "waiting"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))

    async def main() -> None:
        async with running(store, memory_limit=20_000) as engine:
            slow = await consume(engine, "topic://T", prefetch=1)
            await send(engine, *[message(f"{n:1000}", "topic://T") for n in range(100)])
            await slow.got(1)
            [file] = files(folder)
            os.pwrite(file, b"damaged", 0)
            while slow.error is None:
                await slow.acknowledge(*slow.deliveries[-1:])
                await quiet()
            assert isinstance(slow.error, SpillFailed)
            await quiet()
            assert engine.resources.memory.used == 0
            assert files(folder) == []

    asyncio.run(main())
    assert "are lost" in caplog.text


def test_what_waits_in_files_is_told_of_and_bounded(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jdbcstore.broker.cursors.file._LARGE", 200_000)

    async def main() -> None:
        async with running(store, folder=tmp_path, memory_limit=100_000, temp_limit=1_000_000) as engine:
            slow = await consume(engine, "topic://T", prefetch=1, connection_id="ID:slow")
            sends = []
            for n in range(150):
                sends.append(engine.send(message(f"{n:10000}", "topic://T", persistent=False), "test"))
                await quiet()
            assert not all(one.done() for one in sends)
            assert 900_000 < engine.resources.files.used < 1_100_000
            await slow.drain(150)
            await asyncio.gather(*sends)
            assert [int(body) for body in slow.bodies] == [*range(150)]
            assert (engine.resources.files.used, engine.resources.memory.used) == (0, 0)

    asyncio.run(main())
    texts = [record.getMessage() for record in caplog.records]
    assert all("topic://T" in text and "ID:slow" in text for text in texts)
    assert any("temp_limit of 1000000 bytes is reached" in text for text in texts)
    assert len([text for text in texts if "wait in files" in text]) == 3  # 200, 400 and 800 KB


def test_expired_messages_of_a_topic_are_counted(store: Store, clock: FakeClock) -> None:
    async def main() -> None:
        async with running(store, clock=clock) as engine:
            consumer = await consume(engine, "topic://T", prefetch=1)
            counters = engine.destinations[Destination.topic("T")].counters
            soon = clock.now_ms() + 1000
            await send(engine, message("late", "topic://T", expiration_ms=clock.now_ms() - 1))
            assert counters.expired == 1
            await send(engine, *[message(n, "topic://T", expiration_ms=soon) for n in "abc"])
            await consumer.got(1)
            clock.advance(2)
            async with asyncio.timeout(PATIENCE):
                await consumer.subscription.expire(consumer.deliveries)  # as JMS clients report it
            await quiet()
            assert (counters.expired, counters.enqueued) == (4, 4)

    asyncio.run(main())
