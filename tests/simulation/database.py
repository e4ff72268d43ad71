"""A database server that loses commits, delays them, or does not answer: SQLite behind a simulated network.

Each statement takes a while, in which other processes run. A connection can be lost at its next commit:
before that took effect, after it, or with the commit still under way, so that it takes effect later unless
the server is made to end the session first. What a killed process had sent may take effect, too.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

from sqlalchemy import URL

from jdbcstore import StoreConfig
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sending import SentWrite
from jdbcstore.database.adapters.sql import Batch, Guards, Row, WriteStatements
from jdbcstore.database.adapters.sqlite import SqliteAdapter, SqliteControl, SqliteWriting
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import OutcomeUnknown, StoreError, StoreUnavailable
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.claims.routing import Routing
from jdbcstore.stores.jdbc.store import JdbcStore
from tests.simulation.scheduler import EPOCH_MS, Process, RLock, Scheduler, Task, current, current_process

_LOCK_WAIT = 30.0
_BUSY_PAUSE = 0.003
_LATEST = 3.0
"""Seconds after which a commit that was under way has taken effect."""
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


class Kind(NamedTuple):
    """What a statement does, as far as the network and the history want to know."""

    is_commit: bool
    is_rollback: bool
    writes: bool
    changes: bool
    """Whether it changes messages or acknowledgements."""
    claims: bool
    """Whether it changes claims."""
    asks_time: bool


@lru_cache(maxsize=4096)
def kind_of(sql: str) -> Kind:
    """Return what a statement does."""
    begin = sql[:8].upper()
    return Kind(
        is_commit=begin.startswith("COMMIT"),
        is_rollback=begin.startswith("ROLLBACK"),
        writes=begin.startswith(_WRITES),
        changes=("ACTIVEMQ_MSGS" in sql or "ACKS" in sql) and not sql.startswith("SELECT"),
        claims=sql.startswith(('INSERT INTO "JDBCSTORE_CLAIMS', 'UPDATE "JDBCSTORE_CLAIMS')),
        asks_time=sql.startswith(f"SELECT {SimulatedAdapter.now_ms}"),
    )


class Disconnected(sqlite3.OperationalError):
    """The connection was lost."""


class Busy(sqlite3.OperationalError):
    """The lock was not free in time."""

    sqlite_errorcode = sqlite3.SQLITE_BUSY


class ServerSession:
    """What the server knows of a connection: it may be there after the client has lost it."""

    def __init__(self, number: int, raw: sqlite3.Connection, process: Process | None) -> None:
        self.number = number
        self.process = process
        self.changes = False
        """Whether its transaction has changed messages or acknowledgements."""
        self.claims = False
        """Whether its transaction has changed claims."""
        self.asked_ms = 0
        """The time by the server's clock at its last question about it."""
        self.raw = raw
        self.cursor = raw.cursor()
        self.late: tuple[str, Sequence[Any]] | None = None
        """A statement that was sent, and whose answer nobody waits for."""
        self.behind: list[SentAhead] = []
        """What was sent behind the statement that is under way."""
        self.is_open = True


