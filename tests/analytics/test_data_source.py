"""The format ``jdbcstore``, and several stores in one session: the answers of a plain decode, everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.errors import ConfigurationError
from tests.support.analytics.connecting import JOINED, answers
from tests.support.analytics.corpus import corpus
from tests.support.analytics.questions import QUESTIONS, VIEWS, Answer, plain
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

ROWS = plain(corpus())
RIGHT = {name: question.answer(ROWS) for name, question in QUESTIONS.items()}


@pytest.fixture(autouse=True, scope="module")
def registered(spark: SparkSession) -> None:
    from jdbcstore import analytics

    analytics.register(spark)


def wrong(found: Mapping[str, Answer]) -> dict[str, Any]:
    return {name: (answer, RIGHT[name]) for name, answer in found.items() if answer != RIGHT[name]}


def options(database: Database) -> dict[str, str]:
    return {"url": database.url}


def test_the_format_gives_the_answers_of_a_plain_decode(
    spark: SparkSession, stores: dict[str, Database], pytestconfig: pytest.Config
) -> None:
    """Each question of one of the stores, for no database sees it: all rows are read. Of all with --whole."""
    names = {view: f"read_{view}" for view in VIEWS}
    several = 1 if pytestconfig.getoption("--whole") else len(stores)
    for number, (store, database) in enumerate(stores.items()):
        for view, name in names.items():
            frame = spark.read.format("jdbcstore").options(**options(database), view=view).load()
            frame.createOrReplaceTempView(name)
        assert wrong(answers(spark, names, [*QUESTIONS][number % several :: several])) == {}, store
    for name in names.values():
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    "store",
    [
        pytest.param("sqlite", marks=pytest.mark.whole),
        "postgresql_c",
        pytest.param("mariadb", marks=pytest.mark.whole),
        "mysql",
    ],
)
def test_so_do_the_views_of_a_session(spark: SparkSession, stores: dict[str, Database], store: str) -> None:
    """Of the other database they do below."""
    from jdbcstore import analytics

    with analytics.connect(spark, stores[store].url):
        found = answers(spark, {view: view for view in VIEWS})
    assert found.keys() == RIGHT.keys()
    assert wrong(found) == {}


def test_columns_and_types_are_those_of_the_views(spark: SparkSession, stores: dict[str, Database]) -> None:
    from jdbcstore import analytics

    database = stores["sqlite"]
    with analytics.connect(spark, database.url):
        for view in VIEWS:
            read = spark.read.format("jdbcstore").options(**options(database), view=view).load()
            assert read.dtypes == spark.table(view).dtypes
    default = spark.read.format("jdbcstore").options(**options(database)).load()
    assert default.columns[-1] == "error"
    some = spark.read.format("jdbcstore").options(**options(database), columns="body_text, id").load()
    assert some.dtypes == [("body_text", "string"), ("id", "bigint")]
    assert some.count() == len(ROWS)
    given = spark.read.format("jdbcstore").schema("jms_type STRING, id BIGINT").options(**options(database))
    rows = given.load().where("jms_type = 'orders'").collect()
    assert sorted(row.id for row in rows) == [r.id for r in ROWS if r.message.jms_type == "orders"]
    one = spark.read.format("jdbcstore").options(**options(database), destination="queue://orders").load()
    assert one.count() == sum(row.destination == "queue://orders" for row in ROWS)
    divided = spark.read.format("jdbcstore").options(**options(database), partitions="3").load()
    assert divided.rdd.getNumPartitions() == 3
    assert sorted(row.id for row in divided.select("id").collect()) == [row.id for row in ROWS]


def test_a_view_in_sql(spark: SparkSession, stores: dict[str, Database]) -> None:
    url = stores["sqlite"].url
    spark.sql(
        "CREATE TEMPORARY VIEW texts (id BIGINT, body_text STRING) USING jdbcstore"
        f" OPTIONS (url '{url}', view 'messages_decoded')"
    )
    found = spark.sql("SELECT id FROM texts WHERE body_text = 'ss'").collect()
    assert sorted(row.id for row in found) == [row.id for row in ROWS if row.body == "ss"]
    spark.catalog.dropTempView("texts")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"view": "tables"}, "the option view is 'tables'; give one of messages"),
        ({"columns": "id, pints"}, "some of id"),
        ({"startingOffsets": "earliest"}, "a view does not have the option startingoffsets"),
        ({"colour": "red"}, "colour"),
        ({"snapshot": "1'; DROP TABLE activemq_msgs; --"}, "the option snapshot"),
        ({"bounds": "1,x"}, "the option bounds is '1,x'; give the IDs"),
        ({"partitions": "0"}, "the option partitions is '0'"),
        ({"decoded": "maybe"}, "give true or false"),
        ({"view": "lock", "partitions": "2"}, "the option view is 'lock'; give messages"),
    ],
)
def test_what_is_wrong_is_said(
    spark: SparkSession, stores: dict[str, Database], given: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        spark.read.format("jdbcstore").options(**options(stores["sqlite"]), **given).load().count()
    with pytest.raises(Exception, match="there is no column pints"):
        spark.read.format("jdbcstore").schema("pints INT").options(**options(stores["sqlite"])).load().count()


def test_filters_of_one_query_are_not_those_of_the_next(
    spark: SparkSession, stores: dict[str, Database]
) -> None:
    """Spark 4.3 keeps the filters that a source written in Python takes over for as long as the view."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("jdbcstore").options(**options(stores["sqlite"]), view="messages").load()
        assert frame.where("id < 3").count() == 2
        assert frame.where("id = 90 OR xid = 'nothing'").count() == 1
        assert frame.count() == len(ROWS)
        small, large = frame.where("id < 3").alias("a"), frame.where("id > 80").alias("b")
        assert small.crossJoin(large).count() == 20
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_selector_is_evaluated_by_the_source(spark: SparkSession, stores: dict[str, Database]) -> None:
    reader = spark.read.format("jdbcstore").options(**options(stores["mariadb"]), columns="id")
    rows = reader.option("selector", "n > 50 AND JMSType IN ('a', 'A')").load().collect()
    right = [r.id for r in ROWS if r.n is not None and r.n > 50 and r.message.jms_type in ("a", "A")]
    assert sorted(row.id for row in rows) == right


