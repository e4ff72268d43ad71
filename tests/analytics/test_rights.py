"""The rights that docs/spark.md gives analysts are enough to read, and let them change nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import NullPool, create_engine

import jdbcstore
from jdbcstore import Message, analytics
from jdbcstore.analytics import duck
from jdbcstore.errors import StoreError
from tests.support import ROOT
from tests.support.databases import Database
from tests.support.servers import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_an_analyst_may_only_read(server: Server, database: Database, spark: SparkSession) -> None:
    """Each reader also ends its connections: PostgreSQL drops no database to which another login has one."""
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        store.queue("ORDERS").add_message(Message("two pints"))
    own = database.engine.url
    postgresql = own.get_backend_name() == "postgresql"
    granted = re.search(
        rf"^\| {'PostgreSQL' if postgresql else 'MariaDB, MySQL'} \| (`GRANT.*)\|$",
        (ROOT / "docs" / "spark.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert granted is not None
    login = "ROLE analyst LOGIN PASSWORD" if postgresql else "USER analyst IDENTIFIED BY"
    administrator = own.set(username=server.administrator, password=server.administrator_password)
    engine = create_engine(administrator, poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE {login} 'secret'")
        for statement in re.findall(r"`(.*?)`", granted[1]):
            connection.exec_driver_sql(statement.replace("mq.*", f"{own.database}.*"))

    url = own.set(username="analyst", password="secret").render_as_string(hide_password=False)
    with analytics.connect(spark, url):
        for view in ("messages_decoded", "destinations", "history"):
            assert spark.table(view).count() == 1
    assert jdbcstore.read_arrow(url, ["body_text"]).read_all().to_pylist() == [{"body_text": "two pints"}]
    with duck.connect(url) as views:
        depths = views.query("SELECT depth FROM destinations")
        assert depths is not None
        assert depths.read_all().to_pylist() == [{"depth": 1}]
    with pytest.raises(StoreError, match=r"(?i)denied"), jdbcstore.open(url) as store:
        store.queue("ORDERS").add_message(Message("ale"))
