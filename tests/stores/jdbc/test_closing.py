"""A store that is closed has no connection left, also while a thread of its own or the caller's reads."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import StoreClosed
from jdbcstore.stores.claims import Claims
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database


class Reading:
    """Reads of all threads but the test's own, which go on only once the session is being closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self._fetch = DatabaseSession._fetch
        reading, own = self, threading.get_ident()

        def fetch(session: DatabaseSession, *arguments: Any) -> Any:
            if threading.get_ident() == own:
                return reading._fetch(session, *arguments)
            reading.begun.set()
            wait_until(lambda: session._closed, what="the close")
            try:
                return reading._fetch(session, *arguments)
            finally:
                reading.ended.set()

        monkeypatch.setattr(DatabaseSession, "_fetch", fetch)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


def test_a_close_waits_for_what_the_cleanup_reads(reading: Reading, database: Database) -> None:
    """SQLite's files change when its connection ends: a folder could not be removed behind the close."""
    with jdbcstore.open(database.url, cleanup_period=60.0):
        assert reading.begun.wait(60)
    assert reading.ended.is_set()
    database.expect_closed()


def test_a_close_waits_for_what_another_thread_reads(reading: Reading, database: Database) -> None:
    outcomes: list[object] = []
    store = jdbcstore.open(database.url, cleanup_period=0.0)
    queue = store.queue("Q")
    queue.add_message(Message("m"))

    def read() -> None:
        outcomes.append([message.body for message in queue.recover()])

    thread = threading.Thread(target=read)
    thread.start()
    assert reading.begun.wait(60)
    store.close()
    assert reading.ended.is_set()
    thread.join()
    database.expect_closed()
    assert outcomes == [["m"]]
    with pytest.raises(StoreClosed):
        queue.message_count()


def test_a_close_within_a_timeout_does_not_wait_longer_for_a_read(
    reading: Reading, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, fetch = threading.Event(), reading._fetch

    def stalled(session: DatabaseSession, *arguments: Any) -> Any:
        assert goes_on.wait(60)
        return fetch(session, *arguments)

    store = jdbcstore.open(database.url, cleanup_period=0.0)
    monkeypatch.setattr(reading, "_fetch", stalled)

    def read() -> None:
        with suppress(StoreClosed):  # by a further query
            store.queue("Q").message_count()

    thread = threading.Thread(target=read)
    thread.start()
    assert reading.begun.wait(60)
    store.close(timeout=0.0)
    assert not reading.ended.is_set()
    goes_on.set()
    thread.join()
    database.expect_closed()


@pytest.mark.backends("sqlite", "postgresql", "mariadb")
def test_a_close_waits_for_calls_of_other_threads(database: Database) -> None:
    """As those of tasks are that were cancelled, or never awaited."""
    claims = Claims(database.url)
    begun, ended = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        begun.set()
        wait_until(lambda: claims.database._connections._closed, what="the close")
        connection.fetch(claims.database.session.of(ClaimStatements).find_sessions)
        ended.set()

    thread = threading.Thread(target=claims.database.run, args=(work,))
    thread.start()
    assert begun.wait(60)
    claims.close()
    assert ended.is_set()
    assert claims.database._connections._used == []
    thread.join()
    database.expect_closed()


@pytest.mark.backends("sqlite", "postgresql", "mariadb")
def test_claims_are_closed_in_the_middle_of_a_call(database: Database) -> None:
    """As by a signal."""
    claims = Claims(database.url)
    claims.database.run(lambda _: claims.close())
    database.expect_closed()
