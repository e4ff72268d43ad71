"""Transactions: sends and acknowledgements happen together, or not at all."""

from __future__ import annotations

import asyncio
import threading

import pytest

from jdbcstore import Store, XATransactionId
from jdbcstore.errors import TransactionError, TransactionNotFound
from jdbcstore.stores.shared.transaction import BufferedXATransaction
from tests.support.broker.consuming import PATIENCE, consume, message, quiet, running, send

pytestmark = pytest.mark.backends("memory", "sqlite", "postgresql")


def test_a_transaction_sends_and_acknowledges_at_once(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, message("a", "IN"), message("b", "IN", persistent=False))
            source, target = await consume(engine, "IN"), await consume(engine, "OUT")
            await source.got(2)
            transaction = engine.begin("test")
            await transaction.send(message("A", "OUT"))
            await transaction.send(message("B", "OUT", persistent=False))
            transaction.acknowledge(source.subscription, source.deliveries)
            await quiet()
            assert target.bodies == []
            assert store.queue("IN").message_count() == 1
            await transaction.commit()
            await target.got(2)
            assert sorted(target.bodies) == ["A", "B"]
            assert store.queue("IN").message_count() == 0
            with pytest.raises(TransactionError):
                await transaction.commit()

    asyncio.run(main())


def test_after_a_rollback_deliveries_stay_with_their_consumer(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, message("a", "IN"), message("b", "IN"))
            consumer = await consume(engine, "IN", prefetch=1)
            await consumer.got(1)
            transaction = engine.begin("test")
            await transaction.send(message("A", "OUT"))
            transaction.acknowledge(consumer.subscription, consumer.deliveries)
            # What a transaction has acknowledged makes room.
            await consumer.got(2)
            transaction.rollback()
            await quiet()
            assert consumer.bodies == ["a", "b"]
            assert store.queue("OUT").message_count() == 0
            await consumer.acknowledge(*consumer.deliveries)
            assert store.queue("IN").message_count() == 0

    asyncio.run(main())


@pytest.mark.parametrize("commits", [True, False])
def test_a_consumer_that_closes_before_its_transaction_ends(store: Store, commits: bool) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, message("a"), message("b"))
            consumer = await consume(engine, "Q")
            await consumer.got(2)
            transaction = engine.begin("test")
            transaction.acknowledge(consumer.subscription, consumer.deliveries[:1])
            consumer.subscription.close()
            other = await consume(engine, "Q")
            await other.got(1)
            await quiet()
            assert other.bodies == ["b"]
            if commits:
                await transaction.commit()
                assert store.queue("Q").message_count() == 1
            else:
                transaction.rollback()
                await other.got(2)
                assert other.bodies == ["b", "a"]

    asyncio.run(main())


@pytest.mark.parametrize("commits", [True, False])
def test_a_branch_that_is_being_prepared_is_completed_afterwards(
    store: Store, commits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reconnects while the database does not answer completes it by its new connection."""
    begun, answers = threading.Event(), threading.Event()
    prepare = BufferedXATransaction.prepare

    def late(branch: BufferedXATransaction[object]) -> bool:
        begun.set()
        assert answers.wait(60.0)
        return prepare(branch)

    monkeypatch.setattr(BufferedXATransaction, "prepare", late)
    xid = XATransactionId(86, b"\x01", b"\x02")

    async def main() -> None:
        async with running(store) as engine:
            branch = engine.begin("one", xid)
            await branch.send(message("a", "OUT"))
            preparing = branch.prepare()
            assert await asyncio.to_thread(begun.wait, 60.0)
            ending = engine.commit_prepared(xid) if commits else engine.rollback_prepared(xid)
            await quiet()
            assert not ending.done()
            answers.set()
            assert await preparing
            await ending
            assert await engine.prepared() == []
            assert store.queue("OUT").message_count() == int(commits)
            with pytest.raises(TransactionNotFound):
                await engine.rollback_prepared(xid)

    asyncio.run(main())


def test_of_two_branches_of_one_id_one_is_prepared(store: Store) -> None:
    """A client that reconnects while the database does not answer sends its branch again."""
    xid = XATransactionId(86, b"\x01", b"\x02")

    async def main() -> None:
        async with running(store) as engine:
            branches = [engine.begin(connection, xid) for connection in ("one", "two")]
            for branch in branches:
                await branch.send(message("a", "OUT"))
            preparing = [branch.prepare() for branch in branches]
            ending = engine.commit_prepared(xid)
            async with asyncio.timeout(PATIENCE):
                outcomes = await asyncio.gather(*preparing, return_exceptions=True)
                await ending
            assert sorted(map(type, outcomes), key=str) == [bool, TransactionError]
            assert store.queue("OUT").message_count() == 1

    asyncio.run(main())
