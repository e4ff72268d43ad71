"""``read_arrow`` on every vendor: what it returns, of which moment, and what it leaves open."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import jdbcstore  # noqa: E402
from jdbcstore import Message, load_config, read_arrow  # noqa: E402
from jdbcstore.analytics.arrow import fetching  # noqa: E402
from jdbcstore.analytics.arrow.fetching import Fetching  # noqa: E402
from jdbcstore.analytics.arrow.reading import database_of  # noqa: E402
from jdbcstore.analytics.arrow.table import PLAIN, VIEW  # noqa: E402
from jdbcstore.errors import IN_JOURNAL, ConfigurationError, SchemaError, StoreError  # noqa: E402
from jdbcstore.message.openwire import decode  # noqa: E402
from jdbcstore.testing.polling import wait_until  # noqa: E402
from tests.support import recordings  # noqa: E402
from tests.support.analytics.plain import said  # noqa: E402
from tests.support.databases import Database  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

every_vendor = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@pytest.fixture
def recorded(database: Database) -> Sequence[recordings.RecordedMessage]:
    """The rows that ActiveMQ wrote, and what was written."""
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    messages = recordings.postgres().messages
    columns = list(messages[0].row)
    values = ", ".join(f":{column}" for column in columns)
    for message in messages:
        database.execute(f"INSERT INTO ACTIVEMQ_MSGS ({', '.join(columns)}) VALUES ({values})", **message.row)
    return messages


def filled(database: Database, count: int = 5) -> None:
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        orders = store.queue("ORDERS")
        for number in range(count):
            orders.add_message(Message(f"order {number}", properties={"table": number}))


def rows(reader: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reader.read_all().to_pylist()
    return sorted(found, key=lambda row: row["id"])


@every_vendor
def test_every_column_of_the_recorded_messages(
    database: Database, recorded: Sequence[recordings.RecordedMessage]
) -> None:
    found = rows(read_arrow(database.url))
    assert [row["id"] for row in found] == [message.sequence for message in recorded]
    for row, message in zip(found, recorded, strict=True):
        assert row["container"] == row["destination"] == message.container
        assert row["destination_type"] == message.container.partition("://")[0]
        names = ("msgid_prod", "msgid_seq", "expiration", "priority", "xid")
        assert [row[name] for name in names] == [getattr(message, name) for name in names]
        expires = row["expires"] and round(row["expires"].timestamp() * 1000)
        assert expires == (message.expiration or None)
        assert row["message_size"] == len(message.msg)
        expected = said(decode(message.msg))
        shown = {name: row[name] for name in expected}
        for name in ("timestamp", "arrival", "broker_in_time", "broker_out_time"):
            shown[name] = round(row[name].timestamp() * 1000) if row[name] else 0
        shown["properties"] = [name for name, _ in row["properties"]]
        shown["body_map"] = row["body_map"] is not None
        assert shown == expected


@every_vendor
@pytest.mark.usefixtures("recorded")
def test_columns_alone_are_those_of_all(database: Database) -> None:
    every = rows(read_arrow(database.url))
    for name in VIEW:
        columns = [*dict.fromkeys(("id", name))]
        expected = [{column: row[column] for column in columns} for row in every]
        # As text, since a NaN is not equal to itself.
        assert repr(rows(read_arrow(database.url, columns))) == repr(expected)
    assert rows(read_arrow(database.url, PLAIN)) == [{name: row[name] for name in PLAIN} for row in every]


@every_vendor
def test_conditions_select_the_same_whoever_evaluates_them(database: Database) -> None:
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for number, name in enumerate(("ORDERS", "orders", "ORDERS.2", "%", "a_b", "ORDÉRS", "it's")):
            expiration = 4_000_000_000_000 + number
            store.queue(name).add_message(
                Message("pint", properties={"table": number}, expiration_ms=expiration)
            )
    every = rows(read_arrow(database.url))
    names = [row["destination"] for row in every]
    for name in names:
        assert [
            row["destination"] for row in rows(read_arrow(database.url, where=("destination", "=", name)))
        ] == [name]
    among = read_arrow(
        database.url, ["id", "destination"], ("destination", "in", [*names[2:], "queue://Orders"])
    )
    assert [row["destination"] for row in rows(among)] == names[2:]
    late = [("expiration", ">", 4_000_000_000_001), ("id", "<=", every[4]["id"]), "table <> 3"]
    assert [row["id"] for row in rows(read_arrow(database.url, ["id"], late))] == [
        every[2]["id"],
        every[4]["id"],
    ]
    assert rows(read_arrow(database.url, ["id"], "table = 99")) == []


@every_vendor
def test_one_moment(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAGE_ROWS", 2)
    filled(database)
    reader = read_arrow(database.url, ["id", "body_text"])
    filled(database)
    database.execute("DELETE FROM ACTIVEMQ_MSGS WHERE ID = 5")
    bodies = [row["body_text"] for row in rows(reader)]
    assert bodies == [f"order {number}" for number in range(5)]
    assert len(rows(read_arrow(database.url, ["id"]))) == 9


@every_vendor
def test_pages_are_bounded_in_rows_and_in_bytes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for size in (10, 300_000, 10, 300_000, 300_000, 10):
            store.queue("A").add_message(Message(b"x" * size))
    monkeypatch.setattr(fetching, "PAGE_BYTES", 200_000)
    pages = [page.to_pydict()["body_size"] for page in read_arrow(database.url, ["id", "body_size"])]
    assert [size for page in pages for size in page] == [10, 300_000, 10, 300_000, 300_000, 10]
    # A page ends behind the row that fills it, except that ADBC ends it before that row.
    ended = [[1] * 6] if database.url.startswith("postgresql") else []
    assert [len(page) for page in pages] in [[2, 2, 1, 1], *ended]
    monkeypatch.setattr(fetching, "PAGE_ROWS", 1)
    assert [len(batch) for batch in read_arrow(database.url, ["id", "body_size"])] == [1] * 6


@every_vendor
def test_no_connection_is_left_open(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAGE_ROWS", 1)
    filled(database)

    def closed() -> bool:
        gc.collect()
        return database.connections() == 0

    wait_until(closed)
    reader = read_arrow(database.url, ["id", "body_text"])
    assert database.connections() > 0
    assert len(rows(reader)) == 5
    wait_until(closed)
    begun = read_arrow(database.url, ["id", "body_text"])
    begun.read_next_batch()
    assert database.connections() > 0
    del begun
    wait_until(closed)
    unread = read_arrow(database.url)
    del unread
    wait_until(closed)


@every_vendor
def test_nothing_can_be_written(database: Database) -> None:
    filled(database)
    connected = Fetching(database_of(database.url))
    try:
        with pytest.raises(Exception, match=r"(?i)read.?only"):
            connected.connection.exec_driver_sql("DELETE FROM ACTIVEMQ_MSGS")
    finally:
        connected.close()
    assert len(rows(read_arrow(database.url, ["id"]))) == 5


@every_vendor
def test_an_empty_store(database: Database) -> None:
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    reader = read_arrow(database.url)
    assert reader.schema.names == [*VIEW]
    assert reader.read_all().num_rows == 0


@every_vendor
def test_tables_by_another_name(database: Database) -> None:
    config = jdbcstore.StoreConfig(table_prefix="OTHER_")
    with jdbcstore.open(database.url, config, cleanup_period=0.0) as store:
        store.queue("A").add_message(Message("x"))
    assert [row["id"] for row in rows(read_arrow(database.url, ["id"], config=config))] == [1]
    with pytest.raises(SchemaError, match="jdbcstore init"):
        read_arrow(database.url)


@pytest.mark.backends("sqlite")
def test_a_configuration_names_the_database(database: Database) -> None:
    filled(database)
    assert len(rows(read_arrow(load_config(url=database.url), ["id"]))) == 5


@pytest.mark.backends("sqlite")
def test_rows_that_do_not_decode_say_why(database: Database) -> None:
    filled(database, 1)
    for id_, blob in (("98", "x'00'"), ("99", "NULL")):
        database.execute(
            f"INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSG) VALUES ({id_}, 'queue://A', {blob})"
        )
    found = rows(read_arrow(database.url))
    assert [row["body_text"] for row in found] == ["order 0", None, None]
    assert [bool(row["error"]) for row in found] == [False, True, True]
    assert [row["message_size"] for row in found][1:] == [1, None]
    assert [row["id"] for row in rows(read_arrow(database.url, ["id"], "table = 0 OR table IS NULL"))] == [1]


@pytest.mark.backends("sqlite")
def test_what_is_wrong_is_said_at_once(database: Database, tmp_path: Any) -> None:
    filled(database, 1)
    with pytest.raises(ConfigurationError, match="there is no column 'nonsense'; choose from id, container"):
        read_arrow(database.url, ["nonsense"])
    with pytest.raises(ConfigurationError, match="each once"):
        read_arrow(database.url, ["id", "id"])
    with pytest.raises(SchemaError, match="there is no SQLite file"):
        read_arrow(f"sqlite:///{tmp_path}/nowhere.db")
    with pytest.raises(ConfigurationError, match="no database is named"):
        read_arrow(load_config(environment={}))
    assert database.connections() == 0


@pytest.mark.backends("sqlite")
def test_a_journal_that_may_have_more(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    filled(database, 1)
    rows(read_arrow(database.url, ["id"]))
    assert IN_JOURNAL not in caplog.text
    database.execute("INSERT INTO JDBCSTORE_STATE (NAME, NUMBER) VALUES ('journal', 7)")
    rows(read_arrow(database.url, ["id"]))
    assert IN_JOURNAL in caplog.text


@pytest.mark.backends("postgresql")
def test_an_error_while_reading_is_of_ours(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAGE_ROWS", 1)
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for _ in range(40):
            store.queue("A").add_message(Message(b"x" * 1_000_000))
    reader = read_arrow(database.url, ["id", "body_bytes"])
    reader.read_next_batch()
    database.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query LIKE 'COPY%' AND pid <> pg_backend_pid()"
    )
    with pytest.raises(StoreError):
        reader.read_all()


@pytest.mark.backends("sqlite")
def test_the_types_are_those_of_the_views(database: Database, spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from jdbcstore import analytics

    filled(database, 1)
    try:
        views = analytics.connect(spark, database.url)
    except ConfigurationError as missing:
        pytest.skip(str(missing))
    with views:
        for name, columns in (("messages", PLAIN), ("messages_decoded", [*VIEW])):
            theirs = to_arrow_schema(spark.table(name).schema, timezone="UTC")
            ours = read_arrow(database.url, columns).schema
            assert {field.name: field.type for field in ours} == {field.name: field.type for field in theirs}
            assert ours.names == theirs.names


@pytest.mark.backends("sqlite")
def test_polars_duckdb_and_pandas_take_it(database: Database) -> None:
    filled(database)
    columns = ["id", "destination", "timestamp", "properties", "body_text"]

    def read(where: Any = None) -> Any:
        return read_arrow(database.url, columns, where)

    assert sorted(read().read_pandas()["body_text"]) == [f"order {number}" for number in range(5)]
    polars = pytest.importorskip("polars")
    assert polars.from_arrow(read("table > 2")).sort("id")["body_text"].to_list() == ["order 3", "order 4"]
    duckdb = pytest.importorskip("duckdb")
    messages = read()
    answer = duckdb.sql("SELECT max(properties['table'].long), count(*) FROM messages").fetchall()
    assert answer == [(4, 5)]
    assert messages is not None
    wait_until(lambda: database.connections() == 0)


def test_without_pyarrow_an_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; import jdbcstore\n"
        "try: jdbcstore.read_arrow('sqlite:///mq.db')\n"
        "except jdbcstore.StoreError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "pyarrow is not installed; run: pip install 'numpy>=1.26' 'pyarrow>=18'\n"


def test_spark_is_not_loaded() -> None:
    code = "import sys, jdbcstore, jdbcstore.analytics.arrow.reading; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pyspark", "py4j"}.isdisjoint(done.stdout.split())


@pytest.mark.backends("sqlite")
def test_times_that_nanoseconds_cannot_count(database: Database) -> None:
    times = (-62_135_596_800_000, 253_402_300_799_999)
    with jdbcstore.open(database.url) as store:
        store.queue("Q").add_messages([Message("", timestamp_ms=each, expiration_ms=each) for each in times])
    frame = read_arrow(database.url, ["timestamp", "expires"]).read_pandas()
    assert sorted(frame["timestamp"].dt.year) == sorted(frame["expires"].dt.year) == [1, 9999]
