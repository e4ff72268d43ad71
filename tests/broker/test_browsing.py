"""Browsers see what a queue holds, and take nothing."""

from __future__ import annotations

import asyncio

import pytest

from jdbcstore import Store
from jdbcstore.config.policy import PolicyEntry
from tests.support.broker.consuming import consume, message, quiet, running, send

pytestmark = pytest.mark.backends("memory", "sqlite")


def test_a_browser_sees_everything_once_and_takes_nothing(store: Store) -> None:
    policy = PolicyEntry(max_browse_page_size=7)

    async def main() -> None:
        async with running(store, policy) as engine:
            await send(engine, *[message(str(n)) for n in range(30)])
            await send(engine, *[message(f"t{n}", persistent=False) for n in range(3)])
            consumer = await consume(engine, "Q", prefetch=5)
            await consumer.got(5)
            browser = await consume(engine, "Q", browser=True)
            await browser.wait(lambda: browser.has_browsed)
            await send(engine, message("later"))
            await quiet()
            expected = [str(n) for n in range(30)] + ["t0", "t1", "t2"]
            assert sorted(browser.bodies) == sorted(expected)
            assert [body for body in browser.bodies if body[0] != "t"] == expected[:30]
            await browser.acknowledge(*browser.deliveries)
            await browser.subscription.reject(browser.deliveries)
            browser.subscription.close()
            await consumer.drain(34)

    asyncio.run(main())


def test_a_browser_waits_for_room_and_has_a_selector(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, *[message(str(n), properties={"n": n}) for n in range(20)])
            browser = await consume(engine, "Q", browser=True, prefetch=4, selector="n >= 10")
            await browser.got(4)
            browser.subscription.pause()
            await browser.acknowledge(*browser.deliveries)
            await quiet()
            assert len(browser.deliveries) == 4
            assert not browser.has_browsed
            browser.subscription.resume()
            await browser.drain(10)
            await browser.wait(lambda: browser.has_browsed)
            assert browser.bodies == [str(n) for n in range(10, 20)]
            other = await consume(engine, "Q", browser=True, prefetch=1)
            await other.got(1)
            other.subscription.close()

    asyncio.run(main())


def test_a_browser_of_a_wildcard_sees_all_queues_that_are_there(store: Store) -> None:
    async def main() -> None:
        async with running(store) as engine:
            await send(engine, message("a", "A.1"), message("b", "A.2"), message("x", "B"))
            browser = await consume(engine, "A.*", browser=True)
            nothing = await consume(engine, "C.*", browser=True)
            await browser.wait(lambda: browser.has_browsed)
            await nothing.wait(lambda: nothing.has_browsed)
            await send(engine, message("c", "A.3"))
            await quiet()
            assert sorted(browser.bodies) == ["a", "b"]
            assert {str(delivery.destination) for delivery in browser.deliveries} == {
                "queue://A.1",
                "queue://A.2",
            }

    asyncio.run(main())
