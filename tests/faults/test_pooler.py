"""PgBouncer: in transaction mode a session of the server that was a store's is another client's by now."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

import pytest

import jdbcstore
from jdbcstore import Claims, Configuration, JdbcStore, Message
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.errors import ConfigurationError, StoreUnavailable
from tests.support.faults.line import Break
from tests.support.faults.proxy import ProxyLine
from tests.support.servers import PostgresqlServer, Server, ServerMissing
from tests.support.servers.pgbouncer import PgBouncer

pytestmark = [pytest.mark.slow, pytest.mark.backends("postgresql")]

STRANGERS = 4
"""As many as the store has used sessions, at least: they get the sessions that are idle."""
SHORT = 3.0
"""Long enough for a statement on a machine that has much else to do."""


@contextlib.contextmanager
def pooled(server: Server, size: int, mode: str) -> Iterator[PgBouncer]:
    """A pooler in front of the server."""
    assert isinstance(server, PostgresqlServer)
    try:
        pooler = PgBouncer(server, size, mode)
    except ServerMissing as error:
        pytest.skip(str(error))
    with contextlib.closing(pooler):
        yield pooler


@pytest.fixture
def pooler(server: Server) -> Iterator[PgBouncer]:
    with pooled(server, STRANGERS + 4, "transaction") as pooler:
        yield pooler


def _leased(url: str) -> JdbcStore:
    configuration = Configuration(data_source=DataSourceConfig(url=url), locker=LeaseDatabaseLockerConfig())
    return JdbcStore.configured(configuration)


@pytest.mark.parametrize("open_", [_leased, Claims])
def test_what_needs_a_session_is_refused(pooler: PgBouncer, open_: Callable[[str], object]) -> None:
    with JdbcStore(pooler.url) as store:
        store.queue("Q").add_message(Message("one"))
        assert "primary, behind a pooler in transaction mode" in str(store.server)
    with pytest.raises(ConfigurationError, match="pool_mode = session"):
        open_(pooler.url)


def test_the_next_client_of_a_session_finds_it_unchanged(server: Server) -> None:
    settings = "SELECT name, setting FROM pg_settings WHERE source = 'session' ORDER BY name"
    with pooled(server, 1, "transaction") as pooler, contextlib.closing(pooler.connect()) as stranger:
        before = stranger.execute(settings).fetchall()
        with jdbcstore.open(pooler.url, query_timeout=9.0) as store, jdbcstore.open(pooler.url) as other:
            store.queue("Q").add_message(Message("one"))
            store.queue("Q").add_messages([Message("two"), Message("three")])
            other.queue("Q").add_message(Message("four"))
            bodies = [message.body for message in other.queue("Q").recover()]
            assert bodies == ["one", "two", "three", "four"]
            assert stranger.execute("SELECT name FROM pg_prepared_statements").fetchall() == []
            assert stranger.execute(settings).fetchall() == before


@pytest.mark.parametrize(
    "setting", ["synchronous_commit = off", "default_transaction_isolation = serializable"]
)
def test_a_server_with_other_settings_is_refused(pooler: PgBouncer, setting: str) -> None:
    with contextlib.closing(pooler.connect()) as administrator:
        [(name,)] = administrator.execute("SELECT current_user").fetchall()
        administrator.execute(f"ALTER ROLE {name} SET {setting}")
    pooler.forget_sessions()
    with pytest.raises(ConfigurationError, match="ALTER ROLE"):
        jdbcstore.open(pooler.url)


def test_in_session_mode_there_are_sessions(server: Server) -> None:
    with pooled(server, 20, "session") as pooler:
        with _leased(pooler.url) as store:
            store.queue("Q").add_message(Message("one"))
        with Claims(pooler.url) as claims:
            assert [claim.message.body for claim in claims.queue("Q").claim(2)] == ["one"]


def test_a_session_that_does_not_answer_is_not_waited_for(server: Server) -> None:
    """The pooler accepts the connection itself."""
    with pooled(server, 1, "session") as pooler:
        with contextlib.closing(pooler.connect()) as stranger:
            [(frozen,)] = stranger.execute("SELECT pg_backend_pid()").fetchall()
        os.kill(frozen, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable):
                jdbcstore.open(pooler.url, network_timeout=SHORT, reconnect_timeout=0.0)
        finally:
            os.kill(frozen, signal.SIGCONT)


def test_the_work_of_others_goes_on(pooler: PgBouncer) -> None:
    with contextlib.ExitStack() as ends:
        line = ProxyLine(pooler.url)
        ends.callback(line.close)
        store = ends.enter_context(jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=60.0))
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        strangers = [ends.enter_context(pooler.connect()) for _ in range(STRANGERS)]
        strangers[0].execute("CREATE TABLE THEIRS (N INT)")
        for number, stranger in enumerate(strangers):
            stranger.execute("BEGIN")
            stranger.execute("INSERT INTO THEIRS VALUES (%s)", (number,))
        # Its session is a stranger's now. The statement that is lost gets another one.
        line.arm(Break.ANSWER, 1)
        queue.add_message(Message("after"))
        assert line.broke
        for stranger in strangers:
            stranger.execute("COMMIT")
        [(count,)] = strangers[0].execute("SELECT COUNT(*) FROM THEIRS")
        assert count == STRANGERS
        assert [message.body for message in queue.recover()] == ["before", "after"]
