"""The views of one store in a Spark session, live or as of one snapshot."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jdbcstore.analytics.decoding import plan_decoding
from jdbcstore.analytics.pushdown import register_dialect
from jdbcstore.analytics.queries import count_ids, journal, mean_size, nth_id
from jdbcstore.analytics.reading import Reading, Stored
from jdbcstore.analytics.spark_session import check_session, ship
from jdbcstore.analytics.vendors import Vendor, missing_driver, vendor_of
from jdbcstore.analytics.views import VIEWS, Shown, define
from jdbcstore.config import Configuration, DataSourceConfig, StoreConfig
from jdbcstore.database.session import Session
from jdbcstore.errors import IN_JOURNAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_FETCHED = 16 * 1024 * 1024
"""Approximate bytes of one fetch of a partition."""
_MOST_ROWS = 5000
"""Maximum rows of one fetch; larger fetches are not faster."""


def connect(spark: SparkSession, where: str | Configuration, config: StoreConfig | None = None) -> Analytics:
    """Register the views of a store: see :data:`~jdbcstore.analytics.VIEWS`.

    The views are live: each query reads what is committed at that time, in one statement for each view that
    it names. To read several views, or many partitions, as of one moment, use :meth:`Analytics.picture`.

    :param where: a SQLAlchemy or JDBC URL, or a :class:`Configuration`
    :param config: the store's options, in place of the configuration's: names of tables
    :raises ConfigurationError: Spark cannot read this database; the message says what is missing
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent, or are not ActiveMQ's
    """
    check_session(spark)
    if isinstance(where, str):
        where = Configuration(data_source=DataSourceConfig(url=where))
    if config is not None:
        where = replace(where, store=config)
    return Analytics(spark, Session.configured(where, read_only=True))


class Analytics(contextlib.AbstractContextManager["Analytics"]):
    """The views of one store in the session ``spark``, until :meth:`close`; made by :func:`connect`."""

    def __init__(self, spark: SparkSession, session: Session) -> None:
        self.spark = spark
        self._session = session
        try:
            name = session.adapter.name
            self._vendor = vendor_of(name)
            _check_driver(spark, name, self._vendor)
            ship(spark)
            plan_decoding(spark)
            with session.translated(), session.engine.connect() as connection:
                meaning = self._vendor.meaning(connection, session.tables)
            url = register_dialect(spark, self._vendor.driver, self._vendor.url(session.engine.url), meaning)
            # Spark keeps a catalog as long as its session, which several processes may share: under a name
            # that was used before, it would go on reading the earlier store.
            catalog = f"jdbcstore_{uuid.uuid4().hex}"
            self._reading = Reading(spark, session, self._vendor, url, catalog, self._fetch_size())
            self._reading.open_catalog()
            self.has_journal = session.has_own_tables and bool(self._one(journal(session.tables))[0])
            """Whether a journal may hold messages that these views do not show."""
            if self.has_journal:
                log.warning("%s: %s", session.place, IN_JOURNAL)
            self._shown = Shown(spark, VIEWS)
            self._live = define(self._reading, [])
            self._shown.put(self._live)
        except BaseException:
            session.engine.dispose()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the views and close the connections; the views of the store connected before are restored."""
        self._shown.take(self._live)
        self._session.engine.dispose()

    @property
    def stored(self) -> Stored:
        """The rows as they are stored, for archives and comparisons."""
        return Stored(self._reading)

    @contextlib.contextmanager
    def picture(self, partitions: int | None = None, *, snapshot: bool = True) -> Iterator[None]:
        """Within the block all views are as of one moment, and messages are read in many partitions.

        On PostgreSQL the moment is that of an exported snapshot, which is held until the block ends: keep the
        block short, since VACUUM cannot remove newer dead rows meanwhile. DataFrames made in the block cannot
        be read after it. Other databases offer a snapshot to a single statement only: there each view is read
        as one partition, and is consistent in itself.

        :param partitions: None means one per core of the session
        :param snapshot: False gives up the one moment, and so reads in many partitions on any database: each
            partition of each view is then read as of its own moment
        """
        if snapshot and not self._vendor.export:
            with self._shown.while_in({**self._live}):
                yield
            return
        bounds = self._bounds(partitions or self.spark.sparkContext.defaultParallelism)
        with self._snapshot() if snapshot else contextlib.nullcontext("") as init:
            views = define(replace(self._reading, init=init), bounds)
            with self._shown.while_in(views):
                yield

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[str]:
        """The statement that makes a connection read the exported snapshot."""
        with self._session.translated(), self._session.engine.connect() as connection:
            connection.exec_driver_sql(self._vendor.begin)
            name = connection.exec_driver_sql(self._vendor.export).scalar_one()
            try:
                yield self._vendor.snapshot.format(snapshot=name)
            finally:
                connection.exec_driver_sql("ROLLBACK")

    def _bounds(self, partitions: int) -> list[int]:
        """The IDs that divide the table into this many equal parts."""
        tables = self._session.tables
        [count] = self._one(count_ids(tables))
        places = sorted({count * part // partitions for part in range(1, partitions)} - {0})
        return [self._one(nth_id(tables, place))[0] for place in places]

    def _fetch_size(self) -> int:
        """The rows of one fetch, fewer where messages are large."""
        [mean] = self._one(mean_size(self._session.tables))
        return max(10, min(_MOST_ROWS, int(_FETCHED / max(1, float(mean or 0)))))

    def _one(self, query: Any) -> tuple[Any, ...]:
        with self._session.translated(), self._session.engine.connect() as connection:
            return tuple(connection.execute(query).one())


def _check_driver(spark: SparkSession, name: str, vendor: Vendor) -> None:
    java: Any = spark._jvm
    loader = java.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    try:
        loader.loadClass(vendor.driver)
    except Exception as error:
        raise missing_driver(name, vendor) from error
