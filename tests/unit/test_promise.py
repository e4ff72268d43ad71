"""The future of a write: as any other, though most of it is made only when somebody waits."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, as_completed, wait

import pytest

from jdbcstore.units import Promise

_GUARD = 60.0


class _Queue:
    def __init__(self, *, withdraws: bool) -> None:
        self._withdraws = withdraws

    def withdraw(self, work: object) -> bool:
        assert work == "work"
        return self._withdraws


def _promise(*, withdrawn: bool = True) -> Promise:
    return Promise(_Queue(withdraws=withdrawn), "work")


def test_a_result_that_is_there_before_anybody_asks() -> None:
    promise = _promise()
    promise.set_result(5)
    assert promise.result(0) == promise.result() == 5
    assert promise.done()
    assert promise.exception() is None
    assert not promise.cancelled()
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
    with pytest.raises(CancelledError):
        cancelled.result()
    with pytest.raises(InvalidStateError):
        cancelled.set_result(1)
    begun.set_result(1)
    done = wait([waiting, failed, begun], _GUARD, FIRST_COMPLETED)
    assert done.not_done == {waiting}


async def _awaited() -> list[int]:
    promises = [_promise() for _ in range(100)]
    promises[0].set_result(0)
    tasks = [asyncio.wrap_future(promise) for promise in promises]

    def fulfil() -> None:
        for at in range(1, 100):
            promises[at].set_result(at)

    thread = threading.Thread(target=fulfil)
    thread.start()
    try:
        return await asyncio.wait_for(asyncio.gather(*tasks), _GUARD)
    finally:
        thread.join()


def test_it_can_be_awaited() -> None:
    assert asyncio.run(_awaited()) == [*range(100)]
