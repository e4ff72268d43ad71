"""Rows of DataFrames become messages, by the outbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import jdbcstore
from jdbcstore import Destination, Message, StoreConfig
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import ConfigurationError, InvalidMessage
from jdbcstore.message.values import Long
from jdbcstore.stores.jdbc.outbox import OutboxTable
from tests.support.databases import Database

pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql import Row
from pyspark.sql.types import StructType

from jdbcstore.analytics.format.source import StoreSource
from jdbcstore.analytics.format.writing import RowWriter
from jdbcstore.analytics.streaming.options import read_login

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = 4 * 10**12
every_vendor = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    with closing(DatabaseSession(database.url, StoreConfig())) as session:
        session.prepare_outbox()
        yield session


def row_of(*values: Any) -> Row:
    return Row(*values)


def sent(session: DatabaseSession) -> list[Message]:
    """The messages that a mover would send."""
    return [row.message() for row in OutboxTable(session).read(session.fetch, 10_000)]


def writer(database: Database, *names: str, destination: str | None = None) -> RowWriter:
    return RowWriter(read_login({"url": database.url}, frozenset())[1], [*names], destination)


@every_vendor
def test_every_column(database: Database, session: DatabaseSession) -> None:
    at = datetime(2040, 1, 1, tzinfo=UTC)
    row: Mapping[str, Any] = {
        "destination": "topic://NEWS",
        "body_text": "naïve",
        "properties": {"table": 7, "vip": True, "none": None},
        "jms_priority": 9,
        "persistent": False,
        "expires": at,
        "correlation_id": "c",
        "reply_to": "queue://REPLIES",
        "jms_type": "order",
        "group_id": "g",
        "send_id": "1",
    }
    writer(database, *row).write(iter([Row(**row)]))
    typed = {"n": Row(type="long", text="7", long=7, double=None, boolean=None)}
    binary = [row_of(b"\x00\xff", Row(price=8.5)), row_of(bytearray(b"\x01"), typed)]
    writer(database, "body_bytes", "properties", destination="queue://ORDERS").write(iter(binary))
    first, second, third = sent(session)
    assert first == Message(
        "naïve",
        destination=Destination.topic("NEWS"),
        properties={"table": 7, "vip": True},
        priority=9,
        persistent=False,
        expiration_ms=round(at.timestamp() * 1000),
        correlation_id="c",
        reply_to=Destination.queue("REPLIES"),
        jms_type="order",
        group_id="g",
        timestamp_ms=first.timestamp_ms,
    )
    assert (second.destination, second.body) == (Destination.queue("ORDERS"), b"\x00\xff")
    assert (dict(second.properties), dict(third.properties)) == ({"price": 8.5}, {"n": 7})


@every_vendor
def test_a_task_that_fails_sends_nothing(database: Database, session: DatabaseSession) -> None:
    rows = [row_of(str(number), {"n": number}) for number in range(700)]
    of_orders = writer(database, "body_text", "properties", destination="ORDERS")
    with pytest.raises(InvalidMessage, match="the property n is"):
        of_orders.write(iter([*rows, row_of("bad", {"n": [1]})]))
    assert sent(session) == []
    of_orders.write(iter(rows))
    assert [message.body for message in sent(session)] == [str(number) for number in range(700)]


@pytest.mark.backends("sqlite")
def test_rows_that_cannot_be_sent(database: Database) -> None:
    with pytest.raises(ConfigurationError, match="the column id cannot be sent; select some of dest"):
        writer(database, "id", destination="ORDERS")
    with pytest.raises(ConfigurationError, match="the column destination cannot be sent"):
        writer(database, "destination", destination="ORDERS")
    with pytest.raises(ConfigurationError, match="no column destination"):
        writer(database, "body_text")
    columns = StructType().add("destination", "string")
    with pytest.raises(ConfigurationError, match="sent messages replace none"):
        StoreSource({"url": database.url}).writer(columns, overwrite=True)
    with pytest.raises(ConfigurationError, match="a writer does not have the option view"):
        StoreSource({"url": database.url, "view": "messages"}).writer(columns, overwrite=False)


@pytest.mark.backends("sqlite")
def test_messages_of_a_view_are_sent_again(
    spark: SparkSession, database: Database, session: DatabaseSession
) -> None:
    from jdbcstore import analytics

    analytics.register(spark)
    with jdbcstore.open(database.url) as store:
        for number in range(3):
            properties = {"n": Long(number), "name": "ale", "price": 8.5, "vip": True}
            store.queue("ORDERS").add_message(
                Message("pint", properties=properties, expiration_ms=4 * 10**12)
            )
    read = spark.read.format("jdbcstore").option("url", database.url).load()
    rows = read.where("properties['n'].long > 0").select(
        "destination", "body_text", "body_bytes", "properties", "jms_priority", "persistent", "expires"
    )
    rows.write.format("jdbcstore").option("url", database.url).mode("append").save()
    again = sorted(sent(session), key=lambda message: int(str(message.properties["n"])))
    assert [dict(message.properties) for message in again] == [
        {"n": number, "name": "ale", "price": 8.5, "vip": True} for number in (1, 2)
    ]
    assert {(str(each.destination), each.body, each.expiration_ms) for each in again} == {
        ("queue://ORDERS", "pint", LATER)
    }
