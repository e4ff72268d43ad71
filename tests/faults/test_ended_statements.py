"""A server that ends statements, and connections, for its own reasons or an administrator's."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError

import jdbcstore
from jdbcstore import JdbcStore, Message
from jdbcstore.config.locker import LockerConfig
from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.mysql import MysqlAdapter
from jdbcstore.database.adapters.mysql_sending import packet_of
from jdbcstore.database.adapters.postgresql import PostgresqlAdapter
from jdbcstore.database.adapters.postgresql_writing import PostgresqlWriting
from jdbcstore.errors import InvalidMessage, StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.lockers.conftest import LEASE, OpenLocked, open_locked
from tests.support.backends import Backend
from tests.support.databases import Database
from tests.support.faults.line import Break, Line

__all__ = ["open_locked"]


_NOTHING = "DELETE FROM JDBCSTORE_ACKS WHERE 1 = 0"


class _Ended:
    """A cursor whose next DELETE finds nothing: so MariaDB answers one that KILL QUERY has ended."""

    armed = 0

    @staticmethod
    def packet_of(cursor: Any, text: str, values: Sequence[Any]) -> bytes | None:
        """Return the packet of a statement that is sent without the cursor."""
        if _Ended.armed and text.startswith("DELETE"):
            packet = packet_of(cursor, _NOTHING, ())
            _Ended.armed -= packet is not None
            return packet
        return packet_of(cursor, text, values)

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, text: str, *row: Any) -> Any:
        if _Ended.armed and text.startswith("DELETE"):
            _Ended.armed -= 1
            return self._cursor.execute(_NOTHING)
        return self._cursor.execute(text, *row)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@pytest.mark.backends("mariadb", "mariadb-pyodbc", "mysql")
def test_a_delete_that_was_ended_is_not_taken_for_done(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = MysqlAdapter.cursor
    monkeypatch.setattr(MysqlAdapter, "cursor", lambda self, raw: _Ended(make(self, raw)))
    monkeypatch.setattr("jdbcstore.database.adapters.mysql.packet_of", _Ended.packet_of)
    with jdbcstore.open(url, cleanup_period=0, reconnect_timeout=180.0) as store:
        queue, topic = store.queue("Q"), store.topic("T")
        first, second, third = queue.add_messages([Message(name) for name in "abc"])
        topic.subscribe("client", "reader")
        writes: list[Callable[[], None]] = [
            lambda: queue.acknowledge(first),
            lambda: queue.acknowledge(second, third),
            lambda: topic.unsubscribe("client", "reader"),
        ]
        for number, write in enumerate(writes):
            _Ended.armed = 1
            write()
            assert not _Ended.armed, number
        assert queue.message_count() == 0
        assert topic.subscriptions() == []
        queue.acknowledge(first)  # gone already, and no error
    with jdbcstore.open(url, cleanup_period=0, reconnect_timeout=0.0) as store:
        reference = store.queue("Q").add_message(Message("d"))
        _Ended.armed = 1
        with pytest.raises(StoreUnavailable, match="cancelled a DELETE"):
            store.queue("Q").acknowledge(reference)
        assert store.queue("Q").message_count() == 1


class _Limited:
    """A cursor whose queries for messages end after a limited time, another for each."""

    milliseconds: Iterator[float] = itertools.repeat(0)

    def __init__(self, cursor: Any, vendor: str) -> None:
        self._cursor, self._vendor = cursor, vendor

    def execute(self, text: str, *row: Any) -> Any:
        if text.startswith("SELECT") and "MSG" in text.partition("FROM")[0]:
            limit = next(_Limited.milliseconds)
            if self._vendor == "mysql":
                text = f"SELECT /*+ MAX_EXECUTION_TIME({math.ceil(limit)}) */{text.removeprefix('SELECT')}"
            else:
                text = f"SET STATEMENT max_statement_time = {limit / 1000} FOR {text}"
        return self._cursor.execute(text, *row)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class _Cut:
    """A cursor whose next page lacks its last rows: so MariaDB answers one that KILL QUERY has ended."""

    kept: int | None = None

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._is_page = False

    def execute(self, text: str, *row: Any) -> Any:
        self._is_page = "LIMIT" in text
        return self._cursor.execute(text, *row)

    def fetchall(self) -> list[Any]:
        rows = [*self._cursor.fetchall()]
        if self._is_page and _Cut.kept is not None:
            rows, _Cut.kept = rows[: _Cut.kept], None
        return rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@pytest.mark.backends("mariadb", "mariadb-pyodbc")
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_page_that_was_cut_is_not_taken_for_the_last(
    url: str, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    make = MysqlAdapter.cursor
    monkeypatch.setattr(MysqlAdapter, "cursor", lambda self, raw: _Cut(make(self, raw)))
    with jdbcstore.open(url, cleanup_period=0) as store:
        queue, topic = store.queue("Q"), store.topic("T")
        reader = topic.subscribe("client", "reader")
        for one in (queue, topic):
            one.add_messages([Message(name) for name in "abcde"])
        for source in (queue, topic, reader):
            _Cut.kept = kept
            page = source.recover(limit=3)
            assert ([message.body for message in page], page.at_end) == (["a", "b", "c"], False)
            _Cut.kept = kept
            page = source.recover(limit=3, after=page.cursor)
            assert ([message.body for message in page], page.at_end) == (["d", "e"], True)
            assert _Cut.kept is None
        _Cut.kept = kept
        assert queue.remove_all_messages() == 5


@contextlib.contextmanager
def _killing(database: Database) -> Iterator[None]:
    """KILL QUERY, again and again, for every connection that reads messages."""
    stopped = threading.Event()

    def kill() -> None:
        with database.engine.connect() as connection:
            while not stopped.is_set():
                for (session,) in connection.execute(text(_READING), {"name": database.name}).fetchall():
                    with contextlib.suppress(DBAPIError):  # it is gone
                        connection.exec_driver_sql(f"KILL QUERY {session}")

    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(kill)
        try:
            yield
        finally:
            stopped.set()
            killer.result()


_READING = (
    "SELECT ID FROM information_schema.PROCESSLIST"
    " WHERE DB = :name AND ID <> CONNECTION_ID() AND INFO LIKE '%MSG%FROM%'"
)
_TRIES = 120
# Killed, or too long. MariaDB's ODBC driver waits, up to network_timeout, for the answer to some of what
# KILL QUERY has ended.
_ENDED = re.compile(r"\b(1317|1969|2006|2013|3024)\b")


@pytest.mark.slow
@pytest.mark.backends("mariadb", "mariadb-pyodbc", "mysql")
@pytest.mark.parametrize("how", ["killed", "too long"])
def test_pages_that_are_ended_are_whole_or_refused(
    backend: Backend, database: Database, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Wherever the server is: it plans, reads or sends. Each page that is returned has what is stored."""
    with contextlib.ExitStack() as ends:
        timeout = 1.0 if how == "killed" else 30.0
        store = ends.enter_context(jdbcstore.open(database.url, cleanup_period=0, network_timeout=timeout))
        queue, topic = store.queue("Q", prioritized=True), store.topic("T", prioritized=False)
        reader = topic.subscribe("client", "reader")
        messages = [Message(b"x" * 2000, priority=4) for _ in range(400)]
        stored = {one: [r.sequence for r in one.add_messages(messages)] for one in (queue, topic)}
        if how == "killed":
            ends.enter_context(_killing(database))
            tries = 20 if "pyodbc" in backend.id else _TRIES
        else:
            make = MysqlAdapter.cursor
            vendor = backend.database.jdbc_scheme
            monkeypatch.setattr(MysqlAdapter, "cursor", lambda self, raw: _Limited(make(self, raw), vendor))
            # The first are too short for any machine; the others end one anywhere, or not.
            limits = itertools.cycle([0.1] * 20 + [*range(1, 40)])
            monkeypatch.setattr(_Limited, "milliseconds", limits)
            tries = _TRIES
        refused: list[str] = []
        for number, source in enumerate(itertools.cycle([queue, topic, reader])):
            # How many are met depends on the machine: more tries, until enough were.
            if number >= tries and (len(refused) >= tries // 10 or number >= 50 * tries):
                break
            try:
                page = source.recover(limit=1000)
            except StoreUnavailable as error:
                refused.append(str(error))
            else:
                assert page.at_end
                assert [message.sequence for message in page] == stored[queue if source is queue else topic]
        assert all(map(_ENDED.search, refused))
        assert len(refused) >= tries // 10


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize("locker", [None, LEASE], ids=["without a locker", "fenced"])
@pytest.mark.parametrize("size", [50, 200_000], ids=["briefly", "long"])
def test_a_transaction_larger_than_what_the_server_takes_at_once(
    open_locked: OpenLocked,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    locker: LockerConfig | None,
    size: int,
) -> None:
    """It ends a connection that sends it 1 GiB as one message; here the limit is ten messages."""
    limit = 10 * (1024 + size)
    sent: list[int] = []
    execute = PostgresqlWriting._execute

    def limited(self: PostgresqlWriting, cursor: Any, text: str, parameters: Sequence[bytes | None]) -> int:
        sent.append(sum(len(value or b"") for value in parameters))
        assert sent[-1] <= limit
        return execute(self, cursor, text, parameters)

    monkeypatch.setattr("jdbcstore.database.adapters.postgresql_writing._MAX_SENT", limit)
    monkeypatch.setattr(PostgresqlWriting, "_execute", limited)
    messages = [Message(b"x" * size) for _ in range(25)]
    with open_locked(locker, reconnect_timeout=0.0) as store:
        queue = store.queue("Q")
        old = [queue.add_message(Message("old")) for _ in range(30)]
        assert len(sent) == 30
        database.execute("ALTER TABLE ACTIVEMQ_MSGS ADD CHECK (EXPIRATION = 0)")
        for expiration, stored in ((4 * 10**12, 30), (0, 27)):
            del sent[:]
            transaction = store.transaction()
            for message in [*messages, Message("last", expiration_ms=expiration)]:
                transaction.queue("Q").add_message(message)
            for reference in old[:29]:
                transaction.queue("Q").acknowledge(reference)
            if expiration:
                with pytest.raises(InvalidMessage):
                    transaction.commit()
            else:
                transaction.commit()
                assert len(sent) > 3
            assert queue.message_count() == stored
        [(times,)] = database.rows(
            f"SELECT COUNT(DISTINCT CAST(xmin AS TEXT)) FROM ACTIVEMQ_MSGS WHERE ID > {old[-1].sequence}"
        )
        assert times == 1
        assert [message.body for message in queue.recover()[1:]] == [
            message.body for message in [*messages, Message("last")]
        ]


@pytest.mark.backends("postgresql")
def test_connections_that_were_idle_too_long_are_made_anew(database: Database) -> None:
    # Longer than a busy machine pauses within a call.
    options = {"options": "-c idle_session_timeout=1000"}
    url = make_url(database.url).update_query_dict(options).render_as_string(hide_password=False)
    with JdbcStore(url, jdbcstore.StoreConfig(cleanup_period=0, reconnect_timeout=180.0)) as store:
        queue, topic = store.queue("Q"), store.topic("T", prioritized=True)
        queue.add_message(Message("a"))
        for call in (
            queue.recover,
            store.check,
            lambda: topic.subscribe("client", "reader"),
            store.cleanup,
            lambda: queue.add_message(Message("b")),
            store.tables,
            store.xa.recover,
        ):
            wait_until(lambda: database.connections() == 0, what="that the server has ended all")
            call()
        assert queue.message_count() == 2


@pytest.mark.parametrize(
    ("adapter", "code", "expected"),
    [
        *(
            (PostgresqlAdapter(), state, Failure.DISCONNECTED)
            for state in ("57P05", "25P03", "25P04", "57P01")
        ),
        (PostgresqlAdapter(), "57014", Failure.TRANSIENT),
        *((MysqlAdapter(), number, Failure.TRANSIENT) for number in (1020, 1028, 1213, 1317, 1969)),
        *((MysqlAdapter(), number, Failure.DISCONNECTED) for number in (1129, 2013, 4031)),
        (MysqlAdapter(), 1130, Failure.REFUSED),
    ],
)
def test_what_the_server_says_of_it(adapter: Adapter, code: str | int, expected: Failure) -> None:
    error = Exception(code, "text")
    if isinstance(code, str):
        error.sqlstate = code  # type: ignore[attr-defined]
    assert adapter.classify(error) is expected


@pytest.mark.backends("postgresql")
def test_an_outage_while_subscribing_is_told_as_one(line: Line) -> None:
    """At each statement and answer: the key of ACTIVEMQ_ACKS is looked up, and altered."""
    errors = set()
    config = jdbcstore.StoreConfig(cleanup_period=0, reconnect_timeout=0.02)
    for number in itertools.count(1, 6):
        with JdbcStore(line.url, config) as store:
            topic = store.topic("T", prioritized=True)
            line.arm(Break.STATEMENT, number, lasting=True)
            subscribe = partial(topic.subscribe, "client", "reader")
            for call in (subscribe, store.tables, store.check):
                try:
                    call()
                except StoreUnavailable as error:
                    errors.add(type(error))
            line.mend()
        if not line.broke:
            break
    assert number > 5
    assert errors
