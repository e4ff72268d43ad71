"""Who gets which message: selectors, priorities of consumers, exclusive ones."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from jdbcstore import Message, MessageId, ProducerId, Store
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import InvalidSelector
from jdbcstore.message.openwire import decode, encode
from jdbcstore.message.selector import Selector
from tests.support.broker.consuming import consume, message, quiet, running, send

pytestmark = pytest.mark.backends("memory", "sqlite")

PRODUCER = ProducerId("ID:c", 1, 1)


def coloured(*colours: str, persistent: bool = True) -> list[Message]:
    return [
        message(f"{colour}{n}", properties={"colour": colour}, persistent=persistent)
        for n, colour in enumerate(colours)
    ]


def test_a_consumer_gets_what_its_selector_takes(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            red = await consume(engine, "Q", selector="colour = 'red'")
            await send(engine, *coloured("blue", "red", "green", "red"))
            await red.got(2)
            assert red.bodies == ["red1", "red3"]
            rest = await consume(engine, "Q")
            await rest.got(2)
            assert rest.bodies == ["blue0", "green2"]
            with pytest.raises(InvalidSelector):
                await consume(engine, "Q", selector="colour = = 'red'")

    asyncio.run(main())


@pytest.mark.parametrize("persistent", [True, False])
def test_any_number_of_messages_that_nobody_wants_is_passed_over(store: Store, persistent: bool) -> None:
    policy = PolicyEntry(queue="Q", max_page_size=10)

    async def main() -> None:
        async with running(store, policy) as engine:
            await send(engine, *coloured(*["blue"] * 200, "red", persistent=persistent))
            red = await consume(engine, "Q", selector="colour = 'red'")
            await red.got(1)
            await send(engine, *coloured("blue", "red", persistent=persistent))
            await red.got(2)
            await quiet()
            assert red.bodies == ["red200", "red1"]
            # Whoever comes later gets them all, in order, and no other.
            blue = await consume(engine, "Q", selector="colour = 'blue'", prefetch=500)
            await blue.got(201)
            await quiet()
            assert blue.bodies == [f"blue{n}" for n in [*range(200), 0]]
            await red.acknowledge(*red.deliveries)
            await blue.acknowledge(*blue.deliveries)
            assert store.queue("Q").message_count() == 0

    asyncio.run(main())


def test_a_full_consumer_does_not_stop_another_one(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            red = await consume(engine, "Q", selector="colour = 'red'", prefetch=1)
            blue = await consume(engine, "Q", selector="colour = 'blue'")
            await send(engine, *coloured("red", "red", "red", "blue"))
            await blue.got(1)
            for count in (1, 2):
                await red.got(count)
                await red.acknowledge(red.deliveries[count - 1])
            await red.got(3)
            assert red.bodies == ["red0", "red1", "red2"]

    asyncio.run(main())


def test_what_was_set_aside_is_not_overtaken_by_what_comes_later(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            red = await consume(engine, "Q", selector="colour = 'red'", prefetch=2)
            await consume(engine, "Q", selector="colour = 'blue'")
            await send(engine, *coloured(*["red"] * 5))
            await red.got(2)
            red.subscription.close()
            other = await consume(engine, "Q", selector="colour = 'red'")
            await send(engine, *coloured("red"))
            await other.got(6)
            assert other.bodies == ["red0", "red1", "red2", "red3", "red4", "red0"]

    asyncio.run(main())


def test_a_consumer_of_more_priority_is_served_first(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            low = await consume(engine, "Q")
            high = await consume(engine, "Q", priority=5, prefetch=2)
            await send(engine, *[message(n) for n in "abcd"])
            await low.got(2)
            assert (high.bodies, low.bodies) == (["a", "b"], ["c", "d"])

    asyncio.run(main())


@pytest.mark.parametrize("by_policy", [True, False])
def test_an_exclusive_consumer_gets_everything_until_it_goes(store: Store, by_policy: bool) -> None:
    policy = PolicyEntry(queue="Q", all_consumers_exclusive_by_default=by_policy)

    async def main() -> None:
        async with running(store, policy) as engine:
            if by_policy:
                first, second = await consume(engine, "Q", prefetch=2), await consume(engine, "Q")
            else:
                second = await consume(engine, "Q")
                first = await consume(engine, "Q", exclusive=True, prefetch=2)
            await send(engine, *[message(n) for n in "abcd"])
            await first.got(2)
            await first.acknowledge(first.deliveries[0])
            await first.got(3)
            await quiet()
            assert second.bodies == []
            first.subscription.close()
            await second.got(3)
            assert second.bodies == ["b", "c", "d"]

    asyncio.run(main())


def test_a_prioritised_queue_delivers_by_priority(store: Store) -> None:
    policy = PolicyEntry(queue="Q", prioritized_messages=True, max_page_size=4)

    async def main() -> None:
        async with running(store, policy) as engine:
            await send(engine, *[message(f"{n % 10}:{n:02}", priority=n % 10) for n in range(60)])
            consumer = await consume(engine, "Q", prefetch=7)
            await consumer.drain(60)
            assert sorted(consumer.bodies) == sorted(f"{n % 10}:{n:02}" for n in range(60))
            rest = consumer.bodies
            assert rest == sorted(rest, key=lambda body: (-int(body[0]), body[2:]))

    asyncio.run(main())


@pytest.mark.parametrize("persistent", [True, False])
def test_a_consumer_that_comes_costs_few_evaluations(
    store: Store, persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated = 0
    matches = Selector.matches

    def count(selector: Selector, message: Message) -> bool:
        nonlocal evaluated
        evaluated += 1
        return matches(selector, message)

    monkeypatch.setattr(Selector, "matches", count)
    messages, consumers = 100, 20

    async def main() -> None:
        nonlocal evaluated
        async with running(store) as engine:
            await send(engine, *coloured(*["blue"] * messages, persistent=persistent))
            others = [await consume(engine, "Q", selector=f"colour = '{n}'") for n in range(consumers)]
            await send(engine, *coloured("0", persistent=persistent))
            await others[0].got(1)
            await quiet()
            evaluated = 0
            red = await consume(engine, "Q", selector="colour = 'red'")
            await send(engine, *coloured("red", persistent=persistent))
            await red.got(1)
            await quiet()
            # Who has refused a message is not asked again, even if it is read again from the store.
            assert evaluated <= messages + 2 * consumers + 3
            evaluated = 0
            others[0].subscription.close()
            await quiet()
            assert evaluated <= 2 * consumers
            blue = await consume(engine, "Q", selector="colour = 'blue'", prefetch=2 * messages)
            await blue.got(messages)

    asyncio.run(main())


def test_what_selectors_have_decoded_does_not_stay_in_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.broker.subscription._MOST_DECODED", 20_000, raising=False)
    properties = {f"property{n}": n * 1000 for n in range(100)}
    numbered = [message("x", persistent=False, message_id=MessageId(PRODUCER, n)) for n in range(500)]
    blobs = [encode(each.replace(properties=properties)) for each in numbered]

    async def main() -> None:
        async with running(store) as engine:
            none = await consume(engine, "Q", selector="property1 = 5")
            tracemalloc.start()
            try:
                await send(engine, *map(decode, blobs))
                await quiet()
                taken, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert none.bodies == []
            assert taken < 3 * sum(map(len, blobs))
            rest = await consume(engine, "Q", selector="property1 = 1000", prefetch=1000)
            await rest.got(500)
            assert all(each.message.properties == properties for each in rest.deliveries)

    asyncio.run(main())
