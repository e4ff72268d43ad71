"""A network that swallows everything, and a database that takes too long."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import make_url

import jdbcstore
from jdbcstore import Message
from jdbcstore.database.adapters import libpq
from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.support.backends import Backend
from tests.support.databases import Database
from tests.support.failover.hole import HoleLine
from tests.support.faults.blocking import writes_held

GUARD = 180.0
SHORT = 3.0
"""Long enough for a statement on a machine that has much else to do."""
_SLEEP = "SELECT SUM(SLEEP(300)) FROM ACTIVEMQ_LOCK WHERE :container <> ''"
SLOW_COUNT = {
    "postgresql": "SELECT COUNT(*) FROM (SELECT pg_sleep(300) WHERE :container <> '') AS SLOW",
    **dict.fromkeys(("mariadb", "mysql"), _SLEEP),
}

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")


@pytest.fixture
def hole(url: str) -> Iterator[HoleLine]:
    hole = HoleLine(url)
    yield hole
    hole.close()


def test_a_commit_that_was_swallowed_is_found_or_made_again(hole: HoleLine, database: Database) -> None:
    with jdbcstore.open(hole.url, cleanup_period=0, network_timeout=SHORT, reconnect_timeout=GUARD) as store:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        hole.swallow()
        before = len(hole._pairs)
        future = queue.add_message_async(Message("swallowed"))
        wait_until(lambda: len(hole._pairs) > before, GUARD, "that the hole is noticed")
        # What it has swallowed now arrives, late.
        hole.flow()
        reference = future.result(GUARD)
        assert [message.sequence for message in queue.recover()] == [1, reference.sequence]
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(2,)]


def test_a_hole_that_stays_is_told(hole: HoleLine) -> None:
    with jdbcstore.open(hole.url, cleanup_period=0, network_timeout=SHORT, reconnect_timeout=0.0) as store:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        hole.swallow()
        with ThreadPoolExecutor() as pool:
            reading = pool.submit(queue.recover)
            writing = pool.submit(queue.add_message, Message("in doubt"))
            assert isinstance(reading.exception(GUARD), StoreUnavailable)
            assert isinstance(writing.exception(GUARD), OutcomeUnknown)
        hole.flow()
        wait_until(lambda: queue.recover().at_end, GUARD, "that reading works again")
        queue.add_message(Message("after"))
        stored = [message.body for message in queue.recover()]
        assert stored in (["before", "after"], ["before", "in doubt", "after"])


def test_a_query_that_takes_too_long_is_ended(backend: Backend, database: Database) -> None:
    slow = SLOW_COUNT[backend.id.partition("-")[0]]
    statements = {"destinationMessageCountStatement": slow}
    with jdbcstore.open(
        database.url, cleanup_period=0, query_timeout=SHORT, reconnect_timeout=0.0, statements=statements
    ) as store:
        queue = store.queue("Q")
        with ThreadPoolExecutor() as pool, pytest.raises(StoreUnavailable):
            pool.submit(queue.message_count).result(GUARD)
        queue.add_message(Message("the next one works"))
        assert [message.body for message in queue.recover()] == ["the next one works"]


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc")
def test_a_write_that_takes_too_long_is_ended(database: Database) -> None:
    """MySQL has no limit for writes: there network_timeout ends them."""
    with jdbcstore.open(database.url, cleanup_period=0, query_timeout=SHORT, reconnect_timeout=0.0) as store:
        queue = store.queue("Q")
        with writes_held(database):
            future = queue.add_message_async(Message("never stored"))
            assert isinstance(future.exception(GUARD), StoreUnavailable)
        queue.add_message(Message("nor is the writer lost"))
        assert [message.body for message in queue.recover()] == ["nor is the writer lost"]


@pytest.mark.backends("postgresql")
def test_a_descriptor_that_is_another_s_by_now_is_left_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is closed by its own thread, and its number given again, while it is being cut."""
    import psycopg

    url = make_url(database.url).set(drivername="postgresql")
    connection = psycopg.connect(url.render_as_string(hide_password=False))
    number = connection.pgconn.socket
    ours, theirs = socket.socketpair()
    duplicate = os.dup

    def dup(descriptor: int) -> int:
        connection.close()
        os.dup2(ours.fileno(), descriptor)
        return duplicate(descriptor)

    monkeypatch.setattr(os, "dup", dup)
    with ours, theirs:
        libpq.abort(connection)
        ours.sendall(b"open")
        assert theirs.recv(4) == b"open"
    assert connection.closed
    os.close(number)
