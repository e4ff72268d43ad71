"""The views of a store in DuckDB, over streams of Arrow batches: small questions, without Spark or Java."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from jdbcstore.errors import ConfigurationError, QueryFailed, StoreError, installation

try:
    import numpy  # noqa: F401 - which decoding needs
    import pyarrow as pa
    import pyarrow.dataset as ds
except ModuleNotFoundError as missing:
    raise ConfigurationError(f"{missing.name} is not installed; run: {installation('duckdb')}") from missing

from jdbcstore.analytics import comments
from jdbcstore.analytics.arrow.conditions import Expression
from jdbcstore.analytics.arrow.fetching import Fetching
from jdbcstore.analytics.arrow.reading import ArrowReading, database_of, has_journal
from jdbcstore.analytics.arrow.views import SCHEMAS, rows_of_view
from jdbcstore.analytics.questions import hinted
from jdbcstore.analytics.vendors import VENDORS
from jdbcstore.config import Configuration
from jdbcstore.database.engine import Database
from jdbcstore.message.dead_letters import CAUSE
from jdbcstore.message.values import plain
from jdbcstore.util.closing import Closing

VIEWS = comments.VIEWS
"""Names of the views, the same as in Spark."""
_SETTINGS = (
    # What Spark does by itself.
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
    # Nothing is fetched from the network that a query does not name.
    "SET autoinstall_known_extensions = false",
)
_HISTORY = f"""
CREATE TEMP VIEW history AS
SELECT id, destination, destination_type, msgid_prod, msgid_seq, 'waiting' AS state,
  timestamp AS produced, NULL::TIMESTAMPTZ AS removed,
  (epoch_ms(current_timestamp) - epoch_ms(timestamp)) / 1000 AS dwell, jms_priority::BIGINT AS priority,
  message_size AS size, redelivery_counter::BIGINT AS redeliveries, properties['{CAUSE}'].text AS reason
FROM messages_decoded WHERE xid IS NULL
UNION ALL
SELECT id, container, split_part(container, '://', 1), msgid_prod, msgid_seq, outcome, produced, removed,
  (epoch_ms(removed) - epoch_ms(produced)) / 1000, jms_priority, msg_size, redeliveries, reason
