"""The connections of a process that claims messages: as many as work at the same time, few of them idle."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator

from jdbcstore.database.connection import Connection, Recorder
from jdbcstore.database.schema import EPOCH_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.errors import StoreClosed, StoreUnavailable

_IDLE = 4
"""Idle connections that are kept."""
_UNUSED = 5.0
"""Seconds after which all idle connections but one are closed."""
_PATIENCE = 0.5
"""Seconds that background work waits for a connection."""
_TRUSTED = 1.0
"""Seconds for which an idle connection is used again without asking whether it is still there."""


class ClaimConnections:
    """Connections for work that any thread does, one thread at a time for each. Thread-safe.

    ``recorder`` records the messages that they remove; a lock is waited for at most ``lock_wait`` seconds.
    """

    def __init__(self, session: DatabaseSession, *, recorder: Recorder | None, lock_wait: float) -> None:
        self._session = session
        self._recorder = recorder
        self._lock_wait = lock_wait
        self._idle: deque[tuple[Connection, float]] = deque()
        """Each with the time since when."""
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._used: list[int] = []
        """The threads of the connections that are not idle."""
        self._closed = False

    def checkout(self, patience: float = 0.0) -> Connection:
        """Return a connection, an idle one if there is any.

        :param patience: seconds to wait for a connection
        :raises StoreClosed: they are closed
        :raises StoreUnavailable: the database does not answer
        """
        with self._lock:
            self._freed.wait_for(lambda: self._idle or not self._used or self._closed, patience)
            if self._closed:
                raise StoreClosed("the claims are closed; open them again")
            connection, since = self._idle.pop() if self._idle else (None, 0.0)
            self._used.append(threading.get_ident())
        try:
            return self._prepared(connection, since)
        except BaseException:
            self._count_freed()
            raise

    def _count_freed(self) -> None:
        with self._lock:
            self._used.remove(threading.get_ident())
            self._freed.notify_all()

    def drop(self, connection: Connection) -> None:
        """Close a connection that cannot be trusted any more."""
        connection.close()
        self._count_freed()

    def _prepared(self, connection: Connection | None, since: float) -> Connection:
        """Return the connection that was idle, if it is still there, or a new one."""
        if connection is not None:
            # If the server or a firewall has closed it meanwhile, nothing is in doubt.
            is_new = connection.generation == self._session.generation
            if is_new and (time.monotonic() < since + _TRUSTED or self._answers(connection)):
                return connection
            connection.close()
            if is_new:
                self.forget_all()
        connection = self._session.connect(self._recorder)
        try:
            with self._session.translated():
                connection.control.read_in_order()
                connection.identify()
                # This very thread may hold the lock, in a transaction of the application's.
                connection.control.limit_lock_wait(self._lock_wait)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[Connection]:
        """Lend a connection, without another one if there is any; driver errors are translated."""
        connection = self.checkout(_PATIENCE)
        try:
            with self._session.translated():
                yield connection
        except BaseException as error:
            self.drop(connection)
            if isinstance(error, StoreUnavailable):
                self.forget_all()
            raise
        self.give_back(connection)

    def _answers(self, connection: Connection) -> bool:
        try:
            connection.fetch(self._session.of(LockStatements).find_epoch, epoch_row=EPOCH_ROW)
        except self._session.failures:
            return False
        return True

    def forget_all(self) -> None:
        """Use no connection again: a restart of the server has ended all, or another one takes over."""
        self._session.end_generation()
        self.forget_idle()

    def forget_idle(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle = [*self._idle]
            self._idle.clear()
        for connection, _ in idle:
            connection.close()

    def give_back(self, connection: Connection) -> None:
        """Keep a connection that is not in a transaction for the next work."""
        now, unused = time.monotonic(), [connection]
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE:
                unused.clear()
                self._idle.append((connection, now))
                # The last is used first: those before it were not needed since.
                while len(self._idle) > 1 and self._idle[0][1] + _UNUSED < now:
                    unused.append(self._idle.popleft()[0])
        for idle in unused:
            idle.close()
        with self._lock:
            self._used.remove(threading.get_ident())
            self._freed.notify_all()

    def close(self) -> bool:
        """Refuse further work; return whether this was the first call."""
        with self._lock:
            first, self._closed = not self._closed, True
        return first

    def wait(self, seconds: float) -> None:
        """Wait until no other thread uses a connection any more, after :meth:`close`."""
        with self._lock:
            # A signal may have interrupted this thread while it uses one.
            if threading.get_ident() not in self._used:
                self._freed.wait_for(lambda: not self._used, seconds)
