"""Each sickness of a database is made on purpose, and is named with its cause and what helps."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine

from jdbcstore import JdbcStore, Message, StoreConfig
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.checkup import BAD, FIGURES, Diagnosis, Thresholds
from tests.support.backends import Backend
from tests.support.databases import Database, SqliteDatabase
from tests.support.pool import ServerPool, memory
from tests.support.require import unavailable
from tests.support.servers import PostgresqlServer, Server, ServerMissing

_SECONDS = 30.0
_PAUSE = 0.2
"""Seconds between two looks. InnoDB renews its lists of locks once nobody has read them for 0.1 s."""
_SHARP = Thresholds(patience=0, dead_rows=500, unused_bytes=1 << 20, history=20, wal_bytes=1 << 20)
_QUEUE = "queue://ORDERS"

Session = Callable[..., Any]


@pytest.fixture
def store(url: str) -> Iterator[JdbcStore]:
    with JdbcStore(url, StoreConfig(cleanup_period=0.0)) as store:
        yield store


@pytest.fixture
def session(database: Database) -> Iterator[Callable[..., Any]]:
    """Opens a session of another program, and runs statements in it; returns its cursor."""
    engine = create_engine(database.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with contextlib.ExitStack() as opened:

        def session(*statements: str) -> Any:
            connection = engine.raw_connection()
            opened.callback(_close, connection)
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor

        yield session


def _close(connection: Any) -> None:
    with contextlib.suppress(Exception):  # the cure has ended it
        connection.close()


def found(store: JdbcStore, name: str, thresholds: Thresholds = _SHARP, *, cause: str = "") -> Diagnosis:
    """Look until a sickness is named, with this in its cause: connections of a test before may be ending."""

    def look() -> Diagnosis | None:
        named = (one for one in store.examine(thresholds).diagnoses if one.name == name)
        return next((one for one in named if cause in (one.cause or "")), None)

    one = wait_until(look, _SECONDS, name, pause=_PAUSE)
    assert one is not None
    return one


def gone(store: JdbcStore, name: str, thresholds: Thresholds = _SHARP) -> None:
    def is_gone() -> bool:
        return all(one.name != name for one in store.examine(thresholds).diagnoses)

    wait_until(is_gone, _SECONDS, f"no {name}", pause=_PAUSE)


@contextmanager
def waiting(statement: Callable[[], Any]) -> Iterator[None]:
    """Run a statement in a thread, which ends before the block is left."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            statement()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(_SECONDS)
    assert not thread.is_alive()


def test_a_healthy_database_has_figures_and_nothing_else(store: JdbcStore) -> None:
    store.queue("ORDERS").add_message(Message("0"))
    checkup = store.examine()
    assert checkup.diagnoses == ()
    assert checkup.figures.keys() <= FIGURES.keys()
    assert checkup.figures["table_bytes"] > 0
    assert checkup.figures["lock_waits"] == 0


@pytest.mark.new_database
def test_an_index_that_is_missing(store: JdbcStore, database: Database, backend: Backend) -> None:
    of = "" if backend.id in ("sqlite", "postgresql") else " ON ACTIVEMQ_MSGS"
    database.execute(f"DROP INDEX ACTIVEMQ_MSGS_CIDX{of}")
    one = found(store, "missing index")
    assert one.severity == BAD
    assert "activemq_msgs_cidx" in one.text.lower()
    database.execute(one.cure)
    gone(store, "missing index")


# PostgreSQL


def _pid(cursor: Any) -> int:
    cursor.execute("SELECT pg_backend_pid()")
    return int(cursor.fetchone()[0])


def _churn(run: Callable[[str], Any], rows: int = 1500, size: int = 10) -> None:
    """Add messages, and delete them but one."""
    run(
        "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSG)"
        f" SELECT n, '{_QUEUE}', decode(repeat('ab', {size}), 'hex') FROM generate_series(1, {rows}) AS n"
    )
    run(f"DELETE FROM ACTIVEMQ_MSGS WHERE ID < {rows}")


