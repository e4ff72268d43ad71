"""The connection to the servers of a stream: who waits when it is closed, and what it gives up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jdbcstore.errors import StoreClosed
from jdbcstore.journal.stream.connection import NatsConnection
from tests.support.streams import NatsServer, streamed

pytestmark = pytest.mark.servers


@pytest.mark.parametrize("is_away", [False, True])
def test_who_waits_for_an_answer_is_told_that_it_is_closed(name: str, is_away: bool) -> None:
    """Also where the client waits for its servers: it takes a cancellation for a lost connection."""
    with NatsServer() as server:
        connection = NatsConnection(streamed(server.url, name))
        if is_away:
            server.kill()
        waits, told = threading.Event(), threading.Event()
        errors: list[Exception] = []

        async def work(js: Any) -> None:
            waits.set()
            await (js.account_info() if is_away else asyncio.Event().wait())

        def ask() -> None:
            try:
                connection.ask(work)
            except Exception as error:
                errors.append(error)
            told.set()

        threading.Thread(target=ask, daemon=True).start()
        assert waits.wait(30)
        connection.close()
        assert told.wait(10)
        assert [type(error) for error in errors] == [StoreClosed]
        with pytest.raises(StoreClosed):
            connection.ask(work)
        connection.close()
