"""What becomes of messages when the store refuses a write."""

from __future__ import annotations

import asyncio

import pytest

from jdbcstore import Message, MessageId
from jdbcstore.errors import InvalidDestination, InvalidMessage, StoreError
from jdbcstore.testing import OpenStore
from tests.support.broker.consuming import consume, message, quiet, running, send
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held
from tests.support.faults.refusing import refused

pytestmark = pytest.mark.backends("sqlite")


def test_messages_written_together_fail_alone(open_store: OpenStore, database: Database) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            with refused(database, "INSERT ON ACTIVEMQ_MSGS WHEN NEW.CONTAINER = 'queue://BAD'"):
                sent = [engine.send(message(str(n), "BAD" if n == 3 else "Q"), "test") for n in range(6)]
                done = await asyncio.gather(*sent, return_exceptions=True)
            assert [n for n, error in enumerate(done) if error is not None] == [3]
            assert isinstance(done[3], StoreError)
            await consumer.drain(5)
            assert consumer.bodies == ["0", "1", "2", "4", "5"]
            assert store.destinations() == []

    asyncio.run(main())


def test_what_was_written_with_a_bad_one_is_not_overtaken(open_store: OpenStore, database: Database) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            with refused(database, "INSERT ON ACTIVEMQ_MSGS WHEN NEW.CONTAINER = 'queue://BAD'"):
                with writes_held(database):
                    sent = [engine.send(message("0"), "one")]
                    await quiet()
                    sent += [engine.send(message("1"), "one"), engine.send(message("x", "BAD"), "two")]
                    await quiet()
                    sent.append(engine.send(message("2"), "one"))
                    await quiet()
                done = await asyncio.gather(*sent, return_exceptions=True)
            assert [n for n, error in enumerate(done) if error is not None] == [2]
            await consumer.got(3)
            assert consumer.bodies == ["0", "1", "2"]
            assert [each.body for each in store.queue("Q").recover()] == ["0", "1", "2"]

    asyncio.run(main())


def test_what_cannot_be_acknowledged_comes_again(open_store: OpenStore, database: Database) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, message("a"), message("b"))
            await consumer.got(2)
            with refused(database, "DELETE ON ACTIVEMQ_MSGS"):
                with pytest.raises(StoreError):
                    await consumer.acknowledge(*consumer.deliveries)
                await consumer.got(4)
            assert consumer.bodies == ["a", "b", "a", "b"]
            assert all(delivery.redelivered for delivery in consumer.deliveries[2:])
            await consumer.acknowledge(*consumer.deliveries[2:])
            assert store.queue("Q").message_count() == 0

    asyncio.run(main())


def test_a_transaction_that_fails_has_done_nothing(open_store: OpenStore, database: Database) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, message("a"))
            await consumer.got(1)
            transaction = engine.begin("test")
            await transaction.send(message("b"))
            transaction.acknowledge(consumer.subscription, consumer.deliveries)
            with refused(database, "DELETE ON ACTIVEMQ_MSGS"), pytest.raises(StoreError):
                await transaction.commit()
            await quiet()
            # The delivery is still with its consumer.
            assert consumer.bodies == ["a"]
            await consumer.acknowledge(*consumer.deliveries)
            assert store.queue("Q").message_count() == 0

    asyncio.run(main())


def test_a_dead_letter_that_cannot_be_moved_stays_and_is_moved_later(
    open_store: OpenStore, database: Database
) -> None:
    store = open_store()

    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, message("a"))
            await consumer.got(1)
            with refused(database, "INSERT ON ACTIVEMQ_MSGS"), pytest.raises(StoreError):
                await consumer.subscription.reject(consumer.deliveries)
            assert store.queue("Q").message_count() == 1
            await consumer.got(2)
            await consumer.subscription.reject(consumer.deliveries[1:])
            assert store.queue("Q").message_count() == 0
            assert store.queue("ActiveMQ.DLQ").message_count() == 1

    asyncio.run(main())


def test_what_is_wrong_with_a_message_is_told_to_its_sender(open_store: OpenStore) -> None:
    async def main() -> None:
        async with running(open_store()) as engine:
            with pytest.raises(InvalidDestination):
                await engine.send(Message("x"), "test")
            with pytest.raises(InvalidDestination, match="wildcards"):
                await engine.send(message("x", "A.*"), "test")
            with pytest.raises(InvalidDestination, match="shorter"):
                await engine.send(message("x", "Q" * 300), "test")
            long = MessageId.parse(f"ID:{'x' * 300}:1:1:1")
            with pytest.raises(InvalidMessage, match="shorter"):
                await engine.send(message("x", message_id=long), "test")

    asyncio.run(main())


def test_an_audit_of_ids_loses_no_copy(open_store: OpenStore) -> None:
    store = open_store(enable_audit=True)

    async def main() -> None:
        async with running(store, audited=True) as engine:
            one, two = await consume(engine, "ONE"), await consume(engine, "TWO")
            dead = await consume(engine, "ActiveMQ.DLQ")
            await send(engine, message("a", "ONE,TWO", message_id=MessageId.parse("ID:a-1:1:1:7")))
            await one.got(1)
            await two.drain(1)
            name = str(one.deliveries[0].message.message_id)
            assert str(two.deliveries[0].message.message_id) == name
            await one.subscription.reject(one.deliveries)
            await dead.drain(1)
            assert str(dead.deliveries[0].message.message_id) == name

    asyncio.run(main())
