"""Messages that are added in a transaction of the application's own: an outbox without a second table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.shared.rows import EncodedMessage

Execute = Callable[[Sql, Row], Sequence[Any]]
"""Runs a statement in the application's transaction, and returns its rows if it has any."""


class Adds(Protocol):
    """The part of the claims that a joined transaction uses."""

    def row(self, name: str | Destination, message: Message) -> EncodedMessage:
        """Return the row of a message in this queue, all but its ID."""

    def add_by(self, execute: Execute, encoded: Sequence[EncodedMessage], delay: float) -> list[int]:
        """Add messages with statements that ``execute`` runs; their IDs."""


class JoinedTransaction:
    """Adds messages in the transaction that is open on a connection of the application's.

    They exist if and only if that transaction commits. Other processes see them within a second after the
    commit, or two if it commits late; :meth:`ClaimQueue.wake` after the commit wakes them at once.
    """

    def __init__(self, adds: Adds, connection: Any, driver: str) -> None:
        self._adds = adds
        self._execute = executing(connection, driver)

    def add(self, queue: str | Destination, *messages: Message, delay: float = 0.0) -> list[int]:
        """Add messages to a queue; their IDs. Nobody can claim them before ``delay`` seconds have passed.

        :raises InvalidMessage: one does not fit the columns
        :raises NotMaster: the lease has expired, and a broker or store serves the tables now

        Errors of the driver are not translated: they belong to the application's transaction.
        """
        encoded = [self._adds.row(queue, message) for message in messages]
        return self._adds.add_by(self._execute, encoded, delay) if encoded else []


def executing(connection: Any, driver: str) -> Execute:
    """Return a function that runs statements on a connection of SQLAlchemy, of its ORM, or of the driver.

    :raises ConfigurationError: it is none of these, or of another driver than the claims
    """
    if hasattr(connection, "get_bind") and hasattr(connection, "connection"):  # an ORM session
        connection = connection.connection()
    if hasattr(connection, "exec_driver_sql"):
        if connection.dialect.driver != driver:
            raise ConfigurationError(
                f"the transaction is one of the driver {connection.dialect.driver}, and the claims use"
                f" {driver}: open them with a URL of the same driver"
            )

        def by_sqlalchemy(sql: Sql, row: Row) -> Sequence[Any]:
            result = connection.exec_driver_sql(sql.text, row)
            return result.fetchall() if result.returns_rows else ()

        return by_sqlalchemy
    if hasattr(connection, "cursor"):

        def by_driver(sql: Sql, row: Row) -> Sequence[Any]:
            cursor = connection.cursor()
            try:
                cursor.execute(sql.text, row)
                found: Sequence[Any] = cursor.fetchall() if cursor.description else ()
                return found
            finally:
                cursor.close()

        return by_driver
    raise ConfigurationError(
        f"cannot join a {type(connection).__name__}: give a connection or session of SQLAlchemy, or a"
        " connection of the driver"
    )
