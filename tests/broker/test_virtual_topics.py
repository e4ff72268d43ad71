"""Virtual topics and composite destinations: copies for other destinations, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from jdbcstore import Destination, Message, MessageId, ProducerId, Store
from jdbcstore.broker.engine import Engine
from jdbcstore.config.virtual import CompositeConfig, ForwardConfig, VirtualTopicConfig
from jdbcstore.errors import InvalidDestination
from jdbcstore.testing import OpenStore
from tests.support.broker.consuming import consume, message, quiet, running, send
from tests.support.databases import Database

TOPIC = "topic://VirtualTopic.ORDERS"
A, B = "Consumer.A.VirtualTopic.ORDERS", "Consumer.B.VirtualTopic.ORDERS"

pytestmark = pytest.mark.backends("memory", "sqlite")


def pages(store: Store, *queues: str) -> list[list[Any]]:
    return [[one.body for one in store.queue(queue).recover()] for queue in queues]


@pytest.mark.backends("memory", "sqlite", "postgresql", "mariadb", "mysql")
def test_each_known_queue_gets_a_copy(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, A), await consume(engine, B)
            topic = await consume(engine, TOPIC)
            await send(engine, message("first", TOPIC))
            assert pages(store, A, B) == [["first"], ["first"]]
            for consumer, queue in ((one, A), (two, B)):
                [delivery] = await consumer.got(1)
                assert delivery.message.destination == Destination.queue(queue)
                assert delivery.message.original_destination == Destination.parse(TOPIC)
            [direct] = await topic.got(1)
            assert direct.message.original_destination is None
            await one.acknowledge(*one.deliveries)
            assert pages(store, A, B) == [[], ["first"]]

    asyncio.run(main())


def test_a_consumer_of_several_virtual_topics_has_one_queue(store: Store) -> None:
    """Its name has the wildcard, and it is there after a restart."""
    several = "Consumer.A.VirtualTopic.>"

    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, several)
            await send(engine, message("1", TOPIC), message("2", "topic://VirtualTopic.OTHER.ONE"))
            await consumer.drain(2)
            assert sorted(consumer.bodies) == ["1", "2"]
            assert {one.message.destination for one in consumer.deliveries} == {Destination.queue(several)}
            await send(engine, message("no", "topic://Other"))
            consumer.subscription.close()
        async with running(store) as engine:
            await send(engine, message("3", TOPIC))
            assert pages(store, several) == [["3"]]
            consumer = await consume(engine, several)
            await consumer.drain(1)
            one = await consume(engine, A)
            await send(engine, message("4", TOPIC))
            await consumer.got(2)  # and perhaps the copy of the queue that both consume
            assert pages(store, several, A) == [["4"], ["4"]]
            one.subscription.close()

    asyncio.run(main())


def test_a_wildcard_consumer_shares_the_queues_of_virtual_topics_that_are_there(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            (await consume(engine, A)).subscription.close()
            consumer = await consume(engine, "Consumer.A.VirtualTopic.>")
            await send(engine, message("1", TOPIC))
            [delivery] = await consumer.got(1)
            assert delivery.message.destination == Destination.queue(A)
            await send(engine, message("nobody's", "topic://VirtualTopic.OTHER"))
            await quiet()
            assert consumer.bodies == ["1"]

    asyncio.run(main())


@pytest.mark.backends("memory", "sqlite", "postgresql", "mariadb", "mysql")
def test_a_queue_gets_copies_after_a_restart_though_nobody_is_connected(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, A)
            consumer.subscription.close()
            engine.destinations.forget_idle()
            engine.destinations.forget_idle()
            await send(engine, message("before", TOPIC))
            assert pages(store, A) == [["before"]]
            store.queue(A).acknowledge(*store.queue(A).recover())
        async with running(store) as engine:
            await send(engine, message("after", TOPIC))
            assert pages(store, A, B) == [["after"], []]

    asyncio.run(main())


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_copies_and_the_topic_s_own_row_are_one_commit(store: Store, database: Database) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await consume(engine, A)
            await consume(engine, B)
            await consume(engine, TOPIC, client_id="c", subscription_name="s")
            await send(engine, message("x", TOPIC, message_id=MessageId(ProducerId("ID:c", 1, 1), 7)))

    asyncio.run(main())
    rows = database.rows("SELECT CONTAINER, MSGID_PROD, MSGID_SEQ FROM ACTIVEMQ_MSGS ORDER BY ID")
    assert [row[0] for row in rows] == [f"queue://{A}", f"queue://{B}", TOPIC]
    assert len({row[1:] for row in rows}) == 1
    recorded = "SELECT CONTAINER FROM ACTIVEMQ_ACKS WHERE PRIORITY = 11 ORDER BY CONTAINER"
    assert database.rows(recorded) == [(f"queue://{A}",), (f"queue://{B}",)]


def test_all_or_none_is_stored(store: Store) -> None:
    too_long = CompositeConfig(
        queue="IN", forward_to=(ForwardConfig(queue="A"), ForwardConfig(queue="x" * 250)), forward_only=False
    )

    async def main() -> None:
        async with running(store, composite_destinations=(too_long,)) as engine:
            with pytest.raises(InvalidDestination):
                await send(engine, message("x", "IN"))
            transaction = engine.begin("test")
            transaction.send(message("y", "A"))
            with pytest.raises(InvalidDestination):
                await transaction.send(message("x", "IN"))
            assert pages(store, "IN", "A") == [[], []]

    asyncio.run(main())


def test_what_is_not_persistent_is_not_stored(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, A), await consume(engine, B)
            await send(engine, message("x", TOPIC, persistent=False))
            for consumer in (one, two):
                [delivery] = await consumer.got(1)
                assert delivery.message.original_destination == Destination.parse(TOPIC)
            assert store.last_sequence() == 0

    asyncio.run(main())


def test_copies_of_a_transaction_come_with_its_commit(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one = await consume(engine, A)
            first = engine.begin("test")
            first.send(message("dropped", TOPIC))
            first.rollback()
            second = engine.begin("test")
            second.send(message("a", TOPIC))
            second.send(message("b", TOPIC))
            await quiet()
            assert one.bodies == []
            assert pages(store, A) == [[]]
            await second.commit()
            await one.got(2)
            assert one.bodies == ["a", "b"]

    asyncio.run(main())


def test_messages_of_a_connection_keep_their_order(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one = await consume(engine, A)
            await consume(engine, B)
            numbers = [str(n) for n in range(60)]
            await send(engine, *[message(n, TOPIC if int(n) % 3 else f"queue://{A}") for n in numbers])
            await one.got(60)
            assert one.bodies == numbers

    asyncio.run(main())


def test_a_selector_decides_for_a_selector_aware_topic(store: Store) -> None:
    topics = (VirtualTopicConfig(name="VirtualTopic.>", selector_aware=True),)

    async def main() -> None:
        async with running(store, virtual_topics=topics) as engine:
            await consume(engine, A, selector="colour = 'red'")
            two = await consume(engine, B)
            two.subscription.close()
            await send(engine, message("r", TOPIC, properties={"colour": "red"}), message("b", TOPIC))
            assert pages(store, A, B) == [["r"], []]

    asyncio.run(main())


def test_other_names(store: Store) -> None:
    topics = (VirtualTopicConfig(name="NEWS.>", prefix="*.Listener.", postfix=".Q"),)

    async def main() -> None:
        async with running(store, virtual_topics=topics) as engine:
            await consume(engine, "X.Listener.NEWS.UK.Q")
            await consume(engine, "X.Listener.NEWS.US.Q")
            await consume(engine, A)
            await send(engine, message("uk", "topic://NEWS.UK"), message("none", TOPIC))
            assert pages(store, "X.Listener.NEWS.UK.Q", "X.Listener.NEWS.US.Q", A) == [["uk"], [], []]
        async with running(store, virtual_topics=()) as engine:
            await consume(engine, A)
            await send(engine, message("none", TOPIC))
            assert pages(store, A) == [[]]

    asyncio.run(main())


async def forwarded(store: Store, composite: CompositeConfig, *messages: Message) -> Engine:
    async with running(store, composite_destinations=(composite,)) as engine:
        await send(engine, *messages)
    return engine


@pytest.mark.parametrize(
    ("options", "own"),
    [({}, []), ({"forward_only": False}, ["1", "2"]), ({"send_when_not_matched": True}, ["2"])],
)
def test_a_composite_queue(store: Store, options: dict[str, Any], own: Sequence[str]) -> None:
    to = (
        ForwardConfig(queue="ODD", selector="odd = 'yes'"),
        ForwardConfig(queue="ODD.TOO", selector="odd = 'yes'"),
    )
    composite = CompositeConfig(queue="IN", forward_to=to, **options)
    asyncio.run(
        forwarded(store, composite, message("1", "IN", properties={"odd": "yes"}), message("2", "IN"))
    )
    assert pages(store, "IN", "ODD", "ODD.TOO") == [own, ["1"], ["1"]]
    [odd] = store.queue("ODD").recover()
    assert odd.original_destination == Destination.queue("IN")


def test_a_composite_topic_feeds_a_virtual_one(store: Store) -> None:
    composite = CompositeConfig(topic="IN.*", forward_to=(ForwardConfig(topic="VirtualTopic.ORDERS"),))

    async def main() -> None:
        async with running(store, composite_destinations=(composite,)) as engine:
            await consume(engine, A)
            await send(engine, message("x", "topic://IN.1"))
            assert pages(store, A) == [["x"]]

    asyncio.run(main())


def test_a_circle_ends_where_the_message_has_been(store: Store) -> None:
    circle = tuple(
        CompositeConfig(queue=queue, forward_to=(ForwardConfig(queue=to),), forward_only=False)
        for queue, to in (("ONE", "TWO"), ("TWO", "ONE"))
    )

    async def main() -> None:
        async with running(store, composite_destinations=circle) as engine:
            await send(engine, message("x", "ONE"))
            assert pages(store, "ONE", "TWO") == [["x"], ["x"]]

    asyncio.run(main())


@pytest.mark.backends("sqlite")
def test_an_audit_does_not_drop_the_copies(open_store: OpenStore) -> None:
    store = open_store(enable_audit=True)

    async def main() -> None:
        async with running(store, audited=True) as engine:
            await consume(engine, A)
            await consume(engine, B)
            await consume(engine, TOPIC, client_id="c", subscription_name="s")
            await send(engine, message("x", TOPIC))
            assert pages(store, A, B) == [["x"], ["x"]]
            assert store.topic("VirtualTopic.ORDERS").message_count() == 1

    asyncio.run(main())
