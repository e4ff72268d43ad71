"""The outbox of a database: messages that SQL statements have inserted, until they are moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jdbcstore.abc import Transaction
from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.builder import Fetch
from jdbcstore.database.statements.inbox import InboxStatements
from jdbcstore.database.statements.outbox import MOVED, OutboxStatements
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.inserted import InsertedMessage, short
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.stores.jdbc.wakeups import WakeupPipe, Wakeups
from jdbcstore.stores.jdbc.writer.units import Execution, WriteUnit
from jdbcstore.stores.jdbc.writer.writer import UnitWriter

OUTBOX = "outbox"
"""The name of wake-ups because of inserted messages."""

_BYTES = 8 * 1024 * 1024
"""The most bytes of the bodies that are read at once, unless the first one is larger."""
_WINDOW_MS = 7 * 86_400_000
"""The time for which a send id is noted."""
_PAGE = 1000
_BODY_BYTES = InsertedMessage._fields.index("body_bytes")
_LONGEST = 250
"""The characters of an error in a row."""


Change = tuple[Sql, dict[str, Any]]
"""A statement that writes, and its parameters."""


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
    """The statements of moving, for any connection. Thread-safe.

    :raises ConfigurationError: ``outbox_destinations`` has a name that is not a destination's
    """

    def __init__(self, session: DatabaseSession) -> None:
        self._sql = session.of(OutboxStatements)
        self._inbox = session.of(InboxStatements)
        self._checks_values = session.adapter.checks_values
        self._allowed = _patterns(session.config.outbox_destinations)
        self._session: DatabaseSession | None = session
        """Until the planner has statistics of many rows."""

    def read(self, fetch: Fetch, most: int) -> list[InsertedMessage]:
        """Return the first committed rows, in the order of their IDs, as many as fit into memory.

        Each time from the first one: a row with a lower ID may have been committed since.
        """
        last, size = None, 0
        sizes = fetch(self._sql.find_sizes, limit=most)
        if len(sizes) == most and self._session is not None:
            # Of a table that it knows as empty, the planner would sort all rows for each page.
            self._session.refresh_statistics(self._session.tables.outbox)
            self._session = None
        for id_, bytes_ in sizes:
            size += bytes_
            if last is not None and size > _BYTES:
                break
            last = id_
        if last is None:
            return []
        rows = fetch(self._sql.find, up_to=last, limit=most)
        if self._checks_values:
            return [InsertedMessage(*row) for row in rows]
        return [InsertedMessage(*_texts(row))._replace(body_bytes=row[_BODY_BYTES]) for row in rows]

    def message(self, row: InsertedMessage) -> Message:
        """Return the message of a row.

        :raises InvalidMessage: a column has a wrong value
        :raises InvalidDestination: it does not name a destination, or a forbidden one
        """
        message = row.message()
        for member in message.destination.members if message.destination and self._allowed else ():
            if not any(pattern.matches(member) for pattern in self._allowed):
                raise InvalidDestination(f"{member} is not in outbox_destinations; send to another")
        return message

    def removals(self, rows: Sequence[InsertedMessage]) -> list[Change]:
        """Return the changes that remove rows."""
        return self._sql.remove.parts([row.row_id for row in rows])

    def note(self, row: InsertedMessage) -> Change:
        """Return the change that notes the send id of a row, and changes nothing if it is noted."""
        return self._inbox.add, {"consumer": MOVED, "msgid": row.send_id}

    def refusal(self, row: InsertedMessage, reason: str) -> Change:
        """Return the change that sets the error of a row, which is not read again."""
        return self._sql.refuse, {"id_": row.row_id, "reason": short(reason)[:_LONGEST]}

    def clean(self, run: Callable[[Callable[[Connection], int]], int]) -> None:
        """Forget old send ids, a thousand in each transaction, which ``run`` carries out."""

        def remove(connection: Connection) -> int:
            values = {"consumer": MOVED, "age_ms": _WINDOW_MS, "limit": _PAGE}
            rows = connection.fetch(self._inbox.find_old, **values)
            if rows:
                connection.execute(self._inbox.remove_old, consumer=MOVED, up_to=rows[-1][0])
            return len(rows)

        while run(remove) == _PAGE:
            pass


class JdbcOutbox:
    """The outbox of a store; see :class:`jdbcstore.abc.Outbox`."""

    def __init__(
        self,
        session: DatabaseSession,
        writer: UnitWriter,
        begin: Callable[[WriteUnit], Transaction],
    ) -> None:
        """``begin`` begins a transaction with writes."""
        session.prepare_outbox()
        self._session, self._writer, self._begin = session, writer, begin
        self._table = OutboxTable(session)
        self._watching: tuple[Wakeups, WakeupPipe] | None = None

    def read(self, most: int, *, after_failure: bool = False) -> list[InsertedMessage]:
        if after_failure:
            # A lost connection ends first: else its commit might remove the rows that are read here.
            self._writer.call(lambda _: None)
        rows = self._table.read(self._session.fetch, most)
        first = {row.send_id: row.row_id for row in reversed(rows)}
        return [
            row if row.send_id is None or first[row.send_id] == row.row_id else row._replace(is_duplicate=1)
            for row in rows
        ]

    def message(self, row: InsertedMessage) -> Message:
        return self._table.message(row)

    def transaction(self, rows: Sequence[InsertedMessage]) -> Transaction:
        named = {row.send_id: row for row in rows if row.send_id is not None}
        changes = [*self._table.removals(rows), *map(self._table.note, named.values())]
        return self._begin(WriteUnit(updates=[Execution(sql, sql.row(**values)) for sql, values in changes]))

    def refuse(self, row: InsertedMessage, reason: str) -> None:
        sql, values = self._table.refusal(row, reason)
        self._writer.call(lambda connection: connection.execute(sql, **values))

    def watch(self) -> WakeupPipe | None:
        if not self._session.adapter.outbox_trigger:
            return None
        wakeups = Wakeups(self._session)
        pipe = wakeups.watch(lambda: (OUTBOX,))
        self._watching = wakeups, pipe
        return pipe

    def unwatch(self) -> None:
        if self._watching is not None:
            (wakeups, pipe), self._watching = self._watching, None
            wakeups.unwatch(pipe)
            wakeups.close()

    def clean(self) -> None:
        """Forget old send ids.

        :raises StoreError: they could not be removed
        """
        self._table.clean(self._writer.call)


def _patterns(names: str) -> list[DestinationPattern]:
    """Return destinations with wildcards, which are separated by commas.

    :raises ConfigurationError: one is not a destination
    """
    try:
        every = [Destination.named(name) for name in map(str.strip, names.split(",")) if name]
    except InvalidDestination as error:
        raise ConfigurationError(f"outbox_destinations: {error}", option="outbox_destinations") from error
    return [DestinationPattern(destination) for destination in every]


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
    return [RefusedRow(*_texts(row, "backslashreplace")) for row in rows]


def _texts(row: Row, errors: str = "strict") -> Iterator[Any]:
    """Yield values; bytes as strings, if they are UTF-8."""
    for value in row:
        try:
            yield value.decode(errors=errors) if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            yield value
