"""PostgreSQL through psycopg 3: a batch is one prepared statement in one round trip.

The columns of a batch are sent as arrays, and those of a very large one in parts, within a transaction. COPY
is a tenth faster for a thousand rows, slower for fewer than fifty, and takes one more round trip. The
statements run through psycopg's libpq wrapper, which lets other threads run until the commit is acknowledged;
a cursor would often wait for the interpreter's lock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from sqlalchemy import URL, Insert, Select, Table
from sqlalchemy.dialects.postgresql import BYTEA, insert
from sqlalchemy.types import TypeEngine

from jdbcstore.config.statements import Template
from jdbcstore.database.adapters import libpq
from jdbcstore.database.adapters.adbc import record_batches
from jdbcstore.database.adapters.base import CROWDED, Adapter, Failure, TransactionState
from jdbcstore.database.adapters.codes import POSTGRESQL, failure_of
from jdbcstore.database.adapters.control import Notifier, ServerControl
from jdbcstore.database.adapters.engines import POSTGRESQL as POSTGRESQL_ENGINES
from jdbcstore.database.adapters.engines import EngineFacts
from jdbcstore.database.adapters.postgresql_health import PostgresqlHealth
from jdbcstore.database.adapters.postgresql_writing import PostgresqlWriting, UnpreparedWriting
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.adapters.urls import host_and_port
from jdbcstore.errors import ConfigurationError
from jdbcstore.util.server_view import PRIMARY, STANDBY, ServerView

# However large the table: a destination unknown to the statistics is sorted for each of its pages.
_IS_STALE = (
    "SELECT n_mod_since_analyze > LEAST(1000 + n_live_tup / 5, 20000)"
    " FROM pg_stat_user_tables WHERE relid = to_regclass(%s)"
)
_SEEN = (
    "t.relname IN :names AND t.relkind IN ('r', 'p', 'f') AND t.relpersistence <> 't'"
    " AND pg_catalog.pg_table_is_visible(t.oid)"
)
_DESCRIBED = (
    "SELECT name, part, is_index FROM ("  # noqa: S608 - of constants
    # XID of ActiveMQ 5.7 and 5.8, which is binary, is as good as none.
    "SELECT t.relname AS name, c.attname || CASE WHEN lower(c.attname) = 'xid'"
    " AND c.atttypid = 'pg_catalog.bytea'::pg_catalog.regtype THEN ' (binary)' ELSE '' END AS part,"
    " FALSE AS is_index, c.attnum AS place"
    " FROM pg_catalog.pg_class t JOIN pg_catalog.pg_attribute c ON c.attrelid = t.oid"
    f" WHERE {_SEEN} AND c.attnum > 0 AND NOT c.attisdropped"
    " UNION ALL SELECT t.relname, i.relname, TRUE, 0 FROM pg_catalog.pg_class t"
    " JOIN pg_catalog.pg_index x ON x.indrelid = t.oid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid"
    f" WHERE {_SEEN}) AS described ORDER BY place"
)
_PORT = 5432
_SHORTEST_CONNECT = 2
"""The shortest ``connect_timeout`` that libpq takes, in seconds."""
_LONGEST_KEEPALIVE = 32_767
"""The most seconds between keepalives that Linux takes."""


_SESSION = "SELECT pid, backend_start, pg_postmaster_start_time() FROM pg_stat_activity WHERE pid = "
_WRITING = r"""SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user
AND pid <> pg_backend_pid() AND state = 'active' AND query_start < %s
AND query ~* '^\s*(insert|update|delete|with|commit)'"""
_TURN = """SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))
FROM (SELECT set_config('lock_timeout', '1s', true) OFFSET 0) AS patience"""
_IN_ORDER = """SELECT set_config(name, 'off', false) FROM pg_settings WHERE name IN
('enable_sort', 'enable_incremental_sort', 'enable_bitmapscan', 'enable_seqscan',
 'jit')"""


_FACTS = (
    "version(), current_setting('server_version'), CAST(pg_is_in_recovery() AS TEXT),"
    " CAST(pg_backend_pid() AS TEXT), CAST(to_regproc('aurora_version') AS TEXT)"
)
_FACT_NAMES = ("version", "server_version", "is_standby", "pid", "aurora")


class PostgresqlControl(ServerControl):
    """Of PostgreSQL."""

    _asked: Any = None
    """When it was first asked for a session behind a pooler, by the server's clock."""

    def limit_lock_wait(self, seconds: float) -> None:
        self._cursor.execute(f"SET lock_timeout = {max(1, round(seconds * 1000))}")

    def limit_silence(self, seconds: float) -> None:
        self._cursor.execute(f"SET idle_in_transaction_session_timeout = {max(1, round(seconds * 1000))}")
        # For a host that has vanished, which the server would not notice.
        self._cursor.execute(f"SET tcp_keepalives_idle = {max(1, round(seconds / 3))}")
        self._cursor.execute(f"SET tcp_keepalives_interval = {max(1, round(seconds / 3))}")
        self._cursor.execute("SET tcp_keepalives_count = 2")

    def identify(self) -> Row | None:
        self._cursor.execute(f"{_SESSION}pg_backend_pid()")
        row: Row | None = self._cursor.fetchone()
        if row is None or row[0] == self._cursor.connection.info.backend_pid:
            return row
        # A pooler has numbers of its own: the server's session may serve others by then.
        return None, None, row[-1]

    def has_session(self, session: Row) -> bool:
        if session[0] is None:
            if self._asked is None:
                self._cursor.execute("SELECT clock_timestamp()")
                [(self._asked,)] = self._cursor.fetchall()
            self._cursor.execute(_WRITING, (self._asked,))
            is_writing = bool(self._cursor.fetchall())
            if not is_writing:
                self._asked = None
            return is_writing
        self._cursor.execute(f"{_SESSION}%s", session[:1])
        return session in self._cursor.fetchall()

    def end_session(self, session: Row) -> None:
        if session[0] is not None:
            self._cursor.execute("SELECT pg_terminate_backend(CAST(%s AS INTEGER))", session[:1])

    def raise_sequence(self, sequence: str, number: int) -> None:
        below = f"SELECT last_value FROM {sequence}"  # noqa: S608
        self._cursor.execute(f"SELECT setval('{sequence}', %s) WHERE ({below}) < %s", (number, number))

    def read_in_order(self) -> None:
        # It counts no removed rows: behind many, a queue that is nearly empty would be read and sorted.
        self._cursor.execute(_IN_ORDER)
        # With these the plan is the same for all parameters, and planning takes longer than the claim.
        self._cursor.execute("SET plan_cache_mode = force_generic_plan")
        self._cursor.connection.prepare_threshold = 0

    def query_in_turn(self, name: str, text: str, row: Row) -> bool:
        from psycopg import errors

        connection = self._cursor.connection
        try:
            # Sent together, and so in one transaction: the second begins to see once the first has the lock.
            with libpq.Answering(connection), connection.pipeline():
                self._cursor.execute_untimed(_TURN, (name,))
                self._cursor.execute_untimed(text, row)
        except errors.LockNotAvailable:
            # The holder may be sending rows to a stopped process, for example.
            self._cursor.execute(text, row)
            return False
        return True

    def wait_replicated(self) -> None:
        # A commit that is cancelled while it waits for a standby becomes visible.
        libpq.wait_replicated(self._cursor.connection)


