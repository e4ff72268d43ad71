"""What a connection that was given up had sent is written late, or was all along: never beside its repeat.

A network or a server that stands still for longer than ``network_timeout`` is a lost connection to the store.
To the database it is one whose statement comes, or whose commit ends, when all goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message, MessageStore, XATransactionId
from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.lockers.conftest import LEASE, OpenLocked, open_locked
from tests.support.databases import Database
from tests.support.faults.proxy import ProxyLine, _Pair
from tests.support.servers import Server

__all__ = ["open_locked"]

GUARD = 60.0
SHORT = 2.0
QUIET = replace(LEASE, lock_acquire_sleep_interval=20 * GUARD, lock_keep_alive_period=10 * GUARD)
"""No renewal while a test runs: one that is held, and let go in time, leaves its connection open."""
XID = XATransactionId(86, b"transaction", b"branch")
_PROCESSLIST = (
    "SELECT SUBSTRING_INDEX(HOST, ':', -1) FROM information_schema.PROCESSLIST WHERE HOST LIKE '%:%'"
)
PORTS = {
    "postgresql": "SELECT client_port FROM pg_stat_activity WHERE client_port IS NOT NULL",
    **dict.fromkeys(("mariadb", "mysql"), _PROCESSLIST),
}
STORED = "SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID"


class LateLine(ProxyLine):
    """Connections that are there when it is :meth:`held <hold>` pass nothing on any more, until let go."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: set[_Pair] = set()
        self._late: set[int] = set()
        """The ports, as the server sees them, of connections that have something to say."""
        self._goes_on = threading.Event()
        super().__init__(database.url)

    def hold(self) -> None:
        self._held |= self._pairs

    def let_go(self) -> None:
        """Let arrive what was held, and wait until the database has done with it."""
        assert self._late
        self._goes_on.set()
        ports = PORTS[self._database.engine.dialect.name]
        wait_until(
            lambda: not self._late & {int(port) for (port,) in self._database.rows(ports)},
            GUARD,
            "that the old connections end",
        )

    def close(self) -> None:
        self._goes_on.set()
        super().close()

    def _carry_statements(self, pair: _Pair) -> None:
        for data in pair.received(pair.client):
            if pair in self._held:
                with contextlib.suppress(OSError):  # the server has ended it meanwhile
                    self._late.add(pair.server.getsockname()[1])
                self._goes_on.wait()
            pair.send(pair.server, data)


@pytest.fixture
def late(database: Database) -> Iterator[LateLine]:
    late = LateLine(database)
    yield late
    late.close()