class Server:
    """A database of one worker process, in a file in memory; each seed finds it as new.

    One ``is_local`` is on the machine of the only process that uses it, and ends with it.
    """

    def __init__(self, *, is_local: bool = False) -> None:
        self.is_local = is_local
        memory = Path("/dev/shm")  # noqa: S108
        self.folder = Path(
            tempfile.mkdtemp(prefix="jdbcstore-simulation-", dir=memory if memory.is_dir() else None)
        )
        self._owner = os.getpid()
        self.file = self.folder / "messages.db"
        self.url = f"sqlite:///{self.file}"
        self._idle: list[sqlite3.Connection] = []
        self.scheduler: Scheduler | None = None
        self.sessions: dict[int, ServerSession] = {}
        self._count = 0
        self.offset_ms = 0
        """How far the server's clock is ahead."""
        self.down_until = 0.0
        self.faults = 0
        self.is_calm = False
        """Whether all statements are quick."""
        self._waiting: list[Task] = []
        """Those that another's transaction keeps from writing."""
        self.on_change: Callable[[Process], None] | None = None
        """Called when messages or acknowledgements have changed, with the process that did it."""
        self.on_claims: Callable[[ServerSession], None] | None = None
        """Called when claims have changed, with the session that did it."""
        self.on_late: Callable[[Process], None] | None = None
        """Called when a commit is left under way, with the process that has sent it."""
        self.on_commit: Callable[[Process], None] | None = None
        """Called after each commit, with the process that made it."""
        config = StoreConfig(cleanup_period=0)
        JdbcStore(self.url, config).close()
        with closing(self.opened()) as raw:
            unclaimed = _rows(raw)
        with Claims(self.url, config) as claims:
            claims.queue("Q").flow.pause()
            claims.queue("Q").flow.resume()
            for name in ("Q", "R"):
                Routing(claims, grace=30.0).declare_queue(name, None, None)
            claims.database.session.prepare_outbox()
        self._raw = self.opened()
        self._raw.execute("DELETE FROM JDBCSTORE_STATE WHERE NAME = 'flow'")
        self._baselines = {False: unclaimed, True: _rows(self._raw)}
        for table in self._baselines[True]:
            self._baselines[False].setdefault(table, [])

    def opened(self) -> sqlite3.Connection:
        """Return a connection that takes no time and has no faults."""
        # Nobody else has the file: its locks are in this process's memory, and cost no system calls.
        raw = sqlite3.connect(
            f"{self.file.as_uri()}?vfs=unix-excl",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=500,
        )
        raw.execute("PRAGMA journal_mode=WAL")
        raw.execute("PRAGMA synchronous=OFF")
        # No time passes within a statement: it is asked once.
        raw.create_function("simulated_ms", 0, self.now_ms, deterministic=True)
        return raw

    def now_ms(self) -> int:
        """Return the time by the server's clock."""
        now = 1000.0 if self.scheduler is None else self.scheduler.now
        return EPOCH_MS + round(now * 1000) + self.offset_ms

    def begin(self, scheduler: Scheduler, *, claimed: bool) -> None:
        """Start with the tables as they are when they were just created."""
        for session in [*self.sessions.values()]:
            self.end(session)
        self.scheduler = scheduler
        self.offset_ms, self.down_until, self._count, self.faults = 0, 0.0, 0, 0
        self.is_calm = False
        self._waiting.clear()
        self.clear(claimed=claimed)

    def clear(self, *, claimed: bool = False) -> None:
        """Have the tables as they are when they were just created."""
        self._raw.execute("BEGIN IMMEDIATE")
        for table, rows in self._baselines[claimed].items():
            self._raw.execute(f'DELETE FROM "{table}"')
            if rows:
                values = ", ".join("?" * len(rows[0]))
                self._raw.executemany(f'INSERT INTO "{table}" VALUES ({values})', rows)
        self._raw.execute("COMMIT")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return what is committed."""
        return self._raw.execute(sql).fetchall()

    def fill(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Change something behind the back of all processes."""
        while True:
            try:
                self._raw.executemany(sql, rows)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                current().sleep(_BUSY_PAUSE)
            else:
                return

    def open(self, process: Process | None) -> ServerSession:
        """Begin a session."""
        self._count += 1
        raw = self._idle.pop() if self._idle else self.opened()
        session = self.sessions[self._count] = ServerSession(self._count, raw, process)
        return session

    def see(self, session: ServerSession, sql: str) -> None:
        """Take note of a statement that took effect."""
        kind = kind_of(sql)
        if kind.changes:
            session.changes = True
        if kind.claims:
            session.claims = True
        if kind.asks_time:
            session.asked_ms = self.now_ms()
        if session.raw.in_transaction:
            return
        self.wake()
        if session.claims:
            session.claims = False
            if self.on_claims is not None:
                self.on_claims(session)
        if self.on_commit is not None and session.process is not None and (kind.is_commit or kind.writes):
            self.on_commit(session.process)
        if session.changes:
            session.changes = False
            if self.on_change is not None and session.process is not None:
                self.on_change(session.process)

    def roll_back(self, session: ServerSession) -> None:
        """Roll back the transaction of a session."""
        session.raw.rollback()
        session.changes = session.claims = False
        self.wake()

    def end(self, session: ServerSession) -> None:
        """End a session: what it has not committed is rolled back."""
        if not session.is_open:
            return
        session.is_open, session.late = False, None
        if session.raw.in_transaction:
            session.raw.rollback()
        self.wake()
        self.sessions.pop(session.number, None)
        self._idle.append(session.raw)

    def wait(self, end: float) -> None:
        """Wait until a transaction has ended, or until this time."""
        scheduler = current()
        self._waiting.append(scheduler.current)
        scheduler.block(end)

    def wake(self) -> None:
        """Let those that wait for the lock try again, one after the other."""
        if self._waiting:
            scheduler = current()
            waiting, self._waiting = self._waiting, []
            for task in waiting:
                scheduler.wake(task, scheduler.now + _BUSY_PAUSE * scheduler.chance.random())

    def leave(self, session: ServerSession, sql: str, values: Sequence[Any]) -> None:
        """Let a statement take effect later, whose client is gone."""
        scheduler = current()
        session.late = sql, values
        delay = scheduler.chance.random() ** 2 * _LATEST
        Task(self._finish, (session, scheduler.now + delay), process=scheduler.machine).start()
        if self.on_late is not None and session.process is not None:
            self.on_late(session.process)

    def _finish(self, session: ServerSession, at: float) -> None:
        scheduler = current()
        while True:
            scheduler.sleep(at - scheduler.now)
            if session.late is None:
                return
            try:
                session.cursor.execute(*session.late)
                self.see(session, session.late[0])
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                    at = scheduler.now + _BUSY_PAUSE
                    continue
            except sqlite3.DatabaseError:
                pass
            for sent in session.behind:
                sent.take_late()
            session.late = None
            self.end(session)
            return

    def has_late(self) -> bool:
        """Return whether something may take effect later."""
        return any(session.late is not None for session in self.sessions.values())

    def restart(self, seconds: float) -> None:
        """Go down, for so long: all transactions are rolled back."""
        self.down_until = current().now + seconds
        for session in [*self.sessions.values()]:
            self.end(session)

    def kill(self, process: Process) -> None:
        """See the end of a process: what it has sent may take effect, the rest is rolled back."""
        chance = current().chance
        for connection in connections_of(process):
            if connection.server is not self:
                continue
            sent, session = connection.sent, connection.session
            if sent is not None and session.is_open and chance.random() < 0.5:
                if self.is_local:
                    self._take_last(session, *sent)
                else:
                    self.leave(session, *sent)
            elif session.late is None:
                self.end(session)

    def _take_last(self, session: ServerSession, sql: str, values: Sequence[Any]) -> None:
        """Let the last statement of a process take effect, if it does not have to wait."""
        with suppress(sqlite3.DatabaseError):
            session.cursor.execute(sql, values)
            self.see(session, sql)
        self.end(session)

    def close(self) -> None:
        """Remove the files."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.folder, ignore_errors=True)


def _rows(raw: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    tables = raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name: raw.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables}


_servers: list[Server] = []


def server() -> Server:
    """Return the server of this worker process, or the first one."""
    return _servers[0]


def server_at(url: str) -> Server | None:
    """Return the server with a URL; None if that is a file of its own."""
    return next((one for one in _servers if one.url == url), None)


def use(*servers: Server) -> None:
    """Let connections go to these servers."""
    _servers[:] = servers


_connections: list[SimulatedConnection] = []


def connections_of(process: Process) -> list[SimulatedConnection]:
    """Return a process's connections, and forget those that are closed."""
    _connections[:] = [one for one in _connections if not one.is_closed]
    return [one for one in _connections if one.process is process]


