"""Queues: order, competing consumers, acknowledgements, what comes back."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from jdbcstore import Destination, Message, Store
from jdbcstore.abc import Cursor, Page
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import InvalidDestination
from jdbcstore.testing import OpenStore
from tests.support.broker.consuming import PATIENCE, consume, message, quiet, running, send
from tests.support.broker.managed import ALICE, managed

pytestmark = pytest.mark.backends("memory", "sqlite")


def test_a_queue_delivers_in_order_and_forgets_what_is_acknowledged(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, *[message(str(n)) for n in range(10)])
            consumer = await consume(engine, "Q")
            await send(engine, *[message(str(n)) for n in range(10, 20)])
            await consumer.got(20)
            assert consumer.bodies == [str(n) for n in range(20)]
            assert not any(delivery.redelivered for delivery in consumer.deliveries)
            assert store.queue("Q").message_count() == 20
            await consumer.acknowledge(*consumer.deliveries)
            assert store.queue("Q").message_count() == 0

    asyncio.run(main())


def test_consumers_take_turns_up_to_their_prefetch(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, "Q", prefetch=2), await consume(engine, "Q", prefetch=3)
            await send(engine, *[message(n) for n in "abcdefgh"])
            await one.got(2)
            await two.got(3)
            await quiet()
            assert (one.bodies, two.bodies) == (["a", "c"], ["b", "d", "e"])
            await one.acknowledge(*one.deliveries)
            await one.got(4)
            assert one.bodies == ["a", "c", "f", "g"]

    asyncio.run(main())


def test_what_a_closed_consumer_had_goes_back_in_its_place(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, "Q", prefetch=2), await consume(engine, "Q", prefetch=2)
            await send(engine, *[message(n) for n in "abcdef"])
            await one.got(2)
            await two.got(2)
            one.subscription.close()
            two.subscription.close()
            three = await consume(engine, "Q")
            await three.got(6)
            assert three.bodies == ["a", "b", "c", "d", "e", "f"]
            assert [delivery.redelivered for delivery in three.deliveries] == [True] * 4 + [False] * 2
            # It is no more theirs.
            await one.subscription.acknowledge(one.deliveries)
            assert store.queue("Q").message_count() == 6

    asyncio.run(main())


def test_what_is_not_persistent_never_touches_the_store(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, *[message(n, persistent=False) for n in "abc"])
            assert store.last_sequence() == 0
            consumer = await consume(engine, "Q")
            await consumer.got(3)
            consumer.subscription.close()
            consumer = await consume(engine, "Q")
            await consumer.got(3)
            assert consumer.bodies == ["a", "b", "c"]
            await consumer.acknowledge(*consumer.deliveries)
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await quiet()
            assert consumer.deliveries == []

    asyncio.run(main())


@pytest.mark.parametrize("priorities", [False, True])
def test_a_backlog_is_read_in_pages_while_producers_go_on(store: Store, priorities: bool) -> None:
    policy = PolicyEntry(queue="Q", max_page_size=10, prioritized_messages=priorities)

    async def main() -> None:
        async with running(store, policy) as engine:
            await send(engine, *[message(n, priority=4) for n in map(str, range(300))])
            consumer = await consume(engine, "Q", prefetch=25)
            for first in range(300, 600, 10):
                await send(engine, *[message(str(n)) for n in range(first, first + 10)])
                await consumer.acknowledge(*consumer.deliveries)
            await consumer.drain(600)
            assert consumer.bodies == [str(n) for n in range(600)]

    asyncio.run(main())


@pytest.mark.parametrize("cursor", ["storeCursor", "fileQueueCursor"])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_backlog_is_not_held_in_memory(store: Store, cursor: str, persistent: bool) -> None:
    policy = PolicyEntry(queue="Q", max_page_size=10, memory_limit=100_000, pending_queue_policy=cursor)

    async def main() -> None:
        async with running(store, policy) as engine:
            memory = engine.destinations.find(Destination.queue("Q")).memory
            first = await consume(engine, "Q", prefetch=3)
            for begin in range(0, 2000, 100):
                await send(
                    engine, *[message(str(n), persistent=persistent) for n in range(begin, begin + 100)]
                )
                assert memory.used <= 100_000
            first.subscription.close()
            consumer = await consume(engine, "Q", prefetch=20)
            await consumer.drain(2000)
            assert consumer.bodies == [str(n) for n in range(2000)]
            assert memory.used == 0

    asyncio.run(main())


@pytest.mark.parametrize("left", [16 << 20, 0])
def test_pages_are_whole_while_memory_is_left(
    store: Store, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other queues use what is below the high-water mark."""
    store.queue("Q").add_messages([Message(b"x" * 100) for _ in range(700)])
    limits: list[int] = []

    async def main() -> None:
        async with running(store) as engine:
            memory = engine.resources.memory
            memory.increase(memory.limit - left)
            assert memory.is_high
            queue = engine.destinations.find(Destination.queue("Q"))
            assert isinstance(queue, Queue)
            rows = queue.pending.rows
            assert rows is not None
            recover = rows.recover

            def recorded(limit: int, after: Cursor) -> Page:
                limits.append(limit)
                return recover(limit, after)

            monkeypatch.setattr(rows, "recover", recorded)
            consumer = await consume(engine, "Q", prefetch=500)
            await consumer.drain(700)

    asyncio.run(main())
    assert (max(limits) == PolicyEntry().max_page_size) == (left > 0)


