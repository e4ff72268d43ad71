"""The statements of whole rows, for copying and comparing stores."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Dialect, and_, bindparam, exists, func, literal_column, not_, or_, select
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.statements.builder import (
    ONE,
    ZERO,
    StatementBuilder,
    between,
    same_message,
    same_subscription,
)
from jdbcstore.database.tables import Tables


class RowStatements(StatementBuilder):
    """Whole rows, with all columns in the tables' order, also of messages in doubt.

    Those about ``acknowledged`` require jdbcstore's own tables, whose existence is ``ours``.
    """

    def __init__(
        self, tables: Tables, adapter: Adapter, dialect: Dialect, *, ours: bool, hinted: bool
    ) -> None:
        super().__init__(tables, adapter, dialect, ours=ours, hinted=hinted)
        self._define_messages()
        self._define_subscriptions()

    def _define_messages(self) -> None:
        t = self._tables.messages

        def here() -> ColumnElement[bool]:
            return and_(self._committed_here(), between(t))

        self.count_messages = self._compile(lambda: select(func.count()).select_from(t))
        self.find_sizes = self._page(
            lambda: select(t.c.id, func.coalesce(self._adapter.size(t.c.msg), ZERO)).where(
                t.c.id > bindparam("after")
            )
        )
        self.find_messages = self._compile(lambda: select(*t.columns).where(between(t)).order_by(t.c.id))
        self.find_names = self._page(
            lambda: select(t.c.id, t.c.container, t.c.msgid_prod, t.c.msgid_seq).where(between(t))
        )
        self.find_here = self._page(lambda: self._by_index(select(*t.columns).where(here())))
        self.find_acknowledged_here = self._page(
            lambda: select(t.c.id).where(here(), acknowledged(self._tables, self._adapter, ours=self._ours))
        )

    def _define_subscriptions(self) -> None:
        acks, ahead = self._tables.acks, self._tables.acknowledged
        self.find_marks = self._compile(lambda: select(*acks.columns).where(self._here(acks)))
        self.add_mark = self._insert(acks)
        self.find_subscriptions_ahead = self._compile(
            lambda: select(
                self._adapter.exact(ahead.c.container), ahead.c.client_id, ahead.c.sub_name
            ).distinct()
        )
        self.find_ahead = self._page_of(
            lambda: (
                select(*ahead.columns)
                .where(self._sub(ahead), ahead.c.id > bindparam("after"))
                .order_by(ahead.c.id)
            )
        )
        self.add_ahead = self._insert(ahead)


def acknowledged(tables: Tables, adapter: Adapter, *, ours: bool) -> ColumnElement[bool]:
    """Of a message: its topic has durable subscriptions, and each of them has acknowledged it.

    No prepared transaction can change that. ``ours`` says whether JDBCSTORE_ACKS exists.
    """
    t, marks = tables.messages, tables.acks
    other = marks.alias("other_mark")

    def here(acks: Any) -> ColumnElement[bool]:
        return and_(
            acks.c.container == t.c.container,
            adapter.exact(acks.c.container) == adapter.exact(t.c.container),
            acks.c.priority.between(ZERO, literal_column("9")),
        )

    same = and_(other.c.container == marks.c.container, same_subscription(other, marks))
    others = select(ONE).select_from(other).where(same, other.c.priority != marks.c.priority)
    # The only row of a subscription holds for every priority.
    has_others = exists(others).correlate(marks)
    governs = or_(marks.c.priority == func.coalesce(t.c.priority, ZERO), not_(has_others))
    waits = [here(marks), governs, func.coalesce(marks.c.last_acked_id, ZERO) < t.c.id]
    if ours:
        ahead = tables.acknowledged
        by_it = (same_message(ahead, t), ahead.c.xid.is_(None), same_subscription(ahead, marks))
        waits.append(not_(exists(select(ONE).select_from(ahead).where(*by_it)).correlate(t, marks)))
    wanted = exists(select(ONE).select_from(marks).where(*waits)).correlate(t)
    subscribed = exists(select(ONE).select_from(marks).where(here(marks))).correlate(t)
    return and_(t.c.xid.is_(None), subscribed, not_(wanted))
