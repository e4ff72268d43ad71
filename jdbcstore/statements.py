"""Every statement the store runs, built once per store; nothing here runs one.

The names are those of ActiveMQ's ``statements`` element where it has the statement. Parameters are
named after columns; ``after`` and ``limit`` are the keyset page, ``id_`` a message's ID.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Dialect,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    not_,
    null,
    or_,
    select,
    union,
    update,
)
from sqlalchemy.sql import ClauseElement, ColumnElement

from jdbcstore.adapters.base import Adapter, Lanes, Sql, WriteStatements
from jdbcstore.schema import Tables, container_index

_ONE: ColumnElement[int] = literal_column("1")
_ZERO: ColumnElement[int] = literal_column("0")


class Statements:
    """The statements for one set of tables on one vendor.

    ``ours`` says whether the tables with the prefix JDBCSTORE exist; without them the statements
    that read read what ActiveMQ wrote, and those that write must not be used. ``hinted`` says whether
    the vendor's hint at the index on CONTAINER is given, for which the index must be there.
    """

    def __init__(
        self, tables: Tables, adapter: Adapter, dialect: Dialect, *, ours: bool, hinted: bool
    ) -> None:
        self._tables = tables
        self._adapter = adapter
        self._dialect = dialect
        self._ours = ours
        self._hinted = hinted
        self._define_messages()
        self._define_pages()
        self._define_totals()
        self._define_subscriptions()
        self._define_acknowledgements()
        self._define_cleanup()
        self._define_state()

    @property
    def write(self) -> WriteStatements:
        return WriteStatements(self.add_message, self.update_message, self.remove_message)

    def _define_messages(self) -> None:
        t = self._tables.messages
        self.add_message = self._insert(t)
        self.update_message = self._compile(
            update(t).where(t.c.id == bindparam("id_")).values(msg=bindparam("blob"))
        )
        self.remove_message = self._compile(delete(t).where(t.c.id == bindparam("id_")))
        by_name = and_(
            t.c.msgid_prod == bindparam("msgid_prod"),
            t.c.msgid_seq == bindparam("msgid_seq"),
        )
        here = self._here(t)
        self.find_message_sequence_id = self._compile(
            select(t.c.id, t.c.priority).where(by_name, here).order_by(t.c.id)
        )
        self.find_message_by_id = self._compile(
            select(t.c.id, t.c.priority, t.c.msg).where(t.c.id == bindparam("id_"), here)
        )
        self.find_id_owner = self._compile(
            select(t.c.msgid_prod, t.c.msgid_seq, t.c.container).where(t.c.id == bindparam("id_"))
        )

    def _define_pages(self) -> None:
        t = self._tables.messages
        committed = t.c.xid.is_(None)
        behind = t.c.id > bindparam("after")
        here = self._here(t)
        page = select(t.c.id, t.c.msg).where(here, committed, behind)
        self.find_next_messages = self._page(self._by_container(page))
        self.find_next_messages_by_priority = self._lanes(page)
        overdue = and_(t.c.expiration > _ZERO, t.c.expiration < bindparam("now_ms"))
        self.find_expired_messages = self._page(page.where(overdue))
        in_doubt = select(t.c.id, t.c.msg).where(here, not_(committed), behind)
        self.find_in_doubt_messages = self._page(in_doubt)
        ids = select(t.c.id).where(here, committed, behind)
        self.find_expired_ids = self._page(ids.where(overdue))
        self.find_ids = self._page(self._by_container(ids))
        self.find_ids_by_priority = self._lanes(ids)

    def _define_totals(self) -> None:
        t, acks = self._tables.messages, self._tables.acks
        here = and_(self._here(t), t.c.xid.is_(None))
        self.destination_message_count = self._compile(select(func.count()).select_from(t).where(here))
        self.destination_statistics = self._compile(
            select(func.count(), func.coalesce(func.sum(func.length(t.c.msg)), _ZERO)).where(here)
        )
        self.find_priorities = self._page(self._by_container(select(t.c.priority).where(self._here(t))))
        self.find_all_destinations = self._compile(
            union(select(self._adapter.exact(t.c.container)), select(self._adapter.exact(acks.c.container)))
        )
        self.find_subscribed_destinations = self._compile(
            select(self._adapter.exact(acks.c.container)).distinct()
        )
        self.find_last_sequence_id_in_msgs = self._compile(select(func.max(t.c.id)))
        self.find_last_sequence_id_in_acks = self._compile(select(func.max(acks.c.last_acked_id)))
        self.last_producer_sequence_id = self._compile(
            select(func.max(t.c.msgid_seq)).where(t.c.msgid_prod == bindparam("msgid_prod"))
        )
        self.find_all_message_ids = self._page_of(
            select(t.c.msgid_prod, t.c.msgid_seq).order_by(t.c.id.desc())
        )

    def _define_subscriptions(self) -> None:
        acks = self._tables.acks
        subscribed = acks.c.priority.between(_ZERO, literal_column("9"))
        columns = (
            acks.c.client_id,
            acks.c.sub_name,
            acks.c.priority,
            acks.c.last_acked_id,
            acks.c.selector,
            acks.c.sub_dest,
        )
        order = (acks.c.client_id, acks.c.sub_name, acks.c.priority)
        here = self._here(acks)
        self.find_all_durable_subs = self._compile(select(*columns).where(here, subscribed).order_by(*order))
        self.find_durable_sub = self._compile(
            select(*columns).where(self._sub(acks), subscribed).order_by(*order)
        )
        self.create_durable_sub = self._insert(acks)
        self.delete_subscription = self._compile(delete(acks).where(self._sub(acks)))
        self.delete_destination_subscriptions = self._compile(delete(acks).where(here))
        self.update_durable_last_ack = self._compile(
            update(acks)
            .where(self._sub(acks), acks.c.priority == bindparam("priority_"))
            .values(last_acked_id=bindparam("last"))
        )

    def _define_acknowledgements(self) -> None:
        t, ahead = self._tables.messages, self._tables.acknowledged
        here = self._here(t)
        behind = and_(here, t.c.xid.is_(None), t.c.id > bindparam("after"))
        # Of "IS NULL" PostgreSQL would expect one row in two hundred, and read far for a page.
        not_ahead = func.coalesce(self._ahead_id(), literal_column("-1")) != t.c.id
        pending = select(t.c.id, t.c.msg).where(behind, not_ahead)
        self.find_durable_sub_messages = self._page(self._by_container(pending))
        self.find_durable_sub_messages_by_priority = self._lanes(pending)
        count = select(func.count()).select_from(t).where(behind, not_ahead)
        self.durable_subscriber_message_count = self._compile(count)
        by_priority = count.where(t.c.priority == bindparam("priority"))
        self.durable_subscriber_message_count_by_priority = self._compile(by_priority)
        window = select(t.c.id, self._ahead_id()).where(behind)
        self.find_window = self._page(self._by_container(window))
        self.find_window_by_priority = self._lanes(window)
        source = select(
            t.c.container,
            bindparam("client_id", type_=t.c.container.type),
            bindparam("sub_name", type_=t.c.container.type),
            t.c.id,
            t.c.msgid_prod,
            t.c.msgid_seq,
        ).where(t.c.id == bindparam("id_"), here, not_ahead)
        columns = ["container", "client_id", "sub_name", "id", "msgid_prod", "msgid_seq"]
        self.add_acknowledged = self._compile(insert(ahead).from_select(columns, source))
        one = delete(ahead).where(self._sub(ahead), ahead.c.id == bindparam("id_"))
        self.remove_acknowledged = self._compile(one)
        self.remove_all_acknowledged = self._compile(delete(ahead).where(self._sub(ahead)))
        self.remove_destination_acknowledged = self._compile(delete(ahead).where(self._here(ahead)))

    def _define_cleanup(self) -> None:
        t, acks, ahead = self._tables.messages, self._tables.acks, self._tables.acknowledged
        by_others = ahead.alias("by_others")
        other = acks.alias("other")
        same_subscription = and_(
            self._here(other),
            other.c.client_id == acks.c.client_id,
            other.c.sub_name == acks.c.sub_name,
            other.c.priority != acks.c.priority,
        )
        # A subscription's only row is its mark for every priority.
        governs = or_(acks.c.priority == t.c.priority, not_(exists(select(_ONE).where(same_subscription))))
        acknowledged = (
            exists(
                select(_ONE)
                .select_from(by_others)
                .where(
                    self._same_message(by_others),
                    by_others.c.client_id == acks.c.client_id,
                    by_others.c.sub_name == acks.c.sub_name,
                )
            )
            # Of itself this sees one level out only, and would ask for any message of the topic.
            .correlate(t, acks)
        )
        behind = func.coalesce(acks.c.last_acked_id, _ZERO) < t.c.id
        wanted = exists(select(_ONE).where(self._here(acks), governs, behind, not_(acknowledged)))
        done = and_(t.c.id.is_not(None), t.c.xid.is_(None), not_(wanted.correlate(t)))
        self.find_acknowledged = self._page_of(
            select(ahead.c.id, t.c.id, case((done, _ONE), else_=_ZERO))
            .select_from(ahead.outerjoin(t, self._same_message(ahead)))
            .where(self._sub(ahead), ahead.c.id > bindparam("after"))
            .order_by(ahead.c.id)
        )
        # What was removed, also by an ActiveMQ that may have given its ID to another message.
        gone = not_(exists(select(_ONE).select_from(t).where(self._same_message(ahead))))
        between = and_(ahead.c.id > bindparam("after"), ahead.c.id <= bindparam("up_to"))
        self.remove_stale_acknowledged = self._compile(delete(ahead).where(self._sub(ahead), between, gone))

    def _define_state(self) -> None:
        lock, state = self._tables.lock, self._tables.state
        self.find_lock = self._compile(select(lock.c.id, lock.c.time, lock.c.broker_name))
        number = select(state.c.number).where(state.c.name == bindparam("name_"))
        self.find_number = self._compile(number)
        self.find_number_for_update = self._compile(number.with_for_update())
        self.update_number = self._compile(
            update(state).where(state.c.name == bindparam("name_")).values(number=bindparam("new"))
        )

    def _here(self, table: Any) -> ColumnElement[bool]:
        """In this destination. The plain comparison finds the index, the exact one decides."""
        column: ColumnElement[str] = table.c.container
        value: ColumnElement[str] = bindparam("container")
        exact = self._adapter.exact(column)
        return column == value if exact is column else and_(column == value, exact == value)

    def _sub(self, table: Any) -> ColumnElement[bool]:
        return and_(
            self._here(table),
            table.c.client_id == bindparam("client_id"),
            table.c.sub_name == bindparam("sub_name"),
        )

    def _same_message(self, ahead: Any) -> ColumnElement[bool]:
        t = self._tables.messages
        return and_(
            ahead.c.container == t.c.container,
            ahead.c.id == t.c.id,
            ahead.c.msgid_prod == t.c.msgid_prod,
            ahead.c.msgid_seq == t.c.msgid_seq,
        )

    def _ahead_id(self) -> ColumnElement[Any]:
        """The message's ID if this subscription has acknowledged it beyond its LAST_ACKED_ID, or NULL.

        A scalar subquery, because planners turn EXISTS into a join with all that is ahead.
        """
        if not self._ours:
            return null()
        ahead = self._tables.acknowledged
        return select(ahead.c.id).where(self._same_message(ahead), self._sub(ahead)).scalar_subquery()

    def _by_container(self, query: Select[Any]) -> Select[Any]:
        """Found through the index on CONTAINER, where the vendor has to be told."""
        if not self._hinted:
            return query
        hint = self._adapter.index_hint.format(index=container_index(self._tables).name)
        return query.with_hint(self._tables.messages, hint)

    def _page(self, query: Select[Any]) -> Sql:
        return self._page_of(query.order_by(self._tables.messages.c.id))

    def _lanes(self, query: Select[Any]) -> Lanes:
        priority = self._tables.messages.c.priority
        lowest = query.where(priority < literal_column("1"))
        return Lanes(self._page(lowest), self._page(query.where(priority == bindparam("priority"))))

    def _page_of(self, query: Select[Any]) -> Sql:
        return self._compile(query.limit(bindparam("limit", type_=Integer())))

    def _insert(self, table: Any) -> Sql:
        compiled = insert(table).compile(dialect=self._dialect, column_keys=[c.key for c in table.columns])
        return _sql(compiled)

    def _compile(self, statement: ClauseElement) -> Sql:
        return _sql(statement.compile(dialect=self._dialect))


def _sql(compiled: Any) -> Sql:
    names = tuple(compiled.positiontup)
    # A dialect may bind a constant of its own, such as the 0 of OFFSET.
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    return Sql(compiled.string, names, constants)
