"""What the other views say, how questions are pushed down to the database, and what nobody may see."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.analytics.addresses import JdbcAddress
from jdbcstore.analytics.comments import COMMENTS
from jdbcstore.analytics.properties import VALUE
from jdbcstore.analytics.vendors import VENDORS
from jdbcstore.errors import IN_JOURNAL, ConfigurationError, StoreUnavailable
from jdbcstore.message.values import Byte, Char, Float, Long, Short
from tests.support import recordings
from tests.support.analytics.corpus import pad
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from jdbcstore.analytics import Analytics

Connect = Callable[[], "Analytics"]
Ask = Callable[[str], "list[Row]"]
Plan = Callable[[str], str]

every_vendor = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@every_vendor
def test_names_are_compared_and_grouped_exactly(database: Database, connect: Connect, ask: Ask) -> None:
    with jdbcstore.open(database.url) as store:
        for name in ("ORDERS", "orders"):
            store.queue(name).add_message(Message("pint"))
        store.queue("orders").add_message(Message("stale", expiration_ms=1))
        store.topic("news").add_message(Message("beer"))
    connect()

    counts = ask("SELECT destination, destination_type, count(*) AS n FROM messages GROUP BY ALL ORDER BY 1")
    assert [tuple(row) for row in counts] == [
        ("queue://ORDERS", "queue", 1),
        ("queue://orders", "queue", 2),
        ("topic://news", "topic", 1),
    ]
    for view in ("messages", "messages_decoded"):
        assert ask(f"SELECT count(*) AS n FROM {view} WHERE destination = 'queue://orders'")[0].n == 2
    totals = ask("SELECT * FROM destinations ORDER BY destination")
    assert [(row.destination, row.depth, row.expired, row.in_doubt) for row in totals] == [
        ("queue://ORDERS", 1, 0, 0),
        ("queue://orders", 2, 1, 0),
        ("topic://news", 1, 0, 0),
    ]
    assert all(0 <= row.oldest_age < 600 for row in totals)


@pytest.mark.backends("postgresql", "mariadb")
def test_a_name_in_a_char_column_has_no_blanks_behind_it(
    database: Database, connect: Connect, ask: Ask
) -> None:
    xid = pad(database)
    with jdbcstore.open(database.url) as store:
        [found] = store.topic("NEWS").subscriptions()
        assert (found.client_id, found.subscription_name) == ("ann", "all")
        assert len(store.xa.recover()) == 1
    connect()

    [subscription] = ask(
        "SELECT * FROM subscriptions WHERE client_id = 'ann' AND destination = 'topic://NEWS'"
    )
    assert subscription.subscription_name == "all"
    assert len(ask(f"SELECT id FROM in_doubt WHERE xid = '{xid}'")) == 1
    for view in ("messages", "messages_decoded", "destinations"):
        [row] = ask(f"SELECT destination FROM {view} WHERE destination = 'queue://ORDERS'")
        assert row.destination == "queue://ORDERS"
    assert all(row.msgid_prod == row.msgid_prod.rstrip() for row in ask("SELECT msgid_prod FROM messages"))


@every_vendor
@pytest.mark.usefixtures("recorded")
def test_the_recorded_broker_in_totals(ask: Ask) -> None:
    messages = [message for message in recordings.postgres().messages if message.xid is None]
    in_doubt = [message for message in recordings.postgres().messages if message.xid is not None]

    totals = {row.destination: row for row in ask("SELECT * FROM destinations")}
    assert {name: row.depth for name, row in totals.items() if row.depth} == {
        name: sum(message.container == name for message in messages)
        for name in {message.container for message in messages}
    }
    assert sum(row.bytes for row in totals.values()) == sum(len(message.msg) for message in messages)
    assert {row.destination: row.oldest_id for row in totals.values() if row.depth} == {
        name: min(message.sequence for message in messages if message.container == name)
        for name in {message.container for message in messages}
    }
    assert [row.id for row in ask("SELECT id FROM in_doubt ORDER BY id")] == [m.sequence for m in in_doubt]
    assert [tuple(row) for row in ask("SELECT * FROM lock")] == [(1, None, None)]


@every_vendor
def test_a_subscription_lags_behind_what_it_has_not_acknowledged(
    database: Database, connect: Connect, ask: Ask
) -> None:
    with jdbcstore.open(database.url) as store:
        topic = store.topic("news")
        ann, bob = (topic.subscribe(name, "all") for name in ("ann", "bob"))
        sent = [topic.add_message(Message(str(number))) for number in range(6)]
        for place in (0, 3, 4):
            ann.acknowledge(sent[place])
        lags = [each.message_count() for each in (ann, bob)]
    connect()

    rows = ask("SELECT * FROM subscriptions ORDER BY client_id")
    shown = [(row.client_id, row.destination, row.lag, row.acknowledged_ahead) for row in rows]
    assert [row.lag for row in rows] == lags
    assert shown == [("ann", "topic://news", 3, 2), ("bob", "topic://news", 6, 0)]
    query = "SELECT client_id, body_text FROM pending JOIN messages_decoded USING (id) ORDER BY ALL"
    pending = [(row.client_id, row.body_text) for row in ask(query)]
    assert pending == [*(("ann", each) for each in "125"), *(("bob", each) for each in "012345")]


@every_vendor
@pytest.mark.usefixtures("recorded")
def test_questions_are_pushed_down(plan: Plan) -> None:
    for view in ("messages", "messages_decoded"):
        counted = plan(f"SELECT destination, count(*) FROM {view} WHERE id > 5 GROUP BY destination")
        assert "PushedAggregates: [COUNT(*)]" in counted
        assert "id > 5" in pushed_filters(counted)
        assert "PushedGroupByExpressions: [CONTAINER]" in counted.replace("[container]", "[CONTAINER]")
        assert "HashAggregate" not in counted
        oldest = plan(f"SELECT id, destination FROM {view} ORDER BY id LIMIT 10")
        assert "PushedTopN: ORDER BY [ID ASC NULLS FIRST] LIMIT 10" in oldest.replace("[id ", "[ID ")
        assert "PushedLimit: LIMIT 5" in plan(f"SELECT id FROM {view} LIMIT 5")
        some = plan(
            f"SELECT id FROM {view} WHERE destination = 'queue://A' AND id > 5 AND priority = 4"
            " AND expiration < 7 AND xid IS NULL"
        )
        for each in (
            "container = 'queue://a'",
            "id > 5",
            "priority = 4",
            "expiration < 7",
            "xid is null",
        ):
            assert each in pushed_filters(some)


def pushed_filters(plan: str) -> str:
    """What the scan leaves to the database, in lower case."""
    return plan.partition("PushedFilters: [")[2].partition("]")[0].lower()


@every_vendor
@pytest.mark.usefixtures("recorded")
def test_msg_is_read_and_decoded_when_a_column_needs_it(plan: Plan) -> None:
    without = plan("SELECT id, destination, expiration FROM messages_decoded WHERE id > 5 AND expiration = 0")
    assert "decode_" not in without
    assert "msg" not in fields_read(without)
    sized = plan("SELECT id, message_size FROM messages_decoded")
    assert "decode_" not in sized
    one = plan("SELECT body_text FROM messages_decoded WHERE destination = 'queue://A'")
    assert one.count("decode_") == one.count("MapInArrow jdbcstore_decode_body_text(") == 1
    assert fields_read(one) == {"msg"}
    assert "queue://a" in pushed_filters(one)
    oldest = plan("SELECT id, body_text FROM messages_decoded ORDER BY id LIMIT 10")
    decoding, _, scan = oldest.partition("MapInArrow")
    assert "Limit" not in decoding, "more are decoded than shown"
    assert "PushedTopN" in scan


def fields_read(plan: str) -> set[str]:
    fields = plan.partition("ReadSchema: struct<")[2].partition(">")[0].lower()
    return {field.partition(":")[0] for field in fields.split(",")}


@every_vendor
@pytest.mark.usefixtures("recorded")
def test_what_a_filter_leaves_out_is_decoded_no_further(connect: Connect, plan: Plan) -> None:
    question = (
        "SELECT id, body_text, jms_type FROM messages_decoded WHERE properties['n'].long = 7 AND id > 1"
    )

    def check() -> None:
        rest, _, between = plan(question).partition("MapInArrow jdbcstore_decode_")
        between, _, first = between.partition("ArrowEvalPython")
        assert between.startswith("body_text,jms_type(")
        assert "Filter" in between
        assert first.count("decode_") == first.count("decode_properties(") == 1
        assert "decode_" not in rest

    check()
    with connect().picture(partitions=3):
        check()


@pytest.mark.backends("sqlite")
def test_values_looked_up_come_back_without_their_map(
    database: Database, connect: Connect, ask: Ask, plan: Plan
) -> None:
    a: dict[str, Any] = {"a": True, "b": 1, "c": "x", "d": 2.5, "e": Float(0.1), "f": Char("ü"), "g": None}
    b: dict[str, Any] = {
        "b": "1",
        "c": b"raw",
        "d": [1, 2],
        "e": {"k": 1},
        "grün": Long(7),
        "n": "\0\U0001f37a",
    }
    rows = [a, {}, b, {"b": Byte(-1), "c": Short(3)}]
    with jdbcstore.open(database.url) as store:
        for properties in rows:
            store.queue("A").add_message(Message("x", properties=properties))
    database.execute(
        "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSG, PRIORITY) VALUES (99, 'queue://A', x'00', 0)"
    )
    connect()
    names, fields = ("a", "b", "c", "d", "e", "f", "g", "grün", "n", "none"), VALUE.names
    each = [f"properties['{name}'].{field}" for name in names for field in fields]
    looked_up = f"SELECT {', '.join(each)} FROM messages_decoded WHERE id >= 0 ORDER BY id"

    shown = plan(looked_up)
    assert "MapInArrow jdbcstore_decode_properties.0." in shown
    assert not re.search(r"pythonUDF\d|ArrowEvalPython", shown), "a map is sent"
    assert "properties.3.62#" in plan("SELECT max(properties['b'].long) FROM messages_decoded")
    maps = [row.properties for row in ask("SELECT properties FROM messages_decoded ORDER BY id")]
    assert [tuple(row) for row in ask(looked_up)] == [
        tuple(
            None if not values or name not in values else values[name][field]
            for name in names
            for field in fields
        )
        for values in maps
    ]
    filtered = "SELECT id, message_size FROM messages_decoded WHERE properties['grün'].long = 7"
    assert [row.id for row in ask(filtered)] == [3]
    joined = (
        "SELECT a.id, b.id AS other, b.span, concat(body_text, b.id) AS text FROM messages_decoded a"
        " JOIN (SELECT id, make_interval(1) AS span FROM messages) b ON a.id = b.id + 1"
        " WHERE concat(body_text, b.id) = 'x1'"
    )
    assert [(row.id, row.other, row.text) for row in ask(joined.replace("b.span, ", ""))] == [(2, 1, "x1")]
    assert "CalendarInterval" not in str(ask(f"SELECT id, text FROM ({joined}) WHERE span IS NOT NULL"))


@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.usefixtures("recorded")
def test_no_password_is_shown(database: Database, ask: Ask, spark: SparkSession, event_log: Path) -> None:
    password = str(database.password)
    shown = [row.value for row in ask("SET") if row.value]
    for question in ("SELECT count(*) FROM messages", "SELECT max(body_text) FROM messages_decoded"):
        frame = spark.sql(question)
        frame.collect()
        execution = frame._jdf.queryExecution()
        shown += [execution.toString(), execution.stringWithStats(), execution.optimizedPlan().toJSON()]
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    shown += [path.read_text() for path in event_log.rglob("*") if path.is_file()]

    assert "SparkListenerSQLExecutionStart" in shown[-1]
    assert not any(password in text for text in shown)


@every_vendor
def test_nothing_can_be_written(database: Database, recorded: Analytics, spark: SparkSession) -> None:
    from jdbcstore.analytics.connection import LocalAnalytics

    assert isinstance(recorded, LocalAnalytics)
    reading = recorded._reading
    lock = reading.name_of(reading.session.tables.lock)
    before = database.rows("SELECT id FROM ACTIVEMQ_LOCK")

    with pytest.raises(Exception, match=r"(?i)read.?only"):
        spark.sql(f"INSERT INTO {lock} SELECT 77L, NULL, NULL")
    assert database.rows("SELECT id FROM ACTIVEMQ_LOCK") == before


@pytest.mark.backends("sqlite")
def test_what_the_driver_says_is_told(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = JdbcAddress("jdbc:sqlite:file:/nowhere/store.db?open_mode=65", {})
    vendor = VENDORS["sqlite"]
    lost = replace(vendor.drivers[0], address=lambda _url, _connection: nowhere)
    monkeypatch.setitem(VENDORS, "sqlite", replace(vendor, drivers=(lost,)))
    with pytest.raises(StoreUnavailable, match=r"Spark cannot connect: .*/nowhere"):
        connect()


@pytest.mark.backends("sqlite")
def test_columns_have_comments(spark: SparkSession, connect: Connect) -> None:
    from jdbcstore import analytics

    connect()
    found: dict[str, str | None] = {}
    for view in analytics.VIEWS:
        found |= {row.col_name: row.comment for row in spark.sql(f"DESCRIBE {view}").collect()}
    assert {name: found.get(name) for name in COMMENTS} == COMMENTS


def other_store(spark: SparkSession, folder: Path, *names: str) -> Analytics:
    from jdbcstore import analytics

    url = f"sqlite:///{folder / 'other.db'}"
    with jdbcstore.open(url) as store:
        for name in names:
            store.queue(name).add_message(Message("pint"))
    return analytics.connect(spark, url)


@pytest.mark.backends("sqlite")
def test_two_stores_in_one_session(
    database: Database, connect: Connect, ask: Ask, spark: SparkSession, tmp_path: Path
) -> None:
    """The last that was connected is seen; closing one takes nothing from the other."""

    def seen() -> list[str]:
        return [row.destination for row in ask("SELECT destination FROM messages ORDER BY id")]

    with jdbcstore.open(database.url) as store:
        store.queue("first").add_message(Message("pint"))
    first = connect()
    second = other_store(spark, tmp_path, "second")
    assert seen() == ["queue://second"]
    with first.picture():
        assert seen() == ["queue://first"]
    assert seen() == ["queue://second"]
    second.close()
    assert seen() == ["queue://first"]

    again = other_store(spark, tmp_path)
    first.close()
    assert seen() == ["queue://second"]
    first.close()
    assert seen() == ["queue://second"]
    again.close()
    assert not spark.catalog.tableExists("messages")


@pytest.mark.backends("sqlite")
def test_views_of_the_users_own_stay(database: Database, connect: Connect, spark: SparkSession) -> None:
    from jdbcstore import analytics

    own = spark.sql("SELECT 'mine' AS text")
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    own.createOrReplaceTempView("messages")
    try:
        with pytest.raises(ConfigurationError, match="already has a view messages"):
            analytics.connect(spark, database.url)
        assert spark.table("messages").collect() == own.collect()
    finally:
        spark.catalog.dropTempView("messages")

    views = connect()
    own.createOrReplaceTempView("lock")
    views.close()
    assert spark.table("lock").collect() == own.collect()
    spark.catalog.dropTempView("lock")
    assert not spark.catalog.tableExists("messages")
    assert database.rows("SELECT count(*) FROM ACTIVEMQ_MSGS") == [(0,)]


@pytest.mark.backends("sqlite")
def test_a_journal_that_may_have_more_is_told_of(
    database: Database, connect: Connect, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    assert not connect().has_journal
    assert IN_JOURNAL not in caplog.text
    mark = {"journal": 7, "journal_applied": 1, "journal_written": 1}
    for name, number in mark.items():
        database.execute("INSERT INTO JDBCSTORE_STATE (NAME, NUMBER) VALUES (:n, :v)", n=name, v=number)
    from jdbcstore import analytics

    with analytics.connect(spark, database.url) as views:
        assert views.has_journal
    assert IN_JOURNAL in caplog.text
