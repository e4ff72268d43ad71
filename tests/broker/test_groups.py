"""Message groups: one consumer for each, in order, as long as it is there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

from jdbcstore import Message, Store
from jdbcstore.broker.api import Delivery
from jdbcstore.config.policy import GroupMap, PolicyEntry
from jdbcstore.errors import ConfigurationError
from tests.support.broker.consuming import Recorder, consume, message, quiet, running, send

pytestmark = pytest.mark.backends("memory", "sqlite")


def grouped(group: str, body: str, sequence: int = 0, **headers: Any) -> Message:
    return message(body, group_id=group, group_sequence=sequence, **headers)


def firsts(recorder: Recorder) -> list[bool]:
    return [one.message.first_for_consumer for one in recorder.deliveries]


@pytest.mark.parametrize("persistent", [True, False])
def test_a_group_stays_with_its_consumer(store: Store, persistent: bool) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, "Q"), await consume(engine, "Q")
            for group, body in ("a1", "b1", "a2", "a3", "b2", "a4"):
                await send(engine, grouped(group, body, persistent=persistent))
            await one.got(4)
            await two.got(2)
            assert (one.bodies, two.bodies) == (["1", "2", "3", "4"], ["1", "2"])
            assert firsts(one) == [True, False, False, False]
            assert firsts(two) == [True, False]

    asyncio.run(main())


def test_new_groups_go_to_the_consumer_with_the_fewest(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one = await consume(engine, "Q")
            await send(engine, grouped("a", "a"), grouped("b", "b"))
            await one.got(2)
            two = await consume(engine, "Q")
            await send(engine, *[grouped(name, name) for name in "cdef"])
            await two.got(3)
            await one.got(3)
            assert sorted(one.bodies + two.bodies) == list("abcdef")

    asyncio.run(main())


def test_the_groups_of_a_consumer_that_goes_are_taken_over_in_order(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, "Q", prefetch=2), await consume(engine, "Q")
            await send(engine, *[grouped("a", str(n)) for n in range(6)])
            await one.got(2)
            await quiet()
            assert two.bodies == []
            one.subscription.close()
            await two.got(6)
            assert two.bodies == [str(n) for n in range(6)]
            assert [one.redelivered for one in two.deliveries] == [True] * 2 + [False] * 4
            assert two.deliveries[0].message.first_for_consumer

    asyncio.run(main())


def test_the_others_do_not_wait_for_a_full_owner(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, "Q", prefetch=1), await consume(engine, "Q", prefetch=9)
            await send(engine, *[grouped("a", f"a{n}") for n in range(3)], message("x"), grouped("b", "b"))
            await two.got(2)
            assert (one.bodies, two.bodies) == (["a0"], ["x", "b"])
            await one.drain(3)
            assert one.bodies == ["a0", "a1", "a2"]

    asyncio.run(main())


def test_a_negative_sequence_closes_a_group(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, "Q"), await consume(engine, "Q")
            await send(engine, grouped("a", "1"), grouped("b", "x"), grouped("a", "2", -1))
            await one.got(2)
            await send(engine, grouped("c", "y"))  # each has one group again
            await send(engine, grouped("a", "3"))
            await quiet()
            assert sorted(one.bodies + two.bodies) == ["1", "2", "3", "x", "y"]
            owner = one if "3" in one.bodies else two
            delivery = owner.deliveries[owner.bodies.index("3")]
            assert delivery.message.first_for_consumer

    asyncio.run(main())


def test_what_waits_behind_the_end_of_a_group_goes_to_another_in_order(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one = await consume(engine, "Q", prefetch=1)
            await send(engine, grouped("a", "1"))
            await one.got(1)
            two = await consume(engine, "Q", prefetch=9)
            await send(engine, grouped("a", "2", -1), grouped("a", "3"), grouped("a", "4"), message("x"))
            await two.got(1)
            assert two.bodies == ["x"]
            await one.acknowledge(one.deliveries[0])
            await two.got(3)
            assert (one.bodies, two.bodies) == (["1", "2"], ["x", "3", "4"])

    asyncio.run(main())


def test_a_first_message_may_change_the_owner(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one = await consume(engine, "Q", prefetch=1)
            await send(engine, grouped("a", "1", 1))
            await one.got(1)
            two = await consume(engine, "Q")
            await send(engine, grouped("a", "2", 1), grouped("a", "3", 2))
            await two.got(2)
            assert two.bodies == ["2", "3"]

    asyncio.run(main())


def test_a_rollback_keeps_the_order(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one, two = await consume(engine, "Q", prefetch=3), await consume(engine, "Q", prefetch=3)
            await send(engine, *[grouped("a", str(n)) for n in range(6)])
            await one.got(3)
            transaction = engine.begin("test")
            transaction.acknowledge(one.subscription, one.deliveries[:2])
            await one.got(5)
            transaction.rollback()
            one.subscription.close()
            await two.got(3)
            await two.drain(6)
            assert two.bodies == [str(n) for n in range(6)]

    asyncio.run(main())


def test_a_selector_that_only_another_consumer_has(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            red = await consume(engine, "Q", selector="colour = 'red'")
            await send(engine, grouped("a", "r1", properties={"colour": "red"}))
            await red.got(1)
            every = await consume(engine, "Q")
            await send(engine, grouped("a", "b1", properties={"colour": "blue"}), message("x"))
            await every.got(1)
            await quiet()
            assert every.bodies == ["x"]
            red.subscription.close()
            await every.got(3)
            assert sorted(every.bodies) == ["b1", "r1", "x"]

    asyncio.run(main())


def test_an_exclusive_consumer_gets_every_group(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            one = await consume(engine, "Q")
            await send(engine, grouped("a", "1"))
            await one.got(1)
            two = await consume(engine, "Q", exclusive=True)
            await send(engine, grouped("a", "2"), grouped("b", "3"))
            await two.got(2)
            assert two.bodies == ["2", "3"]

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["cached?cacheSize=2", "simple", "bucket?bucketCount=1"])
def test_the_map_of_groups(store: Store, kind: str) -> None:
    policy = PolicyEntry(queue="Q", message_group_map_factory_type=kind)

    async def main() -> None:
        async with running(store, policy) as engine:
            one, two = await consume(engine, "Q"), await consume(engine, "Q")
            await send(engine, *[grouped(name, name) for name in "abcd"])
            await quiet()
            shares = sorted((len(one.bodies), len(two.bodies)))
            assert shares == ([0, 4] if kind.startswith("bucket") else [2, 2])
            owner = one if "a" in one.bodies else two
            await send(engine, grouped("a", "again"))
            await quiet()
            again = [
                delivery for delivery in one.deliveries + two.deliveries if delivery.message.body == "again"
            ]
            assert again[0].message.first_for_consumer == kind.startswith("cached")
            assert kind.startswith("cached") or again[0] in owner.deliveries

    asyncio.run(main())


def test_maps_that_there_are_not() -> None:
    assert PolicyEntry(message_group_map_factory_type="bucket?bucketCount=7").message_groups == GroupMap(
        "bucket", bucket_count=7
    )
    for text in ("linked", "cached?size=3", "cached?cacheSize=0", "bucket?bucketCount=x"):
        with pytest.raises(ConfigurationError, match="message_group_map_factory_type"):
            PolicyEntry(message_group_map_factory_type=text)


@pytest.mark.parametrize("wanted", [0, 2])
def test_a_queue_that_waits_for_its_consumers(store: Store, wanted: int) -> None:
    policy = PolicyEntry(
        queue="Q",
        consumers_before_dispatch_starts=wanted,
        time_before_dispatch_starts=30.0 if wanted else 0.1,
    )

    async def main() -> None:
        async with running(store, policy) as engine:
            await send(engine, *[grouped(name, name) for name in "abcd"])
            one = await consume(engine, "Q")
            await quiet()
            assert one.bodies == []
            two = await consume(engine, "Q")
            await one.got(2)
            await two.got(2)

    asyncio.run(main())


def note(done: dict[str, list[int]], deliveries: Iterable[Delivery]) -> None:
    for delivery in deliveries:
        body = str(delivery.message.body)
        done[body[0]].append(int(body[1:]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sequences", [[0], [0, 0, 0, -1]])
def test_every_group_is_in_order_with_one_owner_at_a_time(
    store: Store, seed: int, sequences: list[int]
) -> None:
    """Consumers come and go, acknowledge or give back. After the end of a group its order is a new one."""
    chance = random.Random(seed)
    policy = PolicyEntry(queue="Q", max_page_size=chance.choice([3, 200]))

    async def main() -> None:
        async with running(store, policy) as engine:
            done: dict[str, list[int]] = {group: [] for group in "abcde"}
            consumers: list[tuple[Recorder, list[Delivery]]] = []
            sent = dict.fromkeys("abcde", 0)
            for _ in range(60):
                batch = []
                for _ in range(chance.randrange(6)):
                    group = chance.choice("abcde")
                    sent[group] += 1
                    batch.append(grouped(group, f"{group}{sent[group]}", chance.choice(sequences)))
                await send(engine, *batch)
                if len(consumers) < 3 and chance.random() < 0.3:
                    consumers.append((await consume(engine, "Q", prefetch=chance.choice([1, 2, 10])), []))
                await quiet()
                for recorder, taken in list(consumers):
                    waiting = recorder.deliveries[len(taken) :]
                    some = waiting[: chance.randrange(len(waiting) + 1)]
                    await recorder.acknowledge(*some)
                    taken.extend(some)
                    note(done, some)
                    if chance.random() < 0.1:
                        recorder.subscription.close()
                        consumers.remove((recorder, taken))
            for recorder, _ in consumers:
                recorder.subscription.close()
            last = await consume(engine, "Q")
            rest = sum(sent.values()) - sum(map(len, done.values()))
            note(done, await last.got(rest))
            if -1 in sequences:
                done = {group: sorted(numbers) for group, numbers in done.items()}
            assert done == {group: [*range(1, count + 1)] for group, count in sent.items()}

    asyncio.run(main())


def test_a_message_that_waits_for_a_consumer_is_not_overtaken_in_its_group(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            red = await consume(engine, "Q", selector="colour = 'red'", prefetch=1)
            blue = await consume(engine, "Q", selector="colour = 'blue'", prefetch=2)
            await send(engine, message("r0", properties={"colour": "red"}))
            await send(engine, message("b0", properties={"colour": "blue"}))
            await red.got(1)
            await blue.got(1)
            for body, colour in (("r1", "red"), ("b1", "blue")):
                await send(engine, message(body, group_id="G", properties={"colour": colour}))
            await quiet()
            await blue.acknowledge(*blue.deliveries)
            await quiet()
            assert blue.bodies == ["b0"]
            await red.acknowledge(*red.deliveries)
            await red.got(2)
            assert (red.bodies, blue.bodies) == (["r0", "r1"], ["b0"])

    asyncio.run(main())
