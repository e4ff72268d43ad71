"""The data source ``jdbcstore``: its options and its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from jdbcstore.analytics.arrow.views import AS_STORED, OF_MESSAGES, SCHEMAS
from jdbcstore.analytics.format.reading import ViewOptions, ViewReader
from jdbcstore.analytics.format.writing import RowWriter
from jdbcstore.analytics.streaming.options import (
    OF_STREAMS,
    read_destination,
    read_flag,
    read_login,
    read_options,
    read_partitions,
    refuse,
)
from jdbcstore.analytics.streaming.source import MessageStreamReader
from jdbcstore.errors import ConfigurationError

_OF_VIEWS = frozenset({"bounds", "columns", "selector", "snapshot", "view"})
"""Options that a stream does not have."""
_DEFAULT = "messages_decoded"
_SNAPSHOT = re.compile(r"[0-9A-Fa-f-]*")
_BOUNDS = re.compile(r"([0-9]{1,18}(,[0-9]{1,18})*)?")


class StoreSource(DataSource):
    """The views of a store, its new messages as a stream, and its outbox for rows to send.

    Spark asks for the columns before it says which of the two is read, so both have the same by default:
    those of ``messages_decoded``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({})  # they include the password, which Spark does not need
        self._given = _Given({name.lower(): value for name, value in options.items()})
        _view_options(self._given.options)

    @classmethod
    def name(cls) -> str:
        return "jdbcstore"

    def schema(self) -> StructType:
        return from_arrow_schema(_columns(self._given.options), prefer_timestamp_ntz=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        given = self._given.options
        _check(given, OF_STREAMS, "a view")
        every_column, wanted = _all_columns(given), _as_arrow(schema)
        spelled = _spelled(every_column)
        for field in wanted:
            if field.name not in every_column.names or not field.type.equals(spelled.field(field.name).type):
                raise ConfigurationError(
                    f"there is no column {field.name} of the type {field.type};"
                    f" the columns are {', '.join(every_column.names)}",
                    option="schema",
                )
        return ViewReader(_view_options(given), wanted)

    def writer(self, schema: StructType, overwrite: bool) -> RowWriter:
        if overwrite:
            raise ConfigurationError("sent messages replace none; write with mode('append')", option="mode")
        given = self._given.options
        _check(given, OF_STREAMS | _OF_VIEWS, "a writer")
        own, login = read_login(given, frozenset())
        return RowWriter(login, schema.names, read_destination(own))

    def streamReader(self, schema: StructType) -> MessageStreamReader:  # noqa: N802 - Spark's names
        _check(self._given.options, _OF_VIEWS, "a stream")
        return MessageStreamReader(read_options(self._given.options), _as_arrow(schema))


@dataclass(frozen=True, slots=True)
class _Given:
    """The options as they were given; its ``repr`` does not show them."""

    options: Mapping[str, str]

    def __repr__(self) -> str:
        return "..."


def _view_options(given: Mapping[str, str]) -> ViewOptions:
    own, login = read_login(given, _OF_VIEWS | OF_STREAMS)
    view = own.get("view", _DEFAULT)
    if view not in SCHEMAS:
        refuse("view", view, f"one of {', '.join(SCHEMAS)}")
    if view not in OF_MESSAGES and own.keys() & {"decoded", "destination", "partitions", "selector"}:
        refuse("view", view, "messages with the options decoded, destination, partitions and selector")
    bounds, snapshot = own.get("bounds", ""), own.get("snapshot", "")
    # Both become part of statements.
    if not _SNAPSHOT.fullmatch(snapshot):
        refuse("snapshot", snapshot, "the name of an exported snapshot")
    if not _BOUNDS.fullmatch(bounds):
        refuse("bounds", bounds, "the IDs that divide messages into partitions, with commas between them")
    return ViewOptions(
        login.url,
        login.user,
        login.password,
        login.store,
        view=view,
        destination=read_destination(own),
        selector=own.get("selector", ""),
        snapshot=snapshot,
        bounds=tuple(map(int, bounds.split(","))) if bounds else (),
        partitions=read_partitions(own, 1),
    )


def _all_columns(given: Mapping[str, str]) -> pa.Schema:
    if not read_flag("decoded", given.get("decoded", "true")):
        return AS_STORED
    return SCHEMAS[given.get("view", _DEFAULT)]


def _columns(given: Mapping[str, str]) -> pa.Schema:
    schema = _all_columns(given)
    names = (
        [name.strip() for name in given.get("columns", "").split(",")] if "columns" in given else schema.names
    )
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        refuse("columns", given["columns"], f"some of {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names])


def _spelled(schema: pa.Schema) -> pa.Schema:
    """Return the schema in Spark's spelling for Arrow: the names of the parts of a map differ."""
    return _as_arrow(from_arrow_schema(schema, prefer_timestamp_ntz=False))


def _as_arrow(schema: StructType) -> pa.Schema:
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before Spark 4.2, which always has them in UTC
        return to_arrow_schema(schema)


def _check(given: Mapping[str, str], others: frozenset[str], what: str) -> None:
    wrong = sorted(others & given.keys())
    if wrong:
        raise ConfigurationError(f"{what} does not have the option {wrong[0]}", option=wrong[0])
