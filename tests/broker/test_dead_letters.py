"""Rejected and expired messages: they come again, become dead letters, or are dropped."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jdbcstore import Destination, Store
from jdbcstore.abc import Page
from jdbcstore.broker.attempts import attempts_of
from jdbcstore.broker.queues.redelivery import delay_before
from jdbcstore.config.policy import (
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    PolicyEntry,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
)
from jdbcstore.message.dead_letters import ATTEMPTS, restored
from jdbcstore.testing import OpenStore
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from tests.support.broker.consuming import Recorder, consume, message, quiet, running, send

pytestmark = pytest.mark.backends("memory", "sqlite")


async def reject(consumer: Recorder) -> None:
    async with asyncio.timeout(180):
        await consumer.subscription.reject(consumer.deliveries)


def test_without_a_policy_a_rejected_message_is_dead_at_once(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            dead = await consume(engine, "ActiveMQ.DLQ")
            consumer = await consume(engine, "Q")
            properties = {"colour": "red"}
            await send(engine, message("a", expiration_ms=1 << 60, correlation_id="c", properties=properties))
            await consumer.got(1)
            await reject(consumer)
            [letter] = [delivery.message for delivery in await dead.got(1)]
            assert store.queue("Q").message_count() == 0
            assert store.queue("ActiveMQ.DLQ").message_count() == 1
            assert letter.message_id == consumer.deliveries[0].message.message_id
            assert (letter.body, letter.correlation_id, letter.expiration_ms) == ("a", "c", 0)
            assert letter.original_destination == Destination.queue("Q")
            assert letter.properties["colour"] == "red"
            assert letter.properties["originalExpiration"] == 1 << 60
            assert "Rejected" in str(letter.properties["dlqDeliveryFailureCause"])

    asyncio.run(main())


def test_a_rejected_message_comes_again_until_the_policy_is_fulfilled(store: Store) -> None:
    redelivery = RedeliveryPolicy(maximum_redeliveries=2, initial_redelivery_delay=0, redelivery_delay=0.01)
    policy = PolicyEntry(queue="Q", redelivery_policy=redelivery)

    async def main() -> None:
        async with running(store, policy) as engine:
            dead = await consume(engine, "ActiveMQ.DLQ")
            consumer = await consume(engine, "Q")
            await send(engine, message("a"))
            for count in range(3):
                await consumer.got(count + 1)
                delivery = consumer.deliveries[count]
                assert delivery.redelivered == (count > 0)
                assert delivery.message.redelivery_counter == count
                await consumer.subscription.reject([delivery])
            await dead.got(1)
            assert len(consumer.deliveries) == 3
            assert dead.deliveries[0].message.redelivery_counter == 0

    asyncio.run(main())


def test_delays_are_those_of_activemq() -> None:
    policy = RedeliveryPolicy(
        initial_redelivery_delay=1.0,
        redelivery_delay=2.0,
        use_exponential_back_off=True,
        back_off_multiplier=3.0,
        maximum_redelivery_delay=20.0,
    )
    assert [delay_before(policy, count) for count in range(5)] == [1.0, 3.0, 9.0, 20.0, 20.0]
    plain = RedeliveryPolicy(initial_redelivery_delay=1.0, redelivery_delay=2.0)
    assert [delay_before(plain, count) for count in range(3)] == [1.0, 2.0, 2.0]
    later = RedeliveryPolicy(
        initial_redelivery_delay=0,
        redelivery_delay=2.0,
        use_exponential_back_off=True,
        back_off_multiplier=2.0,
    )
    assert [delay_before(later, count) for count in range(4)] == [0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    ("strategy", "place"),
    [
        (SharedDeadLetterStrategy(dead_letter_queue="DEAD"), "DEAD"),
        (IndividualDeadLetterStrategy(), "ActiveMQ.DLQ.Queue.Q"),
        (IndividualDeadLetterStrategy(queue_prefix="DLQ.", queue_suffix=".dead"), "DLQ.Q.dead"),
        (DiscardingDeadLetterStrategy(), None),
    ],
)
def test_the_strategy_says_where_dead_letters_go(
    store: Store, strategy: SharedDeadLetterStrategy, place: str | None
) -> None:
    async def main() -> None:
        async with running(store, PolicyEntry(dead_letter_strategy=strategy)) as engine:
            consumer = await consume(engine, "Q")
            await send(engine, message("a"))
            await consumer.got(1)
            await reject(consumer)
            places = [] if place is None else [Destination.queue(place)]
            assert store.destinations() == places

    asyncio.run(main())


def test_what_is_not_persistent_dies_only_where_it_is_asked_for(store: Store) -> None:
    strategy = SharedDeadLetterStrategy(dead_letter_queue="DEAD", process_non_persistent=True)
    policy = PolicyEntry(queue="KEPT", dead_letter_strategy=strategy)

    async def main() -> None:
        async with running(store, policy) as engine:
            for name in ("KEPT", "LOST"):
                consumer = await consume(engine, name)
                await send(engine, message("a", name, persistent=False))
                await consumer.got(1)
                await reject(consumer)
            [letter] = store.queue("DEAD").recover()
            assert letter.persistent
            assert letter.properties["originalDeliveryMode"] == "NON_PERSISTENT"
            assert store.destinations() == [Destination.queue("DEAD")]

    asyncio.run(main())


def test_a_dead_letter_that_is_rejected_stays(store: Store) -> None:
    redelivery = RedeliveryPolicy(maximum_redeliveries=1, initial_redelivery_delay=0, redelivery_delay=0)

    async def main() -> None:
        async with running(store, PolicyEntry(redelivery_policy=redelivery)) as engine:
            await send(engine, message("a", "ActiveMQ.DLQ"))
            consumer = await consume(engine, "ActiveMQ.DLQ")
            for count in range(4):
                await consumer.got(count + 1)
                await consumer.subscription.reject([consumer.deliveries[count]])
            *_, last = await consumer.got(5)
            assert last.message.properties["redeliveryDelay"] == 0, "the delay of its own policy"
            assert store.queue("ActiveMQ.DLQ").message_count() == 1

    asyncio.run(main())


@pytest.mark.parametrize(("expiry_queue", "expired"), [(None, ["a"]), ("EXPIRED", ["a", "c"])])
def test_an_expired_message_is_not_delivered(
    open_store: OpenStore, clock: FakeClock, expiry_queue: str | None, expired: list[str]
) -> None:
    store = open_store(clock=clock)

    async def main() -> None:
        async with running(store, PolicyEntry(expiry_queue=expiry_queue), clock=clock) as engine:
            dead = await consume(engine, expiry_queue or "ActiveMQ.DLQ")
            soon = clock.now_ms() + 1000
            await send(engine, message("a", expiration_ms=soon), message("b"))
            await send(engine, message("c", persistent=False, expiration_ms=soon))
            clock.advance(1.5)
            consumer = await consume(engine, "Q")
            await consumer.got(1)
            await dead.got(len(expired))
            await quiet()
            assert (consumer.bodies, sorted(dead.bodies)) == (["b"], expired)
            properties = dead.deliveries[0].message.properties
            assert properties["originalExpiration"] == soon
            assert properties["dlqDeliveryFailureCause"] == (
                f"java.lang.Throwable: Message Expired. Expiration:{soon}"
            )
            assert store.queue("Q").message_count() == 1

    asyncio.run(main())


def test_expired_messages_are_looked_for_without_consumers(open_store: OpenStore, clock: FakeClock) -> None:
    store = open_store(clock=clock)
    policies = (
        PolicyEntry(queue="Q", expire_messages_period=0.01, max_page_size=10, max_expire_page_size=7),
        PolicyEntry(
            queue="DROP",
            expire_messages_period=0.01,
            dead_letter_strategy=SharedDeadLetterStrategy(process_expired=False),
        ),
        PolicyEntry(expire_messages_period=0),
    )

    async def main() -> None:
        async with running(store, *policies, clock=clock) as engine:
            soon = clock.now_ms() + 1000
            held = await consume(engine, "Q", prefetch=1)
            await send(engine, *[message(str(n), expiration_ms=soon) for n in range(100)], message("last"))
            await send(engine, *[message("x", "DROP", expiration_ms=soon) for n in range(3)])
            await held.got(1)
            clock.advance(1.5)
            dead = await consume(engine, "ActiveMQ.DLQ", prefetch=200)
            await dead.got(99)
            await asyncio.to_thread(wait_until, lambda: not store.queue("DROP").message_count())
            await held.acknowledge(*held.deliveries)
            await held.got(2)
            assert held.bodies == ["0", "last"]
            assert sorted(map(int, dead.bodies)) == list(range(1, 100))
            assert store.queue("Q").message_count() == 1

    asyncio.run(main())


@pytest.mark.parametrize("is_persistent", [True, False])
def test_expired_messages_in_files_are_looked_for(
    open_store: OpenStore, clock: FakeClock, is_persistent: bool
) -> None:
    policy = PolicyEntry(
        expire_messages_period=0.01,
        memory_limit=10_000,
        pending_queue_policy="fileQueueCursor",
        dead_letter_strategy=DiscardingDeadLetterStrategy(),
    )

    async def main() -> None:
        async with running(open_store(clock=clock), policy, clock=clock) as engine:
            fields: dict[str, Any] = {"persistent": is_persistent, "expiration_ms": clock.now_ms() + 1000}
            await send(engine, *[message("x" * 1000, **fields) for _ in range(300)])
            fresh: dict[str, Any] = {
                "persistent": is_persistent,
                "expiration_ms": clock.now_ms() + 10_000_000,
            }
            await send(engine, *[message(str(number), **fresh) for number in range(3)])
            queue = engine.destinations[Destination.queue("Q")]
            assert queue.memory.used < 100_000
            clock.advance(1.5)
            await asyncio.to_thread(wait_until, lambda: queue.counters.expired == 300)
            await quiet()
            assert (queue.counters.expired, queue.counters.dequeued) == (300, 300)
            consumer = await consume(engine, "Q", prefetch=1000)
            await consumer.got(3)
            assert consumer.bodies == ["0", "1", "2"]

    asyncio.run(main())


@pytest.mark.backends("memory")
def test_searches_for_expired_messages_leave_threads_for_consumers(
    open_store: OpenStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands of queues one searches at a time, and those that are in memory as a whole do not."""
    store = open_store(clock=clock)
    names = [f"STORED.{number}" for number in range(8)]
    for name in names:
        store.queue(name).add_message(message(name, name))
    stored, searched, slow = type(store.queue("Q")), list[str](), threading.Event()
    search = stored.recover_expired

    def slowly(queue: Any, *arguments: Any) -> Page:
        searched.append(queue.destination.name)
        assert slow.wait(180)
        return search(queue, *arguments)

    monkeypatch.setattr(stored, "recover_expired", slowly)
    policies = (PolicyEntry(expire_messages_period=0.01),)

    async def main() -> None:
        async with running(store, *policies, clock=clock) as engine:
            await send(engine, message("fresh", "FRESH", expiration_ms=clock.now_ms() + 1000))
            await asyncio.to_thread(wait_until, lambda: searched)
            clock.advance(1.5)
            dead = await consume(engine, "ActiveMQ.DLQ")
            await dead.got(1)
            for name in names:
                assert (await (await consume(engine, name)).got(1))[0].message.body == name
            assert len(searched) == 1
            slow.set()
            await asyncio.to_thread(wait_until, lambda: {*searched} <= {*names} and len(searched) > 1)

    try:
        asyncio.run(main())
    finally:
        slow.set()


