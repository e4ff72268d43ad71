"""What a broker does when its store fails, as it is configured."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from typing import Any

import pytest

from jdbcstore import JdbcStore, Message
from jdbcstore.config.locker import (
    DefaultIOExceptionHandlerConfig,
    IOExceptionHandlerConfig,
    LeaseDatabaseLockerConfig,
    LeaseLockerIOExceptionHandlerConfig,
)
from jdbcstore.errors import (
    InvalidMessage,
    JournalFailed,
    LockLost,
    OutcomeUnknown,
    ReplySuppressed,
    SchemaError,
    StorageFull,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.stores.io_exceptions import IOExceptionHandler
from jdbcstore.testing.polling import wait_until
from tests.faults.conftest import line
from tests.lockers.conftest import OpenLocked
from tests.support.databases import Database
from tests.support.faults.line import Break, Line

__all__ = ["line"]

GUARD = 180.0
PATIENT = LeaseLockerIOExceptionHandlerConfig(resume_check_sleep_period=0.1)


class Host:
    """Writes down what it is told."""

    def __init__(self, *, fails: str = "") -> None:
        self.told: list[str] = []
        self.exits = False
        self.stopped_for: StoreError | None = None
        self._fails = fails
        self._waiting = threading.Event()

    def stop_connectors(self, error: StoreError) -> None:  # noqa: ARG002
        self._tell("connectors stop")

    def start_connectors(self) -> None:
        self._tell("connectors start")

    def stop(self, error: StoreError, *, exit_process: bool) -> None:
        self.exits, self.stopped_for = exit_process, error
        self._tell("stop")

    def _tell(self, what: str) -> None:
        self.told.append(what)
        if what == self._fails:
            raise RuntimeError(what)


class Unguarded:
    """A store without a locker, whose database answers."""

    fence = None

    def check(self) -> None: ...


def of_sql(error: StoreError, text: str = "no such device") -> StoreError:
    error.__cause__ = sqlite3.OperationalError(text)
    return error


def of_files(error: StoreError, text: str) -> StoreError:
    error.__cause__ = OSError(text)
    return error


DEFAULT = DefaultIOExceptionHandlerConfig
LEASE_LOCKER = LeaseLockerIOExceptionHandlerConfig
STOPS, RESTARTS = ["stop"], ["connectors stop", "connectors start"]


@pytest.mark.parametrize(
    ("config", "error", "expected"),
    [
        (DEFAULT(), of_sql(StoreUnavailable("away")), None),
        (DEFAULT(), of_sql(OutcomeUnknown()), None),
        (DEFAULT(), of_files(StoreUnavailable("a file"), "gone"), STOPS),
        (DEFAULT(), of_files(StoreUnavailable("a file"), "No space left on device"), None),
        (DEFAULT(ignore_no_space_errors=False), of_files(StoreUnavailable("x"), "No space left"), STOPS),
        (DEFAULT(no_space_message="voll"), of_files(StoreUnavailable("a file"), "Platte voll"), None),
        (DEFAULT(ignore_sql_exceptions=False), of_sql(StoreUnavailable("away")), STOPS),
        (DEFAULT(ignore_sql_exceptions=False), of_sql(StoreError("refused"), "denied"), STOPS),
        (DEFAULT(ignore_sql_exceptions=False), of_sql(SchemaError("gone", found="", expected="")), STOPS),
        (DEFAULT(sql_exception_message="device"), of_sql(StoreUnavailable("away")), None),
        (DEFAULT(sql_exception_message="other"), of_sql(StoreUnavailable("away")), STOPS),
        (DEFAULT(ignore_all_errors=True), of_files(StoreUnavailable("a file"), "gone"), None),
        (DEFAULT(ignore_all_errors=True), LockLost("another is"), STOPS),
        (LEASE_LOCKER(), of_sql(StoreUnavailable("away")), RESTARTS),
        (LEASE_LOCKER(), of_sql(StoreUnavailable("away"), "no space left"), None),
        (LEASE_LOCKER(), of_sql(StorageFull("mq.db has no space left"), "database or disk is full"), None),
        (LEASE_LOCKER(), of_sql(StoreUnavailable("/workspace/mq.db is away; free space")), RESTARTS),
        (LEASE_LOCKER(), LockLost("another is"), STOPS),
        # Nothing of these is the database's fault.
        (LEASE_LOCKER(), of_sql(InvalidMessage("too long")), None),
        (LEASE_LOCKER(), StoreClosed(), None),
        (LEASE_LOCKER(), StoreError("cannot be sent"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_it_decides(
    config: IOExceptionHandlerConfig, error: StoreError, expected: list[str] | None
) -> None:
    host = Host()
    handler = IOExceptionHandler(host, Unguarded(), config)
    # It raises in every case, so that nobody takes a failure for a success.
    with pytest.raises(ReplySuppressed if expected else type(error)) as raised:
        handler.handle(error)
    assert error in (raised.value, raised.value.__cause__)
    if expected:
        wait_until(lambda: host.told == expected, GUARD, f"{expected}")
    handler.close()
    assert host.told == (expected or [])


def test_it_stops_once_and_ends_the_process_where_that_is_wanted() -> None:
    host = Host()
    config = DEFAULT(ignore_sql_exceptions=False, system_exit_on_shutdown=True)
    handler = IOExceptionHandler(host, Unguarded(), config)
    for _ in range(3):
        with pytest.raises(ReplySuppressed):
            handler.handle(of_sql(StoreUnavailable("away")))
    wait_until(lambda: host.told != [], GUARD, "the stop")
    handler.close()
    assert (host.told, host.exits) == (STOPS, True)


@pytest.mark.parametrize("fails", ["connectors stop", "connectors start", "stop"])
def test_a_host_that_fails(fails: str) -> None:
    """Connectors that do not start again stop the broker; nothing else goes astray."""
    host = Host(fails=fails)
    handler = IOExceptionHandler(host, Unguarded(), LEASE_LOCKER())
    with pytest.raises(ReplySuppressed):
        handler.handle(of_sql(StoreUnavailable("away")))
    expected = [*RESTARTS, "stop"] if fails == "connectors start" else RESTARTS
    wait_until(lambda: host.told == expected, GUARD, f"{expected}")
    handler.close()


def add(store: JdbcStore, handler: IOExceptionHandler, body: str) -> str:
    """What a client hears."""
    try:
        store.queue("Q").add_message(Message(body))
    except StoreError as error:
        try:
            handler.handle(error)
        except ReplySuppressed:
            return "nothing"
        except StoreError:
            return "an error"
    return "a receipt"


def receipts(database: Database, heard: dict[str, str]) -> bool:
    """Whether everything with a receipt is stored."""
    [(stored,)] = database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")
    return bool(stored >= sum(what == "a receipt" for what in heard.values()))


@pytest.fixture
def outage(line: Line, open_locked: OpenLocked) -> Any:
    """Opens a store by way of a line, which goes down under a write that a host's handler then handles."""

    def outage(
        lease: LeaseDatabaseLockerConfig,
    ) -> tuple[JdbcStore, Host, IOExceptionHandler, dict[str, str]]:
        store = open_locked(lease, url=line.url, reconnect_timeout=0.05)
        host = Host()
        handler = IOExceptionHandler(host, store, PATIENT)
        heard = {"before": add(store, handler, "before")}
        line.arm(Break.STATEMENT, 1, lasting=True)
        heard["during"] = add(store, handler, "during")
        assert heard == {"before": "a receipt", "during": "nothing"}
        wait_until(lambda: host.told == ["connectors stop"], GUARD, "that the connectors stop")
        return store, host, handler, heard

    return outage


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_connectors_come_back_with_the_database(outage: Any, line: Line, database: Database) -> None:
    lease = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=120.0, lock_keep_alive_period=30.0)
    store, host, handler, heard = outage(lease)
    heard["still"] = add(store, handler, "still")
    assert heard["still"] == "nothing"
    line.mend()
    wait_until(lambda: host.told == RESTARTS, GUARD, "that the connectors start")
    heard["after"] = add(store, handler, "after")
    handler.close()
    assert heard["after"] == "a receipt"
    assert receipts(database, heard)
    assert host.told == RESTARTS


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_a_lease_that_ends_meanwhile_stops_the_broker(outage: Any, line: Line, database: Database) -> None:
    lease = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=12.0, lock_keep_alive_period=0.5)
    store, host, handler, heard = outage(lease)
    wait_until(lambda: "stop" in host.told, GUARD, "that the broker stops")
    line.mend()
    heard["late"] = add(store, handler, "late")
    handler.close()
    assert heard["late"] == "nothing"
    assert host.told == ["connectors stop", "stop"]
    assert isinstance(host.stopped_for, LockLost)
    assert receipts(database, heard)