def forget_connections() -> None:
    """Forget those of an earlier seed."""
    _connections.clear()


class SimulatedConnection:
    """A connection of a process to a server, as the driver has it."""

    def __init__(self, here: Server | None = None) -> None:
        self.process = current_process()
        self.server = here = here or server()
        _check_reachable(here, self.process)
        self.session = here.open(self.process)
        self.raw = self.session.raw
        self.is_lost = self.is_closed = False
        self.lock_wait = _LOCK_WAIT
        self.sent: tuple[str, Sequence[Any]] | None = None
        """A statement that commits, on its way to the server."""
        _connections.append(self)

    def cursor(self) -> SimulatedCursor:
        return SimulatedCursor(self)

    def lose(self) -> Disconnected:
        self.is_lost = True
        return Disconnected("the connection was lost")

    def check(self) -> None:
        """Check that the server can be reached over this connection.

        :raises Disconnected: it is lost, or the server does not answer
        """
        process = self.process
        if self.is_lost or self.is_closed or not self.session.is_open or process.is_dead:
            raise self.lose()
        _check_reachable(self.server, process)

    def commit(self) -> None:
        if self.raw.in_transaction and not self.is_lost:
            self.cursor().execute("COMMIT")

    def rollback(self) -> None:
        if not self.is_lost and self.session.is_open and self.raw.in_transaction:
            self.server.roll_back(self.session)

    def interrupt(self) -> None:
        """Nothing is interrupted: a statement takes a bounded time here."""

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            if self.session.late is None:
                self.server.end(self.session)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> SimulatedCursor:
        cursor = self.cursor()
        cursor.execute(sql, values)
        return cursor

    def create_function(self, *_: Any, **_options: Any) -> None:
        """SQLAlchemy's functions are not used."""

    def getlimit(self, category: int) -> int:
        return self.raw.getlimit(category)

    @property
    def in_transaction(self) -> bool:
        return self.raw.in_transaction


