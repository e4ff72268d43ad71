"""A commit that waits for its standby, and is cancelled: it is not reported before the standby has it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, text

from jdbcstore import Claims, JdbcStore, Message, Store, StoreConfig
from jdbcstore.testing.polling import wait_until
from tests.support.campaign.standby import Standby
from tests.support.databases import Database
from tests.support.pool import memory
from tests.support.servers import PostgresqlServer, Server

pytestmark = [pytest.mark.slow, pytest.mark.backends("postgresql")]

WAIT = 60.0
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
WAITING_AGAIN = f"{WAITING} AND query LIKE '%logical_emit%'"
STORED = "SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID"


@pytest.fixture
def standby(server: Server, database: Database) -> Iterator[Standby]:
    """A synchronous one."""
    assert isinstance(server, PostgresqlServer)
    standby = Standby(server, memory())
    server.execute_as_administrator(
        f"GRANT pg_monitor TO {server.username}",
        "ALTER SYSTEM SET synchronous_standby_names = '*'",
        "SELECT pg_reload_conf()",
    )
    streams = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
    wait_until(lambda: database.rows(streams), WAIT, "that the standby is synchronous")
    yield standby
    server.execute_as_administrator(
        "SET synchronous_commit = off",
        "ALTER SYSTEM RESET synchronous_standby_names",
        "SELECT pg_reload_conf()",
    )
    standby.close()


def _alone(store: Store, pool: ThreadPoolExecutor) -> Future[object]:
    return pool.submit(store.queue("Q").add_message, Message("second"))


def _sent(store: Store, pool: ThreadPoolExecutor) -> Future[object]:  # noqa: ARG001
    return store.queue("Q").add_message_async(Message("second"))  # type: ignore[return-value]


def _in_a_transaction(store: Store, pool: ThreadPoolExecutor) -> Future[object]:
    transaction = store.transaction()
    transaction.queue("Q").acknowledge(1)
    transaction.queue("Q").add_message(Message("second"))
    return pool.submit(transaction.commit)


def _claimed(claims: Claims, pool: ThreadPoolExecutor) -> Future[object]:
    return pool.submit(claims.queue("Q").add, Message("second"))


ADDS: tuple[Callable[..., Future[object]], ...] = (_alone, _sent, _in_a_transaction, _claimed)


@pytest.mark.parametrize("add", ADDS, ids=lambda add: add.__name__)
def test_it_is_on_the_standby_once_it_is_reported(
    add: Callable[..., Future[object]], database: Database, standby: Standby
) -> None:
    config = StoreConfig(cleanup_period=0, reconnect_timeout=WAIT)
    with contextlib.ExitStack() as ends:
        opened: Store | Claims = (
            Claims(database.url, config) if add is _claimed else JdbcStore(database.url, config)
        )
        ends.enter_context(opened)
        if isinstance(opened, JdbcStore):
            opened.queue("Q").add_message(Message("first"))
        pool = ends.enter_context(ThreadPoolExecutor(1))
        standby.kill()
        # What waits for it ends before anything is closed.
        ends.callback(_start, standby)
        added = add(opened, pool)
        for waiting in (WAITING, WAITING_AGAIN):
            pids = wait_until(partial(database.rows, waiting), WAIT, "that the commit waits")
            for (pid,) in pids:
                database.rows("SELECT pg_cancel_backend(:pid)", pid=pid)
            again = "that it waits again, or is reported"
            wait_until(lambda: added.done() or database.rows(WAITING_AGAIN), WAIT, again)
            assert not added.done()
        _start(standby)
        added.result(WAIT)
    url = standby.administrator_url.set(database=database.name)
    engine = create_engine(url, poolclass=NullPool)
    wait_until(lambda: _last(engine) == database.rows(STORED), WAIT, "that the standby has applied it")


def _start(standby: Standby) -> None:
    if not standby.is_alive():
        standby.start()


def _last(engine: Engine) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(STORED))]