def test_stores_of_two_vendors_and_a_table_of_the_users_own(
    spark: SparkSession, stores: dict[str, Database]
) -> None:
    from jdbcstore import analytics

    one = analytics.connect(spark, stores["postgresql_icu"].url, name="orders")
    other = analytics.connect(spark, stores["mariadb"].url, name="archive")
    own = spark.createDataFrame([(3, "three"), (5, "five")], "id BIGINT, said STRING")
    own.createTempView("own")
    try:
        named = {view: f"jdbcstore.orders.{view}" for view in VIEWS}
        assert wrong(answers(spark, named)) == {}
        joined = JOINED.format("orders", "archive")
        for text in (joined, joined.replace("`", "")):
            assert [[*row] for row in spark.sql(text).collect()] == [[3, "three"], [5, "five"]]
        assert [row.namespace for row in spark.sql("SHOW NAMESPACES IN jdbcstore").collect()] == [
            "archive",
            "orders",
        ]
        shown = spark.sql("SHOW TABLES IN jdbcstore.orders").collect()
        assert {row.tableName for row in shown} == {*analytics.VIEWS}
        counted = spark.sql(
            "SELECT destination, count(*) FROM jdbcstore.orders.messages GROUP BY destination"
        )
        assert "PushedAggregates: [COUNT(*)]" in str(counted._jdf.queryExecution().executedPlan())
        one.close()
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql("SELECT * FROM jdbcstore.orders.messages")
        assert spark.table("jdbcstore.archive.messages").count() == len(ROWS)
        assert spark.table("own").collect() == own.collect()
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.newSession().sql("SELECT * FROM `jdbcstore.archive.messages`")
    finally:
        one.close()
        other.close()
        spark.catalog.dropTempView("own")
    assert not [row for row in spark.sql("SHOW VIEWS").collect() if "jdbcstore" in row.viewName]


def test_names_that_are_not(spark: SparkSession, stores: dict[str, Database]) -> None:
    from jdbcstore import analytics

    with pytest.raises(ConfigurationError, match="letters, digits"):
        analytics.connect(spark, stores["sqlite"].url, name="a.b")
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.jdbcstore", "com.example.Catalog")
    with pytest.raises(ConfigurationError, match="a catalog jdbcstore already"):
        analytics.connect(session, stores["sqlite"].url, name="orders")
    session.sql("SELECT 1 AS id").createTempView("`jdbcstore.orders.lock`")
    session.conf.unset("spark.sql.catalog.jdbcstore")
    with pytest.raises(ConfigurationError, match=r"already has a view jdbcstore\.orders\.lock"):
        analytics.connect(session, stores["sqlite"].url, name="orders")


def test_the_login_is_shown_nowhere(
    spark: SparkSession, stores: dict[str, Database], event_log: Path
) -> None:
    database = stores["postgresql_c"]
    frame = spark.read.format("jdbcstore").options(**options(database)).load()
    frame.createOrReplaceTempView("read_messages")
    shown = []
    for text in ("SELECT max(body_text) FROM read_messages WHERE id > 7", "SELECT * FROM read_messages"):
        asked = spark.sql(text)
        asked.collect()
        execution = asked._jdf.queryExecution()
        shown += [execution.toString(), execution.stringWithStats(), execution.optimizedPlan().toJSON()]
    shown += [str(row) for row in spark.sql("DESCRIBE EXTENDED read_messages").collect()]
    spark.catalog.dropTempView("read_messages")
    lost = database.url.replace(f":{database.password}@", f":{database.password}x@")
    with pytest.raises(Exception, match="jdbcstore") as failed:
        spark.read.format("jdbcstore").option("url", lost).load().collect()
    shown.append(str(failed.value))
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    shown += [path.read_text() for path in event_log.rglob("*") if path.is_file()]
    assert not any(str(database.password) in text for text in shown)


def test_new_messages_are_read_by_the_next_query(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    with jdbcstore.open(url) as store:
        orders = store.queue("ORDERS")
        orders.add_message(Message("pint"))
        frame = spark.read.format("jdbcstore").options(url=url, view="messages").load()
        assert frame.count() == 1
        orders.add_message(Message("pint"))
        assert frame.count() == 2