class ApplicationConnection(SimulatedConnection):
    """A connection of the application's, in a transaction that it has begun."""

    __module__ = "sqlite3.simulated"
    """Of the driver that the product expects."""
    isolation_level: ClassVar[None] = None


@contextmanager
def application_transaction() -> Iterator[ApplicationConnection]:
    """Run a block in a transaction of the application's, committed at its end.

    :raises OutcomeUnknown: the connection was lost during the commit
    :raises StoreUnavailable: it failed otherwise, and nothing was written
    """
    connection, is_committing = None, False
    try:
        connection = ApplicationConnection()
        connection.execute("BEGIN")
        yield connection
        is_committing = True
        connection.commit()
    except Disconnected as error:
        raise OutcomeUnknown if is_committing else StoreUnavailable("the connection is lost") from error
    except sqlite3.OperationalError as error:
        raise StoreUnavailable("others are in the way") from error
    finally:
        if connection is not None and not connection.process.is_dead:
            connection.rollback()
            connection.close()


class SimulatedCursor:
    """A cursor, whose results are fetched at once, as those of most drivers."""

    arraysize = 1

    def __init__(self, connection: SimulatedConnection) -> None:
        self.connection = connection
        self._rows: list[Any] = []
        self._position = 0
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: Any = None

    def execute(self, sql: str, values: Sequence[Any] = ()) -> SimulatedCursor:
        self._run(sql, values, many=False)
        return self

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> SimulatedCursor:
        self._run(sql, rows, many=True)
        return self

    def _run(self, sql: str, values: Sequence[Any], *, many: bool) -> None:
        connection, here = self.connection, self.connection.server
        scheduler = here.scheduler
        if scheduler is None:
            self._take(sql, values, many=many)
            return
        kind = kind_of(sql)
        if kind.is_rollback:
            connection.rollback()
            return
        chance = scheduler.chance.random()
        if not (kind.is_commit or (kind.writes and not connection.raw.in_transaction)):
            if chance < 0.6:
                scheduler.sleep(_latency(chance, is_calm=here.is_calm))
            connection.check()
            self._take_in_turn(sql, values, many=many)
            return
        connection.sent = sql, values
        try:
            scheduler.sleep(_latency(chance, is_calm=here.is_calm))
            connection.check()
            fault = connection.process.faults
            if fault:
                here.faults += 1
                self._fail(fault.popleft(), sql, values, many=many)
            self._take_in_turn(sql, values, many=many)
            connection.sent = None
            if chance < 0.5:
                scheduler.sleep(_latency(scheduler.chance.random(), is_calm=here.is_calm))  # the answer
                connection.check()
        finally:
            if not connection.process.is_dead:
                connection.sent = None

    def _fail(self, fault: str, sql: str, values: Sequence[Any], *, many: bool) -> None:
        connection, here = self.connection, self.connection.server
        assert connection.sent is not None
        if fault == "busy":
            raise Busy("database is locked")
        if fault == "unknown":
            self._take_in_turn(sql, values, many=many)
            here.end(connection.session)
        elif fault == "late":
            here.leave(connection.session, *connection.sent)
        else:
            here.end(connection.session)
        raise connection.lose()

    def _take_in_turn(self, sql: str, values: Sequence[Any], *, many: bool) -> None:
        connection, end = self.connection, 0.0
        while True:
            try:
                self._take(sql, values, many=many)
                connection.server.see(connection.session, sql)
            except sqlite3.OperationalError as error:
                scheduler = current()
                end = end or scheduler.now + connection.lock_wait
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or scheduler.now >= end:
                    raise
            else:
                return
            connection.server.wait(end)
            connection.check()

    def _take(self, sql: str, values: Sequence[Any], *, many: bool) -> None:
        cursor = self.connection.session.cursor
        if many:
            cursor.executemany(sql, values)
        else:
            cursor.execute(sql, values)
        self.description = cursor.description
        self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        self._rows = cursor.fetchall() if self.description is not None else []
        self._position = 0

    def fetchall(self) -> list[Any]:
        rows = self._rows[self._position :] if self._position else self._rows
        self._position = len(self._rows)
        return rows

    def fetchmany(self, size: int = 1) -> list[Any]:
        rows = self._rows[self._position : self._position + size]
        self._position += len(rows)
        return rows

    def fetchone(self) -> Any:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def close(self) -> None:
        self._rows = []


