"""What one connection sends to a destination comes in its order, whatever of it has to wait."""

from __future__ import annotations

import asyncio
from asyncio import Future
from typing import Any

import pytest

from jdbcstore import Destination, MemoryStore, Store
from jdbcstore.broker.engine import Engine
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import DestinationFull
from jdbcstore.stores.filtered import FilteredStore, Route
from jdbcstore.testing import OpenStore
from tests.support.broker.consuming import PATIENCE, consume, message, quiet, running
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held

SMALL = PolicyEntry(queue="Q", memory_limit=1, pending_queue_policy="vmQueueCursor")
"""One message is all that it has room for."""


def commit(engine: Engine, *sends: tuple[Any, str], persistent: bool = True) -> Future[None]:
    transaction = engine.begin("one")
    for body, name in sends:
        transaction.send(message(body, name, persistent=persistent))
    return transaction.commit()


@pytest.mark.backends("sqlite", "postgresql")
def test_commits_that_wait_for_rows_of_durable_subscriptions(
    open_store: OpenStore, database: Database
) -> None:
    """The topic is new, and the pattern of a durable subscription matches it."""
    store = open_store()

    async def main() -> None:
        async with running(store) as engine:
            topic = await consume(engine, "topic://A.>", client_id="c", subscription_name="s")
            queue, other = await consume(engine, "Q"), await consume(engine, "OTHER")
            with writes_held(database):
                sent = [
                    engine.send(message("1", "topic://A.B"), "one"),
                    commit(engine, ("2", "topic://A.B"), ("1", "Q")),
                    engine.send(message("3", "topic://A.B"), "one"),
                    engine.send(message("2", "Q"), "one"),
                    engine.send(message("4,3", "topic://A.B,queue://Q"), "one"),
                    commit(engine, ("5", "topic://A.B"), ("4", "Q")),
                    engine.send(message("6", "topic://A.B"), "one"),
                    engine.send(message("5", "Q"), "one"),
                ]
                # Nobody else waits.
                sent.append(engine.send(message("x", "OTHER", persistent=False), "two"))
                await other.got(1)
                assert not any(future.done() for future in sent[:-1])
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*sent)
            await topic.got(6)
            await queue.got(5)
            assert topic.bodies == ["1", "2", "3", "4,3", "5", "6"]
            assert queue.bodies == ["1", "2", "4,3", "4", "5"]

    asyncio.run(main())


@pytest.mark.backends("memory", "sqlite")
@pytest.mark.parametrize("persistent", [True, False])
def test_a_commit_waits_behind_what_waits_for_room(store: Store, persistent: bool) -> None:
    async def main() -> None:
        async with running(store, SMALL) as engine:
            await engine.send(message("0", persistent=persistent), "two")
            await quiet()
            sent = [
                engine.send(message("1", persistent=persistent), "one"),
                commit(engine, ("2", "Q"), ("x", "R"), persistent=persistent),
                engine.send(message("3", persistent=persistent), "one"),
                commit(engine, ("4", "Q"), persistent=persistent),
            ]
            await quiet()
            assert not any(future.done() for future in sent)
            consumer = await consume(engine, "Q")
            await consumer.drain(5)
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*sent)
            assert consumer.bodies == ["0", "1", "2", "3", "4"]

    asyncio.run(main())


@pytest.mark.backends("memory")
def test_a_commit_that_sends_elsewhere_does_not_wait(store: Store) -> None:
    async def main() -> None:
        async with running(store, SMALL) as engine:
            await engine.send(message("0"), "two")
            consumer = await consume(engine, "Q", prefetch=1)
            await consumer.got(1)
            engine.send(message("1"), "one")
            async with asyncio.timeout(PATIENCE):
                await commit(engine, ("x", "R"))
                transaction = engine.begin("one")
                transaction.acknowledge(consumer.subscription, consumer.deliveries)
                await transaction.commit()
            await consumer.got(2)
            assert consumer.bodies == ["0", "1"]

    asyncio.run(main())


@pytest.mark.backends("memory")
def test_a_commit_behind_a_message_that_is_refused(store: Store) -> None:
    policy = PolicyEntry(
        queue="Q",
        memory_limit=1,
        pending_queue_policy="vmQueueCursor",
        send_fail_if_no_space_after_timeout=0.01,
    )

    async def main() -> None:
        async with running(store, policy) as engine:
            await engine.send(message("0"), "two")
            await quiet()
            refused, committed = engine.send(message("1"), "one"), commit(engine, ("2", "Q"))
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(DestinationFull):
                    await refused
                await committed
            assert [each.body for each in store.queue("Q").recover()] == ["0", "2"]

    asyncio.run(main())


@pytest.mark.backends("memory")
def test_a_lost_connection_commits_nothing_behind_what_it_could_not_send(store: Store) -> None:
    async def main() -> None:
        async with running(store, SMALL) as engine:
            await engine.send(message("0"), "two")
            await quiet()
            sent = [
                engine.send(message("1"), "one"),
                commit(engine, ("2", "Q")),
                engine.send(message("3"), "one"),
                commit(engine, ("4", "Q")),
                engine.send(message("5", "R"), "one"),
            ]
            engine.disconnected("one")
            await asyncio.wait(sent, timeout=PATIENCE)
            assert all(future.cancelled() for future in sent)
            assert [each.body for each in store.queue("Q").recover()] == ["0"]
            # The connection's name is as good as new.
            await engine.send(message("6", "R"), "one")
            await commit(engine, ("7", "R"))
            assert [each.body for each in store.queue("R").recover()] == ["6", "7"]

    asyncio.run(main())


@pytest.mark.backends("sqlite")
def test_commits_over_several_stores_are_not_overtaken(open_store: OpenStore, database: Database) -> None:
    """They take several commits, while the store of what follows has nothing else to do."""
    fast_store = Route(store=MemoryStore(), destination=Destination.queue("FAST"))
    store = FilteredStore([fast_store, Route(store=open_store())])

    async def main() -> None:
        async with running(store) as engine:
            fast, slow = await consume(engine, "FAST"), await consume(engine, "SLOW")
            with writes_held(database):
                sent = [
                    commit(engine, ("1", "FAST"), ("1", "SLOW")),
                    engine.send(message("2", "FAST"), "one"),
                    commit(engine, ("3", "FAST"), ("2", "SLOW")),
                    engine.send(message("4,3", "queue://FAST,queue://SLOW"), "one"),
                    engine.send(message("5", "FAST"), "one"),
                ]
                async with asyncio.timeout(PATIENCE):
                    await engine.send(message("x", "FAST"), "two")
                assert not any(future.done() for future in sent)
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*sent)
            await fast.got(6)
            await slow.got(3)
            assert fast.bodies == ["x", "1", "2", "3", "4,3", "5"]
            assert slow.bodies == ["1", "2", "4,3"]

    with store:
        asyncio.run(main())
