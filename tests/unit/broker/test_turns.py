"""What a turn of the loop has collected is done at its end, and what follows from it in the next turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from jdbcstore.broker.loop import Promise, complete
from jdbcstore.broker.turns import at_end_of, busy_polling
from tests.support.loops import CountingLoop

PATIENCE = 180.0


def on_a_loop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(asyncio.wait_for(main(), PATIENCE))


def here() -> CountingLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CountingLoop)
    return loop


def test_the_end_comes_before_the_next_turn() -> None:
    order: list[object] = []

    async def main() -> None:
        loop = here()
        done = loop.create_future()
        loop.call_soon(lambda: order.append(("soon", loop.turns)))
        loop.call_soon(done.set_result, None)
        loop.ends.append(lambda: order.append(("end", loop.turns)))
        before = loop.turns
        await done
        # The number of a turn is counted when the one before it ends.
        assert order == [("end", before + 1), ("soon", before + 1)]

    on_a_loop(main)


@pytest.mark.parametrize("how", ["call_soon", "call_later", "call_soon_threadsafe", "create_task"])
def test_what_an_end_begins_is_not_kept_waiting(how: str) -> None:
    """The loop had decided to wait for events."""

    async def main() -> None:
        loop, done = here(), asyncio.Event()

        async def task() -> None:
            done.set()

        begin: dict[str, Callable[[], object]] = {
            "call_soon": lambda: loop.call_soon(done.set),
            "call_later": lambda: loop.call_later(0.0001, done.set),
            "call_soon_threadsafe": lambda: loop.call_soon_threadsafe(done.set),
            "create_task": lambda: tasks.append(loop.create_task(task())),
        }
        tasks: list[object] = []
        loop.ends.append(begin[how])
        await done.wait()

    on_a_loop(main)


def test_an_end_that_asks_for_another_one_leaves_turns_to_others() -> None:
    async def main() -> None:
        loop, over = here(), asyncio.Event()
        ends = 0

        def end() -> None:
            nonlocal ends
            ends += 1
            if not over.is_set():
                loop.ends.append(end)

        loop.ends.append(end)
        threading.Thread(target=loop.call_soon_threadsafe, args=(over.set,)).start()
        await over.wait()
        assert ends > 0

    on_a_loop(main)


def test_what_follows_an_end_is_done_in_the_same_turn() -> None:
    """What is dispatched at an end is written there, too."""

    async def main() -> None:
        loop = here()
        turns: list[int] = []
        loop.ends.append(lambda: loop.ends.append(lambda: turns.append(loop.turns)))
        before = loop.turns
        await asyncio.sleep(0)
        assert turns == [before + 1]

    on_a_loop(main)


def test_an_error_does_not_end_the_loop() -> None:
    async def main() -> None:
        loop, heard, done = here(), [], asyncio.Event()
        loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))

        def fail() -> None:
            raise RuntimeError("broken")

        loop.ends.append(fail)
        loop.ends.append(lambda: loop.call_soon(done.set))
        await done.wait()
        assert [str(error) for error in heard] == ["broken"]

    on_a_loop(main)


def test_it_looks_for_some_time_after_an_event_and_then_sleeps() -> None:
    asked: list[float | None] = []
    now, coming = 0, dict[int, str]()

    def select(timeout: float | None) -> list[Any]:
        nonlocal now
        asked.append(timeout)
        now += 1
        return [coming.pop(now)] if now in coming else []

    wait = busy_polling(select, 3, clock=lambda: now)

    def waited(timeout: float | None, *, event_at: int = 0) -> list[float | None]:
        """Wait, with an event at the end of a select, each of which takes one unit of time."""
        asked.clear()
        coming[event_at] = "event"
        found: list[Any] = [*wait(timeout)]
        assert found == (["event"] if event_at else [])
        return [*asked]

    assert waited(None, event_at=2) == [0, None]  # nothing came before
    assert waited(0) == [0]
    assert waited(None, event_at=5) == [0, 0]
    assert waited(9.0) == [0, 0, 0, 9.0]
    assert waited(None) == [0, None]
    assert waited(0, event_at=12) == [0]
    assert waited(0) == [0]
    assert waited(None) == [0, 0, None]


def test_another_loop_does_it_in_its_next_turn() -> None:
    async def main() -> None:
        done = asyncio.Event()
        at_end_of(asyncio.get_running_loop())(done.set)
        await done.wait()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def _tell(promise: Promise, end: Callable[[Promise], object]) -> bool:
    """End a promise, whose callback is called once; return whether that is before anything else."""
    told: list[object] = []
    promise.call_at_once(told.append)
    end(promise)
    at_once = bool(told)
    await asyncio.sleep(0)
    promise.cancel()
    await asyncio.sleep(0)
    assert told == [promise]
    return at_once


@pytest.mark.parametrize(
    ("end", "at_once"),
    [
        (lambda promise: complete(promise, None), True),
        (lambda promise: complete(promise, ValueError("no")), False),
        (lambda promise: promise.cancel(), False),
    ],
    ids=["success", "failure", "cancelled"],
)
def test_a_promise_tells_once_and_only_success_in_the_middle_of_the_work(
    end: Callable[[Promise], object], at_once: bool
) -> None:
    async def main() -> None:
        promise = Promise(loop=here())
        assert await _tell(promise, end) is at_once

    on_a_loop(main)


def test_a_promise_that_was_kept_before_tells_soon() -> None:
    async def main() -> None:
        promise = Promise(loop=here())
        told: list[object] = []
        complete(promise, None)
        promise.call_at_once(told.append)
        assert not told
        await asyncio.sleep(0)
        assert told == [promise]

    on_a_loop(main)
