"""The statements of JDBCSTORE_OUTBOX, the messages that SQL statements have inserted."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    LargeBinary,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    literal,
    select,
    update,
)

from jdbcstore.database.statements.builder import ONE, ZERO
from jdbcstore.database.statements.claims import LeaseConditions

MOVED = "jdbcstore outbox"
"""The consumer in JDBCSTORE_INBOX that has the send ids of moved messages."""


class OutboxStatements(LeaseConditions):
    """Reading the messages in order, and removing them, or setting their error."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        o, i = self._tables.outbox, self._tables.inbox
        waits, id_ = o.c.error.is_(None), bindparam("id_", type_=BigInteger())
        sizes = [func.coalesce(self._adapter.size(body), ZERO) for body in (o.c.body, o.c.body_bytes)]
        self.find_sizes = self._page_of(
            lambda: select(o.c.id, sizes[0] + sizes[1]).where(waits).order_by(o.c.id)
        )
        """The IDs of messages, each with the size of its body."""
        moved = exists().where(i.c.consumer == literal(MOVED, i.c.consumer.type), i.c.msgid == o.c.send_id)
        columns = [self._any(column) for column in o.columns if column is not o.c.error]
        self.find = self._page_of(
            lambda: (
                select(*columns, case((moved, ONE), else_=ZERO))
                .where(waits, o.c.id <= bindparam("up_to", type_=BigInteger()))
                .order_by(o.c.id)
            )
        )
        """Messages, each with whether one with its send id was moved."""
        self.remove = self._of_ids(o, lambda these: delete(o).where(these), locks=True)
        self.refuse = self._compile(
            lambda: update(o).where(o.c.id == id_).values(error=bindparam("reason", type_=o.c.error.type))
        )
        self.count = self._compile(
            lambda: select(
                func.count(case((waits, ONE))),
                func.count(o.c.error),
                self._now - func.min(case((waits, o.c.created))),
            )
        )
        """The numbers of waiting messages and of refused ones, and the age of the oldest that waits."""
        self.find_refused = self._page_of(
            lambda: (
                select(*map(self._any, (o.c.id, o.c.destination, o.c.created, o.c.send_id, o.c.error)))
                .where(o.c.error.is_not(None))
                .order_by(o.c.id)
            )
        )

    def _any(self, column: Column[Any]) -> ColumnElement[Any]:
        """Return a column that can be read whatever an application has inserted: strings may be bytes."""
        if self._adapter.checks_values:
            return column
        return case((func.typeof(column) == literal("text"), cast(column, LargeBinary)), else_=column)