def _latency(chance: float, *, is_calm: bool) -> float:
    """Return the seconds of one way; seldom they are many."""
    if chance < 0.97 or is_calm:
        return chance * 0.004
    if chance < 0.995:
        return (chance - 0.97) * 10
    return (chance - 0.995) * 300


def _is_unreachable(connection: SimulatedConnection) -> bool:
    try:
        connection.check()
    except Disconnected:
        return True
    return False


def _check_reachable(here: Server, process: Process) -> None:
    scheduler = here.scheduler
    if scheduler is not None and (scheduler.now < here.down_until or scheduler.now < process.cut_until):
        raise Disconnected("the server does not answer")


class LateCursor(SimulatedCursor):
    """A cursor of the server's own: what it executes was sent by a client that is gone."""

    def _run(self, sql: str, values: Sequence[Any], *, many: bool) -> None:
        session, here = self.connection.session, self.connection.server
        while True:
            current().sleep(_latency(current().chance.random(), is_calm=True))
            if not session.is_open:
                raise Disconnected("the session was ended")
            try:
                self._take(sql, values, many=many)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
            else:
                here.see(session, sql)
                return


class SentAhead(SentWrite):
    """A batch that the server takes after the one before it, without the client."""

    def __init__(self, write: Callable[[Any], None], cursor: SimulatedCursor, before: Any) -> None:
        self._write, self._before = write, before
        self._following: SentAhead | None = None
        if before is not None:
            before._following = self
        self._connection = self.line = cursor.connection
        self._failure: Exception | None = None
        self.is_done = self.has_failed = False
        self.is_flushed = True
        self._connection.session.behind.append(self)
        self._task = Task(self._take)
        self._task.start()

    def _take(self) -> None:
        connection, session = self._connection, self._connection.session
        try:
            if self._before is not None:
                self._before._task.join()
            if session.late is None and session.is_open and _is_unreachable(connection):
                connection.server.leave(session, "SELECT 1", ())  # it is there already
            connection.check()
            session.behind.remove(self)
            self._write(connection.cursor())
        except Exception as error:
            self._failure = error
            connection.rollback()
        else:
            self.is_done = True

    def take_late(self) -> None:
        """Take effect after the client has gone."""
        with suppress(StoreError, sqlite3.DatabaseError):
            self._write(LateCursor(self._connection))
        session = self._connection.session
        if session.is_open and session.raw.in_transaction:
            self._connection.server.roll_back(session)

    def finish(self) -> None:
        self._task.join()
        if self._failure is not None:
            if self._following is not None:
                self._following._task.join()
            raise self._failure

    def _send(self) -> bool:
        return True

    def _receive(self) -> int | None:
        return None


