"""PostgreSQL through psycopg 3: COPY BINARY for bulk, one prepared INSERT for a few rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from sqlalchemy import URL
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.types import TypeEngine

from jdbcstore.adapters.base import Adapter, Batch, Failure, Row, Sql

_COPY_FROM = 12
"""Rows from which COPY is faster than one INSERT with as many VALUES."""
_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_TRAILER = b"\xff\xff"
_PRIORITY = struct.Struct("!iq")
_IS_STALE = (
    "SELECT n_mod_since_analyze > 1000 + n_live_tup / 5"
    " FROM pg_stat_user_tables WHERE relid = to_regclass(%s)"
)
_MAX_BYTEA = 1024**3 - 64 * 1024


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

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        # Nothing that reads is prepared: a plan for no queue in particular walks past a million
        # messages of others to find ten of its own.
        return {
            "paramstyle": "format",
            "connect_args": {"autocommit": True, "prepare_threshold": None, "connect_timeout": 10},
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
        if state in ("57P01", "57P02", "57P03", "25006"):
            return Failure.DISCONNECTED
        if state.startswith("42"):
            return Failure.NO_TABLE if state in ("42P01", "42703") else Failure.OTHER
        return _BY_CLASS.get(state[:2], Failure.DUPLICATE if state == "23505" else Failure.OTHER)

    def _is_one_statement(self, batch: Batch) -> bool:
        if super()._is_one_statement(batch):
            return True
        others = any(rows for _, rows in batch.others)
        return not others and not batch.updates and not (batch.adds and batch.removes)

    def insert_messages(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        if len(rows) < _COPY_FROM:
            values = [value for row in rows for value in row]
            cursor.execute(_multi_row(sql.text, len(rows)), values, prepare=True)
            return
        with cursor.copy(_copy_statement(sql.text)) as copy:
            copy.write(_copy_rows(rows))

    def delete_messages(self, cursor: Any, sql: Sql, ids: Sequence[int]) -> None:
        if len(ids) == 1:
            cursor.execute(sql.text, (ids[0],), prepare=True)
        else:
            any_of = sql.text.replace("= %s::BIGINT", "= ANY(%s::BIGINT[])")
            cursor.execute(any_of, (list(ids),), prepare=True)

    def refresh_statistics(self, cursor: Any, table: str, *, changed: bool) -> None:
        # Of a table analysed while it was empty, every page would sort the whole queue.
        cursor.execute(_IS_STALE, (f'"{table}"',))
        if changed or cursor.fetchone() == (True,):
            cursor.execute(f'ANALYZE "{table}"')


_BY_CLASS = {
    "08": Failure.DISCONNECTED,
    "22": Failure.BAD_VALUE,
    "28": Failure.REFUSED,
    "40": Failure.TRANSIENT,
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


@lru_cache(maxsize=64)
def _multi_row(text: str, count: int) -> str:
    head, values = text.rsplit("VALUES ", 1)
    return f"{head}VALUES {', '.join([values] * count)}"


@lru_cache(maxsize=64)
def _copy_statement(text: str) -> str:
    target = text[len("INSERT INTO ") : text.rindex(" VALUES")]
    return f"COPY {target} FROM STDIN (FORMAT BINARY)"


@lru_cache(maxsize=64)
def _tuple_format(producer: int, container: int) -> struct.Struct:
    # Field count, then length and value each: ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION,
    # and the length of MSG.
    return struct.Struct(f"!hiqi{container}si{producer}siqiqi")


def _copy_rows(rows: Sequence[Row]) -> bytes:
    parts = [_COPY_HEADER]
    for id_, container, producer, sequence, expiration, blob, priority, xid in rows:
        container, producer = container.encode(), producer.encode()
        parts.append(
            _tuple_format(len(producer), len(container)).pack(
                8, 8, id_, len(container), container, len(producer), producer,
                8, sequence, 8, expiration, len(blob),
            )
        )  # fmt: skip
        parts.append(blob)
        parts.append(_PRIORITY.pack(8, priority))
        parts.append(_copy_text(xid))
    parts.append(_COPY_TRAILER)
    return b"".join(parts)


def _copy_text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff\xff\xff"
    data = value.encode()
    return len(data).to_bytes(4, "big") + data
