"""``messages_decoded`` over the tables of a real ActiveMQ, while it runs on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from jdbcstore import JdbcStore, analytics
from tests.interop.conftest import StartBroker, activemq, peer
from tests.support.analytics.entries import entry, expected_entry, plain, well_formed
from tests.support.databases import Database
from tests.support.interop.messages import ALL, said, specified
from tests.support.interop.typed import describe

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

__all__ = ["activemq", "peer"]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.whole("mariadb", "mysql")
@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
def test_what_a_jms_client_sends_is_what_spark_shows(
    activemq: StartBroker,
    database: Database,
    spark: SparkSession,
    ask: Callable[[str], list[Row]],
    compress: bool,
) -> None:
    with activemq() as broker:
        broker.send("queue://LIVE", ALL.values(), compress=compress)
        with analytics.connect(spark, database.url):
            rows = ask("SELECT * FROM messages_decoded ORDER BY id")
        with JdbcStore(database.url, read_only=True) as store:
            messages = list(store.queue("queue://LIVE").recover(limit=100))

    # What the codec reads is what was sent, and what Spark shows is what the codec reads.
    assert [said(describe(m)) for m in messages] == [specified(sent) for sent in ALL.values()]
    for row, message in zip(rows, messages, strict=True):
        assert row.error is None
        assert (row.id, row.message_id) == (message.sequence, str(message.message_id))
        assert (row.type, row.jms_type) == (message.body_type, message.jms_type)
        assert (row.jms_priority, row.correlation_id) == (message.priority, message.correlation_id)
        assert {name: entry(value.asDict()) for name, value in row.properties.items()} == {
            name: entry(expected_entry(value)) for name, value in message.properties.items()
        }
        shown = json.loads(row.body_map) if row.body_map else row.body_text
        body = message.body
        assert (row.body_bytes if isinstance(body, bytes) else shown) == (
            well_formed(body) if isinstance(body, str) else body if isinstance(body, bytes) else plain(body)
        )
    assert any(row.compressed for row in rows) == compress