@pytest.fixture(params=["without a locker", "fenced"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """How stores are opened; a read of theirs would be late as well, and none is made."""
    locker = QUIET if request.param == "fenced" else None
    return {"locker": locker, "network_timeout": SHORT}


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")
def test_what_was_consumed_or_prepared_does_not_come_again(
    late: LateLine, open_locked: OpenLocked, database: Database, options: dict[str, Any]
) -> None:
    store = open_locked(url=late.url, reconnect_timeout=GUARD, **options)
    queue = store.queue("Q")
    queue.add_message(Message("before"))
    late.hold()
    queue.acknowledge(queue.add_message(Message("consumed")).sequence)
    transaction = store.xa.start(XID)
    transaction.queue("Q").add_message(Message("prepared"))
    late.hold()
    transaction.prepare()
    late.let_go()
    assert len(database.rows(STORED)) == 2
    [found] = store.xa.recover()
    assert [writes.added for writes in found.writes] == [1]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_what_was_written_over_does_not_come_back(
    late: LateLine, open_locked: OpenLocked, options: dict[str, Any]
) -> None:
    store = open_locked(url=late.url, reconnect_timeout=0.0, **options)
    queue = store.queue("Q")
    stored = queue.get_message(queue.add_message(Message("first")).sequence)
    old, new = store.transaction(), store.transaction()
    old.queue("Q").update_message(stored.replace(body="old"))
    new.queue("Q").update_message(stored.replace(body="new"))
    late.hold()
    with pytest.raises(OutcomeUnknown):
        old.commit()
    new.commit()
    late.let_go()
    assert queue.get_message(1).body == "new"


@pytest.mark.backends("postgresql")
@pytest.mark.new_database
def test_what_cannot_come_any_more_is_not_in_doubt(
    late: LateLine, open_locked: OpenLocked, database: Database
) -> None:
    """The server has ended the session that sent it, and then takes no writes."""
    store = open_locked(QUIET, url=late.url, reconnect_timeout=SHORT, network_timeout=SHORT, cleanup_period=0)
    queue = store.queue("Q")
    queue.add_message(Message("before"))
    database.execute(f'ALTER DATABASE "{database.name}" SET default_transaction_read_only = on')
    late.hold()
    with pytest.raises(StoreUnavailable, match="read-only") as refused:
        queue.add_message(Message("never"))
    assert not isinstance(refused.value, OutcomeUnknown)
    late.let_go()
    assert len(database.rows(STORED)) == 1


@pytest.mark.backends("postgresql")
def test_a_commit_that_waits_for_a_standby_is_not_made_again(server: Server, database: Database) -> None:
    """Nor is it said to be made: what is seen is not yet where it is to be."""
    with jdbcstore.open(
        database.url, cleanup_period=0, network_timeout=SHORT, reconnect_timeout=SHORT
    ) as store:
        store.queue("Q").add_message(Message("before"))
        transaction = store.xa.start(XID)
        for number in range(3):
            transaction.queue("Q").add_message(Message(str(number)))
        with _waiting_for_a_standby(server, database), pytest.raises(OutcomeUnknown):
            transaction.prepare()
        store.queue("Q").add_message(Message("after"))
        assert len(database.rows(STORED)) == 5
        store.xa.commit(XID)
        assert [message.body for message in store.queue("Q").recover()] == ["before", "after", *"012"]


@contextlib.contextmanager
def _waiting_for_a_standby(server: Server, database: Database) -> Iterator[None]:
    """Commits wait for a standby that there is not."""
    reload, ended = "SELECT pg_reload_conf()", threading.Event()
    database.execute("CREATE TABLE PROBE (N INT)")
    server.execute_as_administrator("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", reload)

    def probe() -> None:
        while not ended.is_set():
            database.execute("INSERT INTO PROBE VALUES (1)")

    # The server's processes read the settings one after the other; then a commit waits until cancelled.
    thread = threading.Thread(target=probe)
    thread.start()
    try:
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        waiting += " AND datname = current_database()"
        wait_until(lambda: database.rows(waiting), GUARD, "that commits wait for a standby")
        ended.set()
        database.rows(f"SELECT pg_cancel_backend(pid) FROM ({waiting}) found")
        thread.join()
        yield
    finally:
        ended.set()
        server.execute_as_administrator(
            "SET synchronous_commit = off", "ALTER SYSTEM RESET synchronous_standby_names", reload
        )
        thread.join()


@pytest.mark.backends("postgresql")
def test_nothing_is_written_beside_a_session_that_stands_still(database: Database) -> None:
    """It cannot be ended either, so a repeat would have to hope that it never wakes."""
    with jdbcstore.open(
        database.url, cleanup_period=0, network_timeout=SHORT, reconnect_timeout=0.0
    ) as store:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        [(writer,)] = database.rows(
            "SELECT pid FROM pg_stat_activity WHERE datname = :name AND query ILIKE '%insert into%'"
            " AND pid <> pg_backend_pid()",
            name=database.name,
        )
        if not Path(f"/proc/{writer}").exists():
            pytest.skip("the server is on another machine")
        os.kill(writer, signal.SIGSTOP)
        try:
            with pytest.raises(OutcomeUnknown):
                queue.add_message(Message("in doubt"))
            with pytest.raises(StoreUnavailable, match=f"number {writer}"):
                queue.add_message(Message("refused"))
        finally:
            os.kill(writer, signal.SIGCONT)
        wait_until(lambda: _adds(queue, "after"), GUARD, "that the store writes again")
        assert [message.body for message in queue.recover()][-1] == "after"
        assert len(database.rows(STORED)) in (2, 3)


def _adds(queue: MessageStore, body: str) -> bool:
    try:
        queue.add_message(Message(body))
    except StoreUnavailable:
        return False
    return True
