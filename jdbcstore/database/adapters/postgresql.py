"""PostgreSQL through psycopg 3: a batch is one prepared statement in one round trip.

The columns of a batch are sent as arrays, and those of a very large one in parts, within a transaction. COPY
is a tenth faster for a thousand rows, slower for fewer than fifty, and takes one more round trip. The
statements run through psycopg's libpq wrapper, which lets other threads run until the commit is acknowledged;
a cursor would often wait for the interpreter's lock.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar, TypeVar

from sqlalchemy import URL, Select
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.types import TypeEngine

from jdbcstore.config.statements import Template
from jdbcstore.database.adapters import libpq
from jdbcstore.database.adapters._arrays_cy import arrays
from jdbcstore.database.adapters.adbc import record_batches
from jdbcstore.database.adapters.base import Adapter, Failure, failure_of
from jdbcstore.database.adapters.sql import (
    MSG,
    UNGUARDED,
    Batch,
    Guards,
    Key,
    Row,
    Sent,
    Sql,
    WriteStatements,
)

_T = TypeVar("_T")
_NULL = b"\xff\xff\xff\xff"
_INT8, _BYTEA, _VARCHAR = 20, 17, 1043
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
    "SELECT t.relname AS name, c.attname AS part, FALSE AS is_index, c.attnum AS place"
    " FROM pg_catalog.pg_class t JOIN pg_catalog.pg_attribute c ON c.attrelid = t.oid"
    f" WHERE {_SEEN} AND c.attnum > 0 AND NOT c.attisdropped"
    " UNION ALL SELECT t.relname, i.relname, TRUE, 0 FROM pg_catalog.pg_class t"
    " JOIN pg_catalog.pg_index x ON x.indrelid = t.oid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid"
    f" WHERE {_SEEN}) AS described ORDER BY place"
)
_SESSION = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = "
_SHORTEST_CONNECT = 2
"""The shortest ``connect_timeout`` that libpq takes, in seconds."""
_MAX_SENT = 128 * 1024**2
"""Bytes of the arrays of one statement: the server closes a connection that sends 1 GiB at once."""
_OVERHEAD = 1024
"""The approximate size of a row without MSG, or of a key; at most four times that."""
_NUMBER, _NAME, _BLOB = ("BIGINT", _INT8), ("VARCHAR", _VARCHAR), ("BYTEA", _BYTEA)
_COLUMNS = (_NUMBER, _NAME, _NAME, _NUMBER, _NUMBER, _BLOB, _NUMBER, _NAME)
"""The columns of ACTIVEMQ_MSGS in the order of a row."""
_TYPES = tuple([oid for _, oid in _COLUMNS])


class PostgresqlAdapter(Adapter):
    """PostgreSQL 12 and later. Unquoted names fold to lower case, as a real ActiveMQ leaves them."""

    name = "postgresql"
    drivers: ClassVar = {"postgresql+psycopg": ("psycopg", "postgresql")}
    jdbc_subprotocols = ("postgresql",)
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
    starts_writes = True
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
    max_blob = 1024**3 - 64 * 1024

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        url = super().url_from_jdbc(text)  # no host means this machine: Java does not use Unix sockets
        return url if url.host else url.set(host="localhost")

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        # Queries are not prepared: a generic plan would scan past a million messages of other queues.
        return {
            "paramstyle": "format",
            "connect_args": {
                "autocommit": True,
                "prepare_threshold": None,
                "connect_timeout": 10,
                # The encoding of the arrays of a batch, whatever the database's own.
                "client_encoding": "utf8",
            },
        }

    def on_connect(self, connection: Any) -> None:
        # psycopg picks the smallest type that fits, and each combination would be prepared again.
        from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.execute("SET synchronous_commit = on")

    def cursor(self, connection: Any) -> Any:
        return connection.cursor(binary=True)

    def arrow_batches(
        self, connection: Any, first: Sequence[str], query: str, values: Any, size: int
    ) -> AbstractContextManager[Iterable[Any] | None]:
        return record_batches(connection, first, query, values, size)

    def copied(self, cursor: Any, query: str, values: Any) -> AbstractContextManager[Iterable[Any]]:
        copy: AbstractContextManager[Iterable[Any]] = cursor.copy(
            f"COPY ({query}) TO STDOUT (FORMAT BINARY)", values
        )
        return copy

    def shared(self, query: Select[Any]) -> Select[Any]:
        return query.with_for_update(read=True)

    def limit_lock_wait(self, cursor: Any, seconds: float) -> None:
        cursor.execute(f"SET lock_timeout = {max(1, round(seconds * 1000))}")

    def limit_silence(self, cursor: Any, seconds: float) -> None:
        cursor.execute(f"SET idle_in_transaction_session_timeout = {max(1, round(seconds * 1000))}")
        # For a host that has vanished, which the server would not notice.
        cursor.execute(f"SET tcp_keepalives_idle = {max(1, round(seconds / 3))}")
        cursor.execute(f"SET tcp_keepalives_interval = {max(1, round(seconds / 3))}")
        cursor.execute("SET tcp_keepalives_count = 2")

    def limit_query(self, connection: Any, seconds: float) -> None:
        connection.execute(f"SET statement_timeout = {max(1, round(seconds * 1000))}")

    def session_of(self, cursor: Any) -> Row | None:
        cursor.execute(f"{_SESSION}pg_backend_pid()")
        found: Row | None = cursor.fetchone()
        return found

    def has_session(self, cursor: Any, session: Row) -> bool:
        cursor.execute(f"{_SESSION}%s", session[:1])
        return session in cursor.fetchall()

    def end_session(self, cursor: Any, session: Row) -> None:
        cursor.execute("SELECT pg_terminate_backend(CAST(%s AS INTEGER))", session[:1])

    def raise_sequence(self, cursor: Any, sequence: str, number: int) -> None:
        below = f"SELECT last_value FROM {sequence}"  # noqa: S608
        cursor.execute(f"SELECT setval('{sequence}', %s) WHERE ({below}) < %s", (number, number))

    def read_in_order(self, cursor: Any) -> None:
        # It counts no removed rows: behind many, a queue that is nearly empty would be read and sorted.
        cursor.execute(_IN_ORDER)
        # With these the plan is the same for all parameters, and planning takes longer than the claim.
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        cursor.connection.prepare_threshold = 0

    def listen(self, connection: Any, channel: str) -> None:
        connection.execute(f'LISTEN "{channel}"')

    def received(self, connection: Any, channel: str, seconds: float) -> list[str]:  # noqa: ARG002
        return [found.payload for found in connection.notifies(timeout=seconds, stop_after=1)]

    def send(self, connection: Any, channel: str, payload: str) -> None:
        # The commit of a notification would wait for the disk, and for a standby.
        relaxed = "set_config('synchronous_commit', 'off', true)"
        connection.execute(f"SELECT pg_notify(%s, %s) FROM {relaxed}", (channel, payload))  # noqa: S608

    def wait_replicated(self, cursor: Any) -> None:
        # A commit that is cancelled while it waits for a standby becomes visible. A commit that writes waits
        # for itself and all before it.
        cursor.execute("SELECT pg_logical_emit_message(true, 'jdbcstore', '')")

    def abort(self, connection: Any) -> None:
        libpq.abort(connection)

    def network_arguments(self, url: URL, seconds: float) -> dict[str, Any]:  # noqa: ARG002
        # With these the kernel detects a host that has vanished.
        return {
            "connect_timeout": min(10, max(_SHORTEST_CONNECT, math.ceil(seconds))),
            "tcp_user_timeout": max(1, round(seconds * 1000)),
            "keepalives_idle": max(1, round(seconds / 3)),
            "keepalives_interval": max(1, round(seconds / 3)),
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
        return _classify_unnumbered(error) if state is None else _BY_STATE.get(state) or failure_of(state)

    def is_read_only(self, error: BaseException) -> bool:
        return getattr(error, "sqlstate", None) == _READ_ONLY

    def write(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards = UNGUARDED
    ) -> None:
        if not _is_one_statement(batch, guards):
            super().write(cursor, statements, batch, guards)
        elif batch.adds or batch.removes:
            self.conclude(cursor, guards, self._execute(cursor, *_statement(statements, batch, guards)))

    def start_write(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards = UNGUARDED
    ) -> Sent | None:
        if not (_is_one_statement(batch, guards) and (batch.adds or batch.removes)):
            return None
        text, parameters = _statement(statements, batch, guards)
        name = vars(cursor.connection).get("jdbcstore_prepared", {}).get(text)
        if name is None:
            return None
        return libpq.SentStatement(
            cursor.connection, name, parameters, lambda count: self.conclude(cursor, guards, count)
        )

    def conclude(self, cursor: Any, guards: Guards, count: int) -> None:
        """Raise the refusal of a guard, if a statement of :func:`_statement` has returned no row for it."""
        if count == 1 or not guards.first:
            return
        self.begin(cursor)
        for guard in guards.first:
            self.check(cursor, guard)
        # The guards hold again; the same work may succeed now.
        raise guards.first[-1].refusal()

    def insert_messages(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        for chunk in _chunks(rows, [_OVERHEAD + len(row[MSG]) for row in rows]):
            self._execute(cursor, _insert_arrays(sql.text), _column_arrays(chunk))

    def insert_rows(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        values, arrays, parameters = [], [], []
        for number, column in enumerate(zip(*rows, strict=True)):
            known = next((value for value in column if value is not None), None)
            values.append("NULL" if known is None else f"c{number}")
            if known is not None:
                type_, oid = _NUMBER if isinstance(known, int) else _NAME
                parts = (None if value is None else _binary(value) for value in column)
                parameters.append(_array(oid, parts))
                arrays.append((f"c{number}", f"${len(parameters)}::{type_}[]"))
        names, types = (", ".join(one) for one in zip(*arrays, strict=True))
        head = sql.text[: sql.text.rindex(" VALUES")]
        text = f"{head} SELECT {', '.join(values)} FROM unnest({types}) AS given ({names})"  # noqa: S608
        self._execute(cursor, text, parameters)

    def delete_messages(self, cursor: Any, sql: Sql, keys: Sequence[Key]) -> None:
        for chunk in _chunks(keys, [_OVERHEAD] * len(keys)):
            self._execute(cursor, _delete_arrays(sql.text, 1), _key_arrays(chunk))

    def _execute(self, cursor: Any, text: str, parameters: list[bytes]) -> int:
        """Run a statement with binary parameters, prepared at its first use on this connection.

        Returns the number of rows in its result.
        """
        from psycopg import pq

        connection = cursor.connection.pgconn
        # Of each connection: with claims several take turns, in as many threads.
        prepared: dict[str, bytes] = vars(cursor.connection).setdefault("jdbcstore_prepared", {})
        name = prepared.get(text)
        with libpq.answering(cursor.connection):
            if name is None:
                name = f"jdbcstore_{len(prepared)}".encode()
                result = connection.prepare(name, text.encode())
                if result.status == pq.ExecStatus.COMMAND_OK:
                    prepared[text] = name
            if name in prepared.values():
                result = connection.exec_prepared(name, parameters, [1] * len(parameters))
        return libpq.rows_of(connection, result)

    def refresh_statistics(self, cursor: Any, table: str, *, changed: bool) -> None:
        # For a table analysed while it was empty, every page would sort the whole queue.
        cursor.execute(_IS_STALE, (f'"{table}"',))
        if changed or cursor.fetchone() == (True,):
            # It needs the same lock as a VACUUM, which may run for hours, and analyses as well.
            cursor.execute(f'ANALYZE (SKIP_LOCKED) "{table}"')


_IN_ORDER = """SELECT set_config(name, 'off', false) FROM pg_settings WHERE name IN
('enable_sort', 'enable_incremental_sort', 'enable_bitmapscan', 'enable_seqscan',
 'jit')"""
_READ_ONLY = "25006"
_LOST = (
    # Closed by an administrator, a crash, during start-up, with its database, by the idle timeout, the idle
    # timeout within a transaction, and the transaction timeout.
    *("57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04"),
    # Too many connections; a server that has become read-only; another server behind a pooler.
    *("53300", _READ_ONLY, "26000"),
)
_BY_STATE = {
    **dict.fromkeys(_LOST, Failure.DISCONNECTED),
    **dict.fromkeys(("55P03", "57014"), Failure.TRANSIENT),
    "42704": Failure.OTHER,
}


def _classify_unnumbered(error: BaseException) -> Failure:
    import psycopg

    if isinstance(error, psycopg.DataError):
        return Failure.BAD_VALUE
    if not isinstance(error, psycopg.OperationalError):
        return Failure.OTHER
    # A refused login has no SQLSTATE while the connection is being opened.
    refused = ("password authentication failed", "no password supplied", "no pg_hba.conf entry")
    return Failure.REFUSED if any(text in str(error) for text in refused) else Failure.DISCONNECTED


def _is_one_statement(batch: Batch, guards: Guards) -> bool:
    """Whether one statement can hold everything that a batch changes."""
    if guards.last or batch.updates or any(rows for _, rows in batch.others):
        return False
    sizes = sum([len(row[MSG]) for row in batch.adds])
    return sizes + _OVERHEAD * (len(batch.adds) + len(batch.removes)) <= _MAX_SENT


def _statement(statements: WriteStatements, batch: Batch, guards: Guards) -> tuple[str, list[bytes]]:
    """The statement of a batch that adds or removes messages, and its parameters.

    With guards it has no effect if one does not hold, and else returns a row.
    """
    add, remove = statements.add_message.text, statements.remove_message.text
    text = _text(
        add, remove, bool(batch.adds), bool(batch.removes), tuple([one.sql.text for one in guards.first])
    )
    parameters = _column_arrays(batch.adds) if batch.adds else []
    if batch.removes:
        parameters += _key_arrays(batch.removes)
    for guard in guards.first:
        parameters += [_binary(value) for value in guard.values]
    return text, parameters


@lru_cache(maxsize=64)
def _text(add: str, remove: str, adds: bool, removes: bool, guards: tuple[str, ...]) -> str:
    """The text of :func:`_statement`, by the texts of its parts."""
    insert, last = _insert_arrays(add), len(_COLUMNS) if adds else 0
    delete = _delete_arrays(remove, last + 1)
    last += 2 if removes else 0
    if not guards:
        if adds and removes:
            return f"WITH removed AS ({delete}) {insert}"
        return insert if adds else delete
    names = [f"held_{number}" for number in range(len(guards))]
    held = " AND ".join(f"EXISTS (SELECT 1 FROM {name})" for name in names)  # noqa: S608
    parts = []
    if adds:
        parts.append(f"added AS ({insert} WHERE {held})")
    if removes:
        parts.append(f"removed AS ({delete} AND {held})")
    conditions = []
    for name, guard in zip(names, guards, strict=True):
        conditions.append(f"{name} AS MATERIALIZED ({_with_numbers(guard, last + 1)})")
        last += guard.count("%s")
    return f"WITH {', '.join([*conditions, *parts])} SELECT 1 WHERE {held}"


def _chunks(items: Sequence[_T], sizes: Sequence[int]) -> Iterator[Sequence[_T]]:
    """As few chunks as fit into one statement each; a larger item is its own chunk."""
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if index > start and total + size > _MAX_SENT:
            yield items[start:index]
            start, total = index, 0
        total += size
    if start < len(items):
        yield items[start:]


def _insert_arrays(text: str) -> str:
    """The INSERT of one row, as an INSERT from arrays of columns."""
    arrays = ", ".join(f"${number}::{type_}[]" for number, (type_, _) in enumerate(_COLUMNS, 1))
    return f"{text[: text.rindex(' VALUES')]} SELECT * FROM unnest({arrays})"  # noqa: S608


def _with_numbers(text: str, first: int) -> str:
    """A statement with psycopg's placeholders, as one with numbered parameters."""
    numbers = count(first)
    return re.sub("%s|%%", lambda found: f"${next(numbers)}" if found[0] == "%s" else "%", text)


