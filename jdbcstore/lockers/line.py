"""What lockers in a database have in common: where the lock is, and a connection of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.errors import ConfigurationError, StoreUnavailable
from jdbcstore.lockers.base import AbstractLocker

T = TypeVar("T")


class Line:
    """One connection, made when it is needed and again after an error; errors are translated.

    ``silence`` is how long the server keeps an open transaction without a word from us.
    """

    def __init__(self, session: Session, query_timeout: float | None, silence: float | None = None) -> None:
        self._session = session
        self._query_timeout = query_timeout
        self._silence = silence
        self._connection: Connection | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None

    def run(self, function: Callable[[Connection], T], *, lock_wait: float = 1.0) -> T:
        """What the function returns of the connection.

        A row's lock is waited for at most ``lock_wait`` seconds, and then :class:`Locked`.

        :raises StoreUnavailable: the database does not answer; the connection is gone
        """
        try:
            connection = self._open(lock_wait)
            return function(connection)
        except self._session.failures as error:
            failure = self._session.classify(error)
            self.close()
            if failure is Failure.TRANSIENT:
                raise Locked(f"the lock's row is locked: {error}") from error
            raise self._session.translate(error) from error
        except BaseException:
            self.close()
            raise

    def _open(self, lock_wait: float) -> Connection:
        if self._connection is None:
            self._connection = self._session.connect()
            self._connection.limit_lock_wait(lock_wait)
            if self._query_timeout:
                self._connection.limit_query(self._query_timeout)
            if self._silence is not None:
                self._connection.limit_silence(self._silence)
        return self._connection

    def abort(self) -> None:
        """End the connection under another thread that is waiting for the database's answer."""
        connection = self._connection
        if connection is not None:
            connection.abort()

    def rollback(self) -> None:
        """End the transaction: not every driver closes a connection that has one."""
        if self._connection is not None:
            self._connection.rollback()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class JdbcLocker(AbstractLocker):
    """A lock in a table. ``data_source`` is where, if it is not the database of the messages."""

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

    def locking_session(self, session: Session) -> Session:
        """The session of the lock, for a store's.

        :raises SchemaError: the tables are absent there, and are not to be created
        """
        source = self._data_source
        if source is None:
            return session
        if source.url is None:
            raise ConfigurationError("the lock's data source has no url", option="locker.data_source.url")
        config = session.config.replace(create_tables_on_startup=self._create_tables)
        own = Session(source.url, config, user=source.user, password=source.reveal())
        own.engine.dispose()
        return own

    def _check_given(self, session: Session, *names: str) -> None:
        """Have the database look at the user's own among these statements."""
        if not session.read_only and {*names} & {*session.config.statements}:
            with contextlib.closing(session.connect()) as connection, session.translated():
                session.check_given(connection, lambda one: one.name in names)

    def abort(self) -> None:
        self._line.abort()

    def _open_line(self, session: Session, silence: float | None = None) -> None:
        self._line = Line(session, self._query_timeout, silence)


class Locked(StoreUnavailable):
    """Another transaction has locked the row."""
