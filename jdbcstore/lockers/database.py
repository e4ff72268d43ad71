"""Lockers in a database: a locked row of ACTIVEMQ_LOCK, or a lease in it that the holder renews."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import NO_ROW, LockStatements, epoch_ms
from jdbcstore.errors import ConfigurationError, NotMaster, StoreError, StoreUnavailable
from jdbcstore.lockers.base import AbstractLocker

T = TypeVar("T")

SILENT_PERIODS = 3
"""Keep-alive periods of silence after which the server closes the holder's connection."""
_BELIEVED_SILENCE = 0.8
"""The part of that time for which the lock is believed to be held."""
log = logging.getLogger(__name__)

_BELIEVED_LEASE = 0.9
"""The part of a lease for which it is believed to be held."""
_LONGEST_NAME = 200
_ROW_PAUSE = 0.05
_LEASE_PAUSE = 0.01
_ATTEMPTS_PER_LEASE = 4


class Locked(StoreUnavailable):
    """Another transaction has locked the row."""


class JdbcLocker(AbstractLocker):
    """A lock in a table, of ``data_source`` if that is not the database of the messages.

    It has its own connection, opened when it is needed and again after an error; errors are translated.
    """

    def __init__(
        self,
        *,
        data_source: DataSourceConfig | None = None,
        create_tables_on_startup: bool = False,
        query_timeout: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._data_source = data_source
        self._create_tables = create_tables_on_startup
        self._query_timeout = query_timeout
        self._silence: float | None = None
        """Seconds for which the server keeps an open transaction on a silent connection."""
        self._connection: Connection | None = None
        """None if there is none; it may be lost without an error so far."""
        self._moves = False
        """A connection was lost, or its server has become read-only."""

    def configure(self, session: DatabaseSession) -> None:
        """Open the lock's session; the tables may be in another database.

        :raises SchemaError: the tables do not exist in the lock's database, and must not be created
        """
        self._session = self._locking_session(session)
        self._session.adapter.check_sessions("a lock in the database")
        self._is_elsewhere = self._session is not session
        self._sql = self._session.of(LockStatements)

    def _locking_session(self, session: DatabaseSession) -> DatabaseSession:
        source = self._data_source
        if source is None:
            return session
        if source.url is None:
            raise ConfigurationError("the lock's data source has no url", option="locker.data_source.url")
        config = session.config.replace(create_tables_on_startup=self._create_tables)
        own = DatabaseSession(source.url, config, user=source.user, password=source.reveal())
        own.drop_idle()
        return own

    def _check_given(self, *names: str) -> None:
        """Have the database check those of these statements that the user replaced."""
        session = self._session
        if not session.read_only and {*names} & {*session.config.statements}:
            with contextlib.closing(session.connect()) as connection, session.translated():
                session.check_given(connection, lambda table: table.name in names)

    @property
    def is_in_row(self) -> bool:
        return not self._is_elsewhere

    def abort(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.abort()

    def _run(self, function: Callable[[Connection], T], *, lock_wait: float = 1.0) -> T:
        """Call the function with the connection, and return its result.

        :raises Locked: a row was locked for ``lock_wait`` seconds
        :raises StoreUnavailable: the database does not answer; the connection is closed
        """
        try:
            return function(self._connection or self._connect(lock_wait))
        except self._session.failures as error:
            failure = self._session.classify(error)
            self._moves |= failure in (Failure.DISCONNECTED, Failure.READ_ONLY)
            self._close()
            if failure is Failure.TRANSIENT:
                raise Locked(f"the lock's row is locked: {error}") from error
            raise self._session.translate(error, unknown=StoreUnavailable) from error
        except BaseException:
            self._close()
            raise

    def _connect(self, lock_wait: float) -> Connection:
        self._connection = connection = self._session.connect()
        if self._moves:
            self._moves = False
            self._session.end_generation()
        connection.control.limit_lock_wait(lock_wait)
        if self._query_timeout:
            connection.limit_query(self._query_timeout)
        if self._silence is not None:
            connection.control.limit_silence(self._silence)
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class DatabaseLocker(JdbcLocker):
    """ActiveMQ's, and compatible with it: a row locked in a transaction that stays open.

    The lock is released with the connection, and so at once when the process ends. Where the server supports
    it, it closes a connection that is silent for three keep-alive periods, which deposes a master that is
    paused or whose host has vanished. For four fifths of that time the lock is believed to be held without a
    new check.

    :raises ConfigurationError: the database has no row locks
    """

    type: ClassVar[str] = "database-locker"

    def configure(self, session: DatabaseSession) -> None:
        super().configure(session)
        adapter = self._session.adapter
        if not adapter.locks_rows:
            raise ConfigurationError(
                f"{adapter.name} does not lock single rows, and the database-locker would keep its own store"
                " from writing; use the lease-database-locker or the shared-file-locker"
            )
        if adapter.certifies:
            raise ConfigurationError(
                "the nodes of this cluster share no row locks, and the database-locker would elect a master"
                " at each of them; use the lease-database-locker"
            )
        self._check_given("lockCreateStatement", "lockUpdateStatement")
        self._touches = adapter.touches_to_lock
        self._silence = SILENT_PERIODS * self.lock_keep_alive_period
        self._believed = _BELIEVED_SILENCE * self._silence
        self._confirmed = float("-inf")

    def do_start(self, max_wait: float) -> bool:
        self.do_stop()
        with contextlib.suppress(Locked):
            self._run(self._lock_row, lock_wait=max_wait)
            # From the answer on: the attempt may have waited for the lock.
            self._confirmed = self.clock.monotonic()
        return self._connection is not None

    def _lock_row(self, connection: Connection) -> None:
        connection.begin()
        if self._touches:
            connection.execute(self._sql.lock_touch)
        connection.execute(self._sql.lock_create)
        # The user's statement may lock the table instead, which returns no rows.
        if connection.cursor.description is not None and not connection.cursor.fetchall():
            raise StoreError(NO_ROW)

    def keep_alive(self) -> bool:
        """Run one statement in the lock's own transaction. Any error ends that, and the lock with it."""
        if self._connection is None:
            return False
        asked = self.clock.monotonic()
        if not self._run(self._touch):
            self._close()
            return False
        self._confirmed = asked
        return True

    def _touch(self, connection: Connection) -> bool:
        if connection.change(self._sql.lock_update, time=self.clock.now_ms()) != 0:
            return True
        # Some drivers count only rows whose values have changed.
        return bool(connection.fetch(self._sql.lease_owner))

    @property
    def held_until(self) -> float:
        return self._confirmed + self._believed

    def _pause_after(self, failure: StoreError) -> float:
        # The attempt has waited in the database, and so will the next one.
        return _ROW_PAUSE if isinstance(failure, NotMaster) else min(self.lock_acquire_sleep_interval, 1.0)

    def do_stop(self) -> None:
        if self._connection is not None:
            # Some drivers do not close a connection that has a transaction, and a server may notice the end
            # of one only after it has refused the row to our next.
            self._connection.rollback()
        self._close()


class LeaseDatabaseLocker(JdbcLocker):
    """ActiveMQ's, and compatible with it: a lease of ``lock_acquire_sleep_interval`` seconds.

    Expiry is judged by the database's clock, or by the local one if it is within
    ``max_allowable_diff_from_db_time`` of it. The lease is believed to be held, by the monotonic clock, from
    before the request for nine tenths of it. Each acquisition writes a unique name to BROKER_NAME, so that of
    two brokers with the same name, too, only one holds the lock.
    """

    type: ClassVar[str] = "lease-database-locker"

    def __init__(
        self,
        *,
        lease_holder_id: str | None = None,
        max_allowable_diff_from_db_time: float = 0.0,
        handle_start_exception: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._holder_name = (lease_holder_id or self.name)[:_LONGEST_NAME]
        self._allowed_ms = max_allowable_diff_from_db_time * 1000
        self._handle_start_exception = handle_start_exception
        self._ours: str | None = None
        self._owner: str | None = None
        self._expires_in = float("inf")
        """Seconds that the other's lease had left at the last attempt, if it is not renewed."""
        self._unrenewed: tuple[tuple[str | None, int], float] | None = None
        """A lease that ends too late: its holder and its end, and when that was first seen (monotonic)."""
        self._believed_until = float("-inf")
        self.skew_ms: int | None = None
        """Milliseconds by which the local clock was ahead of the database's, when last compared."""

    def configure(self, session: DatabaseSession) -> None:
        super().configure(session)
        names = ("leaseObtainStatement", "leaseUpdateStatement", "leaseOwnerStatement")
        self._check_given(*names, "currentDateTimeStatement")

    def do_start(self, max_wait: float) -> bool:  # noqa: ARG002
        self._expires_in = float("inf")
        with contextlib.suppress(Locked):
            return self._run(self._obtain)
        return False

    def _obtain(self, connection: Connection) -> bool:
        name = f"{self._holder_name}#{secrets.token_hex(4)}"
        asked = self.clock.monotonic()
        # Set first: an attempt whose answer is lost may have taken the lock, and do_stop releases it.
        self._release_lease(connection)
        self._ours = name
        now = self._now_ms(connection)
        values = {"broker_name": name, "time": now + self._lease_ms, "now": now}
        if connection.change(self._sql.lease_obtain, **values) == 1:
            self._believed_until = asked + _BELIEVED_LEASE * self.lock_acquire_sleep_interval
            return True
        self._ours = None
        owner = connection.fetch(self._sql.lease_owner)
        if not owner:
            raise StoreError(NO_ROW)
        [(self._owner, expiry)] = owner
        if self._outlived(self._owner, expiry or 0, now):
            values = {"broker_name": name, "time": now + self._lease_ms, "now": (expiry or 0) + 1}
            self._ours = name
            if connection.change(self._sql.lease_obtain, **values) == 1:
                log.warning("the lease of %s outlived its holder: the clock was set back", self._owner)
                self._believed_until = asked + _BELIEVED_LEASE * self.lock_acquire_sleep_interval
                return True
            self._ours = None
        self._expires_in = max(0, (expiry or 0) + 1 - now) / 1000
        return False

    def _outlived(self, owner: str | None, expiry: int, now: int) -> bool:
        """Return whether a lease ends later than one can that was given now, and is not renewed any more.

        That is so after the clock was set back. A holder that lives renews its lease several times in its
        length, by which this waits, on the monotonic clock.
        """
        if expiry - now <= self._lease_ms:
            self._unrenewed = None
            return False
        if self._unrenewed is None or self._unrenewed[0] != (owner, expiry):
            self._unrenewed = (owner, expiry), self.clock.monotonic()
        return self.clock.monotonic() - self._unrenewed[1] > self.lock_acquire_sleep_interval

    def keep_alive(self) -> bool:
        """Renew the lease, while it has not expired."""
        if self._ours is None or self.clock.monotonic() >= self._believed_until:
            return False
        return self._run(self._renew)

    def _renew(self, connection: Connection) -> bool:
        asked = self.clock.monotonic()
        expiry = self._now_ms(connection) + self._lease_ms
        values = {"broker_name": self._ours, "holder": self._ours, "time": expiry}
        # Some drivers count only rows whose values have changed, not one with the same time as before.
        if connection.change(self._sql.lease_update, **values) != 1:
            rows = connection.fetch(self._sql.lease_owner)
            if [tuple(row) for row in rows] != [(self._ours, expiry)]:
                return False
        self._believed_until = asked + _BELIEVED_LEASE * self.lock_acquire_sleep_interval
        return True

    @property
    def held_until(self) -> float:
        return self._believed_until

    @property
    def holder(self) -> str | None:
        return self._owner

    @property
    def holder_in_row(self) -> str | None:
        return None if self._is_elsewhere else self._ours

    def is_final(self, error: StoreError) -> bool:
        return self._handle_start_exception or super().is_final(error)

    def do_stop(self) -> None:
        """Release the row for the next master, if it is held."""
        self._believed_until = float("-inf")
        try:
            if self._ours is not None:
                self._run(self._release_lease)
        finally:
            self._ours = None
            self._close()

    def _release_lease(self, connection: Connection) -> None:
        if self._ours is None:
            return
        values = {"broker_name": None, "time": 0, "holder": self._ours}
        connection.change(self._sql.lease_update, **values)

    def _pause_after(self, failure: StoreError) -> float:
        # A master that has released its lease is succeeded within a quarter of it, at most a second; one
        # that has vanished, when its lease ends.
        longest = min(self.lock_acquire_sleep_interval / _ATTEMPTS_PER_LEASE, 1.0)
        if isinstance(failure, NotMaster):
            return max(_LEASE_PAUSE, min(longest, self._expires_in))
        return longest

    @property
    def _lease_ms(self) -> int:
        return round(self.lock_acquire_sleep_interval * 1000)

    def _now_ms(self, connection: Connection) -> int:
        """Return the database's time; the local one if the clocks may differ, or the database has none."""
        ours = self.clock.now_ms()
        if self._sql.now_ms is None:
            return ours
        rows = connection.fetch(self._sql.now_ms)
        if not rows:
            raise StoreError(NO_ROW)
        theirs = epoch_ms(rows[0][0])
        self.skew_ms = ours - theirs
        return ours if abs(self.skew_ms) <= self._allowed_ms else theirs
