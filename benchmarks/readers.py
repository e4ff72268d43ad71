"""The raw readers that Spark is compared with: the tables read as fast as each database permits."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pymysql
from sqlalchemy import NullPool, create_engine

import jdbcstore
from benchmarks import messages
from jdbcstore.analytics.vendors import VENDORS
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.postgresql import PostgresqlServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READERS = 2
"""The same number as Spark's tasks."""
_SCAN = "SELECT container, msg FROM ACTIVEMQ_MSGS"


@dataclass
class Source:
    """A database with messages: a query run directly, and ways to read everything, the fastest first."""

    url: str
    ask: Callable[[str], Any]
    scans: dict[str, Callable[[], Any]] = field(default_factory=dict)


@contextmanager
def postgresql(folder: Path, count: int) -> Iterator[Source]:
    del folder
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        url = server.url.render_as_string(hide_password=False)
        plain = url.replace("+psycopg", "")
        jdbcstore.open(url, cleanup_period=0.0).close()
        messages.copy(plain, count)
        cuts = [count * part // READERS for part in range(READERS + 1)]
        parts = [f"{_SCAN} WHERE id > {low} AND id <= {high}" for low, high in pairwise(cuts)]
        pool = stack.enter_context(ProcessPoolExecutor(READERS, get_context("spawn")))
        connection = stack.enter_context(closing(psycopg.connect(plain, autocommit=True)))
        source = Source(url, lambda query: connection.execute(query).fetchall())
        copied = partial(_copy, plain)
        source.scans[f"COPY BINARY, {READERS} processes"] = lambda: list(pool.map(copied, parts))
        source.scans["COPY BINARY, 1 connection"] = lambda: copied(_SCAN)
        if importlib.util.find_spec("adbc_driver_postgresql") is not None:
            threads = stack.enter_context(ThreadPoolExecutor(READERS))
            source.scans[f"ADBC, {READERS} connections"] = lambda: list(
                threads.map(partial(_adbc, plain), parts)
            )
        yield source


def _copy(url: str, query: str) -> int:
    with (
        psycopg.connect(url) as connection,
        connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT BINARY)") as copy,
    ):
        return sum(len(block) for block in copy)


def _adbc(url: str, query: str) -> int:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return sum(batch.nbytes for batch in cursor.fetch_record_batch())


@contextmanager
def sqlite(folder: Path, count: int) -> Iterator[Source]:
    path = folder / "benchmark.db"
    url = f"sqlite:///{path}"
    jdbcstore.open(url, cleanup_period=0.0).close()
    messages.insert(url, count)
    with closing(sqlite3.connect(path)) as connection:

        def scan() -> int:
            return sum(len(blob) for _, blob in connection.execute(_SCAN))

        yield Source(url, lambda query: connection.execute(query).fetchall(), {"sqlite3": scan})


@contextmanager
def mariadb(folder: Path, count: int) -> Iterator[Source]:
    with ExitStack() as stack:
        server = MariadbServer()
        stack.callback(server.close)
        url = server.url.render_as_string(hide_password=False)
        jdbcstore.open(url, cleanup_period=0.0).close()
        messages.insert(url, count)
        login: dict[str, Any] = {"host": server.host, "port": server.port}
        login |= {"user": server.username, "password": server.password}
        connection = stack.enter_context(closing(pymysql.connect(**login, database=server.username)))

        def ask(query: str) -> Any:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return cursor.fetchall()

        options = folder / "client.cnf"
        options.touch(mode=0o600)
        options.write_text("[client]\n" + "".join(f"{name}={value}\n" for name, value in login.items()))
        client = ["mariadb", f"--defaults-file={options}", "--quick", "--batch", "--raw", server.username]

        def scan() -> None:
            with Path(os.devnull).open("w") as nowhere:
                subprocess.run([*client, "-e", _SCAN], stdout=nowhere, check=True)

        yield Source(url, ask, {"mariadb --quick": scan})


def plain_jdbc(spark: SparkSession, name: str, url: str, count: int) -> DataFrame:
    """Read the table as one would without jdbcstore."""
    driver = VENDORS[name].drivers[0]
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        address = driver.address(engine.url, connection.connection.dbapi_connection)
    options = {
        "url": address.url,
        "driver": driver.name,
        "dbtable": "ACTIVEMQ_MSGS",
        "partitionColumn": "id",
        "lowerBound": "1",
        "upperBound": str(count),
        "numPartitions": str(READERS),
        "fetchsize": str(driver.fetch_size if driver.fetch_size < 0 else 5000),
        **address.properties,
    }
    return spark.read.format("jdbc").options(**options).load()
