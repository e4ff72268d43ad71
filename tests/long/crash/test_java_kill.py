"""A database in Java that is killed keeps what a store acknowledged, though it would not by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.errors import StoreError
from tests.support.jdbc import jdbc_url
from tests.support.servers import ServerMissing
from tests.support.servers.java import DerbyServer, H2Server, HsqldbServer, JavaServer

pytestmark = [pytest.mark.servers, pytest.mark.java]


class DelayingHsqldbServer(HsqldbServer):
    """As HSQLDB comes: a commit is on disk half a second after it was acknowledged."""

    settings = ""


@pytest.fixture(params=[H2Server, DelayingHsqldbServer, DerbyServer])
def server(request: pytest.FixtureRequest) -> Iterator[JavaServer]:
    try:
        server = request.param()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    yield server
    server.close()


def test_what_was_acknowledged_is_there(server: JavaServer) -> None:
    url = jdbc_url(server.administrator_url)
    bodies = [str(number) for number in range(20)]
    store = jdbcstore.open(url, cleanup_period=0, reconnect_timeout=0.1)
    for body in bodies:
        store.queue("Q").add_message(Message(body))

    server.kill()
    with pytest.raises(StoreError):
        store.queue("Q").add_message(Message("nobody answers"))
    store.close()
    server.start()

    with jdbcstore.open(url, cleanup_period=0) as again:
        assert [message.body for message in again.queue("Q").recover()] == bodies
