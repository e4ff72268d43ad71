"""A stream of new messages, while others write, and it, they and the store are stopped and started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jdbcstore
from jdbcstore.testing.polling import wait_until
from tests.support.analytics.streams import LONG, Producers, Streaming, batches, check
from tests.support.databases import Database
from tests.support.servers import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from jdbcstore.analytics import Analytics

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def streaming(spark: SparkSession, database: Database, tmp_path: Path) -> Iterator[Streaming]:
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    streaming = Streaming(spark, database.url, tmp_path)
    yield streaming
    for query in streaming.queries:
        query.stop()


@pytest.fixture
def producers(database: Database, tmp_path: Path) -> Iterator[Producers]:
    producers = Producers(database.url, tmp_path)
    yield producers
    producers.kill()


@pytest.mark.backends("postgresql")
def test_the_store_is_restarted_and_so_is_the_stream(
    database: Database, server: Server, streaming: Streaming, producers: Producers
) -> None:
    query = streaming.start()
    producers.start()
    wait_until(lambda: batches(query) > 0, LONG, "the number of batches")
    server.restart()
    before = batches(query)
    wait_until(lambda: batches(query) > before, LONG, "the number of batches")
    query.stop()
    streaming.start()
    producers.finish()
    check(database, streaming)


@pytest.mark.backends("sqlite")
def test_producers_are_killed_and_the_stream_is_left(
    database: Database, streaming: Streaming, producers: Producers
) -> None:
    query = streaming.start()
    producers.start()
    wait_until(lambda: batches(query) > 0, LONG, "the number of batches")
    query.stop()
    producers.kill()
    producers.start()
    query = streaming.start()
    wait_until(lambda: batches(query) > 1, LONG, "the number of batches")
    query.stop()
    producers.finish()
    check(database, streaming)


@pytest.mark.backends("postgresql")
def test_columns_and_what_nobody_may_see(
    database: Database,
    recorded: Analytics,
    streaming: Streaming,
    event_log: Path,
    ask: Callable[[str], list[Row]],
) -> None:
    """The recorded rows of ActiveMQ come as ``messages_decoded`` shows them, and the login nowhere."""
    frame = streaming.frame()
    assert frame.dtypes == recorded.spark.table("messages_decoded").dtypes
    raw = streaming.frame(decoded="false")
    assert raw.columns == [*recorded.spark.table("messages").columns, "message_size", "msg"]
    shown = []

    def keep(batch: DataFrame, _number: int) -> None:
        batch.write.mode("append").parquet(str(streaming.files))
        shown.append(str(batch._jdf.queryExecution().toString()))

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(streaming.checkpoint))
    query = streaming.begin(writer.trigger(availableNow=True).start)
    assert query.awaitTermination(int(LONG)), query.status
    streamed = recorded.spark.read.parquet(str(streaming.files)).orderBy("id").collect()
    in_view = ask("SELECT * FROM messages_decoded ORDER BY id")
    committed = [row for row in in_view if row.xid is None or not row.xid.startswith("K")]
    assert [*map(str, streamed)] == [*map(str, committed)]  # NaN is not itself
    assert 0 < len(streamed) < len(in_view)

    frame.explain(extended=True)
    jvm = query._jsq
    shown += [jvm.explainInternal(True), str(query.recentProgress), str(query.status)]
    recorded.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    for folder in (event_log, streaming.checkpoint):
        shown += [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]
    assert not any(str(database.password) in text for text in shown)
