"""The ends of writes, whatever has become of them."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any

import pytest

from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.store_io.outbox import StoreLine
from jdbcstore.util.clock import SystemClock
from jdbcstore.util.futures import StoreFuture

EXIT = SystemExit(3)


@pytest.mark.parametrize(
    ("complete", "expected"),
    [
        (lambda future: future.set_result(7), (7, type(None))),
        (lambda future: future.set_exception(EXIT), (None, SystemExit)),
        (lambda future: future.cancel(), (None, concurrent.futures.CancelledError)),
    ],
    ids=["written", "interrupted", "cancelled"],
)
def test_whatever_completes_a_write_ends_it(
    complete: Callable[[StoreFuture[Any]], object], expected: tuple[Any, type[BaseException]]
) -> None:
    async def write() -> None:
        defects: list[Exception] = []
        ended: asyncio.Future[tuple[Any, BaseException | None]] = asyncio.get_running_loop().create_future()
        line = StoreLine(BrokerLoop(SystemClock(), defects.append), max_count=1, max_bytes=1)
        future: StoreFuture[Any] = StoreFuture()
        line.submit(lambda: future, 1, lambda result, error: ended.set_result((result, error)))
        complete(future)
        async with asyncio.timeout(60):
            result, error = await ended
        assert (result, type(error)) == expected
        assert line.is_idle
        assert not defects

    asyncio.run(write())
