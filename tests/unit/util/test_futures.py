"""The future of a write: as any other, though most of it is made only when somebody waits; and awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, as_completed, wait
from typing import Any, TypeVar

import pytest

from jdbcstore.util.futures import Burst, QueuedFuture, StoreFuture

T = TypeVar("T")

_GUARD = 180.0


class _Queue:
    def __init__(self, *, withdraws: bool) -> None:
        self._withdraws = withdraws

    def withdraw(self, work: object) -> bool:
        assert work == "work"
        return self._withdraws


def _promise(*, withdrawn: bool = True) -> QueuedFuture:
    return QueuedFuture(_Queue(withdraws=withdrawn), "work")


def test_a_result_that_is_there_before_anybody_asks() -> None:
    promise = _promise()
    promise.set_result(5)
    assert promise.result(0) == promise.result() == 5
    assert promise.done()
    assert promise.exception() is None
    assert not promise.cancelled()
    assert promise._made is None  # a condition would cost more than all of this
    heard: list[int] = []
    promise.add_done_callback(lambda done: heard.append(done.result()))
    assert heard == [5]
    waited: list[Future[int]] = [promise]
    assert [*as_completed(waited)] == waited
    assert "finished" in repr(promise)
    with pytest.raises(InvalidStateError):
        promise.set_result(6)
    assert promise.result() == 5


def test_a_result_that_somebody_waits_for() -> None:
    promises = [_promise() for _ in range(2_000)]
    heard: list[object] = []

    def fulfil() -> None:
        for at, promise in enumerate(promises):
            promise.set_result(at)

    def listen() -> None:
        for promise in promises:
            promise.add_done_callback(heard.append)

    threads = [threading.Thread(target=work) for work in (fulfil, listen)]
    for thread in threads:
        thread.start()
    assert [promise.result(_GUARD) for promise in promises] == [*range(len(promises))]
    for thread in threads:
        thread.join()
    assert len(heard) == len(promises)


def test_nothing_yet_an_error_and_a_cancellation() -> None:
    waiting, failed, cancelled, begun = _promise(), _promise(), _promise(), _promise(withdrawn=False)
    failed.set_exception(ValueError("no"))
    assert cancelled.cancel()
    assert not begun.cancel()
    with pytest.raises(TimeoutError):
        waiting.result(0)
    with pytest.raises(ValueError, match="no"):
        failed.result()
    assert str(failed.exception()) == "no"
    with pytest.raises(TimeoutError):
        waiting.exception(0)
    with pytest.raises(CancelledError):
        cancelled.result()
    with pytest.raises(CancelledError):
        cancelled.exception()
    with pytest.raises(InvalidStateError):
        cancelled.set_result(1)
    begun.set_result(1)
    done = wait([waiting, failed, begun], _GUARD, FIRST_COMPLETED)
    assert done.not_done == {waiting}


class _CountingLoop(asyncio.SelectorEventLoop):
    woken = 0

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:  # type: ignore[override]
        self.woken += 1
        return super().call_soon_threadsafe(*args, **kwargs)


def _on_loop(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=_CountingLoop) as runner:
        return runner.run(asyncio.wait_for(main, _GUARD))


def _wakes(loop: asyncio.AbstractEventLoop) -> int:
    assert isinstance(loop, _CountingLoop)
    return loop.woken


def _in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.fixture(params=["promise", "future"])
def make(request: pytest.FixtureRequest) -> Callable[[], StoreFuture[Any]]:
    return _promise if request.param == "promise" else StoreFuture


def test_many_are_awaited_in_order_and_the_loop_is_woken_once(make: Callable[[], StoreFuture[Any]]) -> None:
    async def main() -> None:
        futures = [make() for _ in range(100)]
        order: list[int] = []

        async def wait_for_one(at: int) -> None:
            assert await futures[at] == at
            order.append(at)

        tasks = [asyncio.create_task(wait_for_one(at)) for at in reversed(range(100))]
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        before = _wakes(loop)

        def fulfil() -> None:
            with Burst(), Burst():
                for at in range(100):
                    futures[at].set_result(at)
                assert _wakes(loop) == before

        _in_thread(fulfil)
        assert _wakes(loop) == before + 1
        await asyncio.gather(*tasks)
        assert order == [*range(100)]

    _on_loop(main())


def test_awaited_without_a_burst_before_and_after_it_is_done(make: Callable[[], StoreFuture[Any]]) -> None:
    async def main() -> None:
        future = make()
        asyncio.get_running_loop().run_in_executor(None, future.set_result, 5)
        assert await future == 5
        assert await future == 5
        assert [*await asyncio.gather(future, asyncio.wrap_future(future))] == [5, 5]

    _on_loop(main())


def test_several_tasks_callbacks_and_threads_wait_for_one(make: Callable[[], StoreFuture[Any]]) -> None:
    async def main() -> None:
        future = make()
        loop = asyncio.get_running_loop()
        heard: list[object] = []
        first = asyncio.create_task(_value(future))
        await asyncio.sleep(0)
        future.add_done_callback(heard.append)
        second = asyncio.create_task(_value(future))
        third = loop.run_in_executor(None, future.result, _GUARD)
        await asyncio.sleep(0)
        _in_thread(lambda: future.set_result(7))
        assert [*await asyncio.gather(first, second, third)] == [7, 7, 7]
        assert heard == [future]

    _on_loop(main())


async def _value(future: StoreFuture[T]) -> T:
    return await future


def test_an_error_is_raised_where_it_is_awaited(make: Callable[[], StoreFuture[Any]]) -> None:
    async def main() -> None:
        early, late = make(), make()
        early.set_exception(ValueError("early"))
        with pytest.raises(ValueError, match="early"):
            await early
        asyncio.get_running_loop().run_in_executor(None, late.set_exception, ValueError("late"))
        with pytest.raises(ValueError, match="late"):
            await late

    _on_loop(main())


def test_a_cancelled_task_takes_its_write_back() -> None:
    async def main() -> None:
        queued, begun = _promise(), _promise(withdrawn=False)
        tasks = [asyncio.create_task(_value(future)) for future in (queued, begun)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with pytest.raises(asyncio.CancelledError):
                await task
        assert queued.cancelled()
        assert not begun.cancelled()
        begun.set_result(1)
        assert await begun == 1

    _on_loop(main())


def test_a_future_that_another_cancels_is_cancelled_for_who_awaits_it(
    make: Callable[[], StoreFuture[Any]],
) -> None:
    async def main() -> None:
        future = make()
        task = asyncio.create_task(_value(future))
        await asyncio.sleep(0)
        assert future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    _on_loop(main())


def test_a_loop_that_is_closed_meanwhile_takes_nothing_from_others(
    make: Callable[[], StoreFuture[Any]],
) -> None:
    future = make()

    async def leave() -> None:
        waiting = iter(future.__await__())
        next(waiting)

    with asyncio.Runner() as runner:
        runner.run(leave())
    heard: list[object] = []
    future.add_done_callback(heard.append)
    future.set_result(3)
    assert heard == [future]
    assert _on_loop(_value(future)) == 3


def test_one_thread_with_one_loop_after_another(make: Callable[[], StoreFuture[Any]]) -> None:
    async def main(answer: int) -> int:
        future = make()
        asyncio.get_running_loop().run_in_executor(None, future.set_result, answer)
        return await _value(future)

    assert [_on_loop(main(answer)) for answer in range(3)] == [0, 1, 2]
