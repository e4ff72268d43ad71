"""Temporary destinations, replies to them, and sends to several destinations at once."""

from __future__ import annotations

import asyncio

import pytest

from jdbcstore import Destination, Store
from jdbcstore.errors import InvalidDestination, InvalidMessage
from tests.support.broker.consuming import PATIENCE, consume, message, quiet, running, send

pytestmark = pytest.mark.backends("memory", "sqlite")


@pytest.mark.parametrize("kind", ["temp-queue", "temp-topic"])
def test_replies_come_back(store: Store, kind: str) -> None:
    async def main() -> None:
        async with running(store) as engine:
            asks = await consume(engine, f"{kind}://c-1:1", connection_id="c-1")
            answers = await consume(engine, "Q", connection_id="c-2")
            reply_to = Destination.parse(f"{kind}://c-1:1")
            await engine.send(message("question", reply_to=reply_to), "c-1")
            await answers.got(1)
            assert answers.deliveries[0].message.reply_to == reply_to
            await engine.send(message("answer", str(reply_to)), "c-2")
            await asks.got(1)
            assert asks.bodies == ["answer"]
            assert [str(destination) for destination in store.destinations()] == ["queue://Q"]

    asyncio.run(main())


def test_a_reply_may_come_before_anybody_listens(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            reply_to = Destination.parse("temp-queue://c-1:1")
            await engine.send(message("question", reply_to=reply_to), "c-1")
            await engine.send(message("answer", str(reply_to)), "c-2")
            asks = await consume(engine, str(reply_to), connection_id="c-1")
            await asks.got(1)
            assert asks.bodies == ["answer"]

    asyncio.run(main())


def test_they_end_with_their_connection(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            mine = await consume(engine, "temp-queue://c-1:1", connection_id="c-1")
            await engine.send(message("a", "temp-queue://c-1:1"), "c-2")
            await mine.got(1)
            mine.subscription.close()
            engine.disconnected("c-1")
            await quiet()
            assert engine._resources.memory.used == 0
            with pytest.raises(InvalidDestination, match="ends with its connection"):
                await engine.send(message("b", "temp-queue://c-1:1"), "c-2")
            transaction = engine.begin("c-2")
            with pytest.raises(InvalidDestination):
                await transaction.send(message("c", "temp-queue://c-1:1"))

    asyncio.run(main())


def test_nobody_else_consumes_them(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await consume(engine, "temp-queue://c-1:1", connection_id="c-1")
            with pytest.raises(InvalidDestination, match="another connection's own"):
                await consume(engine, "temp-queue://c-1:1", connection_id="c-2")
            with pytest.raises(InvalidDestination, match="does not exist"):
                await engine.send(message("x", "temp-queue://c-3:1"), "c-1")

    asyncio.run(main())


def test_a_composite_goes_to_all(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            queue = await consume(engine, "A")
            topic = await consume(engine, "topic://T")
            await consume(engine, "topic://U", client_id="c", subscription_name="s")
            await send(engine, message("x", "A,B,topic://T,topic://U"))
            await queue.got(1)
            await topic.got(1)
            assert queue.deliveries[0].message.original_destination == Destination.queue(
                "A,B,topic://T,topic://U"
            )
            assert topic.deliveries[0].message.destination == Destination.topic("T")
            counts = {
                str(where): (store.topic if where.is_topic else store.queue)(where).message_count()
                for where in store.destinations()
            }
            assert counts == {"queue://A": 1, "queue://B": 1, "topic://U": 1}

    asyncio.run(main())


def test_a_composite_goes_to_all_or_to_none(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "A")
            with pytest.raises(InvalidMessage):
                await engine.send(message("x", "A,B", correlation_id="x" * 70_000), "test")
            with pytest.raises(InvalidDestination):
                await engine.send(message("x", "A,temp-queue://gone:1"), "test")
            await quiet()
            assert consumer.bodies == []
            assert store.destinations() == []
            async with asyncio.timeout(PATIENCE):
                await engine.send(message("y", "A,B"), "test")
            await consumer.got(1)
            assert consumer.bodies == ["y"]

    asyncio.run(main())


def test_a_connection_has_so_many_of_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.broker.temporary.MOST", 10)

    async def main() -> None:
        async with running(store) as engine:
            for n in range(10):
                await engine.send(
                    message("x", "Q", reply_to=Destination.parse(f"temp-queue://c-1:{n}")), "c-1"
                )
            await engine.send(message("x", "temp-queue://c-1:9"), "c-1")
            with pytest.raises(InvalidDestination, match="10 temporary destinations"):
                await engine.send(message("x", "temp-queue://c-1:10"), "c-1")
            engine.disconnected("c-1")
            await engine.send(message("x", "temp-queue://c-1:10"), "c-1")

    asyncio.run(main())
