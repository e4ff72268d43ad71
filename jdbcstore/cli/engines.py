"""The engines that answer queries of the messages: Spark SQL, or DuckDB for small stores."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from jdbcstore.cli.output import note
from jdbcstore.cli.spark_options import SparkOptions
from jdbcstore.errors import IN_JOURNAL, QueryFailed

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader
    from pyspark.sql import DataFrame, SparkSession

    from jdbcstore.analytics import Analytics
    from jdbcstore.analytics.duck import DuckViews
    from jdbcstore.config import Configuration

SPARK, DUCKDB = "spark", "duckdb"
_HERE = SparkOptions()
DIALECTS = {SPARK: "", DUCKDB: "duckdb"}
"""Dialect of each engine in the named queries: see :func:`jdbcstore.analytics.questions.named`."""

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


class Answer(Protocol):
    """The rows of an answer, which can be read once."""

    columns: list[str]
    numbers: set[str]
    """The numeric columns."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row with all its columns, as JSON values."""

    def write(self, folder: Path) -> None:
        """Write Parquet files to a folder that does not exist."""


class SqlEngine(Protocol):
    """The views of a store, with an engine that answers queries."""

    title: str
    queries: dict[str, str]
    """The named queries."""
    views: tuple[str, ...]

    def answer(self, query: str) -> AbstractContextManager[Answer]:
        """Run a query. The result is valid inside the block; an error of the query becomes one line."""


def default_engine(spark: SparkOptions, archives: Sequence[str]) -> str:
    """Return DuckDB if it is installed, and neither an option nor an archive needs Spark."""
    return SPARK if spark or archives or find_spec(DUCKDB) is None else DUCKDB


@contextmanager
def engine_of(
    name: str, where: Configuration, spark: SparkOptions = _HERE, archives: Sequence[str] = ()
) -> Iterator[SqlEngine]:
    """Open the engine of this name with the views of a store, and with ``history`` if there are archives."""
    if name == DUCKDB:
        spark.refuse("DuckDB has no cluster")
        if archives:
            raise click.UsageError("DuckDB does not read archives; omit --archive, or --engine")
        from jdbcstore.analytics import duck

        with duck.connect(where) as connection:
            if connection.has_journal:
                note(IN_JOURNAL)
            yield _Duck(connection)
    else:
        with spark_views(where, spark, archives) as views:
            yield _Spark(views)


class SparkAnswer:
    """A DataFrame."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self.columns = frame.columns
        self.numbers = {name for name, kind in frame.dtypes if kind.partition("(")[0] in _NUMBERS}

    def rows(self) -> Iterator[dict[str, Any]]:
        from jdbcstore.analytics import as_json

        return map(json.loads, as_json(self._frame))

    def write(self, folder: Path) -> None:
        self._frame.write.parquet(str(folder.absolute()))


class _Spark:
    title = "Spark SQL"

    def __init__(self, views: Analytics) -> None:
        from jdbcstore.analytics import VIEWS
        from jdbcstore.analytics.questions import named

        self._views = views
        self.queries = named(DIALECTS[SPARK])
        self.views: tuple[str, ...] = VIEWS

    @contextmanager
    def answer(self, query: str) -> Iterator[Answer]:
        with answer(self._views, query) as frame:
            yield frame


class _DuckAnswer:
    def __init__(self, reader: RecordBatchReader | None) -> None:
        import pyarrow.types as kinds

        self._reader = reader
        schema = () if reader is None else reader.schema
        self.columns = [field.name for field in schema]
        self.numbers = {
            field.name
            for field in schema
            if kinds.is_integer(field.type) or kinds.is_floating(field.type) or kinds.is_decimal(field.type)
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        from jdbcstore.analytics.duck import as_rows

        return iter(()) if self._reader is None else as_rows(self._reader)

    def write(self, folder: Path) -> None:
        from jdbcstore.analytics.duck import write_parquet

        if self._reader is not None:
            write_parquet(self._reader, folder)


class _Duck:
    title = "DuckDB"

    def __init__(self, views: DuckViews) -> None:
        from jdbcstore.analytics.duck import VIEWS
        from jdbcstore.analytics.questions import named

        self._views = views
        self.queries = named(DIALECTS[DUCKDB])
        self.views: tuple[str, ...] = VIEWS

    @contextmanager
    def answer(self, query: str) -> Iterator[Answer]:
        try:
            with self._views.explained(), self._views.picture():
                yield _DuckAnswer(self._views.query(query))
        except QueryFailed as error:
            raise QueryFailed(f"{error} (DuckDB; for Spark SQL: --engine spark)") from error


def spark_session(options: SparkOptions = _HERE, where: str | Configuration | None = None) -> SparkSession:
    """Open the Spark session on the chosen cluster, with a progress bar on a terminal.

    :param where: the store to read; its database is checked first, because Spark takes seconds to start
    """
    from jdbcstore import analytics

    if options.remote is not None:
        from jdbcstore.analytics.remote import remote_session

        return remote_session(options.remote)
    if where is not None:
        _check(where)
    root = logging.getLogger()
    if not root.handlers:
        # py4j logs a traceback there for each call that Ctrl-C interrupts.
        root.addHandler(logging.NullHandler())
    signal.signal(signal.SIGTERM, _end)
    bar = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    return analytics.session(options.master, **{**bar, **options.conf})


def _end(number: int, _frame: object) -> None:
    """End Java too, because it may not notice that this process ends."""
    from jdbcstore.analytics.spark_session import end_java

    signal.signal(number, signal.SIG_IGN)
    end_java()
    raise SystemExit(128 + number)


def _check(where: str | Configuration) -> None:
    from jdbcstore.config import Configuration, DataSourceConfig
    from jdbcstore.database.session import DatabaseSession

    if isinstance(where, str):
        where = Configuration(data_source=DataSourceConfig(url=where))
    DatabaseSession.configured(where, read_only=True).close()


@contextmanager
def spark_views(
    where: str | Configuration, options: SparkOptions = _HERE, archives: Sequence[str] = ()
) -> Iterator[Analytics]:
    """Open the views of a store in Spark, and ``history`` if there are archives."""
    from jdbcstore import analytics

    if archives and options.remote is not None:
        raise click.UsageError("archives need Spark on this machine; omit --remote")
    with analytics.connect(spark_session(options, where), where) as views:
        for each in archives:
            views.include(_kept_messages(views.spark, each))
        if views.has_journal:
            note(IN_JOURNAL)
        yield views


def _kept_messages(spark: SparkSession, folder: str) -> DataFrame:
    """Return the messages of an archive, or of the files of a journal."""
    from jdbcstore.journal import inspection
    from jdbcstore.tools import archive, journal_views

    if (
        Path(folder).is_dir()
        and not archive.Archive.is_one(Path(folder))
        and inspection.segments(Path(folder))
    ):
        return journal_views.read(spark, folder)
    return archive.read(spark, folder)


@contextmanager
def answer(views: Analytics, query: str) -> Iterator[SparkAnswer]:
    """Run a query in Spark. The result is valid inside the block; an error of the query becomes one line."""
    with views.explained(), views.picture():
        yield SparkAnswer(views.spark.sql(query))
