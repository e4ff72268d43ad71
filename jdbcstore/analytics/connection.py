"""A store's tables as views of a Spark session."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from jdbcstore.analytics.dialect import teach
from jdbcstore.analytics.drivers import missing_driver
from jdbcstore.analytics.planning import plan_decoding
from jdbcstore.analytics.queries import count_ids, journal, mean_size, nth_id
from jdbcstore.analytics.reading import Reading, Source
from jdbcstore.analytics.session import check_session
from jdbcstore.analytics.shipping import ship
from jdbcstore.analytics.shown import Shown
from jdbcstore.analytics.stored import Stored
from jdbcstore.analytics.vendors import Vendor, vendor_of
from jdbcstore.analytics.views import VIEWS, define
from jdbcstore.config import Configuration, StoreConfig
from jdbcstore.database.session import Session
from jdbcstore.errors import IN_JOURNAL, ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_FETCHED = 16 * 1024 * 1024
"""Bytes that one fetch of a partition holds, about."""
_MOST_ROWS = 5000
"""Of one fetch; more are no faster."""


def connect(spark: SparkSession, where: str | Configuration, config: StoreConfig | None = None) -> Analytics:
    """Register the views of a store: see :data:`~jdbcstore.analytics.VIEWS`.

    They are live: each query reads what is committed then, in one statement for each view that it
    names. To read with many partitions, or several views, as of one moment, use
    :meth:`Analytics.picture`.

    :param where: a SQLAlchemy or JDBC URL, or a :class:`Configuration`
    :param config: the store's options, in place of the configuration's: names of tables
    :raises ConfigurationError: Spark cannot read this database; says what is missing
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent, or are not ActiveMQ's
    """
    check_session(spark)
    if isinstance(where, str):
        return Analytics(spark, Session(where, config or StoreConfig(), read_only=True))
    data_source = where.data_source
    if data_source.url is None:
        raise ConfigurationError("no database is named; give url", option="url")
    session = Session(
        data_source.url,
        config or where.store,
        user=data_source.user,
        password=data_source.reveal(),
        read_only=True,
    )
    return Analytics(spark, session)


class Analytics:
    """The views of one store, until :meth:`close`; made by :func:`connect`."""

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
            url = teach(spark, self._vendor, self._vendor.url(session.engine.url), meaning)
            # Spark keeps a catalog for as long as its session, which several processes may share: under a
            # name that was used, it would go on reading the store of whoever used it.
            catalog = f"jdbcstore_{uuid.uuid4().hex}"
            self._source = Source(spark, session, self._vendor, url, catalog, self._fetch_size())
            self._source.open_catalog()
            self.has_journal = session.has_own_tables and bool(self._one(journal(session.tables))[0])
            """Whether a journal may have what these views do not show."""
            if self.has_journal:
                log.warning("%s: %s", session.place, IN_JOURNAL)
            self._shown = Shown(spark, VIEWS)
            self._live = define(Reading(self._source, ""), [])
            self._shown.put(self._live)
        except BaseException:
            session.engine.dispose()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the views and the connections; those of a store that was connected before are there again."""
        self._shown.take(self._live)
        self._session.engine.dispose()

    @property
    def stored(self) -> Stored:
        """The messages as they are stored, for whoever keeps or compares them."""
        return Stored(Reading(self._source, ""))

    @contextlib.contextmanager
    def picture(self, partitions: int | None = None) -> Iterator[None]:
        """Within the block, all views show one moment, and the messages are read in many partitions.

        On PostgreSQL the moment is that of an exported snapshot, which is held open until the block
        ends: take what you need and leave, for the database cannot clean up behind it. Frames made in
        the block cannot be read behind it. Other databases can give one picture to one statement only:
        there each view is read as one partition, and is consistent in itself.

        :param partitions: None is one for each core of the session
        """
        if not self._vendor.export:
            with self._shown.while_in({**self._live}):
                yield
            return
        bounds = self._bounds(partitions or self.spark.sparkContext.defaultParallelism)
        with self._snapshot() as init, self._shown.while_in(define(Reading(self._source, init), bounds)):
            yield

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[str]:
        """What a connection begins with to read what every other one does."""
        with self._session.translated(), self._session.engine.connect() as connection:
            connection.exec_driver_sql(self._vendor.begin)
            name = connection.exec_driver_sql(self._vendor.export).scalar_one()
            try:
                yield self._vendor.snapshot.format(snapshot=name)
            finally:
                connection.exec_driver_sql("ROLLBACK")

    def _bounds(self, partitions: int) -> list[int]:
        """The IDs that cut those which are there into so many equal parts."""
        tables = self._session.tables
        [count] = self._one(count_ids(tables))
        places = sorted({count * part // partitions for part in range(1, partitions)} - {0})
        return [self._one(nth_id(tables, place))[0] for place in places]

    def _fetch_size(self) -> int:
        """The rows of one fetch, so that large messages do not fill the memory."""
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
