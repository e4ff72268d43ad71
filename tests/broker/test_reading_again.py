"""Messages that memory had no room for, and that are read again when they are rejected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jdbcstore import Destination, Store
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy
from jdbcstore.errors import CorruptMessage, StoreError, StoreUnavailable
from tests.support.broker.consuming import Recorder, consume, message, quiet, running, send

pytestmark = pytest.mark.backends("memory", "sqlite")

POLICY = PolicyEntry(queue="Q", memory_limit=4000)


async def delivered(engine: Engine, *bodies: str) -> Recorder:
    """Deliver messages that are only in the store afterwards."""
    consumer = await consume(engine, "Q", recorder=Recorder(keeps_messages=False))
    await send(engine, *[message(body * 3500) for body in bodies])
    await consumer.got(len(bodies))
    return consumer


def failing(store: Store, monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> None:
    """Raise these errors at the next reads, one each."""
    stored = type(store.queue("Q"))
    read = stored.get_message

    def get_message(self: Any, sequence: int) -> Any:
        if errors:
            raise errors.pop()
        return read(self, sequence)

    monkeypatch.setattr(stored, "get_message", get_message)


def test_what_another_process_has_removed_counts_as_acknowledged(store: Store) -> None:
    async def main() -> None:
        async with running(store, POLICY) as engine:
            consumer = await delivered(engine, "a", "b", "c")
            one, *_ = store.queue("Q").recover()
            store.queue("Q").acknowledge(one)
            await consumer.subscription.reject(consumer.deliveries)
            dead = await consume(engine, "ActiveMQ.DLQ")
            await dead.got(2)
            await quiet()
            assert [body[0] for body in dead.bodies] == ["b", "c"]
            queue = engine.destinations[Destination.queue("Q")]
            assert (queue.counters.dequeued, queue.counters.dead) == (3, 2)
            assert (queue.memory.used, store.queue("Q").message_count()) == (0, 0)

    asyncio.run(main())


def test_all_may_have_been_removed(store: Store) -> None:
    async def main() -> None:
        async with running(store, POLICY) as engine:
            consumer = await delivered(engine, "a")
            store.queue("Q").remove_all_messages()
            await consumer.subscription.reject(consumer.deliveries)
            assert engine.destinations[Destination.queue("Q")].memory.used == 0
            assert store.queue("ActiveMQ.DLQ").message_count() == 0

    asyncio.run(main())


def test_what_the_database_does_not_give_comes_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = PolicyEntry(
        queue="Q", memory_limit=4000, redelivery_policy=RedeliveryPolicy(maximum_redeliveries=0)
    )

    async def main() -> None:
        async with running(store, policy) as engine:
            consumer = await delivered(engine, "a", "b")
            failing(store, monkeypatch, [StoreUnavailable("no answer")])
            with pytest.raises(StoreUnavailable, match="no answer"):
                await consumer.subscription.reject(consumer.deliveries)
            again = await consumer.got(4)
            assert {one[0] for one in consumer.given[2:]} == {"a", "b"}
            await consumer.subscription.reject(again[2:])
            assert store.queue("Q").message_count() == 0
            assert {str(one.body)[0] for one in store.queue("ActiveMQ.DLQ").recover()} == {"a", "b"}

    asyncio.run(main())


def test_what_cannot_be_read_stays_and_is_not_delivered_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception] = [CorruptMessage("too short")]

    async def main() -> None:
        async with running(store, POLICY) as engine:
            consumer = await delivered(engine, "a", "b")
            failing(store, monkeypatch, errors)
            with pytest.raises(StoreError, match="too short"):
                await consumer.subscription.reject(consumer.deliveries)
            queue = engine.destinations[Destination.queue("Q")]
            assert isinstance(queue, Queue)
            assert not queue.pending.rejections.delayed
            assert [str(one.body)[0] for one in store.queue("Q").recover()] == ["a"]
            assert [str(one.body)[0] for one in store.queue("ActiveMQ.DLQ").recover()] == ["b"]

    asyncio.run(main())
    assert "a message cannot be read, and stays in its queue" in caplog.text
