"""A stream of new messages, while others write, and it, they and the store are stopped and started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jdbcstore
from tests.databases import Database
from tests.polling import wait_until
from tests.servers import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from jdbcstore.analytics import Analytics

PRODUCERS = 3
MESSAGES = 300
"""Of each producer."""
LONG = 120.0


class Streaming:
    """A stream into Parquet files, which can be left and gone on with."""

    def __init__(self, spark: SparkSession, database: Database, folder: Path) -> None:
        from jdbcstore.analytics import register

        register(spark)
        self._spark = spark
        self._url = database.url
        self.checkpoint = folder / "checkpoint"
        self.files = folder / "files"
        self.queries: list[StreamingQuery] = []

    def frame(self, **options: str) -> DataFrame:
        given = {"url": self._url, "startingOffsets": "earliest", "reconnect_timeout": "60", **options}
        return self._spark.readStream.format("jdbcstore").options(**given).load()

    def start(self, *, to_the_end: bool = False) -> StreamingQuery:
        frame = self.frame(maxRowsPerTrigger="150", destination="queue://STREAMED", partitions="2")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        if to_the_end:
            writer = writer.trigger(availableNow=True)
        self.queries.append(writer.start(str(self.files)))
        return self.queries[-1]

    def finish(self) -> None:
        """Read what there is, to its end."""
        query = self.start(to_the_end=True)
        assert query.awaitTermination(int(LONG)), query.status

    def ids(self) -> list[int]:
        """Of the messages in the files; a message's text is its ID."""
        rows = self._spark.read.parquet(str(self.files)).select("id", "body_text").collect()
        assert all(row.body_text == str(row.id) for row in rows)
        return sorted(row.id for row in rows)


def batches(query: StreamingQuery) -> int:
    if query.exception() is not None:
        raise AssertionError(str(query.exception()))
    progress = query.lastProgress
    return 0 if progress is None else progress.batchId + 1


@pytest.fixture
def streaming(spark: SparkSession, database: Database, tmp_path: Path) -> Iterator[Streaming]:
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    streaming = Streaming(spark, database, tmp_path)
    yield streaming
    for query in streaming.queries:
        query.stop()


class Producers:
    """Processes that store messages, as the connections of one broker."""

    def __init__(self, database: Database, folder: Path) -> None:
        counter = folder / "counter"
        counter.touch()
        module = "tests.analytics.producing"
        self._command = [sys.executable, "-m", module, database.url, str(counter), str(MESSAGES)]
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._running = [subprocess.Popen(self._command) for _ in range(PRODUCERS)]

    def kill(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def finish(self) -> None:
        assert [process.wait(LONG) for process in self._running] == [0] * PRODUCERS


@pytest.fixture
def producers(database: Database, tmp_path: Path) -> Iterator[Producers]:
    producers = Producers(database, tmp_path)
    yield producers
    producers.kill()


def check(database: Database, streaming: Streaming) -> None:
    """Read the rest: all that is stored has come, once."""
    streaming.finish()
    seen = streaming.ids()
    stored = [id_ for (id_,) in database.rows("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")]
    assert len(stored) >= PRODUCERS * MESSAGES * 0.9
    assert len(seen) == len(set(seen)), "some came twice"
    assert {*stored} - {*seen} == set(), "some are missing"
    assert seen == stored


@pytest.mark.backends("postgresql", "mariadb")
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
    query = writer.trigger(availableNow=True).start()
    streaming.queries.append(query)
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