@pytest.mark.backends("sqlite")
def test_a_lost_lock_stops_a_broker_that_does_nothing(open_locked: OpenLocked, database: Database) -> None:
    quick = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=30.0, lock_keep_alive_period=0.05)
    store = open_locked(quick)
    host = Host()
    handler = IOExceptionHandler(host, store)
    database.execute("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'another' WHERE ID = 1")
    wait_until(lambda: host.told == STOPS, GUARD, "that the broker stops")
    handler.close()


@pytest.mark.backends("sqlite")
def test_a_closed_handler_calls_nobody(outage: Any, line: Line) -> None:
    lease = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=120.0, lock_keep_alive_period=30.0)
    store, host, handler, _ = outage(lease)
    handler.close()
    line.mend()
    with contextlib.suppress(StoreError):
        store.check()
    assert host.told == ["connectors stop"]


class Hanging(Unguarded):
    """A store whose database was stopped, and does not even refuse."""

    def __init__(self) -> None:
        self.asked, self.answers = threading.Event(), threading.Event()

    def check(self) -> None:
        self.asked.set()
        assert self.answers.wait(GUARD)


def test_a_close_does_not_wait_for_a_database_that_hangs() -> None:
    host, store = Host(), Hanging()
    handler = IOExceptionHandler(host, store, PATIENT)
    with pytest.raises(ReplySuppressed):
        handler.handle(StoreUnavailable("the database does not answer"))
    assert store.asked.wait(GUARD)
    asking = handler._thread
    assert asking is not None
    closed = threading.Thread(target=handler.close)
    closed.start()
    closed.join(60)
    was_closed = not closed.is_alive()
    store.answers.set()
    asking.join(GUARD)
    closed.join(GUARD)
    assert was_closed
    assert host.told == ["connectors stop"]


def test_a_journal_that_failed_for_good_stops_the_broker() -> None:
    """Its connectors would wait for ever: it has to be opened again, or by another."""

    class Failed(Unguarded):
        def check(self) -> None:
            raise JournalFailed("a disk")

    host = Host()
    handler = IOExceptionHandler(host, Failed(), PATIENT)
    with pytest.raises(ReplySuppressed):
        handler.handle(OutcomeUnknown())
    wait_until(lambda: host.told == ["connectors stop", "stop"], what="the end of the broker")
    assert isinstance(host.stopped_for, JournalFailed)
    handler.close()
