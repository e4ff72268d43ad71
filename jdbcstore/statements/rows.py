"""The statements of whole rows, for what moves and compares stores; nothing here runs one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Dialect, and_, bindparam, func, select

from jdbcstore.adapters.base import Adapter
from jdbcstore.statements.builder import ZERO, Builder
from jdbcstore.tables import Tables


class RowStatements(Builder):
    """Rows with all their columns in the tables' order, also those that are in doubt; see :class:`Builder`.

    Those about ``acknowledged`` must not be used where the tables of our own do not exist.
    """

    def __init__(self, tables: Tables, adapter: Adapter, dialect: Dialect) -> None:
        super().__init__(tables, adapter, dialect, ours=True, hinted=False)
        self._define_messages()
        self._define_subscriptions()

    def _define_messages(self) -> None:
        t = self._tables.messages
        behind = t.c.id > bindparam("after")
        between = and_(behind, t.c.id <= bindparam("up_to"))
        size = func.coalesce(self._adapter.size(t.c.msg), ZERO)
        self.count_messages = self._compile(select(func.count()).select_from(t))
        self.find_sizes = self._page(select(t.c.id, size).where(behind))
        self.find_messages = self._compile(select(*t.columns).where(between).order_by(t.c.id))
        names = select(t.c.id, t.c.container, t.c.msgid_prod, t.c.msgid_seq)
        self.find_names = self._page(names.where(between))

    def _define_subscriptions(self) -> None:
        acks, ahead = self._tables.acks, self._tables.acknowledged
        self.find_marks = self._compile(select(*acks.columns).where(self._here(acks)))
        self.add_mark = self._insert(acks)
        sub = (self._adapter.exact(ahead.c.container), ahead.c.client_id, ahead.c.sub_name)
        self.find_subscriptions_ahead = self._compile(select(*sub).distinct())
        page: Any = select(*ahead.columns).where(self._sub(ahead), ahead.c.id > bindparam("after"))
        self.find_ahead = self._page_of(page.order_by(ahead.c.id))
        self.add_ahead = self._insert(ahead)