@pytest.mark.backends("postgresql")
def test_a_session_that_is_idle_in_its_transaction(
    store: JdbcStore, database: Database, session: Session
) -> None:
    holder = session(
        "SET application_name = 'shop-report'", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"
    )
    pid = _pid(holder)
    _churn(database.execute)
    dead = found(store, "dead rows")
    assert dead.severity == BAD
    assert dead.figures["dead_rows"] >= 1400
    assert dead.cause is not None
    assert f'session {pid} ("shop-report"' in dead.cause
    one = found(store, "idle in transaction")
    assert one.severity == BAD  # it harms already
    assert one.cure == f"SELECT pg_terminate_backend({pid})"
    assert store.examine(_SHARP).figures["horizon_transactions"] >= 1
    database.rows(one.cure)
    gone(store, "idle in transaction")
    after = found(store, "dead rows")
    assert after.cause == "autovacuum has not come so far"
    database.execute(after.cure.partition(";")[0])
    gone(store, "dead rows")


@contextmanager
def _busy(cursor: Any, statement: str) -> Iterator[None]:
    """A session that runs a statement until it is ended."""

    def run() -> None:
        with contextlib.suppress(Exception):  # it is ended
            cursor.execute(statement)

    with waiting(run):
        yield


@pytest.mark.backends("postgresql")
def test_a_long_transaction(store: JdbcStore, database: Database, session: Session) -> None:
    worker = session("SET application_name = 'shop-export'", "BEGIN")
    pid = _pid(worker)
    with _busy(worker, "SELECT pg_sleep(3600)"):
        try:
            one = found(store, "long transaction")
        finally:
            database.rows(f"SELECT pg_terminate_backend({pid})")
    assert f'session {pid} ("shop-export"' in (one.cause or "")
    assert one.cure == f"SELECT pg_terminate_backend({pid})"
    gone(store, "long transaction")


