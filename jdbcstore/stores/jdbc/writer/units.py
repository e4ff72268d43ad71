"""Units of work: writes that are committed together, and calls in a transaction of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from jdbcstore.database.adapters.sql import Key, Row, Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.builder import Statement
from jdbcstore.database.statements.store import Statements
from jdbcstore.stores.jdbc.acknowledgements import Acknowledgement
from jdbcstore.stores.shared.encoding import Name, Result, everything
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.futures import Completion

ROW_OVERHEAD = 512
"""The approximate memory of a queued message, beside its blob."""


class Execution(NamedTuple):
    """One execution of a statement."""

    sql: Sql
    row: Row


@dataclass(slots=True)
class WriteUnit:
    """Writes that commit together or not at all."""

    result: Result = everything
    completion: Completion[Any] | None = None
    """Set by the writer, unless the caller writes the unit itself."""
    adds: list[EncodedMessage] = field(default_factory=list)
    updates: list[Execution] = field(default_factory=list)
    removes: list[Key] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    committed: list[Callable[[], None]] = field(default_factory=list)
    """Called after the commit, before the writer begins anything else."""

    apart: bool = False
    """It holds only messages; each may fail individually, and has then its error instead of a reference."""
    rows: int = 0
    """The messages that it adds and removes, once it is measured."""
    content: int = 0
    """The bytes of its messages, likewise."""
    size: int = 0
    """Roughly the bytes it takes in memory while it is queued."""
    taken: bool = False
    """The writer has begun with it, or has cancelled it."""
    withdrawn: bool = False
    """It was cancelled before the writer began with it."""

    def measure(self) -> int:
        """Set the rows and the size, once the writes are complete; return the size."""
        self.rows = len(self.adds) + len(self.removes)
        content = 0
        for add in self.adds:
            content += len(add.blob)
        for _, row in self.updates:
            content += sum(len(value) for value in row if isinstance(value, bytes))
        self.content, self.size = content, content + ROW_OVERHEAD * (1 + len(self.adds))
        return self.size

    def withdraw(self) -> bool:
        """Cancel it, unless the writer has begun with it; return whether it is cancelled."""
        self.withdrawn = not self.taken
        return self.withdrawn

    def take(self) -> bool:
        """Begin with it, unless it was cancelled; return whether it is to be written."""
        self.taken = not self.withdrawn
        return self.taken


@dataclass(slots=True)
class Call:
    """A function that runs alone on the writer's connection, in a transaction of its own.

    ``count`` runs before, outside the transaction, and returns how many sequences the function needs; the
    function gets the first. Both may run again when the connection is lost, so they must be idempotent.
    """

    completion: Completion[Any]
    count: Callable[[Connection], int]
    function: Callable[[Connection, int], Any]
    behind: int = 0
    """No sequence up to this one is given any more."""
    rows: int = 0
    """Roughly the messages that callers have it add and remove."""
    removes: int = 0
    """Roughly the messages that it removes, for callers or not."""
    size: int = ROW_OVERHEAD
    adding: WriteUnit | None = None
    """The messages it adds, for the audit, which removes duplicates before ``count`` runs."""
    removed: Callable[[], Iterable[Name]] = tuple
    """Names of messages that it removed and that may be sent again, for the audit."""

    def measure(self) -> int:
        """Return its size."""
        return self.size

    def take(self) -> bool:
        """Begin with it: its caller waits, and does not cancel it."""
        return True


class RowReader(Protocol):
    """A session or a connection."""

    def fetch(self, sql: Statement, **values: Any) -> list[Row]: ...


def update_of(reader: RowReader, sql: Statements, id_: int, blob: bytes) -> Execution:
    """Return the statement that replaces the MSG of the row with this ID, if it still exists."""
    update, by_name = sql.update_message, sql.update_message_by_name
    if by_name is not None:
        for producer, sequence, container in reader.fetch(sql.find_id_owner, id_=id_):
            name = {"msgid_prod": producer, "msgid_seq": sequence, "container": container}
            # It would change every row with that message id.
            if len(reader.fetch(sql.find_message_sequence_id, **name)) == 1:
                return Execution(by_name, by_name.row(blob=blob, **name))
    return Execution(update, update.row(blob=blob, id_=id_))