class PostgresqlNotifier(Notifier):
    """LISTEN and NOTIFY."""

    def listen(self, channel: str) -> None:
        self._connection.execute(f'LISTEN "{channel}"')

    def received(self, channel: str, seconds: float) -> list[str]:  # noqa: ARG002
        return [
            notification.payload for notification in self._connection.notifies(timeout=seconds, stop_after=1)
        ]

    def send(self, channel: str, payload: str) -> None:
        # The commit of a notification would wait for the disk, and for a standby.
        relaxed = "set_config('synchronous_commit', 'off', true)"
        self._connection.execute(f"SELECT pg_notify(%s, %s) FROM {relaxed}", (channel, payload))  # noqa: S608


# A notification makes commits wait for each other: it is sent only if the movers may be asleep. While another
# row waits, they find a new one soon, because they look again soon after each row. Only the newest is read: a
# scan for any passes all rows that were removed. The application has no right to read the table.
_WAKING_FUNCTION = """\
CREATE FUNCTION "{name}_wake"() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_waiting boolean;
    place text := current_database() || '/{messages}';
BEGIN
    EXECUTE 'SELECT "error" IS NULL FROM ' || TG_RELID::regclass || ' ORDER BY "id" DESC LIMIT 1'
    INTO is_waiting;
    IF is_waiting IS NOT TRUE THEN
        place := left(encode(sha256(convert_to(place, 'UTF8')), 'hex'), 16);
        PERFORM pg_notify('jdbcstore_' || place, '+outbox');
    END IF;
    RETURN NULL;
END $$"""
_WAKING_TRIGGER = """\
CREATE TRIGGER "{name}_wake" BEFORE INSERT ON "{name}"
FOR EACH STATEMENT EXECUTE FUNCTION "{name}_wake"()"""


