"""Steps that change what is there: a key, a type, whether NULL is allowed."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import Column, Index, Table, select
from sqlalchemy.schema import CreateIndex

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.found import ONE, Found, FoundColumn, FoundTable
from jdbcstore.database.migrations.steps import Advance, Effect, Step, plain
from jdbcstore.database.schema import ACKS_KEY, acks_key_statements, transactions_statement


class WidenKey(Step):
    """Give ACTIVEMQ_ACKS a key with PRIORITY, but leave it narrow where a fresh ActiveMQ leaves it so.

    That is on PostgreSQL, and only under the name ``pk_activemq_acks``: under any other, ActiveMQ would
    have widened it.
    """

    effect = Effect.COPIES

    def __init__(self, table: Table, adapter: Adapter) -> None:
        super().__init__(table, f"put {table.c.priority.name} into the primary key of {table.name}")
        self._adapter = adapter

    def is_needed(self, found: Found) -> bool:
        there = found.table(self.table)
        if there is None:
            return self._adapter.acks_key_has_priority
        if "priority" in there.key:
            return False
        return self._adapter.acks_key_has_priority or not str(there.key_name).lower().startswith("pk_")

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        there = found.add(self.table)
        if self._adapter.alters_by_copy:
            _copy(self.table, there)
        else:
            dialect = op.get_context().dialect
            statements = acks_key_statements(self.table, self._adapter, dialect, there.key_name)
            for statement in statements if there.key else statements[-1:]:
                op.execute(statement)
        there.key = ACKS_KEY


class ForbidNull(Step):
    """Let a column take no NULL any more, if it has none."""

    effect = Effect.SCANS

    def __init__(self, column: Column[Any], adapter: Adapter) -> None:
        super().__init__(column.table, f"let {column.name} of {column.table.name} take no NULL")
        self.column = column
        self._adapter = adapter

    def is_needed(self, found: Found) -> bool:
        return self.is_nullable(found) and (found.connection is None or not self.nulls(found))

    def is_nullable(self, found: Found) -> bool:
        there = found.table(self.table)
        can = self._adapter.can_forbid_null
        return can and there is not None and there.columns[str(self.column.key)].nullable

    def nulls(self, found: Found) -> bool:
        """Whether there are rows that stand against it."""
        return found.exists(select(ONE).select_from(self.table).where(self.column.is_(None)))

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        there = found.add(self.table)
        column = there.columns[str(self.column.key)]
        there.columns[str(self.column.key)] = FoundColumn(column.type, nullable=False)
        if self._adapter.alters_by_copy:
            _copy(self.table, there)
        else:
            op.alter_column(self.table.name, self.column.name, nullable=False, existing_type=column.type)


class GiveTransactions(Step):
    """Move a table to an engine that has transactions: half of a batch must never be stored."""

    effect = Effect.COPIES

    def __init__(self, table: Table, adapter: Adapter) -> None:
        super().__init__(table, f"give transactions to the table {table.name}")
        self._adapter = adapter

    def is_needed(self, found: Found) -> bool:
        if found.connection is None or found.table(self.table) is None:
            return False
        return bool(self._adapter.without_transactions(found.connection, [str(self.table.name)]))

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        op.execute(transactions_statement(self.table, self._adapter, op.get_context().dialect))


class EnlargeBinary(Step):
    """Give MSG the vendor's type, where an ActiveMQ took the vendor for another and messages do not fit."""

    effect = Effect.COPIES

    def __init__(self, column: Column[Any], adapter: Adapter) -> None:
        super().__init__(column.table, f"make {column.name} of {column.table.name} hold more than 64 KiB")
        self.column = column
        self._adapter = adapter

    def is_needed(self, found: Found) -> bool:
        there = found.table(self.table)
        if there is None or type(self.column.type) is not type(self._adapter.binary_type):
            return False  # to be made so, or configured otherwise
        return type(there.columns["msg"].type).__name__ in self._adapter.small_binary_types

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        op.alter_column(self.table.name, self.column.name, type_=self.column.type, existing_nullable=True)
        found.add(self.table).columns["msg"] = FoundColumn(self.column.type, nullable=True)


def _copy(table: Table, there: FoundTable) -> None:
    """Copy a table into one with the key that it should have, and the columns and indexes that it has."""
    made = plain(table, frozenset(column for column in table.columns if column.key not in there.columns))
    for column in made.columns:
        column.nullable = there.columns[str(column.name).lower()].nullable
    with op.batch_alter_table(made.name, recreate="always", copy_from=made):
        pass
    names = {str(column.name).lower(): column.name for column in made.columns}
    ours = {str(index.name).lower(): index.name for index in table.indexes}
    for index, columns in there.indexes.items():
        copied = Index(ours.get(index, index), *(made.c[names[column]] for column in columns))
        op.execute(CreateIndex(copied))
