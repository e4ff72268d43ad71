"""The connection to the servers of a stream: who waits when it is closed, and what it gives up."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.errors import AuthenticationFailed, ConfigurationError, StoreClosed
from jdbcstore.journal.stream import connection as connection_module
from jdbcstore.journal.stream.connection import NatsConnection
from jdbcstore.journal.stream.server import StreamServer
from tests.support.credentials import Operator
from tests.support.streams import NatsServer, streamed

pytestmark = pytest.mark.servers


def test_a_login_may_be_a_file_of_credentials(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Operator()
    file = tmp_path / "mq.creds"
    file.write_text(operator.credentials)
    with NatsServer(settings=operator.settings) as server:
        StreamServer(streamed(server.url, name, stream_credentials=str(file))).close()
        file.write_text(Operator().credentials)
        monkeypatch.setattr(connection_module, "CONNECTING", 1.0)
        with pytest.raises(AuthenticationFailed, match="stream_credentials"):
            NatsConnection(streamed(server.url, name, stream_credentials=str(file)))


@pytest.mark.parametrize("spoiled", ["missing", "empty", "without a seed", "another seed"])
def test_a_file_without_credentials_is_refused(name: str, tmp_path: Path, spoiled: str) -> None:
    """It is the configuration that is wrong, so no slave waits for it to change."""
    file = tmp_path / "mq.creds"
    content = Operator().credentials
    secret = re.findall(r"SU\w+", content)[-1]
    if spoiled == "empty":
        file.touch()
    elif spoiled == "without a seed":
        file.write_text(content.partition("\n\n")[0])
    elif spoiled == "another seed":
        file.write_text(content.replace(secret, secret[::-1]))
    with pytest.raises(ConfigurationError, match=r"mq\.creds") as error:
        NatsConnection(streamed("nats://127.0.0.1:1", name, stream_credentials=str(file)))
    assert error.value.option == "journal.stream_credentials"
    assert secret not in str(error.value)


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
