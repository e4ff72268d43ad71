"""Connections that the system has accepted when a connector stops to accept any."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from jdbcstore import Store
from tests.support.broker.stomp.serving import Served


@pytest.mark.backends("memory")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("iterations", range(6))
def test_no_connection_comes_after_the_end(store: Store, iterations: int) -> None:
    """It would be served by an engine that has stopped, and get neither an answer nor an end."""
    with Served(store) as served:

        async def stop() -> int:
            with socket.create_connection(("127.0.0.1", served.port)):
                for _ in range(iterations):  # of the loop, in which the connection is made step by step
                    await asyncio.sleep(0)
                served.connector.abort()
                for _ in range(20):
                    await asyncio.sleep(0)
                return served.connector.connections

        assert served.run(stop()) == 0
    gc.collect()  # where the server has ended a step before, asyncio itself leaves the socket open