FROM jdbcstore_removed
"""  # noqa: S608


def connect(source: str | Configuration) -> DuckViews:
    """Open the views of a store in a DuckDB of this process.

    >>> with duck.connect("sqlite:///mq.db") as views:
    ...     print(views.query("SELECT destination, depth FROM destinations").read_all())

    :raises ConfigurationError: duckdb is not installed, or the URL is not valid
    :raises SchemaError: the tables are missing
    """
    return DuckViews(database_of(source))


class DuckViews(Closing):
    """Live views of one store: each query reads the data committed at that time, until :meth:`close`.

    :raises ConfigurationError: duckdb is not installed
    """

    def __init__(self, database: Database) -> None:
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise ConfigurationError(f"DuckDB is not installed; run: {installation('duckdb')}") from error
        self._database = database
        self._error: type[Exception] = duckdb.Error
        self._failed: list[StoreError] = []
        """The error of a view that is read, which DuckDB would report as one of its own."""
        self._first: tuple[str, ...] = ()
        fetching = Fetching(database)
        try:
            self.has_journal = has_journal(fetching)
            """Whether a journal may hold messages that these views do not show."""
        finally:
            fetching.close()
        self._duckdb = duckdb.connect()
        try:
            for setting in _SETTINGS:
                self._duckdb.execute(setting)
            for name, view in self._views().items():
                self._duckdb.register(name, view)
            self._duckdb.execute(_HISTORY)
        except BaseException:
            self._duckdb.close()
            raise

    def close(self) -> None:
        """Drop the views."""
        self._duckdb.close()

    def query(
        self, text: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> pa.RecordBatchReader | None:
        """Run a statement and return its rows as a stream of record batches; None if it returns no rows.

        >>> views.query("SELECT id FROM messages WHERE destination = ?", ["queue://ORDERS"])
        >>> views.query("SELECT id FROM messages WHERE id > $after", {"after": 7})

        :param parameters: the values of ``?``, or of ``$name`` by their names
        :raises QueryFailed: DuckDB rejected the query, or it failed
        """
        with self.explained():
            changes = any(
                kind.name == "CHANGED_ROWS"
                for statement in self._duckdb.extract_statements(text)[-1:]
                for kind in statement.expected_result_type
            )
            answer = self._duckdb.sql(text, params=parameters)
            if answer is None:
                return None
            if changes and answer.columns == ["Count"]:
                answer.fetchall()  # a statement runs when its result is read
                return None
            return answer.to_arrow_reader()

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Translate DuckDB's errors in the block, such as those of reading an answer.

        :raises QueryFailed: with DuckDB's message and suggestion, in one line
        :raises StoreUnavailable: the database did not answer while a view was read
        """
        self._failed.clear()
        try:
            yield
        except (self._error, pa.ArrowException, OSError) as error:
            if self._failed:
                raise self._failed[0] from error
            # What follows the first empty line is the query, with a mark at the place.
            said = str(error).strip().partition("\n\n")[0]
            raise QueryFailed(hinted(" ".join(said.split()))) from error

    @contextlib.contextmanager
    def picture(self) -> Iterator[None]:
        """Keep all views on one snapshot within the block on PostgreSQL; elsewhere each view has its own."""
        vendor = VENDORS.get(self._database.adapter.name)
        if vendor is None or not vendor.export:
            yield
            return
        held = Fetching(self._database, (vendor.begin,))
        try:
            with self._database.translated():
                name = held.connection.exec_driver_sql(vendor.export).scalar_one()
            self._first = (vendor.begin, vendor.snapshot.format(snapshot=name))
            yield
        finally:
            self._first = ()
            held.close()

    def _views(self) -> dict[str, ds.Dataset]:
        in_doubt = self._database.tables.messages.c.xid.is_not(None)
        views = {name: _view(schema, partial(self._others, name)) for name, schema in SCHEMAS.items()}
        of_messages = {"messages": None, "messages_decoded": None, "in_doubt": in_doubt}
        for name, clause in of_messages.items():
            views[name] = _view(SCHEMAS[name], partial(self._messages, clause))
        views["jdbcstore_removed"] = views.pop("removed")
        return views

    def _messages(self, clause: Any, schema: pa.Schema, filter_: Any) -> ds.Scanner:
        conditions = [] if filter_ is None else [Expression(filter_)]
        batches = ArrowReading(self._database, self._first).batches(schema, conditions, clause)
        return ds.Scanner.from_batches(self._started(batches), schema=schema)

    def _others(self, name: str, schema: pa.Schema, filter_: Any) -> ds.Scanner:
        batches = self._started(rows_of_view(name, self._database, self._first))
        return ds.Scanner.from_batches(batches, schema=SCHEMAS[name], columns=schema.names, filter=filter_)

    def _started(self, batches: Iterator[Any]) -> Iterator[Any]:
        with self._noting():
            next(batches)
        return self._noted(batches)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self._failed.append(error)
            raise

    def _noted(self, batches: Iterator[Any]) -> Iterator[Any]:
        with self._noting():
            yield from batches


class _View(ds.Dataset):  # type: ignore[misc]
    """A dataset that is asked for the columns and rows that a query needs, each time that it is read."""

    _columns: pa.Schema
    _scan: Callable[[pa.Schema, Any], ds.Scanner]

    @property
    def schema(self) -> pa.Schema:
        return self._columns

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> ds.Scanner:  # noqa: A002
        names = columns or self._columns.names
        return self._scan(pa.schema([self._columns.field(name) for name in names]), filter)


def _view(schema: pa.Schema, scan: Callable[[pa.Schema, Any], ds.Scanner]) -> _View:
    # PyArrow's own datasets are made in C++ only, and their constructor refuses to be called.
    view: _View = _View.__new__(_View)
    view._columns, view._scan = schema, scan
    return view


def as_rows(reader: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """Yield each row as a JSON object with all its columns, as Spark writes them."""
    names = reader.schema.names
    for batch in reader:
        columns = [[_json(value, column.type) for value in column.to_pylist()] for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def _json(value: Any, kind: pa.DataType) -> Any:
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return plain(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime():
            local = value.astimezone() if value.tzinfo else value
            return local.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case dict():
            return {name: _json(item, kind.field(name).type) for name, item in value.items()}
        case list() if pa.types.is_map(kind):
            return {str(name): _json(item, kind.item_type) for name, item in value}
        case list():
            return [_json(item, kind.value_type) for item in value]
    return str(value)


def write_parquet(reader: pa.RecordBatchReader, folder: Path) -> None:
    """Write the rows as a Parquet file in a new folder.

    :raises QueryFailed: there is something in its place
    """
    import pyarrow.parquet as pq

    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise QueryFailed(f"{folder} exists already; name a folder that does not") from error
    with pq.ParquetWriter(folder / "part-00000.parquet", reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
