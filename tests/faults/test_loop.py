"""Writes that the event loop sends and receives itself, and whatever comes between the two."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, ParamSpec

import pytest

import jdbcstore
from jdbcstore import JdbcStore, Message
from jdbcstore.abc import MessageReference, Store
from jdbcstore.broker.turns import TurnLoop
from jdbcstore.errors import LockLost, StoreError
from jdbcstore.stores.jdbc.writer import driver
from jdbcstore.stores.jdbc.writer.committer import Committer
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.futures import StoreFuture
from tests.support.backends import Backend
from tests.support.crash.work import Names
from tests.support.databases import Database
from tests.support.failover.hole import HoleLine
from tests.support.faults.blocking import writes_held
from tests.support.faults.effects import WAIT
from tests.support.faults.line import Line

P = ParamSpec("P")
pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, run by a broker's event loop."""

    @wraps(test)
    def run(*args: P.args, **given: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=TurnLoop) as runner:
            runner.run(test(*args, **given))

    return run


@contextmanager
def on_loop(store: Store) -> Iterator[None]:
    store.use_loop(asyncio.get_running_loop())
    try:
        yield
    finally:
        store.use_loop(None)


async def become_driven(store: Store) -> None:
    """Write until the loop does it: a new connection's first writes are the thread's."""
    loop, queue = asyncio.get_running_loop(), store.queue("WARM")
    wrote = 0
    while wrote != threading.get_ident():
        done: asyncio.Future[int] = loop.create_future()

        def completed(_: object, done: asyncio.Future[int] = done) -> None:
            loop.call_soon_threadsafe(done.set_result, threading.get_ident())

        async with asyncio.timeout(WAIT):
            future = queue.add_message_async(Message("warm"))
            future.add_done_callback(completed)
            wrote = await done
            await future


def bodies(store: Store, name: str = "Q") -> list[object]:
    return [message.body for message in store.queue(name).recover(limit=10_000)]


@in_a_loop
async def test_the_loop_writes_in_order(url: str) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, on_loop(store):
        await become_driven(store)
        queue = store.queue("Q")
        async with asyncio.timeout(WAIT):
            added = [queue.add_message_async(Message(str(number))) for number in range(600)]
            references = [await each for each in added]
            sequences = [each.sequence for each in references]
            assert sequences == sorted(sequences)
            await asyncio.gather(*(_done(queue.acknowledge_async(one)) for one in references[:500]))
        assert bodies(store) == [str(number) for number in range(500, 600)]


async def _done(future: StoreFuture[Any]) -> None:
    await future


@in_a_loop
async def test_a_guard_that_comes_later_holds_as_well(url: str) -> None:
    with JdbcStore(url, locker=None) as store, JdbcStore(url, locker=None) as other, on_loop(store):
        await become_driven(store)
        store.begin_journal()
        await become_driven(store)
        other.begin_journal()  # it ends the epoch of the first
        with pytest.raises(LockLost):
            await store.queue("Q").add_message_async(Message("late"))
        assert bodies(other) == []


@in_a_loop
async def test_a_transaction_that_adds_and_removes(url: str) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, on_loop(store):
        await become_driven(store)
        queue = store.queue("Q")
        async with asyncio.timeout(WAIT):
            first = await queue.add_message_async(Message("first"))
            transaction = store.transaction()
            for number in range(300):  # more than MySQL gets in one statement
                transaction.queue("Q").add_message(Message(str(number)))
            transaction.queue("Q").acknowledge(first)
            added = await transaction.commit_async()
            assert bodies(store) == [str(number) for number in range(300)]
            await queue.acknowledge_async(*added[1:])
            await queue.acknowledge_async(first)  # which finds nothing
        assert bodies(store) == ["0"]


@pytest.mark.parametrize("audit", [False, True])
@pytest.mark.backends("sqlite", "postgresql")
@in_a_loop
async def test_what_the_loop_cannot_write_stays_with_the_thread(
    url: str, backend: Backend, audit: bool
) -> None:
    if backend.capabilities.server and not audit:
        pytest.skip("there the loop can")
    with jdbcstore.open(url, cleanup_period=0, enable_audit=audit) as store, on_loop(store):
        for number in range(20):
            future = store.queue("Q").add_message_async(Message(str(number)))
            future.result(WAIT)  # although it blocks the loop
        assert len(bodies(store)) == 20


@in_a_loop
async def test_a_caller_that_blocks_the_loop_gets_its_answer(url: str, database: Database) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, on_loop(store):
        await become_driven(store)
        queue = store.queue("Q")
        for _ in range(20):
            with writes_held(database):
                first = queue.add_message_async(Message("first"))
                second = queue.add_message_async(Message("second"))
            third = queue.add_message(Message("third"))
            assert first.result(WAIT).sequence < second.result(WAIT).sequence < third.sequence
            async with asyncio.timeout(WAIT):
                await queue.add_message_async(Message("fourth"))
        assert bodies(store) == ["first", "second", "third", "fourth"] * 20


