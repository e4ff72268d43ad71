"""The statements of prepared XA transactions.

The names are those of ActiveMQ's ``statements`` element where it has the statement. ``xid_`` is the
value of an XID column.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Dialect, and_, bindparam, delete, func, literal_column, null, select, update
from sqlalchemy.sql import ClauseElement, ColumnElement

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.statements.builder import LOWEST, Statement, StatementBuilder, between, same_message
from jdbcstore.database.statements.given import GivenStatements, narrowed
from jdbcstore.database.tables import Tables


class XaStatements(StatementBuilder):
    """The statements for one set of tables on one vendor.

    Those about ``acknowledged`` require jdbcstore's own tables.
    """

    takes_given = True

    def __init__(
        self, tables: Tables, adapter: Adapter, dialect: Dialect, given: GivenStatements, **flags: bool
    ) -> None:
        super().__init__(tables, adapter, dialect, **flags)
        self._define_messages(given)
        self._define_marks(given)
        self._define_acknowledged()
        self._define_ranges()

    def _define_messages(self, given: GivenStatements) -> None:
        t = self._tables.messages
        by_id = t.c.id == bindparam("id_")

        def flags() -> ClauseElement:
            xid, container = self._adapter.exact(t.c.xid), self._adapter.exact(t.c.container)
            return select(xid, container, func.count()).where(t.c.xid > LOWEST).group_by(xid, container)

        own_flags = self._compile(flags)
        self.find_flags: Statement = own_flags
        if given_flags := given.statement("findOpsPendingOutcomeStatement"):
            self.find_flags = narrowed(own_flags, given_flags, ((0, 1),))
        self.find_flagged = self._compile(
            lambda: (
                select(t.c.id, t.c.msgid_prod, t.c.msgid_seq, self._adapter.exact(t.c.container))
                .where(self._has_xid(t))
                .order_by(t.c.id)
            )
        )
        flag = given.statement("updateXidFlagStatement", xid="xid_", id="id_")
        find = given.statement("findXidByIdStatement", id="id_")
        self.looks_before_flagging = bool(flag or find)
        """Whether :attr:`update_xid_flag` may match a message of another transaction."""
        self.update_xid_flag = flag or self._compile(
            lambda: (
                update(t).where(self._found_here(t), by_id, t.c.xid.is_(None)).values(xid=bindparam("xid_"))
            )
        )
        self.find_xid_by_id = find or self._compile(lambda: select(t.c.xid).where(by_id))
        self.release_xid_flag = self._compile(lambda: update(t).where(by_id).values(xid=null()))
        self.clear_xid_flag = given.statement("clearXidFlagStatement", id="id_") or self._compile(
            lambda: update(t).where(by_id).values(xid=null(), id=bindparam("new_id"))
        )

    def _define_marks(self, given: GivenStatements) -> None:
        acks, statement = self._tables.acks, given.statement

        def lane() -> ColumnElement[bool]:
            return and_(self._sub(acks), acks.c.priority == bindparam("priority_"))

        own_marks = self._compile(
            lambda: select(
                *(acks.c.container, acks.c.client_id, acks.c.sub_name),
                *(acks.c.priority, acks.c.last_acked_id, acks.c.xid),
            ).where(acks.c.xid > LOWEST)
        )
        self.find_acks_pending_outcome: Statement = own_marks
        if find := statement("findAcksPendingOutcomeStatement"):
            same = ((5, 0), (0, 1), (1, 2), (2, 3))
            self.find_acks_pending_outcome = narrowed(own_marks, find, same)
        self.find_mark = self._compile(lambda: select(acks.c.last_acked_id, acks.c.xid).where(lane()))
        mark = self._compile(lambda: update(acks).where(lane()).values(xid=bindparam("xid_")))
        self.update_durable_last_ack_in_tx = (
            statement("updateDurableLastAckInTxStatement", xid="xid_") or mark
        )
        given_mark = statement(
            "updateDurableLastAckWithPriorityInTxStatement", xid="xid_", priority="priority_"
        )
        self.update_durable_last_ack_with_priority_in_tx = given_mark or mark
        clear = statement("clearDurableLastAckInTxStatement", priority="priority_")
        self.clear_durable_last_ack_in_tx = clear or self._compile(
            lambda: update(acks).where(lane()).values(xid=null())
        )

    def _define_acknowledged(self) -> None:
        t, ahead = self._tables.messages, self._tables.acknowledged

        def flags() -> ClauseElement:
            key = (self._adapter.exact(ahead.c.container), ahead.c.client_id, ahead.c.sub_name)
            xid = self._adapter.exact(ahead.c.xid)
            # By XID first, or SQLite scans the key to have the others in order.
            return select(*key, xid, func.count()).where(ahead.c.xid > LOWEST).group_by(xid, *key)

        def mine() -> ColumnElement[bool]:
            return and_(self._sub(ahead), self._has_xid(ahead))

        self.find_prepared_flags = self._compile(flags)
        self.find_prepared = self._compile(
            lambda: (
                select(t.c.id, t.c.priority)
                .select_from(ahead.join(t, same_message(ahead, t)))
                .where(mine())
                .order_by(t.c.id)
            )
        )
        self.acknowledge_prepared = self._compile(lambda: update(ahead).where(mine()).values(xid=null()))
        self.remove_prepared = self._compile(lambda: delete(ahead).where(mine()))

    def _define_ranges(self) -> None:
        t = self._tables.messages

        def in_lane() -> ColumnElement[bool]:
            return and_(between(t), self._priority() == bindparam("priority"))

        def count(which: ColumnElement[bool]) -> ClauseElement:
            return select(func.count()).select_from(t).where(self._committed_here(), which)

        self.add_prepared = self._compile(lambda: self._insert_prepared(t.c.id == bindparam("id_")))
        self.add_prepared_between = self._compile(lambda: self._insert_prepared(between(t)))
        self.add_prepared_between_in_lane = self._compile(lambda: self._insert_prepared(in_lane()))
        self.count_between = self._compile(lambda: count(between(t)))
        self.count_between_in_lane = self._compile(lambda: count(in_lane()))

    def _insert_prepared(self, which: ColumnElement[bool]) -> ClauseElement:
        """Record messages as acknowledged by a prepared transaction, except those acknowledged before."""
        t, ahead = self._tables.messages, self._tables.acknowledged
        again = ahead.alias("again")
        known = (
            select(again.c.id)
            .where(self._sub(again), again.c.container == t.c.container, again.c.id == t.c.id)
            .scalar_subquery()
        )
        is_new = func.coalesce(known, literal_column("-1")) != t.c.id
        xid = bindparam("xid_", type_=t.c.container.type)
        return self._add_ahead(self._committed_here(), is_new, which, xid=xid)

    def _has_xid(self, table: Any) -> ColumnElement[bool]:
        return self._equal(table.c.xid, bindparam("xid_"))
