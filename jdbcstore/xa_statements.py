"""The statements of prepared XA transactions, built once per store; nothing here runs one.

The names are those of ActiveMQ's ``statements`` element where it has the statement. ``xid_`` is the
whole text of an XID column.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Dialect, and_, bindparam, delete, func, insert, literal_column, null, select, update
from sqlalchemy.sql import ClauseElement, ColumnElement

from jdbcstore.adapters.base import Adapter
from jdbcstore.adapters.compiling import compile_sql
from jdbcstore.adapters.sql import Sql
from jdbcstore.statements import GivenStatements, Narrowed, Statement
from jdbcstore.tables import Tables

_LOWEST: ColumnElement[str] = literal_column("' '")
"""Below every XID. To look for what IS NOT NULL, not every planner takes the index."""


class XaStatements:
    """The statements for one set of tables on one vendor.

    Those about ``acknowledged`` must not be used where the tables of our own do not exist.
    """

    def __init__(self, tables: Tables, adapter: Adapter, dialect: Dialect, given: GivenStatements) -> None:
        self._tables = tables
        self._adapter = adapter
        self._dialect = dialect
        self._define_messages()
        self._define_marks()
        self._define_acknowledged()
        self._replace(given)

    def _define_messages(self) -> None:
        t = self._tables.messages
        xid, container = self._adapter.exact(t.c.xid), self._adapter.exact(t.c.container)
        in_doubt = t.c.xid > _LOWEST
        self._own_flags = self._compile(
            select(xid, container, func.count()).where(in_doubt).group_by(xid, container)
        )
        self.find_flags: Statement = self._own_flags
        self.find_flagged = self._compile(
            select(t.c.id, t.c.msgid_prod, t.c.msgid_seq).where(self._has_xid(t)).order_by(t.c.id)
        )
        one = t.c.id == bindparam("id_")
        flag = update(t).where(one, t.c.xid.is_(None)).values(xid=bindparam("xid_"))
        self.update_xid_flag = self._compile(flag)
        self.find_xid_by_id = self._compile(select(t.c.xid).where(one))
        self.release_xid_flag = self._compile(update(t).where(one).values(xid=null()))
        renumber = update(t).where(one).values(xid=null(), id=bindparam("new_id"))
        self.clear_xid_flag = self._compile(renumber)

    def _define_marks(self) -> None:
        acks = self._tables.acks
        self._own_marks = self._compile(
            select(
                *(acks.c.container, acks.c.client_id, acks.c.sub_name),
                *(acks.c.priority, acks.c.last_acked_id, acks.c.xid),
            ).where(acks.c.xid > _LOWEST)
        )
        self.find_acks_pending_outcome: Statement = self._own_marks
        lane = and_(self._sub(acks), acks.c.priority == bindparam("priority_"))
        self.find_mark = self._compile(select(acks.c.last_acked_id, acks.c.xid).where(lane))
        mark = self._compile(update(acks).where(lane).values(xid=bindparam("xid_")))
        self.update_durable_last_ack_in_tx = mark
        self.update_durable_last_ack_with_priority_in_tx = mark
        self.clear_durable_last_ack_in_tx = self._compile(update(acks).where(lane).values(xid=null()))

    def _define_acknowledged(self) -> None:
        t, ahead = self._tables.messages, self._tables.acknowledged
        key = (self._adapter.exact(ahead.c.container), ahead.c.client_id, ahead.c.sub_name)
        xid, in_doubt = self._adapter.exact(ahead.c.xid), ahead.c.xid > _LOWEST
        # By XID first, or SQLite walks the key to have the others in order.
        self.find_prepared_flags = self._compile(
            select(*key, xid, func.count()).where(in_doubt).group_by(xid, *key)
        )
        mine = and_(self._sub(ahead), self._has_xid(ahead))
        same = and_(
            ahead.c.container == t.c.container,
            ahead.c.id == t.c.id,
            ahead.c.msgid_prod == t.c.msgid_prod,
            ahead.c.msgid_seq == t.c.msgid_seq,
        )
        self.find_prepared = self._compile(
            select(t.c.id, t.c.priority).select_from(ahead.join(t, same)).where(mine).order_by(t.c.id)
        )
        self.acknowledge_prepared = self._compile(update(ahead).where(mine).values(xid=null()))
        self.remove_prepared = self._compile(delete(ahead).where(mine))
        self.add_prepared = self._insert_prepared(t.c.id == bindparam("id_"))
        between = and_(t.c.id > bindparam("after"), t.c.id <= bindparam("up_to"))
        in_lane = and_(between, t.c.priority == bindparam("priority"))
        self.add_prepared_between = self._insert_prepared(between)
        self.add_prepared_between_in_lane = self._insert_prepared(in_lane)
        count = select(func.count()).select_from(t).where(self._here(t), t.c.xid.is_(None))
        self.count_between = self._compile(count.where(between))
        self.count_between_in_lane = self._compile(count.where(in_lane))

    def _replace(self, given: GivenStatements) -> None:
        flag = given.take("updateXidFlagStatement", xid="xid_", id="id_")
        find = given.take("findXidByIdStatement", id="id_")
        self.looks_before_flagging = bool(flag or find)
        """Whether :attr:`update_xid_flag` may be for a message that another transaction has."""
        self.update_xid_flag = flag or self.update_xid_flag
        self.find_xid_by_id = find or self.find_xid_by_id
        self.clear_xid_flag = given.take("clearXidFlagStatement", id="id_") or self.clear_xid_flag
        mark = given.take("updateDurableLastAckInTxStatement", xid="xid_")
        self.update_durable_last_ack_in_tx = mark or self.update_durable_last_ack_in_tx
        name = "updateDurableLastAckWithPriorityInTxStatement"
        mark = given.take(name, xid="xid_", priority="priority_")
        self.update_durable_last_ack_with_priority_in_tx = (
            mark or self.update_durable_last_ack_with_priority_in_tx
        )
        clear = given.take("clearDurableLastAckInTxStatement", priority="priority_")
        self.clear_durable_last_ack_in_tx = clear or self.clear_durable_last_ack_in_tx
        if find := given.take("findOpsPendingOutcomeStatement"):
            self.find_flags = Narrowed(self._own_flags, find, ((0, 1),))
        if find := given.take("findAcksPendingOutcomeStatement"):
            same = ((5, 0), (0, 1), (1, 2), (2, 3))
            self.find_acks_pending_outcome = Narrowed(self._own_marks, find, same)

    def _insert_prepared(self, which: ColumnElement[bool]) -> Sql:
        """Note messages as acknowledged by a prepared transaction, but for those acknowledged before."""
        t, ahead = self._tables.messages, self._tables.acknowledged
        again = ahead.alias("again")
        known = (
            select(again.c.id)
            .where(self._sub(again), again.c.container == t.c.container, again.c.id == t.c.id)
            .scalar_subquery()
        )
        text = t.c.container.type
        source = select(
            t.c.container,
            bindparam("client_id", type_=text),
            bindparam("sub_name", type_=text),
            t.c.id,
            t.c.msgid_prod,
            t.c.msgid_seq,
            bindparam("xid_", type_=text),
        ).where(self._here(t), t.c.xid.is_(None), func.coalesce(known, literal_column("-1")) != t.c.id, which)
        columns = ["container", "client_id", "sub_name", "id", "msgid_prod", "msgid_seq", "xid"]
        return self._compile(insert(ahead).from_select(columns, source))

    def _here(self, table: Any) -> ColumnElement[bool]:
        column: ColumnElement[str] = table.c.container
        return self._equal(column, bindparam("container"))

    def _has_xid(self, table: Any) -> ColumnElement[bool]:
        return self._equal(table.c.xid, bindparam("xid_"))

    def _equal(self, column: ColumnElement[str], value: ColumnElement[str]) -> ColumnElement[bool]:
        """The plain comparison finds the index, the exact one decides."""
        exact = self._adapter.exact(column)
        return column == value if exact is column else and_(column == value, exact == value)

    def _sub(self, table: Any) -> ColumnElement[bool]:
        return and_(
            self._here(table),
            table.c.client_id == bindparam("client_id"),
            table.c.sub_name == bindparam("sub_name"),
        )

    def _compile(self, statement: ClauseElement) -> Sql:
        return compile_sql(statement, self._dialect)
