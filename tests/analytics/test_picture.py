"""While others write, a read in many partitions shows one moment."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest

import jdbcstore
from jdbcstore import Destination, Message, MessageId, ProducerId
from jdbcstore.message import openwire
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import Row

    from jdbcstore.analytics import Analytics

READS = 6
"""Each takes long enough for several transactions to be committed meanwhile."""
FAR = 1_000_000
"""How far the two messages of a pair are apart, so that they are in different partitions."""
KEPT = 100
"""Pairs; those before are removed."""
PACE = 0.01
"""Seconds between transactions, so that what reads is left something of the processors."""
QUEUE = Destination.queue("PAIRS")


def row(id_: int, pair: int) -> tuple[object, ...]:
    producer = ProducerId("ID:pairs-1", 1, 1)
    message = Message(str(pair), destination=QUEUE, message_id=MessageId(producer, id_), timestamp_ms=1)
    return id_, str(QUEUE), str(producer), pair, 0, openwire.encode(message), 0, None


class Writer(threading.Thread):
    """Adds pairs and removes them, each pair in one transaction."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._connection = psycopg.connect(url.replace("+psycopg", ""))
        self.stopped = threading.Event()
        self.written = 0

    def run(self) -> None:
        with self._connection as connection:
            for pair in itertools.count(1):
                if self.stopped.is_set():
                    return
                self._add(connection, pair)
                if pair > KEPT:
                    gone = (pair - KEPT, pair - KEPT + FAR)
                    connection.execute("DELETE FROM activemq_msgs WHERE id IN (%s, %s)", gone)
                connection.commit()
                self.written = pair
                self.stopped.wait(PACE)

    def _add(self, connection: psycopg.Connection, pair: int) -> None:
        columns = "id, container, msgid_prod, msgid_seq, expiration, msg, priority, xid"
        for id_ in (pair, pair + FAR):
            connection.execute(
                f"INSERT INTO activemq_msgs ({columns}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                row(id_, pair),
            )


@pytest.mark.timeout(900)
@pytest.mark.backends("postgresql")
def test_each_of_many_reads_is_one_moment(
    database: Database,
    connect: Callable[[], Analytics],
    ask: Callable[[str], list[Row]],
    plan: Callable[[str], str],
) -> None:
    analytics = connect()
    writer = Writer(database.url)
    writer.start()
    seen = []
    try:
        wait_until(lambda: writer.written > 2 * KEPT or not writer.is_alive(), timeout=180)
        with analytics.picture(partitions=4):
            assert "numPartitions=4" in plan("SELECT body_text FROM messages_decoded")
        for _ in range(READS):
            with analytics.picture(partitions=4):
                pairs = [int(row.body_text) for row in ask("SELECT body_text FROM messages_decoded")]
                others = [row.msgid_seq for row in ask("SELECT msgid_seq FROM messages")]
            assert len(pairs) == 2 * len(set(pairs)), "a pair was torn"
            assert sorted(pairs) == sorted(others), "two views of two moments"
            seen.append(max(pairs))
    finally:
        writer.stopped.set()
        writer.join()
    assert len(set(seen)) == READS, "nothing was written between two reads"


@pytest.mark.backends("postgresql")
def test_the_database_is_let_go_behind_the_block(
    database: Database, connect: Callable[[], Analytics], ask: Callable[[str], list[Row]]
) -> None:
    analytics = connect()
    held = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    )
    with analytics.picture():
        assert database.rows(held) == [(1,)]
        assert ask("SELECT count(*) AS n FROM messages")[0].n == 0
    assert database.rows(held) == [(0,)]


@pytest.mark.backends("sqlite", "mariadb", "mysql")
def test_others_read_a_picture_in_one_statement(connect: Callable[[], Analytics]) -> None:
    analytics = connect()
    with analytics.picture(partitions=4):
        assert analytics.spark.table("messages_decoded").rdd.getNumPartitions() == 1


@pytest.mark.backends("sqlite", "mariadb", "mysql")
def test_many_partitions_without_one_moment(
    database: Database, connect: Callable[[], Analytics], ask: Callable[[str], list[Row]]
) -> None:
    analytics = connect()
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        store.queue("Q").add_messages([Message(str(n)) for n in range(40)])
    with analytics.picture(partitions=4, snapshot=False):
        assert analytics.spark.table("messages_decoded").rdd.getNumPartitions() == 4
        bodies = [row.body_text for row in ask("SELECT body_text FROM messages_decoded")]
        assert sorted(bodies, key=int) == [str(n) for n in range(40)]
    assert analytics.spark.table("messages_decoded").rdd.getNumPartitions() == 1
