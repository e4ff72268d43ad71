"""A vendor's way of writing: batches and their transactions, in few statements and round trips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from jdbcstore.database.adapters.sending import SentWrite
from jdbcstore.database.adapters.sql import (
    UNGUARDED,
    Batch,
    Guards,
    Key,
    Row,
    RowGuard,
    Sql,
    WriteStatements,
    by_container,
    guarded_row,
    in_list,
    multi_row,
)

_COLUMNS = 8
"""The columns of ACTIVEMQ_MSGS."""


class Writing:
    """The vendor-neutral way; a vendor's module overrides what differs.

    Connections are in autocommit mode, so that work of one statement costs one round trip;
    everything longer is framed by :meth:`begin` and :meth:`commit`.
    """

    # Statements
    begin_statement: ClassVar[str] = "BEGIN"
    guards_insert: bool = False
    """Whether INSERT ... SELECT keeps the rows that it reads locked, as the SELECT alone does."""
    rows_per_insert: ClassVar[int] = 1
    """Rows of ACTIVEMQ_MSGS in one statement; of a table with more columns fewer."""
    keys_per_delete: ClassVar[int] = 1
    starts_writes: ClassVar[bool] = False
    """Whether :meth:`start_write` can do anything."""
    sends_ahead: ClassVar[bool] = False
    """Whether :meth:`send_ahead` can do anything."""

    def write(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards = UNGUARDED
    ) -> None:
        """Apply a batch and commit it: all of it or nothing.

        :raises StoreError: a guard does not hold; a transaction may be open
        """
        if self._is_one_statement(batch) and not any(guard.locks for some in guards for guard in some):
            for guard in guards.first:
                self.check(cursor, guard)
            self.apply(cursor, statements, batch)
            return
        if self.guards_insert and self._is_one_guarded_row(batch, guards):
            [row], [guard] = batch.adds, guards.first
            cursor.execute(guarded_row(statements.add_message.text, guard.sql.text), (*row, *guard.values))
            if cursor.rowcount != 1:
                raise guard.refusal()
            return
        self.begin(cursor)
        for guard in guards.first:
            self.check(cursor, guard)
        self.apply(cursor, statements, batch)
        for guard in guards.last:
            self.check(cursor, guard)
        self.commit(cursor)

    def start_write(
        self,
        cursor: Any,  # noqa: ARG002
        statements: WriteStatements,  # noqa: ARG002
        batch: Batch,  # noqa: ARG002
        guards: Guards = UNGUARDED,  # noqa: ARG002
    ) -> SentWrite | None:
        """Begin to write a batch without waiting for anything; None if this batch cannot be written so."""
        return None

    def send_ahead(
        self,
        cursor: Any,  # noqa: ARG002
        statements: WriteStatements,  # noqa: ARG002
        batch: Batch,  # noqa: ARG002
        guards: Guards,  # noqa: ARG002
        before: SentWrite | None,  # noqa: ARG002
    ) -> SentWrite | None:
        """As :meth:`start_write`; another batch may be sent before this one is answered.

        :param before: the batch that was sent, and is not answered, or None
        """
        return None

    def check(self, cursor: Any, guard: RowGuard) -> None:
        """Make sure that the guard holds until the transaction ends.

        :raises StoreError: it does not
        """
        cursor.execute(guard.sql.text, guard.values)
        held = cursor.rowcount == 1 if guard.touches else bool(cursor.fetchall())
        if not held:
            raise guard.refusal()

    def begin(self, cursor: Any) -> None:
        """Start a transaction on the cursor's connection."""
        cursor.execute(self.begin_statement)

    def commit(self, cursor: Any) -> None:
        """Commit the open transaction."""
        cursor.execute("COMMIT")

    def rollback(self, cursor: Any) -> None:
        """Roll back the open transaction, if there is one."""
        cursor.execute("ROLLBACK")

    @staticmethod
    def _is_one_guarded_row(batch: Batch, guards: Guards) -> bool:
        if len(batch.adds) != 1 or batch.updates or batch.removes:
            return False
        if batch.others and any(rows for _, rows in batch.others):
            return False
        return len(guards.first) == 1 and not guards.last

    def _is_one_statement(self, batch: Batch) -> bool:
        """Return whether :meth:`apply` runs at most one statement, which then commits itself."""
        rows = len(batch.adds) + len(batch.updates) + len(batch.removes)
        return rows + sum(len(rows) for _, rows in batch.others) <= 1

    def apply(self, cursor: Any, statements: WriteStatements, batch: Batch) -> None:
        """Run the statements of a batch, in a transaction."""
        if batch.adds:
            self.insert_messages(cursor, statements.add_message, batch.adds)
        if batch.updates:
            self.execute_many(cursor, statements.update_message, batch.updates)
        if batch.removes:
            self.delete_messages(cursor, statements.remove_message, batch.removes)
        for sql, rows in batch.others:
            self.execute_many(cursor, sql, rows)

    def insert_messages(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        """Insert many rows in the vendor's fastest way."""
        self.insert_rows(cursor, sql, rows)

    def insert_rows(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        """Insert rows of any table, many with one statement where possible."""
        if self.rows_per_insert == 1:
            self.execute_many(cursor, sql, rows)
            return
        step = max(1, self.rows_per_insert * _COLUMNS // len(sql.names))
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            cursor.execute(multi_row(sql.text, len(chunk)), [value for row in chunk for value in row])

    def delete_messages(self, cursor: Any, sql: Sql, keys: Sequence[Key]) -> None:
        """Delete many rows by their keys in the vendor's fastest way."""
        if self.keys_per_delete == 1:
            self.execute_many(cursor, sql, [sql.row(container=container, id_=id_) for container, id_ in keys])
            return
        for container, ids in by_container(keys, self.keys_per_delete):
            cursor.execute(in_list(sql.text, len(ids)), [container, *ids])

    def execute_many(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        """One statement for each row."""
        if len(rows) == 1:
            cursor.execute(sql.text, rows[0])
        else:
            cursor.executemany(sql.text, rows)

    def check_done(self, cursor: Any, text: str, row: Sequence[Any]) -> None:
        """Make sure that a statement took effect, for servers that may report success without.

        :raises StoreUnavailable: it did not
        """


class SwitchedWriting(Writing):
    """Of a vendor without BEGIN: a transaction is framed by the driver's ``autocommit`` attribute."""

    def begin(self, cursor: Any) -> None:
        cursor.connection.autocommit = False

    def commit(self, cursor: Any) -> None:
        cursor.connection.commit()
        cursor.connection.autocommit = True

    def rollback(self, cursor: Any) -> None:
        if not cursor.connection.autocommit:
            cursor.connection.rollback()
            cursor.connection.autocommit = True
