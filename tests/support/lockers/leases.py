"""Lease lockers on a database whose clock is a row, each with a clock of its own."""

from __future__ import annotations

from typing import Any

from jdbcstore.config import StoreConfig
from jdbcstore.database.adapters.sqlite import SqliteAdapter
from jdbcstore.database.session import DatabaseSession
from jdbcstore.lockers.database import LeaseDatabaseLocker
from jdbcstore.testing.clock import FakeClock
from tests.support.databases import Database

LEASE = 10.0
START_MS = 1_750_000_000_000
NOW_MS = "(SELECT NUMBER FROM JDBCSTORE_STATE WHERE NAME = 'clock')"


class SteppedDatabase:
    """A database with a clock that only :meth:`advance` moves."""

    def __init__(self, database: Database, replace: Any) -> None:
        connected = SqliteAdapter.on_connect

        def on_connect(adapter: SqliteAdapter, connection: Any) -> None:
            connected(adapter, connection)
            # The tests judge what is committed, and never what survives a crash.
            connection.execute("PRAGMA synchronous=OFF")

        replace(SqliteAdapter, "on_connect", on_connect)
        self.session = DatabaseSession(database.url, StoreConfig(cleanup_period=0.0))
        replace(type(self.session.adapter), "now_ms", NOW_MS)
        self.clocks: list[FakeClock] = []
        self._lockers: list[LeaseDatabaseLocker] = []
        self.now_ms = START_MS
        self._connection = self.session.connect()
        self._run(f"INSERT INTO JDBCSTORE_STATE (NAME, NUMBER) VALUES ('clock', {START_MS})")

    def locker(self, name: str, *, skew: float = 0.0, **options: Any) -> LeaseDatabaseLocker:
        clock = FakeClock(START_MS + round(skew * 1000))
        self.clocks.append(clock)
        locker = LeaseDatabaseLocker(name=name, clock=clock, lock_acquire_sleep_interval=LEASE, **options)
        locker.configure(self.session)
        self._lockers.append(locker)
        return locker

    def advance(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)
        self._run(f"UPDATE JDBCSTORE_STATE SET NUMBER = {self.now_ms} WHERE NAME = 'clock'")
        for clock in self.clocks:
            clock.advance(seconds)

    def row(self) -> tuple[str | None, int | None]:
        """Whose name the lock has, and until when."""
        cursor = self._connection.cursor
        cursor.execute("SELECT BROKER_NAME, TIME FROM ACTIVEMQ_LOCK WHERE ID = 1")
        [(name, expiry)] = cursor.fetchall()
        return name, expiry

    def set_row(self, name: str | None, expiry: int | None) -> None:
        holder = "NULL" if name is None else f"'{name}'"
        time = "NULL" if expiry is None else expiry
        self._run(f"UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = {holder}, TIME = {time}")

    def close(self) -> None:
        for locker in self._lockers:
            locker.do_stop()
        self._connection.close()
        self.session.close()

    def _run(self, statement: str) -> None:
        self._connection.cursor.execute(statement)


def believes(locker: LeaseDatabaseLocker) -> bool:
    """Whether it takes itself for the holder, asking nobody."""
    return locker.clock.monotonic() < locker.held_until
