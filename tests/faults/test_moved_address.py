"""An address that leads to another server of a cluster, which is a little behind or takes over."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest

import jdbcstore
from jdbcstore import Message, StoreConfig
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import OutcomeUnknown
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.faults.proxy import ProxyLine, _Pair
from tests.support.servers import Server, ServerMissing
from tests.support.servers.replica import MariadbPair

pytestmark = [pytest.mark.slow, pytest.mark.servers]

STORED = "SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID"
WAIT = 60.0


@pytest.fixture
def servers() -> Iterator[MariadbPair]:
    try:
        servers = MariadbPair()
    except ServerMissing as error:
        pytest.skip(str(error))
    yield servers
    servers.close()


class MovedLine(ProxyLine):
    """A line that loses the answer to an INSERT of messages, and leads to the other server from then on."""

    def __init__(self, servers: MariadbPair) -> None:
        self._servers = servers
        self.moves = False
        """At the next INSERT."""
        self.before_repeat: Callable[[], None] | None = None
        """Called before the next INSERT after that is passed on."""
        super().__init__(servers.url)

    def _carry_statements(self, pair: _Pair) -> None:
        for data in pair.received(pair.client):
            is_insert = re.search(rb"INSERT INTO .?ACTIVEMQ_MSGS", data) is not None
            if is_insert and self.moves:
                self.moves, pair.mute = False, True
                stored = self._servers.rows(self._servers.first, STORED)
                pair.send(pair.server, data)
                self._wait_for_more_than(stored)
                self.lead_to(self._servers.other.port)
                continue
            if is_insert and self.before_repeat is not None:
                before, self.before_repeat = self.before_repeat, None
                before()
            pair.send(pair.server, data)

    def _wait_for_more_than(self, stored: list[tuple[object, ...]]) -> None:
        wait_until(
            lambda: self._servers.rows(self._servers.first, STORED) != stored, WAIT, "that it is stored"
        )


@pytest.fixture
def line(servers: MariadbPair) -> Iterator[MovedLine]:
    line = MovedLine(servers)
    yield line
    line.close()


def test_a_commit_in_doubt_is_found_where_it_arrives_late(
    line: MovedLine, servers: MariadbPair, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not there at the first look, and its ID is taken at the repeat: by itself."""
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=WAIT) as store:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        servers.hold_back()
        line.moves, line.before_repeat = True, servers.catch_up
        assert queue.add_message(Message("once")).sequence == 2
        assert servers.rows(servers.other, STORED) == [(1,), (2,)]
        assert "another process" not in caplog.text
        assert queue.add_message(Message("after")).sequence == 3


def test_what_is_not_there_yet_stays_in_doubt(line: MovedLine, servers: MariadbPair) -> None:
    """The other server cannot tell that the first has ended its session: what is not there may still come."""
    servers.other.only_read()
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=0.5) as store:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        servers.hold_back()
        line.moves = True
        with pytest.raises(OutcomeUnknown):
            queue.add_message(Message("in doubt"))
    servers.catch_up()
    assert servers.rows(servers.other, STORED) == [(1,), (2,)]


@pytest.mark.backends("mysql")
def test_a_look_waits_for_what_its_group_has_committed(server: Server, database: Database) -> None:
    server.execute_as_administrator("INSTALL PLUGIN group_replication SONAME 'group_replication.so'")
    session = DatabaseSession(database.url, StoreConfig())
    with contextlib.closing(session.connect()) as connection:
        cursor, settings = connection.cursor, []
        for look in (contextlib.nullcontext, connection.control.seeing_all, contextlib.nullcontext):
            with look():
                cursor.execute("SELECT @@group_replication_consistency")
                settings += [value for (value,) in cursor.fetchall()]
        assert settings == [settings[0], "BEFORE", settings[0]]
    session.close()