@in_a_loop
async def test_other_threads_write_in_between(url: str) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, on_loop(store):
        await become_driven(store)
        queue, count = store.queue("Q"), 100

        def add() -> None:
            for _ in range(count):
                queue.add_message(Message("thread"))
                queue.add_message_async(Message("future")).result(WAIT)

        async def send() -> None:
            for _ in range(count):
                await queue.add_message_async(Message("loop"))

        async with asyncio.timeout(WAIT):
            await asyncio.gather(*(asyncio.to_thread(add) for _ in range(3)), *(send() for _ in range(3)))
        found = bodies(store)
        assert [found.count(body) for body in ("thread", "future", "loop")] == [3 * count] * 3


@in_a_loop
async def test_those_who_do_not_send_again_are_not_waited_for(url: str) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, on_loop(store):
        await become_driven(store)
        queue = store.queue("Q")
        async with asyncio.timeout(WAIT):
            for _ in range(12):
                together = [queue.add_message_async(Message("together")) for _ in range(4)]
                for future in together:
                    await future
                await queue.add_message_async(Message("alone"))
        assert bodies(store) == ["together"] * 4 + (["alone"] + ["together"] * 4) * 11 + ["alone"]


@in_a_loop
async def test_a_line_that_ends_while_others_are_waited_for(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, on_loop(store):
        queue, is_waiting = store.queue("Q"), [False]
        is_gathering = driver.LoopDriver._is_gathering

        def noted(self: driver.LoopDriver) -> bool:
            is_waiting[0] = is_gathering(self)
            return is_waiting[0]

        monkeypatch.setattr(driver.LoopDriver, "_is_gathering", noted)
        async with asyncio.timeout(WAIT):
            while not is_waiting[0]:  # as soon as the last commit had several messages
                monkeypatch.undo()
                monkeypatch.setattr(driver.LoopDriver, "_is_gathering", noted)
                await asyncio.gather(*(_done(queue.add_message_async(Message("x"))) for _ in range(9)))
                monkeypatch.setattr(driver, "_PATIENCE", 3600.0)
                is_waiting[0] = False
                alone = queue.add_message_async(Message("alone"))
                if not is_waiting[0]:
                    await alone
            database.end_connections()
            assert not alone.done()
            await alone
        assert bodies(store)[-1] == "alone"


@in_a_loop
async def test_what_the_loop_leaves_to_the_thread_while_that_passes_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, goes_on, pass_on = threading.Event(), threading.Event(), Writer._pass_on

    def passing_on(self: Writer) -> None:
        passes.set()
        assert goes_on.wait(WAIT)
        pass_on(self)

    with jdbcstore.open(url, cleanup_period=0) as store, on_loop(store):
        await become_driven(store)
        queue = store.queue("Q")
        monkeypatch.setattr(Writer, "_pass_on", passing_on)
        async with asyncio.timeout(WAIT):
            await asyncio.to_thread(lambda: queue.add_message_async(Message("thread")).result(WAIT))
            await asyncio.to_thread(passes.wait, WAIT)
            monkeypatch.setattr(Committer, "send", lambda *_: None)
            left = queue.add_message_async(Message("left"))
            goes_on.set()
            await left
        assert bodies(store) == ["thread", "left"]


@in_a_loop
async def test_what_is_under_way_is_finished_without_the_loop(url: str, database: Database) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store:
        with on_loop(store):
            await become_driven(store)
            with writes_held(database):
                left = [store.queue("Q").add_message_async(Message(str(number))) for number in range(5)]
        for future in left:
            future.result(WAIT)
        assert bodies(store) == ["0", "1", "2", "3", "4"]


@in_a_loop
async def test_closing_finishes_what_is_under_way(url: str, database: Database) -> None:
    store = jdbcstore.open(url, cleanup_period=0)
    store.use_loop(asyncio.get_running_loop())
    await become_driven(store)
    with writes_held(database):
        left = [store.queue("Q").add_message_async(Message(str(number))) for number in range(5)]
    store.close()
    assert all(future.done() for future in left)
    with jdbcstore.open(url) as store:
        assert bodies(store) == ["0", "1", "2", "3", "4"]


def test_a_loop_that_has_ended(url: str) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store:

        async def begin() -> list[StoreFuture[MessageReference]]:
            store.use_loop(asyncio.get_running_loop())
            await become_driven(store)
            return [store.queue("Q").add_message_async(Message(str(number))) for number in range(3)]

        left = asyncio.run(begin())
        store.queue("Q").add_message(Message("later"))
        for future in left:
            future.result(WAIT)
        assert bodies(store) == ["0", "1", "2", "later"]


@pytest.mark.parametrize("awaits", [False, True])
def test_a_loop_that_has_ended_and_nobody_writes(url: str, awaits: bool) -> None:
    """Without ``use_loop(None)``: the futures complete, and what the loop had open is closed."""

    def round_trip(expected: list[str]) -> None:
        with jdbcstore.open(url, cleanup_period=0) as store:

            async def begin() -> list[StoreFuture[MessageReference]]:
                store.use_loop(asyncio.get_running_loop())
                await become_driven(store)
                futures = [store.queue("Q").add_message_async(Message(str(number))) for number in range(3)]
                if awaits:
                    await asyncio.gather(*map(_done, futures))
                return futures

            for future in asyncio.run(begin()):
                future.result(WAIT)
            assert bodies(store) == expected

    round_trip(["0", "1", "2"])  # what a process opens once is open then
    before = len(os.listdir("/proc/self/fd"))
    for number in range(2, 5):
        round_trip(["0", "1", "2"] * number)
    # Other threads of the test process open files for a moment; each round would leave one.
    wait_until(
        lambda: len(os.listdir("/proc/self/fd")) < before + 3, what="that what the loops had open is closed"
    )


@in_a_loop
async def test_one_message_that_is_refused(url: str, database: Database) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, on_loop(store):
        await become_driven(store)
        with database.engine.connect() as connection:
            connection.exec_driver_sql(
                "ALTER TABLE ACTIVEMQ_MSGS ADD CONSTRAINT small CHECK (length(msg) < 5000)"
            )
        queue = store.queue("Q")
        sizes = [10, 10, 6000, 10, 6000, 10]
        async with asyncio.timeout(WAIT):
            added = [queue.add_message_async(Message("x" * size)) for size in sizes]
            for size, future in zip(sizes, added, strict=True):
                if size > 1000:
                    with pytest.raises(StoreError):
                        await future
                else:
                    await future
        assert len(bodies(store)) == 4


@in_a_loop
async def test_another_writer_takes_the_sequences(url: str) -> None:
    with JdbcStore(url) as store, JdbcStore(url) as other, on_loop(store):
        await become_driven(store)
        for number in range(3):
            async with asyncio.timeout(WAIT):
                other.queue("Q").add_message(Message(f"other {number}"))
                await store.queue("Q").add_message_async(Message(f"own {number}"))
        expected = [f"{who} {number}" for number in range(3) for who in ("other", "own")]
        assert bodies(store) == expected


@pytest.mark.slow
@in_a_loop
async def test_a_line_that_breaks_once_is_not_noticed(line: Line) -> None:
    names = itertools.count()
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=WAIT) as store, on_loop(store):
        await become_driven(store)
        queue, expected = store.queue("Q"), []
        for how in line.breaks:
            for number in range(1, 6):
                line.arm(how, number)
                async with asyncio.timeout(WAIT):
                    for _ in range(4):
                        several = [Message(str(next(names))) for _ in range(3)]
                        expected += [message.body for message in several]
                        added = [queue.add_message_async(message) for message in several]
                        for future in added:
                            await future
                line.mend()
        assert bodies(store) == expected


