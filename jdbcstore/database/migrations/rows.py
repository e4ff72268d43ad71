"""Steps that write rows: those that a table starts with, and what an added column must say."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import ColumnElement, Select, Table, exists, func, literal_column, not_, select, update

from jdbcstore.database.migrations.found import ONE, Found
from jdbcstore.database.migrations.steps import Advance, Effect, Step

_CHUNK = 10_000
_ZERO: ColumnElement[int] = literal_column("0")
_DEFAULT: ColumnElement[int] = literal_column("5")
"""The default of PRIORITY in ACTIVEMQ_ACKS, which is no priority that a subscription is looked up by."""


class PutRow(Step):
    """Put a row into a table that has none with this key."""

    def __init__(self, table: Table, column: str, key: object, **values: object) -> None:
        super().__init__(table, f"put the row {key!r} into {table.name}")
        self._there = table.c[column] == key
        self.insert = table.insert().values(**{column: key, **values})

    def is_needed(self, found: Found) -> bool:
        if found.table(self.table) is None:
            return True
        return found.connection is not None and not found.exists(
            select(ONE).select_from(self.table).where(self._there)
        )

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        op.execute(self.insert)


class NumberMessages(Step):
    """Messages from before PRIORITY get 0, as those without a lane have: ActiveMQ cleans up no NULL."""

    effect = Effect.WRITES

    def __init__(self, table: Table) -> None:
        super().__init__(table, f"set {table.c.priority.name} of older messages in {table.name} to 0")

    def is_needed(self, found: Found) -> bool:
        return found.table(self.table) is not None and found.exists(self._rows(found))

    def rows(self, found: Found) -> int | None:
        return found.count(self._rows(found))

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        id_, priority = self.table.c.id, self.table.c.priority
        change = update(self.table).where(priority.is_(None)).values(priority=_ZERO)
        if op.get_context().as_sql:
            op.execute(change)
            return
        some = select(id_).where(priority.is_(None)).order_by(id_).limit(_CHUNK).subquery()
        connection = op.get_bind()
        while (last := connection.execute(select(func.max(some.c.id))).scalar()) is not None:
            advance(connection.execute(change.where(id_ <= last)).rowcount)

    def _rows(self, found: Found) -> Select[Any]:
        query = select(self.table.c.id)
        return query.where(self.table.c.priority.is_(None)) if _has_priority(self.table, found) else query


class NumberSubscriptions(Step):
    """Subscriptions from before PRIORITY get 0, by which ActiveMQ finds them.

    ActiveMQ adds the column with a default of 5, and then does not see them when it starts.
    """

    effect = Effect.WRITES

    def __init__(self, table: Table) -> None:
        super().__init__(table, f"set {table.c.priority.name} of older subscriptions in {table.name} to 0")

    def is_needed(self, found: Found) -> bool:
        return found.table(self.table) is not None and found.exists(self._rows(found))

    def rows(self, found: Found) -> int | None:
        return found.count(self._rows(found))

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        op.execute(update(self.table).where(self._is_alone()).values(priority=_ZERO))

    def _rows(self, found: Found) -> Select[Any]:
        query = select(self.table.c.sub_name)
        return query.where(self._is_alone()) if _has_priority(self.table, found) else query

    def _is_alone(self) -> ColumnElement[bool]:
        """Has the default, and is the subscription's only row: of ten, one has it too."""
        acks = self.table
        names = ("container", "client_id", "sub_name")
        # DISTINCT has MySQL keep them aside: it does not read from a table that it updates.
        others = (
            select(*(acks.c[name] for name in names))
            .where(acks.c.priority != _DEFAULT)
            .distinct()
            .subquery("others")
        )
        same = [others.c[name] == acks.c[name] for name in names]
        return (acks.c.priority == _DEFAULT) & not_(exists(select(ONE).select_from(others).where(*same)))


def _has_priority(table: Table, found: Found) -> bool:
    there = found.table(table)
    return there is not None and "priority" in there.columns