class PostgresqlAdapter(Adapter):
    """PostgreSQL 12 and later. Unquoted names fold to lower case, as a real ActiveMQ leaves them."""

    name = "postgresql"
    drivers: ClassVar = {"postgresql+psycopg": ("psycopg", "postgresql")}
    jdbc_subprotocols = ("postgresql",)
    writing = PostgresqlWriting()
    control = PostgresqlControl
    health = PostgresqlHealth
    notifier = PostgresqlNotifier
    refreshes_statistics = True
    limit_clause = "LIMIT"
    fold_upper = False
    acks_key_has_priority = False
    acks_key_is_named = True
    drop_acks_key = "DROP CONSTRAINT {name}"
    joins_alterations = True
    takes_arrays = True
    shares_queues = True
    drops_if_exists = True
    chains_writes = True
    row_version = "xmin"
    row_place = "ctid"
    series = "generate_series(1, 256)"
    sequence_grant = "GRANT USAGE, SELECT, UPDATE ON SEQUENCE {sequence} TO {user}"
    last_number = "last_value"
    notifies = True
    can_forbid_null = True
    owner_grants = ("GRANT USAGE, CREATE ON SCHEMA public TO {owner}",)
    transactional_ddl = True
    # SQLAlchemy's inspection takes two thirds of the time in which a store is opened.
    described = _DESCRIBED
    lock_migrations = "SELECT pg_advisory_xact_lock(hashtext('jdbcstore'), hashtext(current_schema()))"
    now_ms = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    binary_type: ClassVar[TypeEngine[Any]] = BYTEA()
    outbox_trigger = (_WAKING_FUNCTION, _WAKING_TRIGGER)
    outbox_trigger_end = 'DROP FUNCTION IF EXISTS "{name}_wake"()'
    max_blob = 1024**3 - 64 * 1024
    engines = POSTGRESQL_ENGINES

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        url = super().url_from_jdbc(text)  # no host means this machine: Java does not use Unix sockets
        return url if url.host or "host" in url.query else url.set(host="localhost")

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        # Queries are not prepared: a generic plan would scan past a million messages of other queues.
        return {
            "paramstyle": "format",
            "connect_args": {
                "autocommit": True,
                "prepare_threshold": None,
                "connect_timeout": 10,
                # The encoding of the arrays of a batch, regardless of the database's.
                "client_encoding": "utf8",
            },
        }

    def on_connect(self, connection: Any) -> None:
        # psycopg picks the smallest type that fits, and each combination would be prepared again.
        from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        for loader in libpq.integer_loaders():
            connection.adapters.register_loader("numeric", loader)
        for loader in libpq.char_loaders():
            connection.adapters.register_loader("bpchar", loader)
        self._set_session(connection)
        libpq.note_cancelled_waits(connection)

    def _set_session(self, connection: Any) -> None:
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.execute("SET synchronous_commit = on")

    def hosts(self, url: URL) -> list[tuple[str, int]]:
        named = url.query.get("host", ())
        is_of_libpq = "target_session_attrs" in url.query or any(host.startswith("/") for host in named)
        if isinstance(named, str) or is_of_libpq:
            return []
        return [host_and_port(host, _PORT) for host in named]

    def accepts_writes(self, connection: Any) -> bool:
        [(only,)] = connection.execute("SHOW transaction_read_only").fetchall()
        return bool(only == "off")

    def variables(self, connection: Any) -> dict[str, str | None]:
        names = [name for engine in self.engines for name in engine.signs if "." in name]
        given = ", ".join(f"current_setting('{name}', true)" for name in names)
        [row] = connection.execute(f"SELECT {_FACTS}, {given}").fetchall()
        return dict(zip((*_FACT_NAMES, *names), row, strict=True))

    def view(
        self, connection: Any, engine: EngineFacts | None, variables: Mapping[str, str | None]
    ) -> ServerView:
        said = variables["version"] or ""
        is_pooled = variables["pid"] != str(connection.info.backend_pid) and _shares_sessions(connection)
        return ServerView(
            engine=said.partition(" on ")[0] if engine is None else engine.name,
            version="" if engine is None else variables["server_version"] or "",
            role=PRIMARY if variables["is_standby"] == "false" else STANDBY,
            keeps_sessions=not is_pooled,
            is_tested=engine is not None and engine.is_tested,
        )

    def of_server(self, connection: Any) -> PostgresqlAdapter:
        known = super().of_server(connection)
        if known.server is None or known.server.keeps_sessions:
            return known
        pooled = PooledPostgresqlAdapter()
        vars(pooled).update(vars(known))
        return pooled

    def cursor(self, connection: Any) -> Any:
        return libpq.numbering_cursor()(connection)

    def plain_cursor(self, connection: Any) -> Any:
        from psycopg.rows import tuple_row

        return connection.cursor(row_factory=tuple_row)

    def transaction_state(self, connection: Any) -> TransactionState:
        from psycopg.pq import TransactionStatus

        if connection.closed:
            return TransactionState.CLOSED
        status = connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            return TransactionState.FAILED
        if status == TransactionStatus.IDLE and connection.autocommit:
            return TransactionState.AUTOCOMMIT
        return TransactionState.OPEN

    def arrow_batches(
        self, connection: Any, first: Sequence[str], query: str, values: Any, size: int
    ) -> AbstractContextManager[Iterable[Any] | None]:
        return record_batches(connection, first, query, values, size)

    def copied(self, cursor: Any, query: str, values: Any) -> AbstractContextManager[Iterable[Any]]:
        copy: AbstractContextManager[Iterable[Any]] = cursor.copy(
            f"COPY ({query}) TO STDOUT (FORMAT BINARY)", values
        )
        return copy

    def insert_once(self, table: Table) -> Insert:
        return insert(table).on_conflict_do_nothing()

    def shared(self, query: Select[Any]) -> Select[Any]:
        return query.with_for_update(read=True)

    def limit_query(self, connection: Any, seconds: float) -> None:
        connection.execute(f"SET statement_timeout = {max(1, round(seconds * 1000))}")

    def abort(self, connection: Any) -> None:
        libpq.abort(connection)

    def network_arguments(self, url: URL, seconds: float) -> dict[str, Any]:  # noqa: ARG002
        # With these the kernel detects a host that has vanished.
        probing = min(max(1, round(seconds / 3)), _LONGEST_KEEPALIVE)
        return {
            "connect_timeout": min(10, max(_SHORTEST_CONNECT, math.ceil(seconds))),
            "tcp_user_timeout": max(1, round(seconds * 1000)),
            "keepalives_idle": probing,
            "keepalives_interval": probing,
            "keepalives_count": 2,
        }

    def limit_answers(self, connection: Any, seconds: float) -> None:
        connection.cursor_factory = libpq.timed_cursor()
        connection.answer_timeout = seconds

    def check_statement(self, cursor: Any, template: Template, *, reads: bool) -> int | None:  # noqa: ARG002
        from psycopg import errors, pq

        line = cursor.connection.pgconn
        text = template.render(lambda number, _: f"${number}").encode()
        for result in (line.prepare(b"", text), line.describe_prepared(b"")):
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise errors.error_from_result(result)
        return int(result.nfields)

    def classify(self, error: BaseException) -> Failure:
        state = getattr(error, "sqlstate", None)
        return _classify_unnumbered(error) if state is None else POSTGRESQL.get(state) or failure_of(state)

    def advice(self, error: BaseException) -> str:
        state = getattr(error, "sqlstate", None)
        if state == _CROWDED or (state is None and any(text in str(error) for text in _TOO_MANY)):
            return CROWDED
        return super().advice(error)

    def refresh_statistics(self, cursor: Any, table: str, *, changed: bool) -> None:
        # For a table analysed while it was empty, every page would sort the whole queue.
        cursor.execute(_IS_STALE, (f'"{table}"',))
        if changed or cursor.fetchone() == (True,):
            # It needs the same lock as a VACUUM, which may run for hours, and analyses as well.
            cursor.execute(f'ANALYZE (SKIP_LOCKED) "{table}"')