def test_a_broker_that_stops_waits_for_dead_letters_that_it_reads_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that was delivered while memory is full is not kept there, and is read before it is moved."""
    is_asked, may_read = threading.Event(), threading.Event()
    queue = store.queue("Q")
    get_message = type(queue).get_message

    def slow(self: Any, sequence: int) -> Any:
        is_asked.set()
        assert may_read.wait(180)
        return get_message(self, sequence)

    monkeypatch.setattr(type(queue), "get_message", slow)

    async def main() -> None:
        async with running(store, PolicyEntry(queue="Q", memory_limit=4000)) as engine:
            consumer = await consume(engine, "Q", recorder=Recorder(keeps_messages=False))
            await send(engine, message("a" * 3500))
            await consumer.got(1)
            consumer.subscription.reject(consumer.deliveries).add_done_callback(asyncio.Future.exception)
            assert await asyncio.to_thread(is_asked.wait, 60)
            stopping = asyncio.create_task(engine.stop())
            await quiet()
            assert not stopping.done()
            may_read.set()
            await stopping
        assert queue.message_count() == 0
        assert store.queue("ActiveMQ.DLQ").message_count() == 1

    asyncio.run(main())


def test_a_dead_letter_keeps_each_attempt_with_its_consumer(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    policy = PolicyEntry(
        redelivery_policy=RedeliveryPolicy(maximum_redeliveries=1, initial_redelivery_delay=0)
    )

    async def main() -> None:
        async with running(store, policy) as engine:
            dead = await consume(engine, "ActiveMQ.DLQ")
            who = "client pay-bad, user alice, 127.0.0.1:5000, connection c1"
            consumer = await consume(engine, "Q", client=who)
            await send(engine, message("a"), message("b"))
            for count in range(4):
                await consumer.got(count + 1)
                await consumer.subscription.reject([consumer.deliveries[count]], "declined")
            await dead.got(2)
            letter = dead.deliveries[0].message
            first, last = attempts_of(letter.properties[ATTEMPTS])
            assert {first.text, last.text} == {f"rejected by {who}"}
            assert first.time_ms <= last.time_ms
            assert ATTEMPTS not in restored(letter, Destination.queue("Q")).properties

    asyncio.run(main())
    lines = [record.getMessage() for record in caplog.records if "rejected by" in record.getMessage()]
    assert lines == [
        "queue://Q: messages are rejected by client pay-bad, user alice, 127.0.0.1:5000, connection c1:"
        " declined"
    ]