@pytest.mark.backends("postgresql")
def test_a_short_transaction_is_not_named(store: JdbcStore, session: Session) -> None:
    session("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    assert store.examine(Thresholds(patience=3600)).diagnoses == ()
    assert found(store, "idle in transaction").severity != BAD


@pytest.mark.backends("postgresql")
def test_sessions_that_wait_for_a_lock(store: JdbcStore, database: Database, session: Session) -> None:
    locked = "UPDATE ACTIVEMQ_LOCK SET TIME = 1"
    holder = session("SET application_name = 'shop-migration'", "BEGIN", locked)
    waiter = session("SET application_name = 'shop-worker'")
    with waiting(lambda: waiter.execute(locked)):
        one = found(store, "lock waits")
        database.rows(f"SELECT pg_terminate_backend({_pid_in(one.cure)})")
    assert f'session {_pid_in(one.cure)} ("shop-migration"' in (one.cause or "")
    assert "idle in transaction" in (one.cause or "")
    assert "shop-worker" in one.text
    assert one.figures["waiting"] == 1
    with pytest.raises(Exception, match=r"terminat|closed"):
        holder.execute("SELECT 1")
    gone(store, "lock waits")


_ROW = "SELECT * FROM ACTIVEMQ_LOCK FOR UPDATE"
"""What ActiveMQ's database-locker runs, and keeps its transaction open; then it touches the row."""


@pytest.mark.backends("postgresql")
def test_the_lock_of_a_master_is_not_to_be_ended(
    store: JdbcStore, database: Database, session: Session
) -> None:
    master = session("BEGIN", _ROW, "UPDATE ACTIVEMQ_LOCK SET TIME = 1")
    pid = _pid(master)
    slave = session()
    slave_pid = _pid(slave)
    with waiting(lambda: slave.execute(f"BEGIN; {_ROW}")):
        try:
            waits = f"SELECT pid FROM pg_stat_activity WHERE pid = {slave_pid} AND wait_event_type = 'Lock'"
            wait_until(lambda: database.rows(waits), what="the slave")
            assert store.examine(_SHARP).diagnoses == ()
            assert store.examine(_SHARP).figures["lock_waits"] == 0
            _churn(database.execute)
            one = found(store, "master's lock")
            dead = found(store, "dead rows")
        finally:
            master.execute("ROLLBACK")
    assert f"session {pid} (" in (one.cause or "")
    assert "lease-database-locker" in one.cure
    assert f"session {pid} (" in (dead.cause or "")
    assert "terminate" not in one.cure + dead.cure


def _pid_in(cure: str) -> int:
    match = re.search(r"\d+", cure)
    assert match is not None
    return int(match[0])


@pytest.mark.backends("postgresql")
@pytest.mark.new_database
def test_a_table_that_is_not_vacuumed(store: JdbcStore, database: Database) -> None:
    database.execute("ALTER TABLE ACTIVEMQ_MSGS SET (autovacuum_enabled = false)")
    _churn(database.execute)
    assert found(store, "dead rows").cause == "autovacuum is off"
    one = found(store, "autovacuum off")
    assert "activemq_msgs" in one.text
    database.execute(one.cure)
    gone(store, "autovacuum off")


@pytest.mark.backends("postgresql")
def test_a_table_that_is_mostly_empty(store: JdbcStore, database: Database) -> None:
    _churn(database.execute, 1500, 1900)
    database.execute("VACUUM ANALYZE ACTIVEMQ_MSGS")
    one = found(store, "bloat")
    assert one.figures["unused_bytes"] > 2 << 20
    database.execute(one.cure.partition(",")[0])
    gone(store, "bloat")


@pytest.fixture
def whole_server() -> Iterator[PostgresqlServer]:
    """A server of this test alone, which prepares transactions."""
    try:
        server = PostgresqlServer(memory())
    except ServerMissing as missing:
        unavailable(PostgresqlServer.name, str(missing))
    try:
        server.execute_as_administrator("ALTER SYSTEM SET max_prepared_transactions = 2")
        server.stop_at_once()
        server.start()
        yield server
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.servers
def test_what_concerns_a_whole_server(whole_server: PostgresqlServer) -> None:
    """In one test, because each needs a server of its own."""
    server = whole_server
    url = server.administrator_url.set(database=server.username)
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with (
        JdbcStore(server.url.render_as_string(hide_password=False), StoreConfig(cleanup_period=0.0)) as store,
        engine.connect() as connection,
    ):
        run = connection.exec_driver_sql
        _of_prepared(store, run)
        _of_slot(store, server, run)
        _of_autovacuum(store, run)
        run(
            "UPDATE pg_class SET relfrozenxid = (mod(txid_current() + 4294967296 - 400000000,"
            " 4294967296)::text)::xid WHERE relname = 'activemq_acks'"
        )
        one = found(store, "transaction ids run out")
        assert "activemq_acks" in one.text
        assert one.figures["transactions"] >= 400_000_000


def _of_prepared(store: JdbcStore, run: Callable[[str], Any]) -> None:
    run("BEGIN; UPDATE activemq_lock SET time = 2; PREPARE TRANSACTION 'payment-7'")
    one = found(store, "prepared transaction")
    assert "payment-7" in (one.cause or "")
    run(one.cure.partition(", or ")[2])
    gone(store, "prepared transaction")


def _of_slot(store: JdbcStore, server: Server, run: Callable[[str], Any]) -> None:
    run("SELECT pg_create_physical_replication_slot('standby_a')")
    _churn(run)
    with _standby(server, "SLOT standby_a"):
        one = found(store, "replication slot")
        assert "standby_a, which session" in (one.cause or "")
    wait_until(lambda: "unused slot" in (found(store, "replication slot").cause or ""), _SECONDS, "unread")
    assert "standby_a" in (found(store, "dead rows").cause or "")
    run(found(store, "replication slot").cure)
    gone(store, "replication slot")
    with _standby(server, ""):
        one = found(store, "standby feedback")
        assert '"walreceiver-b"' in (one.cause or "")
        assert "GRANT pg_read_all_stats" in (one.cause or "")
        run(f"GRANT pg_read_all_stats TO {server.username}")
        assert "GRANT" not in (found(store, "standby feedback").cause or "")
        assert "hot_standby_feedback = off" in one.cure


@contextmanager
def _standby(server: Server, slot: str) -> Iterator[None]:
    """What a standby with hot_standby_feedback sends: the oldest transaction that its queries see."""
    import psycopg
    from psycopg import pq

    url = server.administrator_url
    line = pq.PGconn.connect(
        f"host={url.host} port={url.port} user={url.username} password={url.password}"
        " dbname=replication replication=true application_name=walreceiver-b".encode()
    )
    assert line.status == pq.ConnStatus.OK, line.error_message
    try:
        with psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False)) as other:
            [(xid, position)] = other.execute(
                "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1, pg_current_wal_lsn()::text"
            ).fetchall()
        result = line.exec_(f"START_REPLICATION {slot} PHYSICAL {position}".encode())
        assert result.status == pq.ExecStatus.COPY_BOTH, line.error_message
        line.put_copy_data(b"h" + struct.pack(">qIIII", 0, xid, 0, 0, 0))
        line.flush()
        yield
    finally:
        line.finish()


