"""Batches for PostgreSQL: each is one prepared statement in one round trip.

The columns of a batch are sent as arrays, and those of a very large one in parts, within a transaction. COPY
takes one more round trip. A batch may be sent before the one before it is answered, in a pipeline. The
statements run through psycopg's libpq wrapper, which lets other threads run until the commit is acknowledged;
a cursor would often wait for the interpreter's lock.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from jdbcstore.database.adapters import libpq
from jdbcstore.database.adapters._arrays_cy import arrays, scalars
from jdbcstore.database.adapters.sending import SentWrite
from jdbcstore.database.adapters.sql import (
    MSG,
    UNGUARDED,
    Batch,
    Guards,
    Key,
    Row,
    Sql,
    WriteStatements,
)
from jdbcstore.database.adapters.writing import Writing

_T = TypeVar("_T")
_NULL = b"\xff\xff\xff\xff"
_INT8, _BYTEA, _VARCHAR = 20, 17, 1043
_MAX_SENT = 128 * 1024**2
"""Bytes of the arrays of one statement: the server closes a connection that sends 1 GiB at once."""
_OVERHEAD = 1024
"""The approximate size of a row without MSG, or of a key; at most four times that."""
_NUMBER, _NAME, _BLOB = ("BIGINT", _INT8), ("VARCHAR", _VARCHAR), ("BYTEA", _BYTEA)
_COLUMNS = (_NUMBER, _NAME, _NAME, _NUMBER, _NUMBER, _BLOB, _NUMBER, _NAME)
"""The columns of ACTIVEMQ_MSGS in the order of a row."""
_TYPES = tuple([oid for _, oid in _COLUMNS])


class PostgresqlWriting(Writing):
    """Arrays in place of many rows; guards in the statement itself."""

    starts_writes = True
    sends_ahead = True

    def write(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards = UNGUARDED
    ) -> None:
        if not _is_one_statement(batch, guards):
            super().write(cursor, statements, batch, guards)
        elif batch.adds or batch.removes:
            self.conclude(cursor, guards, self._execute(cursor, *_statement(statements, batch, guards)))

    def start_write(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards = UNGUARDED
    ) -> SentWrite | None:
        if guards.last:
            return None
        text, parameters = _statement(statements, batch, guards)
        connection = cursor.connection
        name = vars(connection).get("jdbcstore_prepared", {}).get(text)
        if name is None:
            return None
        return libpq.SentStatement(
            connection,
            name,
            parameters,
            lambda count: self.conclude(cursor, guards, count),
            guarded=bool(guards.first),
        )

    def send_ahead(
        self,
        cursor: Any,
        statements: WriteStatements,
        batch: Batch,
        guards: Guards,
        before: SentWrite | None,
    ) -> SentWrite | None:
        if guards.last or not libpq.has_pipelines():
            return None
        text, parameters = _statement(statements, batch, guards)
        connection = cursor.connection
        # Statements are prepared where nothing is awaited, for the next time.
        wanted: list[str] = vars(connection).setdefault("jdbcstore_wanted", [])
        if text not in vars(connection).get("jdbcstore_prepared", {}):
            wanted.append(text)
        if wanted and before is not None:
            return None
        if wanted:
            with libpq.Answering(connection):
                while wanted:
                    self._prepare(connection, wanted.pop())
        return libpq.PipedStatement(
            connection,
            connection.jdbcstore_prepared[text],
            parameters,
            lambda count: self.conclude(cursor, guards, count),
            guarded=bool(guards.first),
            before=before,
        )

    def rollback(self, cursor: Any) -> None:
        # psycopg would forget all prepared statements, those of this module too, at a ROLLBACK that it sees.
        connection = cursor.connection
        with libpq.Answering(connection):
            result = connection.pgconn.exec_(b"ROLLBACK")
        libpq.rows_of(connection.pgconn, result)

    def conclude(self, cursor: Any, guards: Guards, count: int) -> None:
        """Raise the refusal of a guard, if it has kept a statement of :func:`_statement` from its effect."""
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
        names, types = (", ".join(part) for part in zip(*arrays, strict=True))
        head = sql.text[: sql.text.rindex(" VALUES")]
        text = f"{head} SELECT {', '.join(values)} FROM unnest({types}) AS given ({names})"  # noqa: S608
        self._execute(cursor, text, parameters)

    def delete_messages(self, cursor: Any, sql: Sql, keys: Sequence[Key]) -> None:
        for chunk in _chunks(keys, [_OVERHEAD] * len(keys)):
            self._execute(cursor, _delete_arrays(sql.text, 1), _key_arrays(chunk))

    def _execute(self, cursor: Any, text: str, parameters: Sequence[bytes | None]) -> int:
        """Run a statement with binary parameters, prepared at its first use on this connection.

        Returns the number of rows in its result.
        """
        connection = cursor.connection
        line = connection.pgconn
        with libpq.Answering(connection):
            name = self._prepare(connection, text)
            result = line.exec_prepared(name, parameters, [1] * len(parameters))
        return libpq.rows_of(line, result)

    def _prepare(self, connection: Any, text: str) -> bytes:
        """Return the name of a statement, prepared at its first use on this connection."""
        # Of each connection: with claims several take turns, in as many threads.
        prepared: dict[str, bytes] = vars(connection).setdefault("jdbcstore_prepared", {})
        name = prepared.get(text)
        if name is None:
            line, name = connection.pgconn, f"jdbcstore_{len(prepared)}".encode()
            libpq.rows_of(line, line.prepare(name, text.encode()))
            prepared[text] = name
        return name


class UnpreparedWriting(PostgresqlWriting):
    """The same statements, not kept prepared: a pooler gives the next transaction another session."""

    starts_writes = sends_ahead = False

    def _execute(self, cursor: Any, text: str, parameters: Sequence[bytes | None]) -> int:
        connection = cursor.connection
        with libpq.Answering(connection):
            formats = [1] * len(parameters)
            result = connection.pgconn.exec_params(text.encode(), parameters, param_formats=formats)
        return libpq.rows_of(connection.pgconn, result)


def _is_one_statement(batch: Batch, guards: Guards) -> bool:
    """Return whether one statement can hold everything that a batch changes."""
    if guards.last or batch.updates or (batch.others and any(rows for _, rows in batch.others)):
        return False
    return batch.size + _OVERHEAD * (len(batch.adds) + len(batch.removes)) <= _MAX_SENT


def _statement(
    statements: WriteStatements, batch: Batch, guards: Guards
) -> tuple[str, Sequence[bytes | None]]:
    """Return the statement of a batch that adds or removes messages, and its parameters.

    With guards it has no effect if one does not hold, and else returns or adds one row.
    """
    adds, removes = batch.adds, batch.removes
    if len(adds) == 1 and not removes:
        text, values = _one_row(statements.add_message.text, guards)
        return text, scalars(adds[0], _TYPES, _INT8) + values
    add, remove = statements.add_message.text, statements.remove_message.text
    text, values = _guarded(add, remove, bool(adds), bool(removes), guards)
    parameters = _column_arrays(adds) if adds else []
    if removes:
        parameters += _key_arrays(removes)
    return text, parameters + values


@lru_cache(maxsize=64)
def _one_row(add: str, guards: Guards) -> tuple[str, list[bytes]]:
    """As :func:`_guarded`, of one row: without arrays, and as an INSERT alone, it takes a fifth less."""
    values = ", ".join(f"${number}::{type_}" for number, (type_, _) in enumerate(_COLUMNS, 1))
    text, last, conditions = f"{add[: add.rindex(' VALUES')]} SELECT {values}", len(_COLUMNS), []
    for number, guard in enumerate(guards.first):
        conditions.append(f"({libpq.numbered(guard.sql.text, last + 1)}) AS held_{number}")
        last += guard.sql.text.count("%s")
    if conditions:
        text = f"{text} FROM {', '.join(conditions)}"
    return text, [_binary(value) for guard in guards.first for value in guard.values]


@lru_cache(maxsize=64)
def _guarded(add: str, remove: str, adds: bool, removes: bool, guards: Guards) -> tuple[str, list[bytes]]:
    """Return the text of :func:`_statement`, and the parameters of its guards."""
    text = _text(add, remove, adds, removes, tuple([guard.sql.text for guard in guards.first]))
    return text, [_binary(value) for guard in guards.first for value in guard.values]


@lru_cache(maxsize=64)
def _text(add: str, remove: str, adds: bool, removes: bool, guards: tuple[str, ...]) -> str:
    """Return the text of :func:`_statement`, by the texts of its parts."""
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
        conditions.append(f"{name} AS MATERIALIZED ({libpq.numbered(guard, last + 1)})")
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
    """Return the INSERT of one row, as an INSERT from arrays of columns."""
    arrays = ", ".join(f"${number}::{type_}[]" for number, (type_, _) in enumerate(_COLUMNS, 1))
    return f"{text[: text.rindex(' VALUES')]} SELECT * FROM unnest({arrays})"  # noqa: S608


def _binary(value: int | str) -> bytes:
    return struct.pack("!q", value) if isinstance(value, int) else value.encode()


def _delete_arrays(text: str, number: int) -> str:
    """Return the DELETE of one message, as a DELETE by arrays of containers and IDs."""
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
