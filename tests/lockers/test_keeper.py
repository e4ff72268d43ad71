"""The keeper renews in time, gives up in time, and keeps nothing alive."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from sqlalchemy import Connection

from jdbcstore import Message
from jdbcstore.config.locker import (
    CustomLockerConfig,
    DatabaseLockerConfig,
    LeaseDatabaseLockerConfig,
    LockerConfig,
    SharedFileLockerConfig,
)
from jdbcstore.errors import ConfigurationError, LockLost, StoreError
from jdbcstore.lockers import AbstractLocker
from jdbcstore.lockers.database import Locked
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.testing.polling import wait_until
from tests.faults.conftest import line
from tests.lockers.conftest import OpenLocked
from tests.support.databases import Database
from tests.support.faults.line import Break, Line
from tests.support.servers import Server

__all__ = ["line"]

SHORT = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=10.0, lock_keep_alive_period=0.3)
"""As short as a machine that has much else to do can keep it up."""
LONG = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=300.0, lock_keep_alive_period=0.3)


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mariadb-pyodbc", "mysql")
def test_a_lease_is_renewed(open_locked: OpenLocked, database: Database) -> None:
    store = open_locked(LONG)
    [(_, first)] = database.rows("SELECT BROKER_NAME, TIME FROM ACTIVEMQ_LOCK")

    def renewed() -> bool:
        return bool(database.rows(f"SELECT 1 FROM ACTIVEMQ_LOCK WHERE TIME > {first + 1000}"))

    wait_until(renewed, what="a lease that was renewed more than once")
    store.queue("Q").add_message(Message("still the master"))


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_master_that_is_cut_off_stops_before_its_lease_ends(
    open_locked: OpenLocked, line: Line, database: Database
) -> None:
    store = open_locked(SHORT, url=line.url)
    assert store.fence is not None
    queue = store.queue("Q")
    queue.add_message(Message("in time"))
    ended: list[float] = []
    paused = [0.0]

    def see_pauses() -> None:
        """How late this machine lets a thread go on, beside the one that is to end the mastership."""
        while not ended:
            asked = time.monotonic()
            time.sleep(0.05)
            paused.append(time.monotonic() - asked - 0.05)

    store.fence.on_lost(lambda _: ended.append(time.time()))
    seeing = threading.Thread(target=see_pauses)
    seeing.start()
    line.arm(Break.STATEMENT, 1, lasting=True)
    wait_until(lambda: ended, what="the end")
    seeing.join()
    # Its lease was still there then, by the database's clock.
    [(name, expiry)] = database.rows("SELECT BROKER_NAME, TIME FROM ACTIVEMQ_LOCK")
    assert name.startswith("one#")
    assert (ended[0] - max(paused)) * 1000 < expiry
    with pytest.raises(LockLost):
        queue.add_message(Message("late"))
    line.mend()


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_lock_outlives_a_restart_that_is_shorter_than_the_lease(
    open_locked: OpenLocked, server: Server
) -> None:
    lease = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=600.0, lock_keep_alive_period=0.2)
    store = open_locked(lease, reconnect_timeout=180.0)
    server.restart()
    store.queue("Q").add_message(Message("after the restart"))
    assert store.fence is not None
    assert store.fence.epoch == 1


@pytest.mark.needs("row_locks")
@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_row_lock_ends_with_its_connection(open_locked: OpenLocked, line: Line) -> None:
    store = open_locked(DatabaseLockerConfig(lock_keep_alive_period=1.0), url=line.url)
    assert store.fence is not None
    line.arm(Break.BETWEEN, 1)
    assert store.fence.wait_lost(180.0)
    successor = open_locked(DatabaseLockerConfig(), broker_name="two", lock_timeout=180.0)
    successor.queue("Q").add_message(Message("mine"))
    with pytest.raises(LockLost):
        store.queue("Q").add_message(Message("late"))


LEAVES = """
import sys
from jdbcstore import Configuration, JdbcStore
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
store = JdbcStore.configured(
    Configuration(data_source=DataSourceConfig(url=sys.argv[1]), locker=LeaseDatabaseLockerConfig())
)
print(store.fence.epoch)
"""


@pytest.mark.backends("sqlite")
def test_a_process_ends_that_has_not_closed_its_store(database: Database) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES, database.url], capture_output=True, text=True, timeout=180, check=True
    )
    assert done.stdout.split() == ["1"]


class Stubborn(AbstractLocker):
    """A locker of a user's own, that does as the test says."""

    held = True
    fails: StoreError | None = None
    stopped = 0

    def __init__(self, *, place: str = "", **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.place = place

    def do_start(self, max_wait: float) -> bool:  # noqa: ARG002
        return type(self).held

    def do_stop(self) -> None:
        type(self).stopped += 1

    def keep_alive(self) -> bool:
        error = type(self).fails
        if error is not None:
            raise error
        return type(self).held


CUSTOM = CustomLockerConfig(
    locker_class=f"{__name__}:Stubborn", options={"place": "here"}, lock_keep_alive_period=0.05
)


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> type[Stubborn]:
    monkeypatch.setattr(Stubborn, "held", True)
    monkeypatch.setattr(Stubborn, "fails", None)
    monkeypatch.setattr(Stubborn, "stopped", 0)
    return Stubborn


@pytest.mark.backends("sqlite")
def test_a_locker_of_ones_own(open_locked: OpenLocked, stubborn: type[Stubborn]) -> None:
    store = open_locked(CUSTOM)
    assert store.fence is not None
    stubborn.fails = StoreError("nobody knows")
    assert not store.fence.wait_lost(0.3)
    store.queue("Q").add_message(Message("held on"))
    stubborn.fails = None
    stubborn.held = False
    assert store.fence.wait_lost(180.0)
    wait_until(lambda: stubborn.stopped == 1, what="that the lock is given up")
    with pytest.raises(LockLost):
        store.queue("Q").add_message(Message("late"))


@pytest.mark.backends("sqlite")
def test_an_error_ends_it_at_once_where_that_is_wanted(
    open_locked: OpenLocked, stubborn: type[Stubborn]
) -> None:
    from dataclasses import replace

    store = open_locked(replace(CUSTOM, stop_on_error=True))
    assert store.fence is not None
    stubborn.fails = StoreError("nobody knows")
    assert store.fence.wait_lost(180.0)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize(
    ("locker", "says"),
    [
        (DatabaseLockerConfig(), "does not lock single rows"),
        (CustomLockerConfig(locker_class="no.such:Thing"), "there is no locker"),
        (CustomLockerConfig(locker_class="json:loads"), "cannot be created"),
        (CustomLockerConfig(locker_class=f"{__name__}:Stubborn", options={"nonsense": "1"}), "nonsense"),
        (SharedFileLockerConfig(), "needs a directory"),
    ],
)
def test_what_cannot_work(open_locked: OpenLocked, locker: LockerConfig, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        open_locked(locker)


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")
@pytest.mark.parametrize("what", ["a transaction", "a large message"])
def test_a_lease_is_renewed_during_a_long_write(
    open_locked: OpenLocked, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """By its own write a master would be deposed, with nobody competing."""
    store = open_locked()
    renewed: list[bool] = []

    def renew(*_: object) -> None:
        assert store._mastership is not None
        renewed.append(store._mastership.locker.keep_alive())

    if what == "a transaction":
        store._writes.call(renew)
    else:
        insert = store._session.adapter.writing.insert_messages

        def insert_slowly(*arguments: Any) -> None:
            insert(*arguments)
            renew()

        monkeypatch.setattr(store._session.adapter.writing, "insert_messages", insert_slowly)
        store.queue("Q").add_message(Message(b"x" * (2 << 20)))
    assert renewed == [True]


@pytest.mark.backends("sqlite")
def test_whoever_locks_the_file_for_long_keeps_a_renewal_waiting_for_a_second_only(
    open_locked: OpenLocked, connection: Connection
) -> None:
    locker = open_locked()._mastership.locker  # type: ignore[union-attr]
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(Locked):
            locker.keep_alive()
        seconds.append(time.monotonic() - began)
        if seconds[-1] < 15.0:
            break
    # Beside the driver's own 30 s; the machine may be held up once, or twice.
    assert min(seconds) < 15.0
    connection.exec_driver_sql("ROLLBACK")
    assert locker.keep_alive()


@pytest.mark.backends("sqlite")
def test_a_statement_that_runs_is_ended_by_another_thread_and_its_connection_left_alone(
    open_locked: OpenLocked,
) -> None:
    """A connection that is closed under it takes the process with it."""
    line = open_locked()._session.connect()
    began = threading.Event()

    def begin() -> int:
        began.set()
        return 1

    line._raw.create_function("began", 0, begin)
    failures: list[Exception] = []

    def count_for_ever() -> None:
        try:
            line.cursor.execute(
                "WITH RECURSIVE n(i) AS (SELECT began() UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
            )
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=count_for_ever)
    thread.start()
    assert began.wait(180)
    line.abort()
    thread.join(180)
    assert "interrupted" in str(failures[0])
    assert line.cursor.execute("SELECT 1").fetchall() == [(1,)]
    line.close()


@pytest.mark.backends("postgresql")
def test_closing_waits_for_no_vacuum(open_locked: OpenLocked, connection: Connection) -> None:
    store = open_locked()
    connection.exec_driver_sql("BEGIN")
    connection.exec_driver_sql("LOCK TABLE activemq_msgs IN SHARE UPDATE EXCLUSIVE MODE")
    assert isinstance(store._writes, Writer)
    store._writes._statistics.count(5_000, 0)
    closing = threading.Thread(target=store.close, daemon=True)
    closing.start()
    closing.join(120)
    alive = closing.is_alive()
    connection.exec_driver_sql("ROLLBACK")
    assert not alive