@pytest.mark.backends("sqlite")
def test_after_a_restart_everything_comes_again_marked(open_store: OpenStore) -> None:
    async def before(store: Store) -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, *[message(n) for n in "abc"])
            await consumer.got(3)
            await consumer.acknowledge(consumer.deliveries[1])

    async def after(store: Store) -> None:
        async with running(store) as engine:
            await send(engine, message("d"))
            consumer = await consume(engine, "Q")
            await consumer.got(3)
            assert consumer.bodies == ["a", "c", "d"]
            assert [delivery.redelivered for delivery in consumer.deliveries] == [True, True, False]

    store = open_store()
    asyncio.run(before(store))
    store.close()
    asyncio.run(after(open_store()))


def test_a_consumer_of_a_wildcard_gets_from_all_queues(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, message("a", "A.1"), message("x", "B"))
            consumer = await consume(engine, "A.>", prefetch=2)
            await consumer.got(1)
            await send(engine, message("b", "A.2"))
            await consumer.got(2)
            await send(engine, message("c", "A.1"))
            await quiet()
            assert consumer.bodies == ["a", "b"]
            assert [str(delivery.destination) for delivery in consumer.deliveries] == [
                "queue://A.1",
                "queue://A.2",
            ]
            await consumer.acknowledge(*consumer.deliveries)
            await consumer.got(3)

    asyncio.run(main())


def test_what_is_acknowledged_twice_is_acknowledged_once(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q", prefetch=2)
            await send(engine, *[message(n) for n in "abcd"])
            [one, two] = await consumer.got(2)
            await consumer.acknowledge(one, one)
            await consumer.acknowledge(one)
            await consumer.got(3)
            transaction = engine.begin("test")
            transaction.acknowledge(consumer.subscription, [two, two, one])
            await consumer.acknowledge(two)
            await transaction.commit()
            await consumer.got(4)
            assert consumer.bodies == ["a", "b", "c", "d"]
            assert store.queue("Q").message_count() == 2

    asyncio.run(main())


def test_destinations_that_nobody_uses_are_forgotten(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            names = [f"{kind}://{n}" for n in range(50) for kind in ("queue", "topic")]
            await send(engine, *[message("x", name) for name in names])
            for n in range(50):
                consumer = await consume(engine, f"queue://{n}")
                await consumer.drain(1)
                consumer.subscription.close()
            kept = await consume(engine, "queue://kept")
            await consume(engine, "topic://kept", client_id="c", subscription_name="s")
            await send(
                engine, message("waits", "queue://full"), message("x", "queue://mem", persistent=False)
            )
            transaction = engine.begin("test")
            await transaction.send(message("late", "queue://7"))
            for _ in range(2):
                engine.destinations.forget_idle()
            left = {str(destination) for destination in engine.destinations}
            assert left == {"queue://kept", "topic://kept", "queue://full", "queue://mem"}
            await transaction.commit()
            again = await consume(engine, "queue://7")
            await send(engine, message("later", "queue://7"), message("here", "queue://kept"))
            await again.drain(2)
            assert again.bodies == ["late", "later"]
            await kept.drain(1)
            engine.disconnected("test")
            assert store.queue("7").message_count() == 0

    asyncio.run(main())


def test_a_backlog_without_a_consumer_takes_the_memory_of_a_page(store: Store) -> None:
    async def main() -> None:
        async with running(store, PolicyEntry(max_page_size=20)) as engine:
            await send(engine, message("0"))
            small = engine.resources.memory.used
            for number in range(1, 300):
                await send(engine, message(str(number)))
            assert engine.resources.memory.used <= 21 * small
            consumer = await consume(engine, "Q", prefetch=7)
            await send(engine, message("300"))
            await consumer.drain(301)
            assert consumer.bodies == [str(number) for number in range(301)]
            consumer.subscription.close()
            await send(engine, *(message(str(number)) for number in range(60)))
            management = managed(engine)
            assert (await management.destinations.purge(ALICE, Destination.queue("Q"))).count == 60
            async with asyncio.timeout(PATIENCE):
                while engine.knows(Destination.queue("Q")):  # until an empty page has been read
                    engine.destinations.forget_idle()
                    await asyncio.to_thread(store.queue("Q").message_count)

    asyncio.run(main())


def test_a_composite_has_a_bound(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            name = ",".join(f"Q{n}" for n in range(1001))
            with pytest.raises(InvalidDestination, match="at most 1000"):
                await send(engine, message("x", name))
            with pytest.raises(InvalidDestination, match="at most 1000"):
                await consume(engine, name)
            assert not engine.destinations

    asyncio.run(main())


def test_a_consumer_of_one_queue_compares_its_name_with_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, message("a"))
            monkeypatch.setattr(engine.destinations, "by_name", _Unlisted(engine.destinations.by_name))
            consumer = await consume(engine, "Q")
            await consumer.drain(1)

    asyncio.run(main())


class _Unlisted(dict[Destination, Queue | Topic]):
    """Destinations of which nothing asks for all."""

    def items(self) -> NoReturn:
        raise AssertionError("all destinations are read")
