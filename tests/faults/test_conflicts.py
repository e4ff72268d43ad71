"""Other writers in the way: locks held too long, and deadlocks."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy import Connection, make_url, text

import jdbcstore
from jdbcstore import Message
from jdbcstore.errors import StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.faults.blocking import WAITING, writes_held
from tests.support.faults.effects import WAIT
from tests.support.faults.proxy import ProxyLine

# How a URL says that a lock is waited for a second at most, and not for half a minute.
_IMPATIENT = {
    "sqlite": {"timeout": "0.05"},
    "postgresql": {"options": "-c lock_timeout=50"},
    "mariadb": {"init_command": "SET SESSION lock_wait_timeout = 1"},
    "mysql": {"init_command": "SET SESSION lock_wait_timeout = 1"},
}


@pytest.fixture
def impatient_url(database: Database) -> str:
    query = _IMPATIENT[database.engine.dialect.name]
    return make_url(database.url).update_query_dict(query).render_as_string(hide_password=False)


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_a_lock_held_too_long_is_an_error(impatient_url: str, database: Database) -> None:
    with jdbcstore.open(impatient_url, cleanup_period=0, reconnect_timeout=0.1) as store:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        with writes_held(database):
            with pytest.raises(StoreUnavailable, match="in the way"):
                queue.add_message_async(Message("held")).result(WAIT)
            assert [message.body for message in queue.recover()] == ["before"]
        queue.add_message(Message("after"))
        assert [message.body for message in queue.recover()] == ["before", "after"]


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_a_lock_let_go_in_time_is_not_noticed(
    impatient_url: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jdbcstore")
    with jdbcstore.open(impatient_url, cleanup_period=0, reconnect_timeout=WAIT) as store:
        queue = store.queue("Q")
        with writes_held(database):
            held = queue.add_message_async(Message("held"))
            wait_until(lambda: "trying again" in caplog.text, WAIT, "the log of a second try")
        held.result(WAIT)
        assert queue.message_count() == 1


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")
def test_the_victim_of_a_deadlock_tries_again(url: str, database: Database) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, database.engine.connect() as other:
        queue = store.queue("Q")
        first, second = queue.add_messages([Message("first"), Message("second")])
        other.exec_driver_sql("BEGIN")
        # Who has written least is MariaDB's victim, and who has waited longest PostgreSQL's.
        other.execute(text(_much_else()))
        _lock(other, second.sequence)
        transaction = store.transaction()
        transaction.queue("Q").update_message(queue.get_message(first.sequence))
        transaction.queue("Q").acknowledge(second)
        result = transaction.commit_async()
        waiting = WAITING[database.engine.dialect.name]
        wait_until(lambda: database.rows(waiting) == [(1,)], WAIT, "that the store waits for the second")
        _lock(other, first.sequence)  # which the store holds: one of the two must give up
        other.exec_driver_sql("ROLLBACK")
        result.result(WAIT)
        assert [message.body for message in queue.recover()] == ["first"]


def _much_else() -> str:
    rows = ", ".join(f"('queue://ELSE', 'client', 'subscription {number}', 0)" for number in range(50))
    return f"INSERT INTO ACTIVEMQ_ACKS (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY) VALUES {rows}"


def _lock(connection: Connection, sequence: int) -> None:
    connection.execute(text("SELECT ID FROM ACTIVEMQ_MSGS WHERE ID = :id FOR UPDATE"), {"id": sequence})


@pytest.mark.backends("postgresql")
def test_ids_that_another_took_while_it_connected_again_are_replaced(database: Database) -> None:
    """However long the connection took: what is free now is asked for at once."""
    line = ProxyLine(database.url, delay=0.05)  # one that connects is past the timeout
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=0.1) as store:
        queue = store.queue("Q")
        queue.add_message(Message("mine"))
        with jdbcstore.open(database.url, cleanup_period=0) as other:
            other.queue("Q").add_message(Message("other"))
        line.cut_all()

        queue.add_message(Message("mine again"))

        assert [message.body for message in queue.recover()] == ["mine", "other", "mine again"]
    line.close()
