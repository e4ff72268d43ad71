"""One Spark session for all, and each backend's database as its views."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

import jdbcstore
from jdbcstore.analytics.vendors import VENDORS, find_jar
from jdbcstore.cli import main
from jdbcstore.errors import ConfigurationError
from tests.conftest import new_database
from tests.support import recordings
from tests.support.analytics import home
from tests.support.analytics.corpus import CDatabase, IcuDatabase, corpus, fill
from tests.support.backends import BACKENDS
from tests.support.cli.command_line import Result
from tests.support.databases import Database, MariadbDatabase, MysqlDatabase, SqliteDatabase
from tests.support.jvm import QUICK
from tests.support.maven import CONNECTOR_J, connector_missing
from tests.support.pool import ServerPool, memory
from tests.support.require import unavailable

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from jdbcstore.analytics import Analytics

Invoke = Callable[..., Result]


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes down what it did, for its history server to show."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Spark whose Python workers start quickly."""
    pytest.importorskip("pyspark")
    return home.make(tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="package")
def spark(event_log: Path, spark_home: Path) -> Iterator[SparkSession]:
    """A Spark whose Java ends with the last test that uses it, since it has more memory than any server."""
    from pyspark import SparkContext

    from jdbcstore import analytics
    from jdbcstore.analytics import decoding

    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.defaultJavaOptions": " ".join(QUICK),
        "spark.sql.maxMetadataStringLength": "2000",
        "spark.sql.hive.thriftServer.singleSession": "true",
        # Else each function of PySpark looks for the line that calls it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Of the wait for a Python to start, on a machine that has much else to do.
        "spark.python.authenticate.socketTimeout": "120s",
    }
    if connector_missing() is None:  # which Debian does not have
        settings["spark.jars"] = str(CONNECTOR_J)
    try:
        with home.used(spark_home):
            session = analytics.session("local[2]", **settings)
    except ConfigurationError as missing:
        unavailable("spark", str(missing))
    yield session
    gateway: Any = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # which Java reads, to end with its parent
    gateway.proc.wait(60)
    # If tests of another group follow here: what refers to this Java.
    SparkContext._gateway = SparkContext._jvm = None
    decoding._function.cache_clear()


@pytest.fixture
def databases(
    server_pool: ServerPool, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[dict[str, Database]]:
    """One of each vendor, with the rows of the corpus, by the vendor's name."""
    with ExitStack() as opened:
        databases = {}
        for backend in BACKENDS:
            if backend.id not in ("sqlite", "postgresql", "mariadb"):
                continue
            if find_jar(VENDORS[backend.id]) is None:
                unavailable("spark", f"no JDBC driver for {backend.id}")
            (tmp_path / backend.id).mkdir()
            database = new_database(backend, server_pool, tmp_path / backend.id, request)
            opened.callback(database.close)
            databases[backend.id] = database
            fill(database, corpus())
        yield databases


@pytest.fixture(scope="module")
def stores(
    request: pytest.FixtureRequest, server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Database]]:
    """The same rows in databases whose texts compare each in its own way."""
    kinds: dict[str, type[Database]] = {
        "postgresql_c": CDatabase,
        "postgresql_icu": IcuDatabase,
        "mariadb": MariadbDatabase,
        "mysql": MysqlDatabase,
    }
    with ExitStack() as opened:
        sqlite = SqliteDatabase(tmp_path_factory.mktemp("stores"), memory())
        opened.callback(sqlite.close)
        stores: dict[str, Database] = {"sqlite": sqlite}
        for name, kind in kinds.items():
            [backend] = [each for each in BACKENDS if each.id == name.partition("_")[0]]
            address = server_pool.address(backend, lambda: request.getfixturevalue("docker_services"))
            stores[name] = kind(address)
            opened.callback(stores[name].close)
        for database in stores.values():
            fill(database, corpus())
        yield stores


@pytest.fixture
def connect(spark: SparkSession, database: Database) -> Iterator[Callable[[], Analytics]]:
    """Shows this test's database, whose tables are made if they are not there."""
    from jdbcstore import analytics

    opened = []

    def connect() -> Analytics:
        jdbcstore.open(database.url, cleanup_period=0.0).close()
        try:
            opened.append(analytics.connect(spark, database.url))
        except ConfigurationError as missing:
            unavailable("spark", str(missing))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


@pytest.fixture
def recorded(database: Database, connect: Callable[[], Analytics]) -> Analytics:
    """The rows that ActiveMQ wrote, as views."""
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    insert(database, "ACTIVEMQ_MSGS", [message.row for message in recordings.postgres().messages])
    insert(database, "ACTIVEMQ_ACKS", recordings.postgres().acks)
    return connect()


def insert(database: Database, table: str, rows: Any) -> None:
    columns = list(rows[0])
    values = ", ".join(f":{column}" for column in columns)
    with database.engine.connect() as connection:
        connection.execute(text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"), list(rows))


@pytest.fixture
def ask(spark: SparkSession) -> Callable[[str], list[Row]]:
    """The rows that answer a question."""
    return lambda question: spark.sql(question).collect()


@pytest.fixture
def plan(spark: SparkSession) -> Callable[[str], str]:
    """How Spark would answer it."""

    def plan(question: str) -> str:
        return str(spark.sql(question)._jdf.queryExecution().executedPlan().toString())

    return plan


@pytest.fixture
def invoke(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Invoke:
    """Runs ``jdbcstore`` on a file with the recorded rows."""
    assert spark is not None
    for name in [name for name in os.environ if name.startswith("JDBCSTORE_") and "JARS" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    database = SqliteDatabase(tmp_path)
    monkeypatch.setenv("JDBCSTORE_URL", database.url)
    assert main(["init"]) == 0
    insert(database, "ACTIVEMQ_MSGS", [message.row for message in recordings.postgres().messages])
    insert(database, "ACTIVEMQ_ACKS", recordings.postgres().acks)
    database.close()

    def invoke(*arguments: str) -> Result:
        capsys.readouterr()
        code = main([*arguments])
        return Result(code, *capsys.readouterr())

    return invoke