@in_a_loop
async def test_an_answer_that_never_comes_is_not_waited_for(url: str) -> None:
    with closing(HoleLine(url)) as hole:
        options: dict[str, Any] = {"network_timeout": 1.0, "reconnect_timeout": WAIT}
        with jdbcstore.open(hole.url, cleanup_period=0, **options) as store, on_loop(store):
            await become_driven(store)
            queue, before = store.queue("Q"), len(hole._pairs)
            hole.swallow()
            swallowed = queue.add_message_async(Message("swallowed"))
            await asyncio.to_thread(wait_until, lambda: len(hole._pairs) > before, WAIT, "another connection")
            hole.flow()  # what it has swallowed arrives late
            async with asyncio.timeout(WAIT):
                await swallowed
            assert bodies(store) == ["swallowed"]


@in_a_loop
async def test_a_line_that_stays_broken_is_told(line: Line) -> None:
    names = Names("name", 1)
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=0.02) as store, on_loop(store):
        await become_driven(store)
        queue = store.queue("Q")
        for how in line.breaks:
            line.arm(how, 1, lasting=True)
            with pytest.raises(StoreError):
                async with asyncio.timeout(WAIT):
                    await queue.add_message_async(names.message())
            line.mend()
            await _become_driven_again(store)


async def _become_driven_again(store: Store) -> None:
    while True:
        try:
            await become_driven(store)
        except StoreError:
            continue
        return
