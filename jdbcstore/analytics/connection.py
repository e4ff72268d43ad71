"""The views of one store in a Spark session, live or as of one snapshot."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jdbcstore.analytics.addresses import check_jdbc
from jdbcstore.analytics.catalog import check_catalog, name_views
from jdbcstore.analytics.connected import Analytics, bounds_of, exported, needs_java, one
from jdbcstore.analytics.decoding import plan_decoding
from jdbcstore.analytics.pushdown import properties_for, register_dialect
from jdbcstore.analytics.queries import journal
from jdbcstore.analytics.questions import explained
from jdbcstore.analytics.reading import JdbcReading, StoredMessages
from jdbcstore.analytics.remote import is_remote
from jdbcstore.analytics.remote_views import RemoteAnalytics
from jdbcstore.analytics.spark_session import ship
from jdbcstore.analytics.vendors import JdbcDriver, Vendor, missing_driver, vendor_of
from jdbcstore.analytics.views import Shown, define
from jdbcstore.config import Configuration, DataSourceConfig, StoreConfig
from jdbcstore.database.adapters.urls import is_jdbc
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import IN_JOURNAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def connect(
    spark: SparkSession,
    where: str | Configuration,
    config: StoreConfig | None = None,
    *,
    name: str | None = None,
) -> Analytics:
    """Register the views of a store: see :data:`~jdbcstore.analytics.VIEWS`.

    The views are live: each query reads the committed data of that time, in one statement for each view that
    it names. To read several views, or many partitions, as of one moment, use :meth:`Analytics.picture`.

    :param where: a SQLAlchemy or JDBC URL, or a :class:`Configuration`
    :param config: the store's options, in place of the configuration's: names of tables
    :param name: show them as ``jdbcstore.<name>.messages`` and so on, beside those of other stores; None: as
        ``messages``
    :raises ConfigurationError: Spark cannot read this database; the message names the missing part
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent, or are not ActiveMQ's
    """
    if isinstance(where, str):
        where = Configuration(data_source=DataSourceConfig(url=where))
    if config is not None:
        where = replace(where, store=config)
    if is_remote(spark):
        return RemoteAnalytics(spark, where, name)
    return LocalAnalytics(spark, _session(where), name)


def _session(where: Configuration) -> DatabaseSession:
    if is_jdbc(url := where.data_source.url or ""):
        check_jdbc(url)
    return DatabaseSession.configured(where, read_only=True)


@contextlib.contextmanager
def stored_in(spark: SparkSession, where: Configuration) -> Iterator[StoredMessages]:
    """Yield the rows of a store as they are stored, for archives and comparisons; without views.

    :raises ConfigurationError: this is a session of Spark Connect, or Spark cannot read this database
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent, or are not ActiveMQ's
    """
    if is_remote(spark):
        raise needs_java()
    session = _session(where)
    try:
        reading = _reading(spark, session)
        _has_journal(session)
        yield StoredMessages(reading)
    finally:
        session.close()


def _has_journal(session: DatabaseSession) -> bool:
    """Return whether a journal may hold messages that are not in the tables, and log it."""
    has_journal = session.has_own_tables and bool(one(session, journal(session.tables))[0])
    if has_journal:
        log.warning("%s: %s", session.place, IN_JOURNAL)
    return has_journal


def _reading(spark: SparkSession, session: DatabaseSession) -> JdbcReading:
    """Return the reader of this database in this session, without the catalog."""
    adapter = session.adapter.name
    vendor = vendor_of(adapter)
    driver = _driver(spark, adapter, vendor)
    ship(spark)
    tables = session.tables
    with session.translated(), session.engine.connect() as connection:
        meaning = vendor.meaning(connection, tables)
        address = driver.address(session.engine.url, connection.connection.dbapi_connection)
        schema = vendor.schema(connection, tables)
        question = vendor.identity(connection, tables.messages, schema)
        identity = str(connection.exec_driver_sql(question).scalar())
    url = register_dialect(spark, driver.name, address.url, meaning)
    properties = properties_for(address, identity, question)
    properties["fetchsize"] = str(driver.fetch_size)
    # Spark keeps a catalog as long as its session, which several processes may share: under a name that was
    # used before, it would go on reading the earlier store.
    catalog = f"jdbcstore_{uuid.uuid4().hex}"
    reading = JdbcReading(spark, session, url, properties, schema, catalog)
    reading.check()
    return reading


class LocalAnalytics(Analytics):
    """The views in a session with Java: its JDBC driver reads, the planner decodes selected columns."""

    def __init__(self, spark: SparkSession, session: DatabaseSession, name: str | None) -> None:
        self.spark = spark
        self._session = session
        try:
            if name is not None:
                check_catalog(spark)
            self._reading = _reading(spark, session)
            self._vendor = self._reading.vendor
            plan_decoding(spark)
            self._reading.open_catalog()
            self.has_journal = _has_journal(session)
            self._archived: list[DataFrame] = []
            self._shown = Shown(spark, name)
            self._views = define(self._reading, [])
            self._live = self._shown.put(self._views)
            if name is not None:
                name_views(spark, name)
        except BaseException:
            session.close()
            raise

    def close(self) -> None:
        self._shown.remove(self._live)
        self._session.close()

    def explained(self) -> contextlib.AbstractContextManager[None]:
        return explained()

    def include(self, archived: DataFrame) -> None:
        self._archived.append(archived)
        before, self._views = self._live, define(self._reading, [], self._archived)
        self._live = self._shown.put(self._views)
        self._shown.remove(before)

    @contextlib.contextmanager
    def picture(self, partitions: int | None = None, *, snapshot: bool = True) -> Iterator[None]:
        if snapshot and not self._vendor.export:
            with self._shown.while_in({**self._views}):
                yield
            return
        bounds = bounds_of(self._session, partitions or self.spark.sparkContext.defaultParallelism)
        with exported(self._session, self._vendor) if snapshot else contextlib.nullcontext("") as name:
            init = self._vendor.snapshot.format(snapshot=name) if snapshot else ""
            views = define(replace(self._reading, init=init), bounds, self._archived)
            with self._shown.while_in(views):
                yield


def _driver(spark: SparkSession, name: str, vendor: Vendor) -> JdbcDriver:
    """Return the vendor's driver that this session has."""
    java: Any = spark._jvm
    loader = java.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    for driver in vendor.drivers:
        try:
            loader.loadClass(driver.name)
        except Exception as error:
            missing = error
        else:
            return driver
    raise missing_driver(name, vendor) from missing
