"""An address that leads to another server of a cluster, which is a little behind or takes over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import jdbcstore
from jdbcstore import Claims, Configuration, JdbcStore, Message, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.faults.moved import STORED, MovedLine
from tests.support.ports import closed_port
from tests.support.servers import Server, ServerMissing
from tests.support.servers.replica import MariadbPair

pytestmark = [pytest.mark.slow, pytest.mark.servers]

WAIT = 60.0


@pytest.fixture
def servers() -> Iterator[MariadbPair]:
    try:
        servers = MariadbPair()
    except ServerMissing as error:
        pytest.skip(str(error))
    yield servers
    servers.close()


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


def _switch_over(line: MovedLine, servers: MariadbPair) -> None:
    """Let the other server take over, as a planned switch does: no connection is closed."""
    servers.catch_up()
    servers.first.only_read()
    line.lead_new_to(servers.other.port)


def test_readers_follow_the_writer(line: MovedLine, servers: MariadbPair) -> None:
    with (
        jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=WAIT) as store,
        ThreadPoolExecutor(2) as pool,
    ):
        queue = store.queue("Q")
        queue.add_message(Message("before"))

        def bodies() -> list[object]:
            return [message.body for message in queue.recover()]

        # Connections of the main thread and of the pool.
        assert bodies() == pool.submit(bodies).result(WAIT) == ["before"]
        _switch_over(line, servers)
        queue.add_message(Message("after"))
        assert bodies() == ["before", "after"]
        assert [pool.submit(bodies).result(WAIT) for _ in range(3)] == [["before", "after"]] * 3


def test_readers_follow_the_locker(line: MovedLine, servers: MariadbPair) -> None:
    """Nothing is written by this store: its lease is renewed."""
    lease = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=WAIT, lock_keep_alive_period=0.1)
    configuration = Configuration(
        data_source=DataSourceConfig(url=line.url), store=StoreConfig(cleanup_period=0.0), locker=lease
    )
    with JdbcStore.configured(configuration) as store:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        assert queue.message_count() == 1
        _switch_over(line, servers)
        servers.other.execute_as_administrator(f"DELETE FROM {servers.other.username}.ACTIVEMQ_MSGS")
        wait_until(lambda: queue.message_count() == 0, WAIT, "that the other server is read")


def test_claims_follow(line: MovedLine, servers: MariadbPair) -> None:
    with Claims(line.url, StoreConfig(cleanup_period=0)) as claims, ThreadPoolExecutor(4) as pool:
        queue = claims.queue("Q")
        queue.add(Message("before"))
        meeting = Barrier(4)

        def count(_number: int) -> tuple[int, int]:
            meeting.wait(WAIT)  # each has a connection of its own
            return queue.count()

        assert {*pool.map(count, range(4))} == {(1, 1)}
        _switch_over(line, servers)
        with pytest.raises(StoreUnavailable, match="read"):
            queue.add(Message("refused"))
        queue.add(Message("after"))  # what was refused once is refused on no other connection
        assert {*pool.map(count, range(4))} == {(2, 2)}


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


def test_several_hosts_of_which_one_takes_writes(servers: MariadbPair) -> None:
    """Hosts that do not answer, and standbys, are passed over, also after a switch."""
    one, other = servers.first, servers.other
    with closed_port() as closed:
        hosts = [f"127.0.0.1:{port}" for port in (closed, one.port, other.port)]
        url = one.url._replace(host=None, port=None).update_query_dict({"host": hosts})
        with jdbcstore.open(
            url.render_as_string(hide_password=False), cleanup_period=0, reconnect_timeout=WAIT
        ) as store:
            queue = store.queue("Q")
            queue.add_message(Message("before"))
            servers.catch_up()
            one.only_read()
            queue.add_message(Message("after"))
            assert [message.body for message in queue.recover()] == ["before", "after"]
            assert len(servers.rows(other, STORED)) == 2
            assert len(servers.rows(one, STORED)) == 1


@pytest.mark.parametrize("kind", ["", "sequential:", "replication:"])
def test_java_s_lists_of_hosts(servers: MariadbPair, kind: str) -> None:
    one, other = servers.first, servers.other
    with jdbcstore.open(servers.url, cleanup_period=0):
        servers.catch_up()
    one.only_read()
    login = f"user={one.username}&password={one.password}"
    url = f"jdbc:mariadb:{kind}//127.0.0.1:{one.port},127.0.0.1:{other.port}/{one.username}?{login}"
    with jdbcstore.open(url, cleanup_period=0) as store:
        store.queue("Q").add_message(Message("one"))
    assert servers.rows(other, STORED) == [(1,)]
