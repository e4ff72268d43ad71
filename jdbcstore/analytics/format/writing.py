"""Tasks that send the rows of a DataFrame through the outbox of a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import Any

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from sqlalchemy import NullPool, insert

from jdbcstore.analytics.streaming.options import StreamLogin
from jdbcstore.database.engine import Database
from jdbcstore.errors import ConfigurationError, InvalidMessage

_ROWS = 500
"""Rows of one statement."""


class RowWriter(DataSourceWriter):
    """Inserts each row into JDBCSTORE_OUTBOX, from where it is moved to its destination once.

    A task inserts its rows in one transaction. If Spark repeats a task that has committed, a ``send_id`` of
    the rows keeps them from being sent twice.

    :param destination: that of all rows; None if they have a column for it
    :raises ConfigurationError: a column is not one of a message, or there is no destination
    """

    def __init__(self, login: StreamLogin, names: list[str], destination: str | None) -> None:
        fixed = [] if destination is None else ["destination"]
        if unknown := [name for name in names if name not in _COLUMNS or name in fixed]:
            raise ConfigurationError(
                f"the column {unknown[0]} cannot be sent; select some of {', '.join(_COLUMNS)}"
            )
        if "destination" not in [*names, *fixed]:
            raise ConfigurationError("the rows have no column destination; add it, or set the option")
        self._login, self._names, self._destination = login, names, destination

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        login = self._login
        database = Database(login.url, login.store, user=login.user, password=login.password, must_exist=True)
        engine = database.connect_with(poolclass=NullPool)
        # Inline: else the ID would be returned, for which a task needs the right to SELECT.
        statement, writing = insert(database.tables.outbox).inline(), database.adapter.writing
        with database.translated(), engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            # Without a commit, the transaction ends with the connection.
            with closing(database.adapter.cursor(raw)) as cursor:
                writing.begin(cursor)
                while rows := [*map(self._values, islice(iterator, _ROWS))]:
                    connection.execute(statement, rows)
                writing.commit(cursor)
        return WriterCommitMessage()

    def _values(self, row: Row) -> dict[str, Any]:
        given: dict[str, Any] = {} if self._destination is None else {"destination": self._destination}
        for name, value in zip(self._names, row, strict=True):
            column, convert = _COLUMNS[name]
            given[column] = None if value is None else convert(value)
        return given


def _milliseconds(value: Any) -> int:
    # Spark gives a time without a zone in that of its Python.
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else int(value)


def _json(value: Any) -> str:
    """Convert properties, in a map, in a struct or as JSON text, to a JSON object."""
    if isinstance(value, str):
        return value
    pairs: Mapping[str, Any] = value.asDict() if isinstance(value, Row) else value
    plain = {name: _plain(name, each) for name, each in pairs.items()}
    return json.dumps({name: each for name, each in plain.items() if each is not None})


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Row) and "text" in value:  # a value of the views
        kind = value["type"]
        value = value[_PARTS[kind]] if kind in _PARTS else value
    if not isinstance(value, str | bool | int | float | None):
        raise InvalidMessage(f"the property {name} is {value!r}; send strings, numbers and booleans")
    return value


_PARTS = {
    "boolean": "boolean",
    **dict.fromkeys(("byte", "short", "int", "long"), "long"),
    **dict.fromkeys(("float", "double"), "double"),
    **dict.fromkeys(("char", "string", "null"), "text"),
}
"""The part of a property in the views that has its value, by its type."""

_COLUMNS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **{
        name: (name, str)
        for name in ("destination", "correlation_id", "reply_to", "jms_type", "group_id", "send_id")
    },
    "body_text": ("body", str),
    "body_bytes": ("body_bytes", bytes),
    "properties": ("properties", _json),
    "jms_priority": ("priority", int),
    "persistent": ("persistent", int),
    "expires": ("expires", _milliseconds),
    "delay": ("delay", int),
}
"""The column of JDBCSTORE_OUTBOX for each column of a DataFrame, and the conversion."""
