"""Operations on the messages of queues, while producers and consumers go on."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from jdbcstore import Destination, Store
from jdbcstore.abc import PausedQueue
from jdbcstore.broker.api import Delivery
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.management import holds
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.master import existing
from jdbcstore.broker.management.messages import Consumed, MessageChoice
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy
from jdbcstore.errors import (
    DestinationNotFound,
    InvalidDestination,
    InvalidMessage,
    InvalidSelector,
    MessageNotFound,
    NotMaster,
    StoreUnavailable,
    SubscriptionInUse,
    SubscriptionNotFound,
    TransactionError,
    TransactionNotFound,
)
from jdbcstore.message.ids import XATransactionId
from jdbcstore.util.clock import SystemClock
from tests.support.broker.consuming import Recorder, consume, message, quiet, running, send
from tests.support.broker.managed import ALICE, Process, managed

pytestmark = pytest.mark.backends("memory", "sqlite")

Q, R, DLQ = map(Destination.queue, ("Q", "R", "ActiveMQ.DLQ"))
CURSORS = [
    PolicyEntry(max_page_size=20),
    PolicyEntry(max_page_size=20, prioritized_messages=True),
    PolicyEntry(max_page_size=20, pending_queue_policy="vmQueueCursor"),
    PolicyEntry(max_page_size=20, pending_queue_policy="fileQueueCursor"),
]
CURSOR_NAMES = ["store", "prioritized", "vm", "file"]


@asynccontextmanager
async def administered(
    store: Store, *policies: PolicyEntry, **options: Any
) -> AsyncIterator[tuple[Engine, Management]]:
    async with running(store, *policies, counted=True, **options) as engine:
        yield engine, managed(engine)


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await main()

    asyncio.run(bounded())


async def fill(engine: Engine, count: int, name: str = "Q", **headers: Any) -> list[str]:
    bodies = [f"{name}{number}" for number in range(count)]
    await send(engine, *[message(body, name, **headers) for body in bodies])
    return bodies


def stored(store: Store, name: str) -> list[Any]:
    return [one.body for one in store.queue(name).recover(10_000)]


@pytest.mark.parametrize("policy", CURSORS, ids=CURSOR_NAMES)
def test_a_purge_leaves_what_a_consumer_has(store: Store, policy: PolicyEntry) -> None:
    async def main() -> None:
        async with administered(store, policy) as (engine, management):
            await fill(engine, 150)
            consumer = await consume(engine, "Q", prefetch=10)
            await consumer.got(10)
            outcome = await management.destinations.purge(ALICE, Q)
            assert (outcome.count, outcome.left) == (140, 10)
            assert sorted(stored(store, "Q")) == sorted(consumer.given)
            await send(engine, message("later"))
            await consumer.acknowledge(*consumer.deliveries)
            await consumer.got(11)
            await quiet()
            assert consumer.given[10:] == ["later"]
            assert stored(store, "Q") == ["later"]
            [view] = await management.views.destinations()
            assert (view.size, view.enqueued, view.dequeued, view.in_flight) == (1, 151, 150, 1)

    run(main)


@pytest.mark.parametrize("concurrent", [False, True], ids=["", "concurrent"])
@pytest.mark.parametrize("policy", CURSORS, ids=CURSOR_NAMES)
def test_purges_and_moves_under_load_lose_and_repeat_nothing(
    store: Store, policy: PolicyEntry, concurrent: bool
) -> None:
    async def main() -> None:
        options = {"concurrent_store_and_dispatch_queues": concurrent}
        async with administered(store, policy, **options) as (engine, management):
            total, producing = 400, True
            consumer, elsewhere = Recorder(), Recorder()

            async def produce(name: str) -> None:
                for number in range(total // 2):
                    await send(engine, message(f"{name}{number}", priority=number % 10))

            async def acknowledge() -> None:
                await consume(engine, "Q", recorder=consumer, prefetch=15)
                done = 0
                while producing:
                    await asyncio.sleep(0)
                    batch, done = consumer.deliveries[done:], len(consumer.deliveries)
                    await consumer.acknowledge(*batch)

            await fill(engine, 100, priority=3)
            await consume(engine, "R", recorder=elsewhere, prefetch=1000)
            consuming = asyncio.create_task(acknowledge())
            producers = [asyncio.create_task(produce(name)) for name in "ab"]
            removed = moved = 0
            while not all(one.done() for one in producers):
                removed += (await management.queues.remove(ALICE, Q, MessageChoice(limit=7))).count
                moved += (
                    await management.queues.move(ALICE, Q, MessageChoice(selector="JMSPriority > 5"), R)
                ).count
                removed += (await management.destinations.purge(ALICE, Q)).count
            await asyncio.gather(*producers)
            removed += (await management.destinations.purge(ALICE, Q)).count
            producing = False
            await consuming
            await consumer.acknowledge(*consumer.deliveries)
            await elsewhere.got(moved)
            await quiet()
            given = [*consumer.given, *elsewhere.given]
            assert len(given) == len(set(given))
            assert len(given) + removed == total + 100
            assert len(elsewhere.given) == moved
            assert stored(store, "Q") == []
            assert sorted(stored(store, "R")) == sorted(elsewhere.given)
            views = {view.name: view for view in await management.views.destinations()}
            assert views["queue://Q"].size == 0
            assert views["queue://R"].size == moved

    run(main)


def test_a_purge_finds_what_waits_anywhere(store: Store) -> None:
    redelivery = RedeliveryPolicy(initial_redelivery_delay=1000, maximum_redeliveries=5)

    async def main() -> None:
        async with administered(store, PolicyEntry(redelivery_policy=redelivery)) as (engine, management):
            await fill(engine, 20)
            await fill(engine, 5, persistent=False)
            picky = await consume(engine, "Q", selector="colour = 'red'")
            rejecting = await consume(engine, "Q", prefetch=4)
            await rejecting.got(4)
            await rejecting.subscription.reject(rejecting.deliveries[:2])
            rejecting.subscription.close()
            outcome = await management.destinations.purge(ALICE, Q)
            assert (outcome.count, outcome.left) == (25, 0)
            assert stored(store, "Q") == []
            last = await consume(engine, "Q")
            await send(engine, message("after"))
            await last.got(1)
            await quiet()
            assert (last.given, picky.given) == (["after"], [])

    run(main)


def test_what_a_transaction_has_acknowledged_stays(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            await fill(engine, 3)
            consumer = await consume(engine, "Q", prefetch=1)
            await consumer.got(1)
            transaction = engine.begin("test")
            transaction.acknowledge(consumer.subscription, consumer.deliveries)
            consumer.subscription.close()
            assert (await management.destinations.purge(ALICE, Q)).count == 2
            assert stored(store, "Q") == ["Q0"]
            transaction.rollback()
            again = await consume(engine, "Q")
            [delivery] = await again.got(1)
            assert (delivery.message.body, delivery.redelivered) == ("Q0", True)

    run(main)


def test_a_choice_of_messages(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            await send(engine, *[message(str(n), properties={"n": n}) for n in range(10)])
            shown = await management.views.browse(Q, MessageChoice(selector="n >= 4"), limit=3)
            assert [one.body for one in shown] == ["4", "5", "6"]
            ids = tuple(str(one.message_id) for one in shown)
            assert (await management.views.message(Q, ids[1])).body == "5"
            assert (await management.queues.remove(ALICE, Q, MessageChoice(ids=ids[:2]))).count == 2
            assert (await management.queues.remove(ALICE, Q, MessageChoice(ids=ids[:2]))).count == 0
            assert (
                await management.queues.remove(ALICE, Q, MessageChoice(selector="n < 8", limit=2))
            ).count == 2
            assert (await management.queues.move(ALICE, Q, MessageChoice(ids=(ids[2],)), R)).count == 1
            assert (await management.queues.copy(ALICE, Q, MessageChoice(selector="n > 7"), R)).count == 2
            assert stored(store, "Q") == ["2", "3", "7", "8", "9"]
            assert stored(store, "R") == ["6", "8", "9"]
            assert {str(one.original_destination) for one in store.queue("R").recover()} == {"queue://Q"}
            with pytest.raises(MessageNotFound, match="may have been consumed"):
                await management.views.message(Q, ids[0])
            with pytest.raises(InvalidSelector):
                await management.queues.remove(ALICE, Q, MessageChoice(selector="n >"))
            with pytest.raises(InvalidDestination, match="already"):
                await management.queues.move(ALICE, Q, MessageChoice(), Q)
            with pytest.raises(InvalidDestination, match="does not exist"):
                await management.destinations.purge(ALICE, Destination.queue("NONE"))
            await send(engine, message("x", "topic://T"))
            with pytest.raises(InvalidDestination, match="is a topic"):
                await management.queues.remove(ALICE, Destination.topic("T"), MessageChoice())

    run(main)


def test_dead_letters_go_back_to_where_each_came_from(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            for name in ("A", "B"):
                await fill(engine, 2, name, properties={"kept": name})
                consumer = await consume(engine, name)
                await consumer.got(2)
                await consumer.subscription.reject(consumer.deliveries)
                consumer.subscription.close()
            await send(engine, message("sent here", "ActiveMQ.DLQ"))
            assert len(stored(store, "ActiveMQ.DLQ")) == 5
            views = {view.name: view for view in await management.views.destinations()}
            assert (views["queue://A"].dead, views["queue://A"].size) == (2, 0)
            outcome = await management.queues.retry(ALICE, DLQ, MessageChoice(selector="kept = 'A'", limit=1))
            assert outcome.count == 1
            for origin, count in (("C", 0), ("A", 1), ("*", 2)):
                choice = MessageChoice(origin=Destination.queue(origin))
                assert (await management.queues.retry(ALICE, DLQ, choice)).count == count
            assert stored(store, "ActiveMQ.DLQ") == ["sent here"]
            for name in ("A", "B"):
                again = await consume(engine, name)
                await again.got(2)
                assert again.given == [f"{name}0", f"{name}1"]
                properties = [dict(one.message.properties) for one in again.deliveries]
                assert properties == [{"kept": name}] * 2

    run(main)


def test_a_paused_queue_stores_and_does_not_deliver(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            consumer = await consume(engine, "Q", prefetch=1)
            await fill(engine, 2)
            await consumer.got(1)
            await management.queues.pause(ALICE, Q)
            await consumer.acknowledge(*consumer.deliveries)
            await send(engine, message("more"), message("transient", persistent=False))
            other = await consume(engine, "Q")
            await quiet()
            assert (len(consumer.given), other.given) == (1, [])
            assert stored(store, "Q") == ["Q1", "more"]
            assert (await management.views.destination(Q)).is_paused
            assert len(await management.views.browse(Q)) == 3
            await management.queues.resume(ALICE, Q)
            await other.wait(lambda: len(consumer.given) + len(other.given) == 4)
            assert not (await management.views.destination(Q)).is_paused

    run(main)


@pytest.mark.parametrize("policy", CURSORS, ids=CURSOR_NAMES)
def test_an_operation_is_stopped_between_its_batches(store: Store, policy: PolicyEntry) -> None:
    async def main() -> None:
        async with administered(store, policy) as (engine, management):
            bodies = await fill(engine, 1500)
            moving = asyncio.create_task(management.queues.move(ALICE, Q, MessageChoice(), R))
            while not (management.views.operations() and management.views.operations()[0].count):
                await asyncio.sleep(0)
            [run_] = management.views.operations()
            assert (run_.operation, run_.destination, run_.size, run_.user) == ("move", str(Q), 1500, "alice")
            assert run_.ended_ms is None
            management.queues.stop(ALICE, run_.id)
            outcome = await moving
            assert outcome.is_stopped
            assert 0 < outcome.count < 1500
            assert (run_.count, run_.is_stopped, run_.error) == (outcome.count, True, None)
            assert management.views.operations() == [run_]
            assert len(stored(store, "R")) == outcome.count
            assert len(stored(store, "Q")) == 1500 - outcome.count
            with pytest.raises(MessageNotFound, match="it may have finished"):
                management.queues.stop(ALICE, run_.id)
            consumer = await consume(engine, "Q", prefetch=1500)
            await consumer.got(1500 - outcome.count)
            assert consumer.given == bodies[outcome.count :]

    run(main)


@pytest.mark.parametrize("policy", CURSORS, ids=CURSOR_NAMES)
def test_what_a_failed_operation_has_not_done_is_delivered(
    store: Store, policy: PolicyEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with administered(store, policy) as (engine, management):
            bodies = await fill(engine, 300)
            batches, moved = 0, engine.moves.move

            def move(*arguments: Any) -> Any:
                nonlocal batches
                batches += 1
                if batches == 2:
                    arguments[0].retain(arguments[1])
                    return engine.loop.failed(StoreUnavailable("gone"))
                return moved(*arguments)

            monkeypatch.setattr(engine.moves, "move", move)
            with pytest.raises(StoreUnavailable):
                await management.queues.move(ALICE, Q, MessageChoice(), R)
            done = stored(store, "R")
            assert 0 < len(done) < 300
            consumer = await consume(engine, "Q", prefetch=300)
            await consumer.got(300 - len(done))
            assert sorted(consumer.given) == sorted(set(bodies) - set(done))

    run(main)


def test_a_pause_outlasts_the_engine_and_an_idle_queue(store: Store) -> None:
    async def main() -> None:
        known: dict[Destination, PausedQueue] = {}  # for a store that does not keep them
        engine = Engine(store, paused=known)
        await engine.start()
        await fill(engine, 1)
        management = managed(engine)
        await management.queues.pause(ALICE, Q)
        await management.destinations.purge(ALICE, Q)
        for _ in range(3):
            await quiet()
            engine.destinations.forget_idle()
        assert engine.knows(Q)
        await engine.stop()
        again = Engine(store, paused=known)
        await again.start()
        management = managed(again)
        found = await management.views.destination(Q)
        assert (found.is_paused, found.paused_by, bool(found.paused_since_ms)) == (True, "alice", True)
        await fill(again, 1)
        consumer = await consume(again, "Q")
        await quiet()
        assert consumer.given == []
        await management.queues.resume(ALICE, Q)
        await consumer.got(1)
        await again.stop()
        last = Engine(store, paused=known)
        await last.start()
        assert not (await managed(last).views.destination(Q)).is_paused
        await last.stop()

    run(main)


def test_a_destination_is_deleted(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            await fill(engine, 3)
            consumer = await consume(engine, "Q", prefetch=1)
            with pytest.raises(InvalidDestination, match="has consumers"):
                await management.destinations.delete(ALICE, Q)
            consumer.subscription.close()
            assert (await management.destinations.delete(ALICE, Q)).count == 3
            assert not engine.knows(Q)
            topic = Destination.topic("T")
            durable = await consume(engine, "topic://T", client_id="c", subscription_name="s")
            durable.subscription.close()
            await send(engine, message("for it", "topic://T"))
            await management.destinations.delete(ALICE, topic)
            assert store.destinations() == []
            copies = Destination.queue("Consumer.A.VirtualTopic.T")
            (await consume(engine, str(copies))).subscription.close()
            await management.destinations.delete(ALICE, copies)
            await send(engine, message("for nobody", "topic://VirtualTopic.T"))
            assert store.destinations() == []

    run(main)


def test_what_is_sent_while_a_queue_is_deleted_is_removed_or_stays(store: Store) -> None:
    async def main() -> None:
        async with administered(store, PolicyEntry(max_page_size=20)) as (engine, management):
            name, sent, removed = "Consumer.A.VirtualTopic.T", 0, 0
            copies = Destination.queue(name)
            (await consume(engine, name)).subscription.close()
            for round_ in range(8):
                await management.queues.pause(ALICE, copies)
                sends = [send(engine, message(f"{round_} {n}", name)) for n in range(40)]
                deleting = asyncio.create_task(management.destinations.delete(ALICE, copies))
                await asyncio.gather(deleting, *sends)
                sent, removed = sent + 40, removed + (await deleting).count
                assert len(stored(store, name)) == sent - removed
                if not engine.knows(copies):
                    await send(engine, message("again", name))
                    sent += 1
            await send(engine, *[message(f"before {n}", name) for n in range(400)])
            deleting = asyncio.create_task(management.destinations.delete(ALICE, copies))
            await asyncio.sleep(0)
            late = await consume(engine, name)
            await send(engine, message("after", name))
            await deleting
            await late.got(1)
            await quiet()
            # It came into use again, and so it takes copies again.
            assert late.given == ["after"]
            assert store.destinations() == [copies]
            await late.acknowledge(*late.deliveries)
            assert store.destinations() == [copies]

    run(main)


def test_what_is_sent_while_a_topic_is_deleted_is_removed_or_waits(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            topic = Destination.topic("A.B")
            for name, subscription in (("A.B", "own"), ("A.>", "wide")):
                where: dict[str, Any] = {"client_id": "c", "subscription_name": subscription}
                (await consume(engine, f"topic://{name}", **where)).subscription.close()
            await fill(engine, 3, "topic://A.B")
            deleting = asyncio.create_task(management.destinations.delete(ALICE, topic))
            await asyncio.sleep(0)
            await asyncio.gather(deleting, send(engine, message("meanwhile", "topic://A.B")))
            with pytest.raises(SubscriptionNotFound):
                await management.subscriptions.purge(ALICE, "c", "own")
            with suppress(DestinationNotFound):
                await management.destinations.delete(ALICE, topic)
            assert not engine.knows(topic)
            await send(engine, message("later", "topic://A.B"))
            again = await consume(engine, "topic://A.>", **where)
            await again.got(1)
            await quiet()
            assert again.given == ["later"]

    run(main)


def test_a_deletion_and_a_purge_are_stopped_between_their_batches(store: Store) -> None:
    async def main() -> None:
        async with administered(store, PolicyEntry(max_page_size=20)) as (engine, management):
            await fill(engine, 500)
            deleting = asyncio.create_task(management.destinations.delete(ALICE, Q))
            while not (runs := management.views.operations()) or not runs[0].count:
                await asyncio.sleep(0)
            assert (runs[0].operation, runs[0].size, runs[0].ended_ms) == ("delete", 500, None)
            management.queues.stop(ALICE, runs[0].id)
            outcome = await deleting
            assert outcome.is_stopped
            assert 0 < outcome.count < 500
            assert (outcome.left, len(stored(store, "Q"))) == (500 - outcome.count, 500 - outcome.count)
            assert (await management.destinations.delete(ALICE, Q)).count == outcome.left

            topic = Destination.topic("T")
            where: dict[str, Any] = {"client_id": "c", "subscription_name": "s"}
            (await consume(engine, str(topic), **where)).subscription.close()
            await fill(engine, 3, str(topic))
            stays = existing(engine, topic)
            assert await engine.deletion.delete(stays, goes_on=lambda _done, _seen: False) == (3, 0)
            await fill(engine, 2, str(topic))
            again = await consume(engine, str(topic), **where)
            await again.got(2)
            again.subscription.close()
            outcome = await management.destinations.purge(ALICE, topic)
            run_ = management.views.operations()[0]
            assert (outcome.count, run_.operation, run_.size, run_.seen) == (2, "purge", None, 2)
            await fill(engine, 1, str(topic))
            assert (await management.subscriptions.purge(ALICE, "c", "s")).count == 1
            await fill(engine, 4, str(topic))
            assert (await management.destinations.delete(ALICE, topic)).count == 7
            names = [one.operation for one in management.views.operations()[:2]]
            assert names == ["delete", "purge_subscription"]

    run(main)


def test_expired_messages_are_purged_alone(store: Store) -> None:
    policy = PolicyEntry(expire_messages_period=0, max_page_size=2)

    async def main() -> None:
        async with administered(store, policy) as (engine, management):
            await fill(engine, 3)
            await fill(engine, 5, "Q", expiration_ms=1)
            await fill(engine, 2, "Q", expiration_ms=1, persistent=False)
            assert (await management.destinations.purge(ALICE, Q, expired=True)).count == 7
            assert stored(store, "Q") == ["Q0", "Q1", "Q2"]
            await send(engine, message("x", "topic://T"))
            with pytest.raises(InvalidDestination, match="only queues"):
                await management.destinations.purge(ALICE, Destination.topic("T"), expired=True)

    run(main)


def test_many_views_at_once_leave_the_loop_to_others(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            await fill(engine, 2)
            turns, seen = 0, list[int]()

            async def count_turns() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            async def look() -> None:
                assert len(await management.views.destinations()) == 1
                seen.append(turns)

            counting = asyncio.create_task(count_turns())
            await asyncio.gather(*[look() for _ in range(20)])
            counting.cancel()
            assert len({*seen}) == 20  # none in the same turn as another

    run(main)


def test_what_arrives_meanwhile_is_not_copied(store: Store) -> None:
    class Echo(Recorder):
        """Has another message sent for each that is copied, which would go on for ever."""

        def deliver(self, delivery: Delivery) -> None:
            super().deliver(delivery)
            if len(self.deliveries) < 1000:
                sent.append(engines[0].send(message("meanwhile"), "test"))

    async def main() -> None:
        async with administered(store, PolicyEntry(max_page_size=20)) as (engine, management):
            engines.append(engine)
            bodies = await fill(engine, 450)
            echo = await consume(engine, "R", recorder=Echo(), prefetch=2000)
            assert (await management.queues.copy(ALICE, Q, MessageChoice(), R)).count == len(bodies)
            await echo.got(len(bodies))
            await asyncio.gather(*sent)
            assert echo.given == bodies

    sent: list[Any] = []
    engines: list[Engine] = []
    run(main)


def test_what_is_left_is_of_what_was_chosen(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            await send(engine, *[message(str(n), properties={"n": n}) for n in range(9)])
            consumer = await consume(engine, "Q", prefetch=3)
            await consumer.got(3)
            ids = [str(one.message_id) for one in await management.views.browse(Q)]
            for choice, count, left in (
                (MessageChoice(ids=tuple(ids[3:5])), 2, 0),
                (MessageChoice(ids=(ids[1], ids[5])), 1, 1),
                (MessageChoice(selector="n < 2 OR n = 6"), 1, 2),
                (MessageChoice(limit=1), 1, 0),
                (MessageChoice(limit=2), 1, 1),
                (MessageChoice(), 0, 3),
            ):
                outcome = await management.queues.move(ALICE, Q, choice, R)
                assert (outcome.count, outcome.left) == (count, left), choice

    run(main)


def test_what_is_pending_for_a_subscription_is_purged(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            topic = Destination.topic("T")
            gone = await consume(engine, "topic://T", client_id="c", subscription_name="gone")
            gone.subscription.close()
            used = await consume(engine, "topic://T", client_id="c", subscription_name="used", prefetch=1)
            await fill(engine, 4, "topic://T")
            await send(engine, message("transient", "topic://T", persistent=False))
            with pytest.raises(SubscriptionInUse):
                await management.subscriptions.purge(ALICE, "c", "used")
            with pytest.raises(SubscriptionNotFound):
                await management.subscriptions.purge(ALICE, "c", "none")
            assert (await management.subscriptions.purge(ALICE, "c", "gone")).count == 4
            await fill(engine, 2, "topic://T")
            outcome = await management.destinations.purge(ALICE, topic)
            assert (outcome.count, outcome.left) == (2, 6)
            await send(engine, message("later", "topic://T"))
            again = await consume(engine, "topic://T", client_id="c", subscription_name="gone")
            await again.got(1)
            await quiet()
            assert again.given == ["later"]
            assert len(used.given) == 1

    run(main)


@pytest.mark.parametrize("policy", CURSORS, ids=CURSOR_NAMES)
def test_messages_get_another_priority_or_expiration(store: Store, policy: PolicyEntry) -> None:
    async def main() -> None:
        async with administered(store, policy) as (engine, management):
            await send(engine, *[message(str(n), properties={"n": n}) for n in range(6)])
            consumer = await consume(engine, "Q", prefetch=1)
            await consumer.got(1)
            changed = await management.queues.change(
                ALICE, Q, MessageChoice(selector="n < 3"), priority=9, expiration_ms=0
            )
            assert (changed.count, changed.left) == (2, 1)
            late = SystemClock().now_ms() + 3_600_000
            assert (
                await management.queues.change(ALICE, Q, MessageChoice(limit=1), expiration_ms=late)
            ).count == 1
            found = {str(one.body): one for one in await management.views.browse(Q)}
            assert len(found) == 6
            assert {one.priority for name, one in found.items() if name in "12"} == {9}
            assert [one.expiration_ms for one in found.values() if one.expiration_ms] == [late]
            assert dict(found["1"].properties) == {"n": 1}
            assert len({str(one.message_id) for one in found.values()}) == 6
            await consumer.acknowledge(*consumer.deliveries)
            other = await consume(engine, "Q")
            await other.wait(lambda: len(consumer.given) + len(other.given) == 6)
            assert sorted([*consumer.given, *other.given]) == list("012345")
            with pytest.raises(InvalidMessage, match="nothing to change"):
                await management.queues.change(ALICE, Q, MessageChoice())

    run(main)


@pytest.mark.parametrize("policy", CURSORS, ids=CURSOR_NAMES)
def test_what_is_consumed_is_removed_once_it_is_acknowledged(
    store: Store, policy: PolicyEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with administered(store, policy) as (engine, management):
            await fill(engine, 6)
            await fill(engine, 1, "Q", expiration_ms=1)
            taken = await management.holds.consume(ALICE, Q, MessageChoice(limit=2))
            assert ([one.body for one in taken.messages], len(stored(store, "Q"))) == (["Q0", "Q1"], 7)
            consumer = await consume(engine, "Q", prefetch=1)
            await consumer.got(1)
            assert consumer.given == ["Q2"]
            assert taken.token is not None
            assert (await management.holds.acknowledge(ALICE, taken.token)).count == 2
            assert stored(store, "Q").count("Q0") == 1  # the one that has expired
            with pytest.raises(MessageNotFound, match="consume again"):
                await management.holds.acknowledge(ALICE, taken.token)
            monkeypatch.setattr(holds, "HOLD", 0.0)
            late = await management.holds.consume(
                ALICE, Q, MessageChoice(selector="JMSPriority = 4", limit=9)
            )
            assert [one.body for one in late.messages] == ["Q3", "Q4", "Q5"]
            await consumer.acknowledge(*consumer.deliveries)
            other = await consume(engine, "Q")  # they are given back at once
            await other.wait(lambda: len(consumer.given) + len(other.given) == 4)
            assert late.token is not None
            with pytest.raises(MessageNotFound):
                await management.holds.acknowledge(ALICE, late.token)
            assert await management.holds.consume(ALICE, Q, MessageChoice()) == Consumed(None, (), ())

    run(main)


def test_a_durable_subscription_is_consumed_by_one_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            where: dict[str, Any] = {"client_id": "c", "subscription_name": "s", "selector": "n < 8"}
            client = await consume(engine, "topic://A.>", **where)
            client.subscription.close()
            sent = [message(str(n), f"topic://A.{n % 2}", properties={"n": n}) for n in range(10)]
            await send(engine, *sent, message("old", "topic://A.0", expiration_ms=1))
            await send(engine, message("transient", "topic://A.0", persistent=False, properties={"n": 0}))
            with pytest.raises(SubscriptionNotFound):
                await management.holds.consume_subscription(ALICE, "c", "none")
            taken = await management.holds.consume_subscription(ALICE, "c", "s", limit=3)
            await send(engine, message("later", "topic://A.1", properties={"n": 0}))
            for use in (
                consume(engine, "topic://A.>", **where),
                management.subscriptions.purge(ALICE, "c", "s"),
            ):
                with pytest.raises(SubscriptionInUse):
                    await use
            assert (len(taken.messages), taken.token is not None) == (3, True)
            assert (await management.holds.acknowledge(ALICE, taken.token or "")).count == 3
            with pytest.raises(MessageNotFound):
                await management.holds.acknowledge(ALICE, taken.token or "")
            monkeypatch.setattr(holds, "HOLD", 0.0)
            late = await management.holds.consume_subscription(ALICE, "c", "s", limit=2)
            await quiet()  # it is given back at once
            with pytest.raises(MessageNotFound):
                await management.holds.acknowledge(ALICE, late.token or "")
            monkeypatch.undo()
            rest = await management.holds.consume_subscription(ALICE, "c", "s")
            bodies = [str(one.body) for one in (*taken.messages, *rest.messages)]
            assert sorted(bodies) == sorted([*map(str, range(8)), "transient", "later"])
            assert [one for one in bodies if one in "0246"] == [*"0246"]
            assert {one.body for one in late.messages} < {one.body for one in rest.messages}
            await management.holds.acknowledge(ALICE, rest.token or "")
            assert await management.holds.consume_subscription(ALICE, "c", "s") == Consumed(None, (), ())

    run(main)


def test_counters_begin_again(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            consumer = await consume(engine, "Q")
            minute_ago = SystemClock().now_ms() - 60_000
            await fill(engine, 2, timestamp_ms=minute_ago)
            await fill(engine, 1, "R")
            await consumer.got(2)
            assert ((await management.views.destination(Q)).average_wait or 0) >= 60
            management.destinations.reset(ALICE, Q)
            found = await management.views.destination(Q)
            assert (found.size, found.enqueued, found.dispatched, found.average_wait) == (2, 0, 0, None)
            assert management.views.broker().enqueued == 3
            management.destinations.reset_all(ALICE)
            await fill(engine, 1, "R")
            assert [one.enqueued for one in await management.views.destinations()] == [0, 1]
            assert [one.enqueued for one in await management.views.destinations(monotonic=True)] == [2, 2]
            assert (management.views.broker().enqueued, management.views.broker(monotonic=True).enqueued) == (
                1,
                4,
            )

    run(main)


def test_transactions_in_doubt_are_ended(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            await fill(engine, 1)
            xids = [XATransactionId(1, b"global", bytes([number])) for number in range(3)]
            for xid in xids[:2]:
                transaction = engine.begin("test", xid)
                await transaction.send(message(f"of {xid.branch_qualifier[0]}"))
                assert await transaction.prepare()
            found = await management.views.transactions()
            assert [one.xid for one in found] == [str(xid) for xid in xids[:2]]
            [writes] = found[0].writes
            assert (writes.destination, writes.added, writes.acknowledged) == ("queue://Q", 1, 0)
            await management.broker.commit(ALICE, str(xids[0]))
            await management.broker.roll_back(ALICE, str(xids[1]))
            assert stored(store, "Q") == ["Q0", "of 0"]
            assert await management.views.transactions() == []
            with pytest.raises(TransactionNotFound):
                await management.broker.commit(ALICE, str(xids[2]))
            with pytest.raises(TransactionError, match="is not an XID"):
                await management.broker.commit(ALICE, "none")

    run(main)


def test_subscriptions_and_what_is_pending(store: Store) -> None:
    async def main() -> None:
        async with administered(store) as (engine, management):
            await consume(engine, "Q", selector="n > 1", prefetch=7)
            gone = await consume(engine, "topic://T", client_id="c", subscription_name="s")
            gone.subscription.close()
            await fill(engine, 4, "topic://T")
            consumer, offline = await management.views.subscriptions(pending=True)
            assert (consumer.destination, consumer.selector, consumer.prefetch) == ("queue://Q", "n > 1", 7)
            assert (offline.client_id, offline.name, offline.is_active, offline.pending) == (
                "c",
                "s",
                False,
                4,
            )
            await management.subscriptions.unsubscribe(ALICE, "c", "s")
            assert len(await management.views.subscriptions()) == 1

    run(main)


def test_sizes_of_what_was_stored_before(store: Store) -> None:
    async def main() -> None:
        store.queue("Q").add_messages([message(str(n)) for n in range(5)])
        async with administered(store) as (_, management):
            await management.destinations.send(ALICE, Q, [message("one more")])
            await management.destinations.send(ALICE, Destination.topic("T"), [message("elsewhere")])
            found = await management.views.destination(Q)
            assert (found.size, found.enqueued, found.producers) == (6, 1, 0)
            assert found.oldest_age is not None
            whole = management.views.broker()
            assert (whole.queues, whole.topics, whole.enqueued) == (1, 1, 2)
            looked = await management.views.store()
            assert looked.pending_writes == 0
            if looked.timings:
                assert looked.timings["commit"].items >= 6

    run(main)


def test_every_operation_is_in_the_audit_log_and_no_body(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with administered(store) as (_, management):
            await management.destinations.send(ALICE, Q, [message("top secret", properties={"pin": "4711"})])
            await management.views.browse(Q)
            await management.queues.pause(ALICE, Q)
            await management.queues.resume(ALICE, Q)
            await management.queues.move(ALICE, Q, MessageChoice(limit=5), R)
            with pytest.raises(InvalidDestination):
                await management.destinations.delete(ALICE, Destination.queue("X"))
            await management.broker.checkpoint(ALICE)

    with caplog.at_level(logging.INFO, "jdbcstore.audit"):
        run(main)
    lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == "jdbcstore.audit"]
    operations = ["send", "pause", "resume", "move", "delete", "checkpoint"]
    assert [line["operation"] for line in lines] == operations
    assert [line.get("error") for line in lines] == [None] * 4 + ["DestinationNotFound", None]
    assert {(line["user"], line["peer"]) for line in lines} == {("alice", "127.0.0.1:5000")}
    assert lines[3]["to"] == "queue://R"
    assert lines[3]["count"] == 1
    assert "secret" not in caplog.text
    assert "4711" not in caplog.text


def test_a_slave_is_not_managed() -> None:
    management = Management(Process(None), SystemClock())
    assert management.views.broker().condition.state == "waiting for another broker"
    assert not management.views.lock().is_held
    with pytest.raises(NotMaster, match="waiting for another broker"):
        management.views.connections()
