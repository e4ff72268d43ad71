"""The user's statements of the lockers are run, and whatever they say, only one store writes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.config.locker import DatabaseLockerConfig, LeaseDatabaseLockerConfig
from jdbcstore.errors import ConfigurationError, LockLost, NotMaster
from jdbcstore.testing.polling import wait_until
from tests.lockers.conftest import LEASE, OpenLocked
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

HOUR_MS = 3_600_000
ALWAYS = "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = :broker_name, TIME = :time WHERE ID = 1 AND {}"
LEASE_OBTAIN = (
    "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = :broker_name, TIME = :time + 3600000"
    " WHERE (TIME IS NULL OR TIME < :now) AND ID = 1"
)
LEASE_UPDATE = (
    "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = :broker_name, TIME = :time + 7200000"
    " WHERE BROKER_NAME = :holder AND ID = 1"
)
EXPIRES = "SELECT TIME FROM ACTIVEMQ_LOCK"


def stored(database: Database) -> list[Any]:
    return database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")


def test_a_lease_is_taken_by_them(open_locked: OpenLocked, database: Database) -> None:
    before = time.time_ns() // 10**6
    # Taking it is followed by a renewal, which leaves no trace of the first here.
    own_update = LEASE_UPDATE.replace("TIME = :time + 7200000", "TIME = TIME").replace(
        "WHERE", "WHERE :time > 0 AND"
    )
    open_locked(statements={"leaseObtainStatement": LEASE_OBTAIN, "leaseUpdateStatement": own_update})
    [(expires,)] = database.rows(EXPIRES)
    assert expires > before + HOUR_MS


def test_a_lease_is_renewed_and_asked_after_by_them(open_locked: OpenLocked, database: Database) -> None:
    before = time.time_ns() // 10**6
    owner = "SELECT 'somebody', TIME FROM ACTIVEMQ_LOCK WHERE ID = 1"
    statements = {"leaseUpdateStatement": LEASE_UPDATE, "leaseOwnerStatement": owner}
    open_locked(statements=statements)
    assert database.rows(EXPIRES)[0][0] > before + 2 * HOUR_MS
    with pytest.raises(NotMaster, match="somebody") as raised:
        open_locked(statements=statements, lock_timeout=0.0)
    assert raised.value.holder == "somebody"


def test_a_lease_goes_by_their_clock(open_locked: OpenLocked, database: Database) -> None:
    clock = {"currentDateTimeStatement": "SELECT 1750000000000 FROM ACTIVEMQ_LOCK WHERE ID = 1"}
    store = open_locked(statements=clock)
    assert database.rows(EXPIRES) == [(1_750_000_000_000 + LEASE.lock_acquire_sleep_interval * 1000,)]
    assert store.lock().now_ms == 1_750_000_000_000


def test_a_clock_without_a_zone_is_none(open_locked: OpenLocked) -> None:
    clock = {"currentDateTimeStatement": "SELECT '2026-01-02 03:04:05' FROM ACTIVEMQ_LOCK"}
    with pytest.raises(ConfigurationError, match="is not a point in time"):
        open_locked(statements=clock)


def test_a_lease_that_anybody_gets_makes_no_two_masters(open_locked: OpenLocked, database: Database) -> None:
    """And each renews it, whosever it is."""
    statements = {
        "leaseObtainStatement": ALWAYS.format(":now > ID"),
        "leaseUpdateStatement": ALWAYS.format(":holder <> 'x'"),
    }
    quick = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=30.0, lock_keep_alive_period=0.05)
    first = open_locked(quick, statements=statements)
    first.queue("Q").add_message(Message("first"))
    second = open_locked(quick, broker_name="two", statements=statements)
    with pytest.raises(LockLost):
        first.queue("Q").add_message(Message("late"))
    third = open_locked(quick, broker_name="three", statements=statements)
    with pytest.raises(LockLost):
        second.queue("Q").add_message(Message("late"))
    assert third.fence is not None
    assert third.fence.epoch == 3
    assert stored(database) == [(1,)]


@pytest.mark.needs("row_locks")
@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_row_lock_that_locks_nothing_makes_no_two_masters(
    open_locked: OpenLocked, database: Database
) -> None:
    """With the store's own of either, the second would wait."""
    statements = {
        "lockCreateStatement": "SELECT ID, TIME, BROKER_NAME FROM ACTIVEMQ_LOCK WHERE ID = 1",
        "lockUpdateStatement": "UPDATE ACTIVEMQ_LOCK SET TIME = :time WHERE ID = 7",
    }
    locker = DatabaseLockerConfig(lock_keep_alive_period=10.0)
    first = open_locked(locker, statements=statements)
    first.queue("Q").add_message(Message("first"))
    second = open_locked(locker, broker_name="two", statements=statements, lock_timeout=180.0)
    with pytest.raises(LockLost):
        first.queue("Q").add_message(Message("late"))
    second.queue("Q").add_message(Message("second"))
    assert stored(database) == [(2,)]


@pytest.mark.backends("postgresql")
def test_a_lock_on_the_table(open_locked: OpenLocked, database: Database) -> None:
    lock = {"lockCreateStatement": "LOCK TABLE ACTIVEMQ_LOCK IN EXCLUSIVE MODE"}
    locker = DatabaseLockerConfig(lock_keep_alive_period=10.0)
    store = open_locked(locker, statements=lock)
    locked = (
        "SELECT COUNT(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND relation = 'activemq_lock'::regclass"
    )
    assert database.rows(locked) == [(1,)]
    with pytest.raises(NotMaster):
        open_locked(locker, statements=lock, lock_timeout=0.0)
    store.close()
    wait_until(lambda: database.rows(locked) == [(0,)], what="that the table is free")
    open_locked(locker, statements=lock, lock_timeout=180.0)


def test_a_wrong_one_is_told_by_the_locker_that_needs_it(open_locked: OpenLocked, database: Database) -> None:
    import jdbcstore

    wrong = {"leaseObtainStatement": LEASE_OBTAIN.replace("ACTIVEMQ_LOCK", "NOWHERE")}
    with pytest.raises(
        ConfigurationError, match=r"leaseObtainStatement: the database refuses it.*(?i:nowhere)"
    ):
        open_locked(statements=wrong)
    jdbcstore.open(database.url, statements=wrong, cleanup_period=0.0).close()
