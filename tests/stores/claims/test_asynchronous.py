"""Claims in an event loop: the same results, and tasks that are cancelled at each point."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.errors import ClaimLost, ConfigurationError, StoreClosed, StoreUnavailable
from jdbcstore.stores.claims import AsyncClaims, Claims
from jdbcstore.stores.claims.asynchronous import AsyncClaimQueue
from tests.support.databases import Database

every_database = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
pytestmark = every_database


def with_claims(database: Database, test: Callable[[AsyncClaims], Awaitable[None]]) -> None:
    async def run() -> None:
        async with AsyncClaims(database.url) as claims:
            await test(claims)

    asyncio.run(run())
    database.expect_closed()


def test_the_names_are_those_of_claims(database: Database) -> None:
    async def test(claims: AsyncClaims) -> None:
        queue = claims.queue("ORDERS")
        assert queue is claims.queue("ORDERS")
        await queue.add(Message("later"), delay=3600.0)
        await queue.add(*(Message(str(number)) for number in range(5)))
        done, returned, rejected, dead = await queue.claim(4)
        await queue.acknowledge(done)
        await queue.extend(returned)
        await queue.release(returned)
        await queue.reject(rejected)
        await queue.dead_letter(dead, reason="a test")
        assert await queue.count() == (4, 3)
        with pytest.raises(ClaimLost):
            await queue.acknowledge(done)
        again = await queue.claim(9, wait=10.0)
        assert [(one.message.body, one.redeliveries) for one in again] == [("1", 0), ("2", 1), ("4", 0)]
        await queue.flow.limit(claims=3)
        assert (await queue.flow.settings()).claims == 3
        assert [*await claims.flow()] == ["ORDERS"]
        assert await queue.claim() == []
        await queue.acknowledge(*again)
        assert await queue.purge() == 1
        await claims.check()

    with_claims(database, test)


def test_a_hundred_tasks_wait_and_take_no_threads(database: Database) -> None:
    async def test(claims: AsyncClaims) -> None:
        queue = claims.queue("ORDERS")

        async def take() -> object:
            [claim] = await queue.claim(wait=180.0)
            await queue.acknowledge(claim)
            return claim.message.body

        tasks = [asyncio.create_task(take()) for _ in range(30)]
        waiting = asyncio.create_task(claims.queue("OTHERS").claim(wait=180.0))
        await queue.add(*(Message(str(number)) for number in range(30)))
        assert {*await asyncio.gather(*tasks)} == {str(number) for number in range(30)}
        assert len([one for one in threading.enumerate() if one.name.startswith("jdbcstore-async")]) <= 8
        with Claims(database.url) as other:
            other.queue("OTHERS").add(Message("of another process"))
        [claim] = await waiting
        assert claim.message.body == "of another process"

    with_claims(database, test)


class Cancelling:
    """Cancels the task at one call of the driver, before or after its effect, and lets the loop see it."""

    def __init__(self, claims: AsyncClaims) -> None:
        self.at = -1
        self.calls = 0
        self.task: asyncio.Task[Any] | None = None
        self._loop = asyncio.get_running_loop()
        adapter: Any = claims.claims.database.session.adapter
        cursor = adapter.cursor
        adapter.cursor = lambda raw: _Cursor(self, cursor(raw))
        claims.claims.database._connections.forget_idle()  # they have cursors that nobody watches

    def point(self, call: Callable[[], Any]) -> Any:
        self.reach()
        result = call()
        self.reach()
        return result

    def reach(self) -> None:
        if not threading.current_thread().name.startswith("jdbcstore-async"):
            return  # the lease's
        self.calls += 1
        if self.calls == self.at and self.task is not None:
            seen = threading.Event()
            self._loop.call_soon_threadsafe(self.task.cancel)
            self._loop.call_soon_threadsafe(seen.set)
            seen.wait()

    async def each(
        self, prepare: Callable[[], Awaitable[Any]], check: Callable[[Any, bool], Awaitable[None]]
    ) -> int:
        """Cancel what ``prepare`` returns at each of its points, until there are no more; their number."""
        for at in range(1, 500):
            self.task = None
            work, about = await prepare()
            self.calls, self.at = 0, at
            self.task = asyncio.create_task(work)
            try:
                await self.task
                was_cancelled = False
            except asyncio.CancelledError:
                was_cancelled = True
            self.at = -1
            await check(about, was_cancelled)
            if self.calls < at:
                return at - 1
        raise AssertionError("it has no end")


class _Cursor:
    def __init__(self, points: Cancelling, cursor: Any) -> None:
        self._points, self._cursor = points, cursor

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cursor, name)
        if not name.startswith(("execute", "fetch")):
            return found
        return lambda *args, **options: self._points.point(lambda: found(*args, **options))


async def everything(queue: AsyncClaimQueue) -> list[tuple[object, int]]:
    """What can be claimed, and its redeliveries; it is released again."""
    claims = await queue.claim(99)
    await queue.release(*claims)
    return [(one.message.body, one.redeliveries) for one in claims]


def test_a_claim_that_is_cancelled_at_any_point_is_given_back(database: Database) -> None:
    async def test(claims: AsyncClaims) -> None:
        queue = claims.queue("ORDERS")
        await queue.add(Message("tea"), Message("coffee"))
        points = Cancelling(claims)

        async def prepare() -> Any:
            return queue.claim(2, wait=0.0), None

        async def check(_: None, was_cancelled: bool) -> None:
            if not was_cancelled:
                await queue.release(*points.task.result())  # type: ignore[union-attr]
            assert await everything(queue) == [("tea", 0), ("coffee", 0)]

        assert await points.each(prepare, check) > 4

    with_claims(database, test)


def test_a_waiting_claim_that_is_cancelled_takes_nothing(database: Database) -> None:
    async def test(claims: AsyncClaims) -> None:
        queue = claims.queue("ORDERS")
        for turns in range(12):  # of the loop: begun, in a thread, waiting, woken, claiming, claimed
            task = asyncio.create_task(queue.claim(wait=180.0))
            add = asyncio.create_task(queue.add(Message(str(turns))))
            for _ in range(turns):
                await asyncio.sleep(0)
            is_cancelled = task.cancel()  # unless its thread was so fast that it has the message
            await add
            if is_cancelled:
                [outcome] = await asyncio.gather(task, return_exceptions=True)
                assert isinstance(outcome, asyncio.CancelledError)
                task = asyncio.create_task(queue.claim())
            [claim] = await task
            assert (claim.message.body, claim.redeliveries) == (str(turns), 0)
            await queue.acknowledge(claim)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.claim(wait=180.0), 0.01)

    with_claims(database, test)


def test_what_is_cancelled_is_done(database: Database) -> None:
    """An acknowledgement and an addition end before the cancellation does, with or without success."""

    async def test(claims: AsyncClaims) -> None:
        queue = claims.queue("ORDERS")
        points = Cancelling(claims)

        async def prepare() -> Any:
            await queue.add(Message("tea"))
            [claim] = await queue.claim()
            return queue.acknowledge(claim), claim

        async def check(claim: Any, _: bool) -> None:
            assert await queue.count() == (0, 0)
            with pytest.raises(ClaimLost):
                await queue.acknowledge(claim)

        assert await points.each(prepare, check) > 2

        async def adding() -> Any:
            return queue.add(Message("cocoa")), None

        async def added(_: None, __: bool) -> None:
            assert await queue.count() == (1, 1)
            await queue.purge()

        assert await points.each(adding, added) > 2

    with_claims(database, test)


@pytest.mark.backends("sqlite")
def test_an_error_is_the_cause_of_the_cancellation(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(claims: AsyncClaims) -> None:
        queue = claims.queue("ORDERS")
        loop = asyncio.get_running_loop()

        def fail(*_: object, **__: object) -> None:
            seen = threading.Event()
            loop.call_soon_threadsafe(task.cancel)
            loop.call_soon_threadsafe(seen.set)
            seen.wait()
            raise StoreUnavailable("the database does not answer")

        await queue.add(Message("tea"))
        with monkeypatch.context() as patch:
            patch.setattr(claims.claims.queue("ORDERS"), "add", fail)
            task: asyncio.Task[Any] = asyncio.create_task(queue.add(Message("coffee")))
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
        assert isinstance(caught.value.__cause__, StoreUnavailable)

        # What cannot be given back now is given back before the next claim.
        with monkeypatch.context() as patch:
            patch.setattr(claims.claims.queue("ORDERS"), "release", fail)
            points = Cancelling(claims)
            task = points.task = asyncio.create_task(queue.claim())
            points.at = 3
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await everything(queue) == [("tea", 0)]

    with_claims(database, test)


@pytest.mark.backends("sqlite")
def test_opening_and_closing(database: Database) -> None:
    async def run() -> None:
        claims = AsyncClaims(database.url)
        with pytest.raises(StoreClosed, match="use them in async with"):
            claims.queue("ORDERS")
        opening = asyncio.create_task(claims.open())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        database.expect_closed()

        await claims.open()
        queue = claims.queue("ORDERS")
        waiting = asyncio.create_task(queue.claim(wait=180.0))
        await queue.add(Message("tea"))
        assert [one.message.body for one in await waiting] == ["tea"]
        waiting = asyncio.create_task(queue.claim(wait=180.0))
        await queue.count()
        await claims.close()
        await claims.close()
        with pytest.raises(StoreClosed):
            await waiting
        with pytest.raises(StoreClosed):
            await queue.add(Message("coffee"))
        async with claims:
            assert await everything(claims.queue("ORDERS")) == [("tea", 0)]
        with pytest.raises(ConfigurationError):
            await AsyncClaims("oracle://db").open()

    asyncio.run(run())
    database.expect_closed()
