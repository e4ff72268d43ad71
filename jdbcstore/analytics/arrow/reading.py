"""One statement over ACTIVEMQ_MSGS as a stream of record batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlalchemy import ColumnElement, Select, inspect, select

from jdbcstore.analytics.arrow.conditions import Condition, conditions, fulfilled
from jdbcstore.analytics.arrow.fetching import Fetching
from jdbcstore.analytics.arrow.table import SIZE, STORED, ViewRows, schema_of, stored_for
from jdbcstore.analytics.queries import journal
from jdbcstore.config import Configuration, StoreConfig
from jdbcstore.database.engine import Database
from jdbcstore.errors import IN_JOURNAL, ConfigurationError

log = logging.getLogger(__name__)


def database_of(source: str | Configuration, config: StoreConfig | None = None) -> Database:
    """Return the database of a URL or a configuration, which must exist.

    :raises ConfigurationError: no database is named, or the URL is not valid
    """
    if isinstance(source, str):
        return Database(source, config or StoreConfig(), must_exist=True)
    if source.data_source.url is None:
        raise ConfigurationError("no database is named; give url", option="url")
    with source.locating_errors():
        url, user, password = source.login()
        return Database(url, config or source.store, user=user, password=password, must_exist=True)


def read(database: Database, columns: Sequence[str] | None, where: Any) -> pa.RecordBatchReader:
    """See :func:`jdbcstore.analytics.arrow.read_arrow`."""
    schema = schema_of(columns)
    return ArrowReading(database).reader(schema, conditions(where))


@dataclass(frozen=True, slots=True)
class ArrowReading:
    """Reader of the messages of one database."""

    database: Database
    first: tuple[str, ...] = ()
    """Statements that each connection begins with, for example to set a snapshot."""

    def reader(
        self, schema: pa.Schema, all_of: Sequence[Condition], clause: ColumnElement[bool] | None = None
    ) -> pa.RecordBatchReader:
        """Return a reader of the messages that satisfy all conditions, and the clause."""
        return started(schema, self.batches(schema, all_of, clause))

    def batches(
        self, schema: pa.Schema, all_of: Sequence[Condition], clause: ColumnElement[bool] | None = None
    ) -> Iterator[pa.RecordBatch | None]:
        """Yield None once the statement runs, then the batches that are not empty."""
        stored = stored_for([*schema.names, *(name for condition in all_of for name in condition.names)])
        query = self._query(stored, [condition.clause(self.database.tables) for condition in all_of], clause)
        fetching = Fetching(self.database, self.first)
        try:
            if has_journal(fetching):
                log.warning("%s: %s", self.database.place, IN_JOURNAL)
            pages = fetching.pages(query, [STORED[name] for name in stored])
            yield None
            for page in pages:
                rows = ViewRows(dict(zip(stored, page, strict=True)))
                rows = fulfilled(rows, all_of, schema.names)
                if len(rows):
                    yield rows.record_batch(schema)
        finally:
            fetching.close()

    def _query(
        self,
        stored: Sequence[str],
        clauses: Sequence[ColumnElement[bool] | None],
        clause: ColumnElement[bool] | None,
    ) -> Select[Any]:
        messages, adapter = self.database.tables.messages, self.database.adapter
        columns = [
            adapter.size(messages.c.msg).label(SIZE) if name == SIZE else messages.c[name] for name in stored
        ]
        return select(*columns).where(*(each for each in (*clauses, clause) if each is not None))


def started(schema: pa.Schema, batches: Iterator[pa.RecordBatch | None]) -> pa.RecordBatchReader:
    """Return the reader of a generator, which is run up to its first value."""
    next(batches)  # a generator that was never started would not run its ``finally``
    return pa.RecordBatchReader.from_batches(schema, batches)


def has_journal(fetching: Fetching) -> bool:
    """Return whether a journal may have messages that are not in the tables."""
    tables = fetching.database.tables
    with fetching.database.translated():
        ours = inspect(fetching.connection).has_table(str(tables.state.name))
        return ours and bool(fetching.connection.execute(journal(tables)).scalar())
