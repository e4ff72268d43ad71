"""Streams into files, and the processes that store what they read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PRODUCERS = 3
MESSAGES = 300
"""Of each producer."""
LONG = 240.0
_STORED = "SELECT ID FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://STREAMED' ORDER BY ID"


class Streaming:
    """A stream into Parquet files, which can be left and gone on with."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, rows: int = 150) -> None:
        from jdbcstore.analytics import register

        register(spark)
        self._spark = spark
        self._url = url
        self._rows = rows
        self.checkpoint = folder / "checkpoint"
        self.files = folder / "files"
        self.queries: list[StreamingQuery] = []

    def frame(self, **options: str) -> DataFrame:
        given = {"url": self._url, "startingOffsets": "earliest", "reconnect_timeout": "60", **options}
        return self._spark.readStream.format("jdbcstore").options(**given).load()

    def start(self, *, to_the_end: bool = False) -> StreamingQuery:
        frame = self.frame(maxRowsPerTrigger=str(self._rows), destination="queue://STREAMED", partitions="2")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        if to_the_end:
            writer = writer.trigger(availableNow=True)
        return self.begin(lambda: writer.start(str(self.files)))

    def begin(self, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        """A query whose source has begun, for which Spark waits ten seconds, and a loaded machine longer."""
        for _ in range(10):
            query = start()
            self.queries.append(query)
            wait_until(partial(_has_begun, query), LONG, "whether the stream has begun")
            if "failed to connect back" not in str(query.exception()):
                break
        return query

    def finish(self) -> None:
        """Read what there is, to its end."""
        query = self.start(to_the_end=True)
        assert query.awaitTermination(int(LONG)), query.status

    def ids(self) -> list[int]:
        """Of the messages in the files; a message's text is its ID."""
        rows = self._spark.read.parquet(str(self.files)).select("id", "body_text").collect()
        assert all(row.body_text == str(row.id) for row in rows)
        return sorted(row.id for row in rows)

    def texts(self) -> list[str]:
        """Of the messages in the files, in no order."""
        rows = self._spark.read.parquet(str(self.files)).select("body_text").collect()
        return [row.body_text for row in rows]


def _has_begun(query: StreamingQuery) -> bool:
    return query.exception() is not None or not query.status["message"].startswith("Initializing")


def batches(query: StreamingQuery) -> int:
    if query.exception() is not None:
        raise AssertionError(str(query.exception()))
    progress = query.lastProgress
    return 0 if progress is None else progress.batchId + 1


class Producers:
    """Processes that store messages, as the connections of one broker."""

    def __init__(self, url: str, folder: Path, count: int = PRODUCERS, messages: int = MESSAGES) -> None:
        counter = folder / "counter"
        counter.write_text("0")
        self._count = count
        module = "tests.support.analytics.producing"
        self._command = [sys.executable, "-m", module, url, str(counter), str(messages)]
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._running = [subprocess.Popen(self._command) for _ in range(self._count)]

    def kill(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def finish(self) -> None:
        assert [process.wait(LONG) for process in self._running] == [0] * self._count


def check(database: Database, streaming: Streaming) -> None:
    """Read the rest: all that is stored has come, once."""
    streaming.finish()
    seen = streaming.ids()
    stored = [id_ for (id_,) in database.rows(_STORED)]
    assert len(stored) >= MESSAGES * 0.9
    assert len(seen) == len(set(seen)), "some came twice"
    assert {*stored} - {*seen} == set(), "some are missing"
    assert seen == stored