def _of_autovacuum(store: JdbcStore, run: Callable[[str], Any]) -> None:
    run("ALTER SYSTEM SET autovacuum = off")
    run("SELECT pg_reload_conf()")
    one = found(store, "autovacuum off")
    assert one.severity == BAD
    for statement in one.cure.split("; "):
        run(statement)
    gone(store, "autovacuum off")


# MariaDB and MySQL

innodb = pytest.mark.backends("mariadb", "mysql")


def _connection_id(cursor: Any) -> int:
    cursor.execute("SELECT CONNECTION_ID()")
    return int(cursor.fetchone()[0])


@innodb
def test_a_snapshot_that_holds_purge(store: JdbcStore, database: Database, session: Session) -> None:
    holder = session(
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    )
    number = _connection_id(holder)
    with database.engine.connect() as connection:
        for time in range(40):
            connection.exec_driver_sql(f"UPDATE ACTIVEMQ_LOCK SET TIME = {time}")
    lag = found(store, "purge lag")
    assert lag.figures["history_length"] >= 20
    assert f"connection {number} (" in (lag.cause or "")
    one = found(store, "idle in transaction", cause=f"connection {number} (")
    assert one.severity == BAD
    assert one.cure == f"KILL {number}"
    assert store.examine().figures["history_length"] >= 20
    database.execute(one.cure)
    gone(store, "idle in transaction")


@innodb
def test_a_long_transaction_of_innodb(store: JdbcStore, database: Database, session: Session) -> None:
    worker = session(
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    )
    number = _connection_id(worker)
    with _busy(worker, "SELECT SLEEP(3600)"):
        try:
            one = found(store, "long transaction", cause=f"connection {number} (")
        finally:
            database.execute(f"KILL {number}")
    assert one.cure == f"KILL {number}"
    gone(store, "long transaction")


@innodb
def test_a_lock_that_others_wait_for(store: JdbcStore, database: Database, session: Session) -> None:
    store.queue("ORDERS").add_message(Message("0"))
    locked = "UPDATE ACTIVEMQ_MSGS SET EXPIRATION = 1"
    number = _connection_id(holder := session("START TRANSACTION"))
    holder.execute(locked)
    waiter = session()
    with waiting(lambda: waiter.execute(locked)):
        one = found(store, "lock waits")
        database.execute(one.cure.partition(";")[0])
    assert one.cause is not None
    assert re.match(rf"connection {number} \((pymysql, process {os.getpid()}, )?user", one.cause)
    assert "ACTIVEMQ_MSGS" in one.text
    gone(store, "lock waits")


