"""The outbox of a database: messages that SQL statements have inserted, until they are moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jdbcstore.database.adapters.sql import Sql
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.builder import Fetch
from jdbcstore.database.statements.inbox import InboxStatements
from jdbcstore.database.statements.outbox import MOVED, OutboxStatements
from jdbcstore.message.inserted import InsertedMessage

_BYTES = 8 * 1024 * 1024
"""The most bytes of the bodies that are read at once, unless the first one is larger."""


class RefusedRow(NamedTuple):
    """A row that cannot become a message, nor a dead letter."""

    row_id: int
    destination: str
    created_ms: int | None
    send_id: str | None
    error: str


class OutboxNumbers(NamedTuple):
    """The numbers of an outbox."""

    waiting: int
    refused: int
    oldest: float | None
    """The seconds since the oldest waiting message was inserted; None if none waits."""


class OutboxTable:
    """The statements of moving, for any connection. Thread-safe."""

    def __init__(self, session: DatabaseSession) -> None:
        self.sql = session.of(OutboxStatements)
        """The statements about the rows."""
        self._inbox = session.of(InboxStatements)

    def read(self, fetch: Fetch, most: int) -> list[InsertedMessage]:
        """Return the first committed rows, in the order of their IDs, as many as fit into memory.

        Each time from the first one: a row with a lower ID may have been committed since.
        """
        last, size = None, 0
        for id_, bytes_ in fetch(self.sql.find_sizes, limit=most):
            size += bytes_
            if last is not None and size > _BYTES:
                break
            last = id_
        if last is None:
            return []
        rows = fetch(self.sql.find, up_to=last, limit=most)
        return [InsertedMessage(*row) for row in rows]

    def removals(self, rows: Sequence[InsertedMessage]) -> list[tuple[Sql, dict[str, object]]]:
        """Return the statements that remove rows, with their parameters."""
        return self.sql.remove.parts([row.row_id for row in rows])

    def notes(self, rows: Sequence[InsertedMessage]) -> list[tuple[Sql, dict[str, object]]]:
        """Return the statements that note the send ids of rows, with their parameters, each row's own."""
        return [(self._inbox.add, {"consumer": MOVED, "msgid": row.send_id}) for row in rows]


def read_numbers(session: DatabaseSession) -> OutboxNumbers:
    """Return the numbers of the outbox.

    :raises StoreUnavailable: the database does not answer
    """
    [(waiting, refused, age_ms)] = session.fetch(session.of(OutboxStatements).count)
    return OutboxNumbers(waiting, refused, None if age_ms is None else max(0.0, int(age_ms) / 1000))


def read_refused(session: DatabaseSession, most: int) -> list[RefusedRow]:
    """Return the first rows that were refused.

    :raises StoreUnavailable: the database does not answer
    """
    rows = session.fetch(session.of(OutboxStatements).find_refused, limit=most)
    return [RefusedRow(*row) for row in rows]
