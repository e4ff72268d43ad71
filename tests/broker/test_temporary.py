"""Temporary destinations, replies to them, and sends to several destinations at once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from jdbcstore import Destination, Store
from jdbcstore.broker.api import Known, MessageEvent
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
            assert engine.resources.memory.used == 0
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
            with pytest.raises(InvalidDestination, match="belongs to another connection"):
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


class Watching:
    """A watcher that writes down what is added and removed."""

    def __init__(self, notified: list[str]) -> None:
        self.notified = notified

    def added(self, what: Known) -> None:
        self.notified.append(f"+{what}")

    def removed(self, what: Known) -> None:
        self.notified.append(f"-{what}")

    def happened(self, event: MessageEvent) -> None: ...


def temporary(number: int) -> Destination:
    return Destination.parse(f"temp-queue://c-1:{number}")


def test_many_that_end_do_not_hold_up_others(store: Store) -> None:
    """Of 200, each of 20 watchers is notified; in between the loop has its turns."""

    async def main() -> None:
        async with running(store) as engine:
            notified: list[str] = []
            for number in range(200):
                engine.create_temporary(temporary(number), "c-1")
            for _ in range(20):
                engine.directory.watch(Watching(notified), only_temporary=True)
            engine.disconnected("c-1")
            assert engine.directory.all_known(only_temporary=True) == []
            most = len(notified)
            while len(notified) < 4000:
                before = len(notified)
                await asyncio.sleep(0)
                most = max(most, len(notified) - before)
            await quiet()
            assert most <= 1000
            assert Counter(notified) == {f"-{temporary(number)}": 20 for number in range(200)}

    asyncio.run(main())


def test_one_that_begins_again_has_ended_before(store: Store) -> None:
    """As those of a client that reconnects do."""

    async def main() -> None:
        async with running(store) as engine:
            notified: list[str] = []
            for number in range(2000):
                engine.create_temporary(temporary(number), "c-1")
            engine.directory.watch(Watching(notified), only_temporary=True)
            engine.disconnected("c-1")
            assert len(notified) < 2000
            for number in range(2000):
                engine.create_temporary(temporary(number), "c-1")
            await quiet()
            place = {what: at for at, what in enumerate(notified)}
            assert len(place) == len(notified) == 4000
            assert all(place[f"-{temporary(n)}"] < place[f"+{temporary(n)}"] for n in range(2000))
            assert len(engine.directory.all_known(only_temporary=True)) == 2000

    asyncio.run(main())
