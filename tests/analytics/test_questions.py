"""Questions have the same answers as of the plain rows, whatever the database means by what it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from jdbcstore.errors import ConfigurationError
from tests.analytics.random_sql import Oracle, Question, Questions
from tests.support.analytics.corpus import CDatabase, IcuDatabase, fill
from tests.support.backends import BACKENDS
from tests.support.databases import Database, MariadbDatabase, MysqlDatabase, SqliteDatabase
from tests.support.pool import ServerPool, memory
from tests.support.require import unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.analytics import Analytics

pytestmark = pytest.mark.timeout(900)

INJECTED = "queue://x\\') OR 1=1 -- "
FIXED = {
    "a parameter is no SQL": Question(
        "SELECT count(*), max(id) FROM {view} WHERE destination = :d", {"d": INJECTED}
    ),
    "nor is one of several": Question(
        "SELECT count(*) FROM {view} WHERE destination IN (:d, 'queue://a') OR startswith(destination, :d)",
        {"d": INJECTED},
    ),
    "a backslash is one": Question(
        "SELECT count(*) FROM {view} WHERE destination IN (:a, :b)",
        {"a": "queue://A\\B", "b": "topic://A\\B"},
    ),
    "case matters in patterns": Question(
        "SELECT count_if(destination LIKE '%orders%'), count(*) FROM {view} WHERE destination LIKE '%orders%'"
        " OR startswith(msgid_prod, 'or') OR endswith(xid, 'EU') OR contains(destination, '://[x]*')"
    ),
    "names are in the order of their bytes": Question(
        "SELECT count(*), min(destination), max(destination) FROM {view} WHERE destination < 'queue://a'"
    ),
    "and between them": Question(
        "SELECT count(*) FROM {view} WHERE destination BETWEEN 'queue://A' AND 'queue://a'"
    ),
    "the first names": Question(
        "SELECT destination, id FROM {view} ORDER BY destination DESC, id LIMIT 9", ordered=True
    ),
    "the first different names": Question(
        "SELECT DISTINCT msgid_prod FROM {view} ORDER BY msgid_prod LIMIT 9", ordered=True
    ),
    "kinds in order": Question(
        "SELECT DISTINCT destination_type FROM {view} ORDER BY destination_type DESC LIMIT 5", ordered=True
    ),
    "the least and the greatest by kind": Question(
        "SELECT destination_type, min(msgid_prod), max(xid), count(*) FROM {view} GROUP BY destination_type"
    ),
    "blanks at the end count": Question(
        "SELECT count(*), count(DISTINCT destination) FROM {view}"
        " WHERE destination IN ('queue://ORDERS', 'topic://ORDERS', 'queue://ORDERS  ')"
    ),
    "and where names are grouped": Question("SELECT destination, count(*) FROM {view} GROUP BY destination"),
    "a mean has all its digits": Question("SELECT avg(priority) FROM {view}"),
    "casts are Spark's": Question(
        "SELECT count(*) FROM {view} WHERE CAST(id AS STRING) LIKE '1%' AND CAST(priority AS BOOLEAN)"
        " AND CAST(msgid_seq AS DECIMAL(20, 2)) < 4.5"
    ),
}
RANDOM = 6
"""Questions of each database, beyond those; ``python -m tests.analytics.random_sql`` asks more."""


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> Iterator[Oracle]:
    yield Oracle(spark)
    spark.catalog.dropTempView("plain_messages")


@pytest.fixture(scope="module", params=["sqlite", "postgresql-c", "postgresql-icu", "mariadb", "mysql"])
def filled(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    oracle: Oracle,
    server_pool: ServerPool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Analytics]:
    """The rows in a database whose texts compare in its own way."""
    from jdbcstore import analytics

    kinds: dict[str, type[Database]] = {
        "postgresql-c": CDatabase,
        "postgresql-icu": IcuDatabase,
        "mariadb": MariadbDatabase,
        "mysql": MysqlDatabase,
    }
    if request.param == "sqlite":
        database: Database = SqliteDatabase(tmp_path_factory.mktemp("questions"), memory())
    else:
        [backend] = [each for each in BACKENDS if each.id == request.param.partition("-")[0]]
        address = server_pool.address(backend, lambda: request.getfixturevalue("docker_services"))
        database = kinds[request.param](address)
    try:
        fill(database, oracle.stored)
        try:
            views = analytics.connect(spark, database.url)
        except ConfigurationError as missing:
            unavailable("spark", str(missing))
        with views:
            yield views
    finally:
        database.close()


@pytest.mark.usefixtures("filled")
def test_questions_that_databases_answer_in_ways_of_their_own(oracle: Oracle) -> None:
    assert {name: wrong for name, each in FIXED.items() if (wrong := oracle.difference(each))} == {}


@pytest.mark.usefixtures("filled")
def test_random_questions(oracle: Oracle) -> None:
    assert [wrong for each in islice(Questions(7), RANDOM) if (wrong := oracle.difference(each))] == []


def test_names_are_looked_up_where_the_index_is(filled: Analytics) -> None:
    """What is not equal in the database is not equal in Spark, so the database may leave it out."""
    frame = filled.spark.sql(
        "SELECT count(*) FROM messages WHERE destination = 'queue://ORDERS' AND startswith(msgid_prod, 'O')"
    )
    plan = str(frame._jdf.queryExecution().executedPlan().toString())
    assert "PushedAggregates: [COUNT(*)]" in plan
    assert "'queue://ORDERS'" in plan
    assert "HashAggregate" not in plan


def test_destinations_with_blanks_at_the_end_are_totals_of_their_own(
    filled: Analytics, oracle: Oracle
) -> None:
    committed = [each.row["CONTAINER"] for each in oracle.stored if each.row["XID"] is None]
    rows = filled.spark.sql("SELECT destination, depth FROM destinations WHERE depth > 0").collect()
    assert {row.destination: row.depth for row in rows} == {name: committed.count(name) for name in committed}
