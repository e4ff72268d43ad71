"""PostgreSQL through psycopg 3: a batch is one prepared statement in one round trip.

The columns of a batch go over as arrays, whatever its size. COPY is a tenth faster for a thousand
rows and slower for fewer than fifty, and takes a round trip more. The statements run through
psycopg's libpq wrapper, which lets other threads run until the commit is there; a cursor would stop
for the interpreter's lock several times in each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from sqlalchemy import URL
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.types import TypeEngine

from jdbcstore.adapters.base import Adapter, Batch, Failure, Row, Sql, WriteStatements

_NULL = b"\xff\xff\xff\xff"
_INT8, _BYTEA, _VARCHAR = 20, 17, 1043
_IS_STALE = (
    "SELECT n_mod_since_analyze > 1000 + n_live_tup / 5"
    " FROM pg_stat_user_tables WHERE relid = to_regclass(%s)"
)
_MAX_BYTEA = 1024**3 - 64 * 1024
_COLUMNS = (
    ("BIGINT", _INT8),
    ("VARCHAR", _VARCHAR),
    ("VARCHAR", _VARCHAR),
    ("BIGINT", _INT8),
    ("BIGINT", _INT8),
    ("BYTEA", _BYTEA),
    ("BIGINT", _INT8),
    ("VARCHAR", _VARCHAR),
)
"""The columns of ACTIVEMQ_MSGS in the order of a row."""


class PostgresqlAdapter(Adapter):
    """PostgreSQL 12 and later. Unquoted names fold to lower case, as a real ActiveMQ leaves them."""

    name = "postgresql"
    drivers: ClassVar = {"postgresql+psycopg": ("psycopg", "postgresql")}
    jdbc_subprotocols = ("postgresql",)
    fold_upper = False
    acks_key_has_priority = False
    acks_key_is_named = True
    drop_acks_key = "DROP CONSTRAINT {name}"
    now_ms = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    binary_type: ClassVar[TypeEngine[Any]] = BYTEA()

    def __init__(self) -> None:
        self._connection: Any = None
        self._prepared: dict[str, bytes] = {}
        """Statement -> its name, on that connection."""

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        # Nothing that reads is prepared: a plan for no queue in particular walks past a million
        # messages of others to find ten of its own.
        return {
            "paramstyle": "format",
            "connect_args": {
                "autocommit": True,
                "prepare_threshold": None,
                "connect_timeout": 10,
                # What the arrays of a batch hold, whatever the database's own encoding.
                "client_encoding": "utf8",
            },
        }

    def on_connect(self, connection: Any) -> None:
        # Every number is a BIGINT here. psycopg would pick the smallest type that fits each value,
        # and a statement would be prepared anew for every mixture.
        from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.execute("SET synchronous_commit = on")

    def cursor(self, connection: Any) -> Any:
        return connection.cursor(binary=True)

    def max_message_size(self, cursor: Any) -> int:  # noqa: ARG002
        return _MAX_BYTEA

    def classify(self, error: BaseException) -> Failure:
        state = getattr(error, "sqlstate", None)
        if state is None:
            return _classify_unnumbered(error)
        if state in ("57P01", "57P02", "57P03", "53300", "25006"):
            return Failure.DISCONNECTED
        if state == "55P03":
            return Failure.TRANSIENT
        if state.startswith("42"):
            return Failure.NO_TABLE if state in ("42P01", "42703") else Failure.OTHER
        return Failure.DUPLICATE if state == "23505" else _BY_CLASS.get(state[:2], Failure.OTHER)

    def write(self, cursor: Any, statements: WriteStatements, batch: Batch) -> None:
        if batch.updates or any(rows for _, rows in batch.others):
            super().write(cursor, statements, batch)
        elif not batch.removes:
            self.insert_messages(cursor, statements.add_message, batch.adds)
        elif not batch.adds:
            self.delete_messages(cursor, statements.remove_message, batch.removes)
        else:
            delete = _delete_any(statements.remove_message.text, len(_COLUMNS) + 1)
            insert = _insert_arrays(statements.add_message.text)
            parameters = [*_column_arrays(batch.adds), _numbers(batch.removes)]
            self._execute(cursor, f"WITH removed AS ({delete}) {insert}", parameters)

    def insert_messages(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        if rows:
            self._execute(cursor, _insert_arrays(sql.text), _column_arrays(rows))

    def delete_messages(self, cursor: Any, sql: Sql, ids: Sequence[int]) -> None:
        self._execute(cursor, _delete_any(sql.text, 1), [_numbers(ids)])

    def _execute(self, cursor: Any, text: str, parameters: list[bytes]) -> None:
        """Run a statement of binary parameters, prepared at its first use on this connection."""
        from psycopg import OperationalError, pq
        from psycopg.errors import error_from_result

        connection = cursor.connection.pgconn
        if connection is not self._connection:
            self._connection, self._prepared = connection, {}
        name = self._prepared.get(text)
        if name is None:
            name = f"jdbcstore_{len(self._prepared)}".encode()
            result = connection.prepare(name, text.encode())
            if result.status == pq.ExecStatus.COMMAND_OK:
                self._prepared[text] = name
        if name in self._prepared.values():
            result = connection.exec_prepared(name, parameters, [1] * len(parameters))
        if result.status == pq.ExecStatus.COMMAND_OK:
            return
        if connection.status != pq.ConnStatus.OK:
            raise OperationalError(f"the connection was lost: {connection.get_error_message()}")
        raise error_from_result(result)

    def refresh_statistics(self, cursor: Any, table: str, *, changed: bool) -> None:
        # Of a table analysed while it was empty, every page would sort the whole queue.
        cursor.execute(_IS_STALE, (f'"{table}"',))
        if changed or cursor.fetchone() == (True,):
            cursor.execute(f'ANALYZE "{table}"')


_BY_CLASS = {
    "08": Failure.DISCONNECTED,
    "22": Failure.BAD_VALUE,
    "23": Failure.BAD_VALUE,
    "28": Failure.REFUSED,
    "40": Failure.TRANSIENT,
    "53": Failure.FULL,
    "54": Failure.TOO_LARGE,
}


def _classify_unnumbered(error: BaseException) -> Failure:
    import psycopg

    if isinstance(error, psycopg.DataError):
        return Failure.BAD_VALUE
    if not isinstance(error, psycopg.OperationalError):
        return Failure.OTHER
    # A refused login comes without its SQLSTATE while the connection is being made.
    refused = ("password authentication failed", "no password supplied", "no pg_hba.conf entry")
    return Failure.REFUSED if any(text in str(error) for text in refused) else Failure.DISCONNECTED


def _insert_arrays(text: str) -> str:
    """The INSERT of one row, as an INSERT of what arrays of columns hold."""
    arrays = ", ".join(f"${number}::{type_}[]" for number, (type_, _) in enumerate(_COLUMNS, 1))
    return f"{text[: text.rindex(' VALUES')]} SELECT * FROM unnest({arrays})"  # noqa: S608


def _delete_any(text: str, number: int) -> str:
    """The DELETE of one ID, as a DELETE of an array of them."""
    return text.replace("= %s::BIGINT", f"= ANY(${number}::BIGINT[])")


def _column_arrays(rows: Sequence[Row]) -> list[bytes]:
    columns = zip(*rows, strict=True)
    arrays = []
    for (_, oid), column in zip(_COLUMNS, columns, strict=True):
        if oid == _INT8:
            arrays.append(_numbers(column))
        elif oid == _BYTEA:
            arrays.append(_array(oid, column))
        else:
            arrays.append(_array(oid, (text if text is None else text.encode() for text in column)))
    return arrays


def _numbers(values: Sequence[int]) -> bytes:
    count = len(values)
    pairs = [8] * (2 * count)
    pairs[1::2] = values
    return _array_header(_INT8, count, False) + struct.pack("!" + "iq" * count, *pairs)


def _array(oid: int, values: Iterable[bytes | None]) -> bytes:
    parts = []
    for value in values:
        parts.append(_NULL if value is None else len(value).to_bytes(4, "big"))
        parts.append(value or b"")
    return b"".join([_array_header(oid, len(parts) // 2, _NULL in parts), *parts])


def _array_header(oid: int, count: int, nulls: bool) -> bytes:
    """One dimension of ``count`` elements, counted from 1."""
    return struct.pack("!iiIii", 1, nulls, oid, count, 1)
