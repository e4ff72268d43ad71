"""A queue that was empty when PostgreSQL analysed it, and has many since; others do it alone."""

from __future__ import annotations

import contextlib

import pytest

import jdbcstore
from jdbcstore import Message, StoreConfig
from jdbcstore.database.session import DatabaseSession
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database


@pytest.mark.backends("sqlite", "mariadb", "mysql")
def test_nothing_is_asked_where_there_is_nothing_to_refresh(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("there is nothing to connect for")

    with contextlib.closing(DatabaseSession(database.url, StoreConfig())) as session:
        monkeypatch.setattr(session, "connect", connect)
        session.refresh_statistics()


@pytest.mark.backends("postgresql")
def test_a_queue_that_fills_again_is_analysed(database: Database) -> None:
    with jdbcstore.open(database.url, cleanup_period=0) as store:
        queue = store.queue("ORDERS")
        for _ in range(3):
            queue.add_messages(Message("a") for _ in range(3_000))
            queue.remove_all_messages()
        database.execute("ANALYZE activemq_msgs")  # as autovacuum may do at any time
        queue.add_messages(Message("a") for _ in range(2_000))

        def is_known() -> bool:
            queue.add_message(Message("a"))
            [(rows,)] = database.rows("SELECT reltuples FROM pg_class WHERE relname = 'activemq_msgs'")
            return bool(rows >= 2_000)

        wait_until(is_known, 60.0, "that the planner knows of the messages")