@innodb
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_the_lock_of_a_master_on_innodb(
    store: JdbcStore, database: Database, backend: Backend, session: Session, isolation: str
) -> None:
    begin = (f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}", "START TRANSACTION")
    master, slave = session(*begin, _ROW, "UPDATE ACTIVEMQ_LOCK SET TIME = 1"), session(*begin)
    number = _connection_id(slave)
    waits = "SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
    waits += f" AND trx_mysql_thread_id = {number}"
    ours = (f"connection {_connection_id(master)} ", f"connection {number} ")
    with waiting(lambda: slave.execute(_ROW)):
        try:
            wait_until(lambda: database.rows(waits), what="the slave", pause=_PAUSE)
            checkup = store.examine(Thresholds(patience=0))
        finally:
            master.execute("ROLLBACK")
    assert checkup.figures["lock_waits"] == 0
    # MariaDB does not show which table a transaction has locked.
    unknown = [backend.id == "mariadb" and isolation == "REPEATABLE READ"]
    named = [one for one in checkup.diagnoses if (one.cause or "").startswith(ours)]
    assert ["unless" in one.cure for one in named] == [True] * sum(unknown)


@innodb
def test_a_gap_that_others_wait_for(store: JdbcStore, database: Database, session: Session) -> None:
    number = _connection_id(
        holder := session("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION")
    )
    holder.execute(f"SELECT ID FROM ACTIVEMQ_MSGS WHERE CONTAINER = '{_QUEUE}' FOR UPDATE")
    waiter = session()
    add = f"INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER) VALUES (7, '{_QUEUE}')"
    with waiting(lambda: waiter.execute(add)):
        one = found(store, "gap lock waits")
        database.execute(one.cure.partition(";")[0])
    assert f"connection {number}" in (one.cause or "")
    assert "READ COMMITTED" in one.cure


@innodb
def test_a_user_who_may_not_look(database: Database, backend: Backend, server_pool: ServerPool) -> None:
    user, password = f"{database.name}_u", "only-rows-1"
    server = server_pool.private(backend)
    if not isinstance(server, Server):
        pytest.skip("only an administrator can make a user")
    server.execute_as_administrator(
        f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'", f"GRANT ALL ON {database.name}.* TO {user}@'%'"
    )
    try:
        url = re.sub(r"//[^@]*@", f"//{user}:{password}@", database.url)
        with JdbcStore(url, StoreConfig(cleanup_period=0.0)) as store:
            one = found(store, "not allowed to look")
            assert one.cure == f"GRANT PROCESS ON *.* TO '{user}'@'%'"
    finally:
        server.execute_as_administrator(f"DROP USER {user}@'%'")


# SQLite

_OTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.read()
"""


def _process(path: Path, *statements: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Another program that has run the statements, and waits."""

    @contextmanager
    def run() -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, "-c", _OTHER, str(path), *statements],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.communicate("")

    return run()


@pytest.mark.backends("sqlite")
def test_a_reader_because_of_which_the_wal_grows(store: JdbcStore, database: SqliteDatabase) -> None:
    with _process(database.path, "BEGIN", "SELECT * FROM ACTIVEMQ_LOCK") as reader:
        for number in range(3):
            store.queue("ORDERS").add_message(Message("0" * 600_000, priority=number))
        one = found(store, "long reader")
        assert one.severity == BAD
        assert f"process {reader.pid} (" in (one.cause or "")
        assert store.examine(_SHARP).figures["wal_pages_left"] > 256
    large = found(store, "large WAL")
    assert large.figures["wal_bytes"] > 1 << 20
    database.rows(large.cure)
    gone(store, "large WAL")


@pytest.mark.backends("sqlite")
def test_a_writer_for_which_all_wait(store: JdbcStore, database: SqliteDatabase) -> None:
    with _process(database.path, "BEGIN IMMEDIATE") as writer:
        one = found(store, "lock waits")
        assert f"process {writer.pid} (" in (one.cause or "")
    gone(store, "lock waits")


@pytest.mark.backends("sqlite")
def test_a_reader_of_this_process(store: JdbcStore, session: Session) -> None:
    session("BEGIN", "SELECT * FROM ACTIVEMQ_LOCK").fetchall()
    for number in range(3):
        store.queue("ORDERS").add_message(Message("0" * 600_000, priority=number))
    assert f"this process, {os.getpid()}" in (found(store, "long reader").cause or "")