class PooledControl(PostgresqlControl):
    """Of PostgreSQL behind a pooler: a limit would be in effect for the next client of the session."""

    def limit_lock_wait(self, seconds: float) -> None:
        pass

    def limit_silence(self, seconds: float) -> None:
        pass


class PooledPostgresqlAdapter(PostgresqlAdapter):
    """PostgreSQL behind a pooler in transaction mode: nothing is set or kept in a session."""

    writing = UnpreparedWriting()
    control = PooledControl

    def _set_session(self, connection: Any) -> None:
        for name, (needed, *others) in _NEEDED.items():
            [(value,)] = connection.execute(f"SHOW {name}").fetchall()
            if value not in (needed, *others):
                raise ConfigurationError(
                    f"{name} is {value} behind this pooler, where it cannot be set for a session: set it to"
                    f" {needed} for the user, with ALTER ROLE",
                    option="url",
                )

    def limit_query(self, connection: Any, seconds: float) -> None:
        pass


_NEEDED = {"transaction_isolation": ("read committed",), "synchronous_commit": ("on", "remote_apply")}
"""Settings of a session, and the values with which the store keeps its promises."""


def _number_of(connection: Any) -> int:
    [(number,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    return int(number)


def _shares_sessions(connection: Any) -> bool:
    """Return whether a transaction of another connection takes the session that this one has used."""
    number = _number_of(connection)
    info = connection.info
    with type(connection).connect(info.dsn, password=info.password) as other:
        other.cursor_factory = connection.cursor_factory
        other.answer_timeout = getattr(connection, "answer_timeout", None)
        return _number_of(other) == number or _number_of(connection) != number


_CROWDED = "53300"
_TOO_MANY = ("too many connections", "too many clients", "connection slots are reserved")
"""Texts of that error while a connection is being opened, when it has no SQLSTATE."""


def _classify_unnumbered(error: BaseException) -> Failure:
    import psycopg

    if isinstance(error, psycopg.DataError):
        return Failure.BAD_VALUE
    if isinstance(error, psycopg.InternalError):
        # The answers do not fit what was asked, as behind a pooler that mixes up two sessions.
        return Failure.DISCONNECTED
    if not isinstance(error, psycopg.OperationalError):
        return Failure.OTHER
    # A refused login has no SQLSTATE while the connection is being opened.
    refused = ("password authentication failed", "no password supplied", "no pg_hba.conf entry")
    return Failure.REFUSED if any(text in str(error) for text in refused) else Failure.DISCONNECTED
