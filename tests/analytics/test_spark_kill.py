"""Spark is killed with all of its processes: another application goes on from the checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.testing.polling import wait_until
from tests.support.analytics.application import Application, Checkpoint
from tests.support.analytics.streams import LONG, Streaming
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.timeout(900)


class Producers:
    """Threads that store messages until they are told to stop, and remember what they were promised."""

    def __init__(self, url: str) -> None:
        self.promised: list[str] = []
        self._store = jdbcstore.open(url)
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._produce, args=(name,)) for name in "abc"]
        for thread in self._threads:
            thread.start()

    def _produce(self, name: str) -> None:
        queue = self._store.queue("STREAMED")
        number = 0
        while not self._end.wait(0.05):
            queue.add_message(Message(f"{name}{number}"))
            self.promised.append(f"{name}{number}")
            number += 1

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(LONG)
        self._store.close()


@pytest.fixture
def producers(database: Database) -> Iterator[Producers]:
    producers = Producers(database.url)
    yield producers
    producers.stop()


@pytest.fixture
def application(
    database: Database, spark_home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Application]:
    kind = getattr(request, "param", "classic")
    application = Application(database.url, tmp_path, kind, spark_home)
    yield application
    application.kill()


@pytest.fixture
def streaming(spark: SparkSession, database: Database, tmp_path: Path) -> Iterator[Streaming]:
    streaming = Streaming(spark, database.url, tmp_path, rows=10_000)
    yield streaming
    for query in streaming.queries:
        query.stop()


@pytest.mark.backends("sqlite")
def test_spark_is_killed_within_a_batch(
    streaming: Streaming, producers: Producers, application: Application, tmp_path: Path
) -> None:
    """Its offsets are written, and it is not done: another application does it, and goes on."""
    checkpoint = Checkpoint(tmp_path)
    application.ask("stream")
    assert application.stop_when(lambda: checkpoint.planned() > 0)
    torn = checkpoint.planned()
    offsets = checkpoint.offsets(torn)
    assert application.kill() > 3, "a Python, its Java, and Pythons of that"
    assert checkpoint.planned() == torn

    promised = len(producers.promised)
    streaming.start()
    wait_until(lambda: checkpoint.done() > torn, LONG, "whether the batch behind it is done")
    producers.stop()
    assert len(producers.promised) > promised
    streaming.queries[-1].stop()
    streaming.finish()
    assert sorted(streaming.texts()) == sorted(producers.promised)
    assert checkpoint.offsets(torn) == offsets


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("application", ["connect"], indirect=True)
@pytest.mark.backends("sqlite")
def test_spark_connect_is_killed_within_a_batch(
    producers: Producers, application: Application, database: Database, spark_home: Path, tmp_path: Path
) -> None:
    """Its client, its server and the Pythons of that: another client with another server goes on."""
    pytest.importorskip("grpc")
    checkpoint = Checkpoint(tmp_path)
    application.ask("stream")
    assert application.stop_when(lambda: checkpoint.planned() > 0)
    torn = checkpoint.planned()
    offsets = checkpoint.offsets(torn)
    assert application.kill() > 3

    producers.stop()
    other = Application(database.url, tmp_path, "connect", spark_home)
    try:
        assert sorted(other.ask("finish")) == sorted(producers.promised)
    finally:
        other.kill()
    assert checkpoint.offsets(torn) == offsets
