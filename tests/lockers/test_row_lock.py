"""Every interleaving of two holders' obtain, renew and release of a row lock with its end by the server."""

from __future__ import annotations

import itertools

import pytest

from jdbcstore.config import StoreConfig
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import StoreError
from jdbcstore.lockers.database import SILENT_PERIODS, DatabaseLocker
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from tests.support.backends import Backend
from tests.support.databases import Database

pytestmark = pytest.mark.needs("row_locks")

LENGTH = 3
PERIOD = 60.0
"""Longer than any test: only what the test does ends a lock."""
STEPS = [f"{who} {what}" for who in "AB" for what in ("obtains", "renews", "releases", "expires")]
OWN_ID = {
    "postgresql": "SELECT pg_backend_pid(), txid_current()",
    **dict.fromkeys(("mariadb", "mysql"), "SELECT CONNECTION_ID(), 0"),
}
END = {"postgresql": "SELECT pg_terminate_backend({})", **dict.fromkeys(("mariadb", "mysql"), "KILL {}")}
IS_THERE = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE pid = {} AND backend_xid = '{}'",
    **dict.fromkeys(("mariadb", "mysql"), "SELECT ID FROM information_schema.PROCESSLIST WHERE ID = {}"),
}


class Holder:
    """A locker, and the server's names of the connection and the transaction that have its lock."""

    def __init__(self, name: str, session: DatabaseSession, database: Database, vendor: str) -> None:
        self.clock = FakeClock()
        self.locker = DatabaseLocker(name=name, clock=self.clock, lock_keep_alive_period=PERIOD)
        self.locker.configure(session)
        self._database = database
        self._vendor = vendor
        self._connection: tuple[int, int] | None = None

    def obtains(self) -> bool:
        held = self.locker.do_start(0.0)
        self._connection = self.locker._run(self._ask) if held else None
        return held

    def renews(self) -> bool:
        try:
            return self.locker.keep_alive()
        except StoreError:
            return False

    def releases(self) -> None:
        self.locker.do_stop()
        self._wait_for_end()

    def expires(self) -> None:
        """It was silent for too long, and the server has ended its connection."""
        self.clock.advance(SILENT_PERIODS * PERIOD)
        if self._connection is not None and self.locker._connection is not None:
            self._database.execute(END[self._vendor].format(*self._connection))
            self._wait_for_end()

    def believes(self) -> bool:
        return self.locker._connection is not None and self.clock.monotonic() < self.locker.held_until

    def _ask(self, connection: Connection) -> tuple[int, int]:
        connection.cursor.execute(OWN_ID[self._vendor])
        [(session, transaction)] = connection.cursor.fetchall()
        return session, transaction

    def _wait_for_end(self) -> None:
        if self._connection is not None:
            query = IS_THERE[self._vendor].format(*self._connection)
            wait_until(lambda: self._database.rows(query) == [], what="that its transaction has ended")
            self._connection = None


class Model:
    """Who has the row."""

    def __init__(self) -> None:
        self.holder: str | None = None

    def step(self, who: str, what: str) -> bool | None:
        mine = self.holder == who
        if what == "obtains":
            # An attempt gives back what one before it may have left.
            if self.holder in (None, who):
                self.holder = who
            return self.holder == who
        if what == "renews":
            return mine
        if mine:
            self.holder = None
        return None


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_every_interleaving(backend: Backend, database: Database) -> None:
    session = DatabaseSession(database.url, StoreConfig(cleanup_period=0.0))
    holders = {who: Holder(who, session, database, backend.vendor) for who in "AB"}
    # Both are alike, so A may be the first to obtain it.
    for rest in itertools.product(STEPS, repeat=LENGTH - 1):
        steps, model = ("A obtains", *rest), Model()
        for step in steps:
            who, what = step.split()
            expected = model.step(who, what)
            assert getattr(holders[who], what)() == expected, steps
            believers = {name for name, holder in holders.items() if holder.believes()}
            assert believers == ({model.holder} - {None}), steps
        for holder in holders.values():
            holder.releases()
    session.close()


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")
def test_nobody_is_master_of_a_row_that_is_not_there(database: Database, backend: Backend) -> None:
    session = DatabaseSession(database.url, StoreConfig())
    database.execute("DELETE FROM ACTIVEMQ_LOCK")
    holders = [Holder(name, session, database, backend.scheme) for name in "AB"]
    for holder in holders:
        with pytest.raises(StoreError, match="jdbcstore init"):
            holder.locker.start(0.0)
    session.close()


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")
def test_a_check_looks_whether_its_row_is_there(database: Database) -> None:
    session = DatabaseSession(database.url, StoreConfig())
    locker = DatabaseLocker(name="A", lock_keep_alive_period=PERIOD)
    locker.configure(session)
    assert locker.do_start(0.0)
    assert locker.keep_alive()
    # As ActiveMQ's own lock statement is, where it locks the table: somebody may clear it before.
    locker._run(lambda connection: connection.cursor.execute("DELETE FROM " + _lock_table(session)))
    assert not locker.keep_alive()
    locker.do_stop()
    session.close()


def _lock_table(session: DatabaseSession) -> str:
    return str(session.tables.lock.name)