class SimulatedWriting(SqliteWriting):
    """SQLite's, of a server to which a batch can be sent before the one before it is answered."""

    sends_ahead = True

    def send_ahead(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards, before: Any
    ) -> SentWrite:
        return SentAhead(lambda cursor: self.write(cursor, statements, batch, guards), cursor, before)


class SimulatedControl(SqliteControl):
    """Of a server that has sessions, and can end them, as PostgreSQL and MySQL can."""

    def limit_lock_wait(self, seconds: float) -> None:
        self._cursor.connection.lock_wait = seconds

    @property
    def _server(self) -> Server:
        return cast(Server, self._cursor.connection.server)

    def identify(self) -> Row | None:
        return (self._cursor.connection.session.number, self._server.url)

    def has_session(self, session: Row) -> bool:
        self._cursor.execute("SELECT 1")
        return session[0] in self._server.sessions

    def end_session(self, session: Row) -> None:
        self._cursor.execute("SELECT 1")
        found = self._server.sessions.get(session[0])
        if found is not None:
            self._server.end(found)


class SimulatedAdapter(SqliteAdapter):
    """SQLite's, with the simulated server and its clock."""

    control = SimulatedControl
    notifies = False
    now_ms = "simulated_ms()"
    in_files: ClassVar[bool] = False

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {"creator": partial(SimulatedConnection, server_at(str(url)))}

    def lock_directory(self, url: URL) -> str | None:  # noqa: ARG002
        return None

    def on_connect(self, connection: Any) -> None:
        """The server does what is needed."""

    def classify(self, error: BaseException) -> Failure:
        if isinstance(error, Disconnected):
            return Failure.DISCONNECTED
        return super().classify(error)


class PipelinedAdapter(SimulatedAdapter):
    """The same, of a server that has two batches of a session under way."""

    writing = SimulatedWriting()


class SimulatedSession(DatabaseSession):
    """A session that is opened once, and used by one store after the other: opening takes longest."""

    def renew(self) -> None:
        """Forget what an earlier store has left."""
        self._lock = cast("threading.RLock", RLock() if server().scheduler else threading.RLock())
        self._readers = {}
        self._closed = False
        self._mains.clear()


class Sessions:
    """The sessions of one worker process, by configuration."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, StoreConfig], list[SimulatedSession]] = {}
        self._used: list[tuple[str, SimulatedSession]] = []
        self._local: list[Server] = []

    def of_machines(self, count: int) -> list[Server]:
        """Return databases, each of another machine."""
        while len(self._local) < count:
            self._local.append(Server(is_local=True))
        return self._local[:count]

    def close(self) -> None:
        """Remove the databases of machines."""
        for server in self._local:
            server.close()

    def open(self, url: str, config: StoreConfig, **options: Any) -> DatabaseSession:
        """Return a session as of a store that is just opened; of a file that is no server's, a real one."""
        here = server_at(url)
        if here is None:
            return DatabaseSession(url, config, **options)
        idle = self._idle.setdefault((url, config), [])
        if idle:
            session = idle.pop()
        else:
            before, here.scheduler = here.scheduler, None
            try:
                # Nothing of this seed: the next one finds the session opened.
                session = SimulatedSession(url, config, **options)
                session.engine.dispose()
            finally:
                here.scheduler = before
        session.renew()
        self._used.append((url, session))
        return session

    def begin(self) -> None:
        """Take back all: their stores are gone."""
        for url, session in self._used:
            session.engine.dispose()
            self._idle[url, session.config].append(session)
        self._used.clear()
