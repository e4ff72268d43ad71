"""Scheduled delivery: later, again, by a cron entry; once, whatever ends in between."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import Any

import pytest

from jdbcstore import Destination, Message, MessageId, ProducerId, Store
from jdbcstore.abc import MessageReference
from jdbcstore.broker.engine import Engine
from jdbcstore.errors import InvalidDestination, InvalidMessage, StoreError
from jdbcstore.testing import OpenStore
from jdbcstore.testing.clock import FakeClock
from tests.support.broker.consuming import consume, message, quiet, running, send
from tests.support.databases import Database

pytestmark = pytest.mark.backends("memory", "sqlite")

JOBS = "JDBCSTORE.SCHEDULED"


def later(body: str, name: str = "Q", **schedule: Any) -> Message:
    """Of milliseconds, as JMS clients send them."""
    return message(
        body, name, properties={f"AMQ_SCHEDULED_{key.upper()}": one for key, one in schedule.items()}
    )


def stored(store: Store, queue: str) -> list[Any]:
    return [one.body for one in store.queue(queue).recover()]


async def pass_time(engine: Engine, clock: FakeClock, seconds: float) -> None:
    clock.advance(seconds)
    assert engine.scheduler is not None
    engine.scheduler.wake()


@pytest.mark.backends("memory", "sqlite", "postgresql", "mariadb", "mysql")
def test_a_delay(store: Store, clock: FakeClock) -> None:
    message_id = MessageId(ProducerId("ID:c", 1, 1), 7)

    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            sent = later("x", delay=5000).replace(message_id=message_id, priority=7, correlation_id="c")
            await send(engine, sent)
            assert (stored(store, "Q"), stored(store, JOBS)) == ([], ["x"])
            await pass_time(engine, clock, 4.9)
            await quiet()
            assert consumer.bodies == []
            await pass_time(engine, clock, 0.1)
            [delivery] = await consumer.got(1)
            assert (stored(store, "Q"), stored(store, JOBS)) == (["x"], [])
            got = delivery.message
            assert dict(got.properties) == {"scheduledJobId": str(message_id)}
            assert (got.message_id, got.priority, got.correlation_id) == (message_id, 7, "c")
            assert (got.destination, got.original_destination) == (Destination.queue("Q"), None)

    asyncio.run(main())


def test_the_loop_s_own_timer(store: Store) -> None:
    async def main() -> None:
        async with running(store, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, later("b", delay="120"), later("a", delay=60), message("now"))
            await consumer.got(3)
            assert consumer.bodies == ["now", "a", "b"]

    asyncio.run(main())


def test_without_support_they_are_properties_like_others(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, later("x", delay=5000, cron="nonsense"))
            [delivery] = await consumer.got(1)
            assert delivery.message.properties["AMQ_SCHEDULED_DELAY"] == 5000

    asyncio.run(main())


@pytest.mark.backends("memory", "sqlite", "postgresql", "mariadb", "mysql")
def test_repetitions(store: Store, clock: FakeClock) -> None:
    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, later("x", delay=1000, period=2000, repeat=2))
            for count, seconds in enumerate((1, 2, 2), 1):
                await pass_time(engine, clock, seconds)
                await consumer.got(count)
            assert stored(store, JOBS) == []
            await pass_time(engine, clock, 60)
            await quiet()
            assert len(consumer.deliveries) == 3
            ids = {delivery.message.message_id for delivery in consumer.deliveries}
            jobs = {delivery.message.properties["scheduledJobId"] for delivery in consumer.deliveries}
            assert (len(ids), len(jobs)) == (3, 1)

    asyncio.run(main())


def test_a_period_alone_is_a_delay_and_minus_one_repeats_for_ever(store: Store, clock: FakeClock) -> None:
    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, later("x", period=1000, repeat=-1))
            for count in range(1, 6):
                await pass_time(engine, clock, 1)
                await consumer.got(count)
            # After a pause there is one, and not all that were missed.
            await pass_time(engine, clock, 100)
            await consumer.got(6)
            await quiet()
            assert len(consumer.deliveries) == 6

    asyncio.run(main())


def test_a_job_that_arrives_when_it_has_been_read_already(store: Store, clock: FakeClock) -> None:
    message_id = MessageId(ProducerId("ID:c", 1, 1), 7)

    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, later("x", delay=1000).replace(message_id=message_id))
            [job] = store.queue(JOBS).recover()
            assert engine.scheduler is not None
            assert job.sequence is not None
            engine.scheduler.arrive(job, MessageReference(job.sequence, message_id), "")
            await pass_time(engine, clock, 1)
            await consumer.got(1)
            await quiet()
            assert consumer.bodies == ["x"]

    asyncio.run(main())


def test_a_cron_entry(store: Store) -> None:
    clock = FakeClock(int(datetime(2026, 3, 2, 10, 59, 30).timestamp() * 1000))

    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, later("x", cron="0 11,12 * * *"))
            await pass_time(engine, clock, 29)
            await quiet()
            assert consumer.bodies == []
            await pass_time(engine, clock, 1)
            await consumer.got(1)
            await pass_time(engine, clock, 3599)
            await quiet()
            assert consumer.bodies == ["x"]
            await pass_time(engine, clock, 1)
            await consumer.got(2)
            assert stored(store, JOBS) == ["x"]

    asyncio.run(main())


def test_each_time_of_a_cron_entry_begins_a_round_of_repetitions(store: Store) -> None:
    clock = FakeClock(int(datetime(2026, 3, 2, 10, 59, 30).timestamp() * 1000))

    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, later("x", cron="0 * * * *", delay=1000, period=500, repeat=2))
            await pass_time(engine, clock, 30)
            while len(stored(store, JOBS)) < 2:
                await asyncio.sleep(0)
            assert consumer.bodies == []
            for count, seconds in enumerate((1, 0.5, 0.5), 1):
                await pass_time(engine, clock, seconds)
                await consumer.got(count)
            await quiet()
            assert stored(store, JOBS) == ["x"]
            await pass_time(engine, clock, 3600)
            while len(stored(store, JOBS)) < 2:
                await asyncio.sleep(0)
            await pass_time(engine, clock, 1)
            await consumer.got(4)

    asyncio.run(main())


@pytest.mark.parametrize("most", [0, 2, 5000])
def test_the_most_repetitions_are_configured(store: Store, most: int) -> None:
    async def main() -> None:
        async with running(store, scheduler_support=True, max_scheduler_repeats=most) as engine:
            await send(engine, later("x", period=10_000, repeat=most))
            with pytest.raises(InvalidMessage, match="The scheduled repeat value is too large"):
                await send(engine, later("y", period=10_000, repeat=most + 1))
            assert stored(store, JOBS) == ["x"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"delay": "soon"}, "AMQ_SCHEDULED_DELAY must be a whole number, 0 or more, not 'soon'"),
        ({"delay": -1}, "AMQ_SCHEDULED_DELAY must be"),
        ({"delay": 2**60}, "AMQ_SCHEDULED_DELAY must be"),
        ({"period": True}, "AMQ_SCHEDULED_PERIOD must be"),
        ({"period": 10, "repeat": "x"}, "AMQ_SCHEDULED_REPEAT must be"),
        ({"delay": 10, "repeat": -1}, "AMQ_SCHEDULED_REPEAT without end needs AMQ_SCHEDULED_PERIOD"),
        ({"period": 10, "repeat": 1001}, "The scheduled repeat value is too large"),
        ({"cron": "* * * *"}, "AMQ_SCHEDULED_CRON needs five fields"),
        ({"cron": "* * * * * *"}, "AMQ_SCHEDULED_CRON needs five fields"),
        ({"cron": "61 * * * *"}, "AMQ_SCHEDULED_CRON is not valid"),
        ({"cron": "0 0 30 2 *"}, "AMQ_SCHEDULED_CRON is not valid, or never due"),
    ],
)
def test_bad_values_are_refused(store: Store, schedule: dict[str, Any], expected: str) -> None:
    async def main() -> None:
        async with running(store, scheduler_support=True) as engine:
            with pytest.raises(InvalidMessage, match=expected):
                await send(engine, later("x", **schedule))
            transaction = engine.begin("test")
            with pytest.raises(InvalidMessage, match=expected):
                await transaction.send(later("x", **schedule))
            transaction.rollback()
            assert (stored(store, "Q"), stored(store, JOBS)) == ([], [])

    asyncio.run(main())


def test_a_transaction_schedules_with_its_commit(store: Store, clock: FakeClock) -> None:
    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            dropped, kept = engine.begin("test"), engine.begin("test")
            dropped.send(later("dropped", delay=1000))
            dropped.rollback()
            kept.send(later("later", delay=1000))
            kept.send(message("now"))
            assert stored(store, JOBS) == []
            await kept.commit()
            assert stored(store, JOBS) == ["later"]
            await consumer.got(1)
            await pass_time(engine, clock, 1)
            await consumer.got(2)
            assert consumer.bodies == ["now", "later"]

    asyncio.run(main())


@pytest.mark.parametrize("persistent", [True, False])
def test_the_time_to_live_begins_when_it_is_sent(store: Store, clock: FakeClock, persistent: bool) -> None:
    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")
            now_ms = clock.now_ms()
            short = later("x", delay=60_000).replace(
                timestamp_ms=now_ms, expiration_ms=now_ms + 1000, persistent=persistent
            )
            await send(engine, short)
            await pass_time(engine, clock, 60)
            [delivery] = await consumer.got(1)
            got = delivery.message
            assert (got.timestamp_ms, got.expiration_ms) == (now_ms + 60_000, now_ms + 61_000)
            assert got.persistent == persistent
            assert stored(store, "Q") == (["x"] if persistent else [])

    asyncio.run(main())


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_jobs_outlive_the_broker(open_store: OpenStore, clock: FakeClock) -> None:
    async def main() -> None:
        with open_store() as store:
            async with running(store, clock=clock, scheduler_support=True) as engine:
                messages = [later(str(n), delay=1000 * n) for n in (3, 1, 2)]
                await send(engine, *[each.replace(persistent=False) for each in messages])
        clock.advance(2)
        with open_store() as store:
            async with running(store, clock=clock, scheduler_support=True) as engine:
                consumer = await consume(engine, "Q")
                await consumer.got(2)
                await quiet()
                assert consumer.bodies == ["1", "2"]
                await pass_time(engine, clock, 1)
                await consumer.got(3)

    asyncio.run(main())


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_the_time_of_the_last_sending_outlives_the_broker(open_store: OpenStore, clock: FakeClock) -> None:
    async def last_ms(engine: Engine) -> int | None:
        assert engine.scheduler is not None
        while not engine.scheduler.jobs:
            await asyncio.sleep(0.01)
        [job] = engine.scheduler.jobs.values()
        return job.last_ms

    async def main() -> None:
        with open_store() as store:
            async with running(store, clock=clock, scheduler_support=True) as engine:
                consumer = await consume(engine, "Q")
                await send(engine, later("x", delay=1000, period=5000, repeat=2))
                assert await last_ms(engine) is None
                await pass_time(engine, clock, 1)
                await consumer.got(1)
                [delivery] = consumer.deliveries
                assert not delivery.message.redelivery_counter
        sent_ms = clock.now_ms()
        clock.advance(2)
        with open_store() as store:
            async with running(store, clock=clock, scheduler_support=True) as engine:
                assert await last_ms(engine) == sent_ms

    asyncio.run(main())


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_rows_of_a_job_and_of_its_message(store: Store, database: Database, clock: FakeClock) -> None:
    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            await send(engine, later("x", delay=1000, period=1000, repeat=1))
            rows = "SELECT CONTAINER, EXPIRATION FROM ACTIVEMQ_MSGS ORDER BY ID"
            assert database.rows(rows) == [(f"queue://{JOBS}", 0)]
            await pass_time(engine, clock, 1)
            while len(database.rows(rows)) < 2:
                await asyncio.sleep(0.01)
            assert database.rows(rows) == [("queue://Q", 0), (f"queue://{JOBS}", 0)]
            await pass_time(engine, clock, 1)
            while len({row[0] for row in database.rows(rows)}) > 1:
                await asyncio.sleep(0.01)
            assert database.rows(rows) == [("queue://Q", 0)] * 2

    asyncio.run(main())


def test_composites_and_virtual_topics(store: Store, clock: FakeClock) -> None:
    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            both = await consume(engine, "queue://A,queue://B")
            await consume(engine, "Consumer.C.VirtualTopic.T")
            await send(engine, later("x", "queue://A,topic://VirtualTopic.T,queue://B", delay=1000))
            assert stored(store, JOBS) == ["x"] * 3
            await pass_time(engine, clock, 1)
            one, two = await both.got(2)
            assert {one.destination, two.destination} == {Destination.queue("A"), Destination.queue("B")}
            assert str(one.message.original_destination) == "A,topic://VirtualTopic.T,queue://B"
            ids = {each.message.properties["scheduledJobId"] for each in (one, two)}
            assert len(ids) == 2
            while stored(store, JOBS):
                await asyncio.sleep(0)
            assert stored(store, "Consumer.C.VirtualTopic.T") == ["x"]

    asyncio.run(main())


def test_an_audit_drops_nothing(open_store: OpenStore, clock: FakeClock) -> None:
    store = open_store(enable_audit=True)

    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True, audited=True) as engine:
            consumer = await consume(engine, "Q")
            message_id = MessageId(ProducerId("ID:c", 1, 1), 7)
            twice = later("x", delay=1000, period=1000, repeat=2).replace(message_id=message_id)
            await send(engine, twice)
            await send(engine, twice)  # as after a failover
            for count in (1, 2, 3):
                await pass_time(engine, clock, 1)
                await consumer.got(count)
            await pass_time(engine, clock, 60)
            await quiet()
            assert len(consumer.deliveries) == 3

    asyncio.run(main())


def test_nobody_else_uses_the_queue_of_the_jobs(
    store: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            await send(engine, later("x", delay=1000))
        async with running(store, clock=clock) as engine:
            every = await consume(engine, ">")
            with pytest.raises(InvalidDestination, match="scheduled"):
                await consume(engine, JOBS)
            with pytest.raises(InvalidDestination, match="scheduled"):
                await send(engine, message("x", JOBS))
            clock.advance(60)
            await quiet()
            assert every.bodies == []

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "there are scheduled messages, which are not sent until scheduler_support is on" in caplog.text


def test_a_temporary_destination_that_is_gone(
    store: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            replies = "temp-queue://test:1"
            consumer = await consume(engine, replies)
            await send(engine, later("x", replies, delay=1000), later("y", replies, delay=2000))
            await pass_time(engine, clock, 1)
            await consumer.got(1)
            consumer.subscription.close()
            engine.disconnected("test")
            await pass_time(engine, clock, 1)
            while stored(store, JOBS):
                await asyncio.sleep(0)

    asyncio.run(main())
    assert "dropped a scheduled message that can no longer be sent" in caplog.text


def test_browse_and_remove(store: Store, clock: FakeClock) -> None:
    management = "topic://ActiveMQ.Scheduler.Management"

    def request(action: str, **properties: Any) -> Message:
        properties = {"AMQ_SCHEDULER_ACTION": action, **properties}
        return message("", management, properties=properties, reply_to=Destination.queue("R"))

    async def main() -> None:
        async with running(store, clock=clock, scheduler_support=True) as engine:
            now_ms = clock.now_ms()
            await send(engine, *[later(str(n), delay=1000 * n) for n in (1, 2, 3, 4)])
            replies = await consume(engine, "R")
            await send(engine, request("BROWSE"))
            await replies.got(4)
            assert replies.bodies == ["1", "2", "3", "4"]
            second = replies.deliveries[1].message
            assert second.original_destination == Destination.queue("Q")
            assert second.properties["AMQ_SCHEDULED_DELAY"] == 2000
            await send(engine, request("REMOVE", scheduledJobId=second.properties["scheduledJobId"]))
            assert sorted(stored(store, JOBS)) == ["1", "3", "4"]
            until = {"ACTION_START_TIME": str(now_ms), "ACTION_END_TIME": str(now_ms + 3000)}
            await send(engine, request("REMOVEALL", **until))
            assert stored(store, JOBS) == ["4"]
            consumer = await consume(engine, "Q")
            await pass_time(engine, clock, 10)
            await consumer.got(1)
            assert consumer.bodies == ["4"]
            for bad in (request("NONE"), request("REMOVE"), request("REMOVEALL", ACTION_START_TIME="x")):
                with pytest.raises(StoreError):
                    await send(engine, bad)

    asyncio.run(main())


@pytest.mark.parametrize("name", ["q" * 300, "A," + "q" * 300, "topic://" + "t" * 300, "A.*"], ids="abcd")
def test_a_message_that_could_not_be_sent_later_is_refused_now(store: Store, name: str) -> None:
    async def main() -> None:
        async with running(store, scheduler_support=True) as engine:
            with pytest.raises(InvalidDestination):
                await send(engine, later("x", name, delay=5000))
            assert stored(store, JOBS) == []
            assert not engine.destinations

    asyncio.run(main())
