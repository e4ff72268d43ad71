"""A locker whose database fails at each of its calls, once and for good."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.config import StoreConfig
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import NotMaster, StoreError
from jdbcstore.lockers import LockState
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.lockers.database import DatabaseLocker, LeaseDatabaseLocker
from jdbcstore.lockers.mastership import Mastership
from jdbcstore.lockers.shared_file import SharedFileLocker
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.clock import SystemClock
from tests.faults.conftest import line
from tests.support.backends import Backend
from tests.support.databases import Database
from tests.support.faults.calls import Calls, Fault
from tests.support.faults.line import Line

__all__ = ["line"]

LEASE = 10.0
KINDS = [LeaseDatabaseLocker, pytest.param(DatabaseLocker, marks=pytest.mark.needs("row_locks"))]


def make(
    kind: type[AbstractLocker], url: str, name: str, clock: FakeClock
) -> tuple[DatabaseSession, AbstractLocker]:
    session = DatabaseSession(url, StoreConfig())
    options: dict[str, Any] = {"lock_acquire_sleep_interval": LEASE, "lock_keep_alive_period": LEASE / 3}
    locker = kind(name=name, clock=clock, **options)
    locker.configure(session)
    return session, locker


def attempt(locker: AbstractLocker) -> list[object]:
    """Start, renew twice, stop; what came of each."""
    said: list[object] = []
    steps: tuple[Callable[[], object], ...]
    steps = (lambda: locker.start(0.0), locker.keep_alive, locker.keep_alive)
    for step in steps:
        try:
            said.append(step())
        except StoreError as error:
            said.append(error)
        if locker.state is not LockState.MASTER:
            break
    return said


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", KINDS, ids=["lease", "database"])
def test_master_or_slave_or_stopped(
    kind: type[AbstractLocker], lasting: bool, backend: Backend, database: Database, line: Line
) -> None:
    if kind is DatabaseLocker and not backend.capabilities.server:
        pytest.skip("SQLite has no row locks")
    clock = FakeClock()
    with_faults, locker = make(kind, line.url, "faulty", clock)
    direct, other = make(kind, database.url, "other", clock)
    for how in line.breaks:
        for number in itertools.count(1):
            line.arm(how, number, lasting=lasting)
            said = attempt(locker)
            broke = line.broke
            master = locker.state is LockState.MASTER and said[-1] is True
            line.mend()
            # Whoever says that it is the master holds the lock.
            if master:
                assert not other.do_start(0.0), (how, number)
            locker.stop()
            assert locker.state is LockState.STOPPED
            assert wait_for(other, database), (how, number)
            other.do_stop()
            if not broke:
                assert said == [True, True, True]
                break
    with_faults.close()
    direct.close()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", KINDS, ids=["lease", "database"])
@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_any_call_of_the_driver_may_fail(
    kind: type[AbstractLocker], lasting: bool, backend: Backend, database: Database
) -> None:
    """In any way; a lost connection also after the call was done."""
    if kind is DatabaseLocker and not backend.capabilities.server:
        pytest.skip("SQLite has no row locks")
    clock = FakeClock()
    with_faults, locker = make(kind, database.url, "faulty", clock)
    direct, other = make(kind, database.url, "other", clock)
    calls = Calls(with_faults)
    for fault, done in (*((fault, False) for fault in Fault), (Fault.LOST, True)):
        for number in itertools.count(1):
            calls.arm(fault, number, lasting=lasting, done=done)
            said = attempt(locker)
            calls.mend()
            which = (fault, done, number, said)
            master = locker.state is LockState.MASTER
            assert master or locker.state is LockState.STOPPED, which
            if master and said[-1] is True:
                # Whoever says that it is the master holds the lock.
                assert not other.do_start(0.0), which
            locker.stop()
            assert locker.state is LockState.STOPPED
            assert wait_for(other, database), which
            other.do_stop()
            if not calls.failed:
                assert said == [True, True, True]
                break
        assert number > 5
    with_faults.close()
    direct.close()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_a_mastership_begins_whole_or_not_at_all(lasting: bool, database: Database) -> None:
    """With its epoch and its keeper."""
    clock = FakeClock()
    with_faults, locker = make(LeaseDatabaseLocker, database.url, "faulty", clock)
    direct, other = make(LeaseDatabaseLocker, database.url, "other", clock)
    mastership = Mastership(with_faults, locker, clock)
    calls = Calls(with_faults)
    epoch = 0
    for number in itertools.count(1):
        calls.arm(Fault.LOST, number, lasting=lasting, done=number % 2 == 0)
        fence = None
        with contextlib.suppress(StoreError):
            fence = mastership.acquire(0.0)
        assert locker.state is (LockState.MASTER if fence else LockState.STOPPED), number
        if fence is not None:
            assert fence.epoch > epoch
            assert fence.lost is None
            assert not other.do_start(0.0), number
            epoch = fence.epoch
        calls.mend()
        mastership.release()
        assert wait_for(other, database), number
        other.do_stop()
        if not calls.failed:
            break
    assert number > 10
    assert epoch > 0
    with_faults.close()
    direct.close()


def wait_for(locker: AbstractLocker, database: Database) -> bool:
    """A server may need a moment to notice that a connection is gone, and may do what it was asked before."""

    def takes() -> bool:
        if isinstance(locker, LeaseDatabaseLocker):
            # The database's clock is real here: what a release could not free would take a lease.
            database.execute("UPDATE ACTIVEMQ_LOCK SET TIME = 0 WHERE ID = 1")
        return locker.do_start(1.0)

    return wait_until(takes)


@pytest.mark.backends("sqlite", "postgresql")
def test_a_lock_outside_the_database_does_not_hammer_it(tmp_path: Path, database: Database) -> None:
    """While the database is away such a lock can be had at once, again and again."""
    attempts = 0

    class Counting(SharedFileLocker):
        def do_start(self, max_wait: float) -> bool:
            nonlocal attempts
            attempts += 1
            return super().do_start(max_wait)

    session = DatabaseSession(database.url, StoreConfig())
    mastership = Mastership(session, Counting(name="one", directory=str(tmp_path)), SystemClock())
    calls = Calls(session)
    calls.arm(Fault.LOST, 1, lasting=True, done=False)
    with pytest.raises(NotMaster):
        mastership.acquire(1.0)
    calls.mend()
    assert 2 < attempts < 50
    session.close()