def _binary(value: int | str) -> bytes:
    return struct.pack("!q", value) if isinstance(value, int) else value.encode()


def _delete_arrays(text: str, number: int) -> str:
    """The DELETE of one message, as a DELETE by arrays of containers and IDs."""
    head, condition = text.split(" WHERE ", 1)
    for column in ("container", "id"):
        condition = condition.replace("%s", f"key.{column}", 1)
    arrays = f"unnest(${number}::VARCHAR[], ${number + 1}::BIGINT[]) AS key (container, id)"
    return f"{head} USING {arrays} WHERE {condition}"


def _key_arrays(keys: Sequence[Key]) -> list[bytes]:
    return arrays(keys, (_VARCHAR, _INT8), _INT8)


def _column_arrays(rows: Sequence[Row]) -> list[bytes]:
    return arrays(rows, _TYPES, _INT8)


def _array(oid: int, values: Iterable[bytes | None]) -> bytes:
    parts = []
    for value in values:
        parts.append(_NULL if value is None else len(value).to_bytes(4, "big"))
        parts.append(value or b"")
    return b"".join([_array_header(oid, len(parts) // 2, _NULL in parts), *parts])


def _array_header(oid: int, count: int, nulls: bool) -> bytes:
    """One dimension of ``count`` elements, counted from 1."""
    return struct.pack("!iiIii", 1, nulls, oid, count, 1)
