"""The statements of the message store: its own, or the user's in their place.

The names are those of ActiveMQ's ``statements`` element where it has the statement. Parameters are named
after columns; ``after`` and ``limit`` are the keyset page, ``id_`` is a message's ID.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from sqlalchemy import (
    BigInteger,
    Dialect,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    union,
    update,
)
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.sql import Batch, Sql, WriteStatements
from jdbcstore.database.schema import JOURNAL_ROWS
from jdbcstore.database.statements.builder import (
    LOWEST,
    ONE,
    ZERO,
    LaneQueries,
    Query,
    Statement,
    StatementBuilder,
    between,
    same_message,
    same_subscription,
)
from jdbcstore.database.statements.given import (
    GivenStatements,
    message_by_id,
    message_by_name,
    one_lane,
    pending_count,
    pending_page,
    picked,
    subscription_rows,
)
from jdbcstore.database.tables import Tables

LISTED = 200
"""The number of keys of ``find_sizes_by_ids``, ``id_0`` and so on."""


class Statements(StatementBuilder):
    """The statements for one set of tables on one vendor; see :class:`StatementBuilder`.

    Statements in ``given`` replace the store's own, under ActiveMQ's contract for each.
    """

    takes_given = True

    def __init__(
        self, tables: Tables, adapter: Adapter, dialect: Dialect, given: GivenStatements, **flags: bool
    ) -> None:
        super().__init__(tables, adapter, dialect, **flags)
        self._given = given
        self._define_messages()
        self._define_pages()
        self._define_totals()
        self._define_subscriptions()
        self._define_acknowledgements()
        self._define_cleanup()
        self._define_state()

    def arrange(self, batch: Batch) -> Batch:
        """Return the batch as these statements can write it, where :attr:`writes_singly`."""
        adds, removes, others = batch.adds, batch.removes, [*batch.others]
        if self.removes_singly and removes:
            others.insert(0, (self.remove_message, [(id_,) for _, id_ in removes]))
            removes = []
        if self._add_columns is not None and adds:
            others.insert(0, (self.add_message, [self._add_columns(row) for row in adds]))
            adds = []
        return Batch(adds, batch.updates, removes, others)

    def _define_messages(self) -> None:
        t = self._tables.messages
        by_id = t.c.id == bindparam("id_")

        def by_name() -> ColumnElement[bool]:
            by_producer = self._equal(t.c.msgid_prod, bindparam("msgid_prod"))
            return and_(by_producer, t.c.msgid_seq == bindparam("msgid_seq"))

        own = self._insert(t)
        add = self._given.statement("addMessageStatement")
        self.add_message = add or own
        self._add_columns = itemgetter(*map(own.names.index, add.names)) if add else None
        self.update_message = self._compile(lambda: update(t).where(by_id).values(msg=bindparam("blob")))
        self.update_message_by_name = self._given.statement("updateMessageStatement", msg="blob")
        """The user's, which changes every message with a message id; None if there is none."""
        remove = self._given.statement("removeMessageStatement", id="id_")
        # Messages of a prepared transaction are not removed. The key comes last, for lists of keys.
        self.remove_message = remove or self._compile(
            lambda: delete(t).where(t.c.xid.is_(None), self._found_here(t), by_id)
        )
        self.removes_singly = remove is not None
        """Whether :attr:`remove_message` takes one row at a time, and no bulk path."""
        self.writes_singly = self.removes_singly or add is not None
        """Whether a batch must be arranged: bulk paths rewrite the store's own text, not the user's."""
        self.write = WriteStatements(self.add_message, self.update_message, self.remove_message)
        self.find_message_sequence_id: Statement = self._compile(
            lambda: select(t.c.id, t.c.priority).where(by_name(), self._committed_here()).order_by(t.c.id)
        )
        self.find_priority_by_id = self._compile(
            lambda: select(t.c.id, t.c.priority).where(by_id, self._committed_here())
        )
        self.find_message_by_id: Statement = self._compile(
            lambda: select(t.c.id, t.c.msg).where(by_id, self._committed_here())
        )
        if find := self._given.statement("findMessageSequenceIdStatement"):
            named = picked(find, (0, 1), sort=True)
            self.find_message_sequence_id = message_by_name(named, self.find_priority_by_id)
        if find := self._given.statement("findMessageByIdStatement", id="id_"):
            self.find_message_by_id = message_by_id(self.find_priority_by_id, find)
        self.find_sizes_by_ids = self._compile(
            lambda: select(t.c.id, self._adapter.size(t.c.msg)).where(
                t.c.id.in_([bindparam(f"id_{number}") for number in range(LISTED)]), self._committed_here()
            )
        )
        self.find_messages_of_size = self._page(
            lambda: select(t.c.id, t.c.container, t.c.msg).where(
                between(t), self._adapter.size(t.c.msg) == bindparam("size", type_=Integer())
            )
        )
        # In any destination, and whether or not it is prepared.
        self.find_ids_by_name = self._compile(lambda: select(t.c.id).where(by_name()))
        self.find_id_owner = self._compile(
            lambda: select(t.c.msgid_prod, t.c.msgid_seq, t.c.container).where(by_id)
        )

    def _define_pages(self) -> None:
        t = self._tables.messages

        def behind(*columns: ColumnElement[Any], in_doubt: bool = False) -> Select[Any]:
            committed = t.c.xid.is_(None)
            which = not_(committed) if in_doubt else committed
            return select(*columns).where(self._here(t), which, t.c.id > bindparam("after"))

        def overdue() -> ColumnElement[bool]:
            return and_(t.c.expiration > ZERO, t.c.expiration < bindparam("now_ms"))

        self.find_next_messages = self._given.statement("findNextMessagesStatement", last_id="after") or (
            self._page(lambda: self._by_index(behind(t.c.id, t.c.msg)))
        )
        self.find_next_messages_by_priority = self._lanes(lambda: behind(t.c.id, t.c.msg))
        if page := self._given.statement("findNextMessagesByPriorityStatement"):
            self.find_next_messages_by_priority = LaneQueries(one_lane(page), one_lane(page))
        self.find_expired_messages = self._page(
            lambda: self._by_index(behind(t.c.id, t.c.msg).where(overdue()), "expiration")
        )
        self.find_in_doubt_messages = self._page(lambda: behind(t.c.id, t.c.msg, in_doubt=True))
        self.find_expired_ids = self._page(
            lambda: self._by_index(behind(t.c.id).where(overdue()), "expiration")
        )
        self.find_ids = self._page(lambda: self._by_index(behind(t.c.id)))
        self.find_ids_by_priority = self._lanes(lambda: behind(t.c.id))

    def _define_totals(self) -> None:
        t, acks = self._tables.messages, self._tables.acks

        def subscribed() -> Select[Any]:
            return select(self._adapter.exact(acks.c.container))

        statement = self._given.statement
        self.destination_message_count = statement("destinationMessageCountStatement") or self._compile(
            lambda: select(func.count()).select_from(t).where(self._committed_here())
        )
        bytes_ = func.coalesce(func.sum(self._adapter.size(t.c.msg)), ZERO)
        self.destination_statistics = self._compile(
            lambda: select(func.count(), bytes_).where(self._committed_here())
        )
        self.find_priorities = self._page(lambda: self._by_index(select(t.c.priority).where(self._here(t))))
        self.find_all_destinations = statement("findAllDestinationsStatement") or self._compile(
            lambda: union(select(self._adapter.exact(t.c.container)), subscribed())
        )
        self.find_subscribed_destinations = self._compile(lambda: subscribed().distinct())
        self.find_last_sequence_id_in_msgs = statement("findLastSequenceIdInMsgsStatement") or self._compile(
            lambda: select(func.max(t.c.id))
        )
        self.find_last_sequence_id_in_acks = statement("findLastSequenceIdInAcksStatement") or self._compile(
            lambda: select(func.max(acks.c.last_acked_id))
        )
        self.last_producer_sequence_id = statement("lastProducerSequenceIdStatement") or self._compile(
            lambda: select(func.max(t.c.msgid_seq)).where(
                self._equal(t.c.msgid_prod, bindparam("msgid_prod"))
            )
        )
        self.find_all_message_ids: Statement = self._page_of(
            lambda: select(t.c.msgid_prod, t.c.msgid_seq).order_by(t.c.id.desc())
        )
        if page := statement("findAllMessageIdsStatement"):
            self.find_all_message_ids = picked(page, (1, 2))

    def _define_subscriptions(self) -> None:
        acks, statement = self._tables.acks, self._given.statement

        def marks(whose: ColumnElement[bool]) -> Select[Any]:
            subscribed = acks.c.priority.between(ZERO, literal_column("9"))
            order = (acks.c.client_id, acks.c.sub_name, acks.c.priority)
            columns = (*order, acks.c.last_acked_id, acks.c.selector, acks.c.sub_dest)
            return select(*columns).where(whose, subscribed).order_by(*order)

        self.find_all_marks = self._compile(lambda: marks(self._here(acks)))
        self.find_all_durable_subs: Statement = self.find_all_marks
        if find := statement("findAllDurableSubsStatement"):
            # It has SELECTOR, SUB_NAME, CLIENT_ID, SUB_DEST, in no order.
            self.find_all_durable_subs = picked(find, (2, 1, None, None, 0, 3), sort=True)
        self.find_marks = self._compile(lambda: marks(self._sub(acks)))
        self.find_durable_sub: Statement = self.find_marks
        if find := statement("findDurableSubStatement"):
            self.find_durable_sub = subscription_rows(self.find_marks, find)
        names = (acks.c.container, acks.c.client_id, acks.c.sub_name)
        self.find_taken_for_it = self._compile(
            lambda: select(*names).where(*(column == bindparam(column.key) for column in names))
        )
        self.create_durable_sub = statement("createDurableSubStatement") or self._insert(acks)
        self.delete_subscription = statement("deleteSubscriptionStatement") or self._compile(
            lambda: delete(acks).where(self._sub(acks))
        )
        self.delete_destination_subscriptions = statement("removeAllSubscriptionsStatement") or self._compile(
            lambda: delete(acks).where(self._here(acks))
        )
        move = self._compile(
            lambda: (
                update(acks)
                .where(self._sub(acks), acks.c.priority == bindparam("priority_"))
                .values(last_acked_id=bindparam("last"))
            )
        )
        self.update_durable_last_ack = (
            statement("updateDurableLastAckStatement", last_acked_id="last") or move
        )
        given = statement(
            "updateDurableLastAckWithPriorityStatement", last_acked_id="last", priority="priority_"
        )
        self.update_durable_last_ack_with_priority = given or move

    def _define_acknowledgements(self) -> None:
        t, acks, ahead = self._tables.messages, self._tables.acks, self._tables.acknowledged

        def behind() -> ColumnElement[bool]:
            return and_(self._committed_here(), t.c.id > bindparam("after"))

        def pending() -> Select[Any]:
            return select(t.c.id, t.c.msg).where(behind(), self._not_ahead())

        def count_in_lanes() -> Select[Any]:
            lane = and_(self._sub(acks), acks.c.priority == self._priority(), self._behind_mark(acks))
            count = select(func.count()).select_from(t).join(acks, lane)
            return count.where(self._committed_here(), self._not_ahead())

        def window() -> Select[Any]:
            return select(t.c.id, self._ahead_id(signed=True)).where(behind())

        self.find_durable_sub_messages: Statement = self._page(lambda: self._by_index(pending()))
        self.find_durable_sub_messages_by_priority = self._lanes(pending)
        self.durable_subscriber_message_count: Statement = self._compile(
            lambda: select(func.count()).select_from(t).where(behind(), self._not_ahead())
        )
        self.durable_subscriber_message_count_with_priority: Statement = self._compile(count_in_lanes)
        self._replace_pending()
        self.find_window = self._page(lambda: self._by_index(window()))
        self.find_window_by_priority = self._lanes(window)
        self.add_acknowledged = self._compile(
            lambda: self._add_ahead(t.c.id == bindparam("id_"), self._committed_here(), self._not_ahead())
        )
        self.remove_acknowledged = self._compile(
            lambda: delete(ahead).where(self._sub(ahead), ahead.c.id == bindparam("id_"))
        )

        def in_doubt(*columns: ColumnElement[Any]) -> Select[Any]:
            return select(*columns).where(self._here(ahead), ahead.c.xid > LOWEST).distinct()

        self.find_acknowledged_in_doubt = self._compile(lambda: in_doubt(ahead.c.id))
        self.find_subscriptions_in_doubt = self._compile(
            lambda: in_doubt(ahead.c.client_id, ahead.c.sub_name)
        )
        self.remove_all_acknowledged = self._compile(lambda: delete(ahead).where(self._sub(ahead)))
        self.remove_destination_acknowledged = self._compile(lambda: delete(ahead).where(self._here(ahead)))

    def _replace_pending(self) -> None:
        page = self._given.statement("findDurableSubMessagesStatement", last_id="after")
        if page:
            self.find_durable_sub_messages = pending_page(page, self._still_pending())
        page = self._given.statement("findDurableSubMessagesByPriorityStatement", last_id="after")
        if page:
            pending = pending_page(page, self._still_pending(by_lane=True))
            self.find_durable_sub_messages_by_priority = LaneQueries(pending, pending)
        if count := self._given.statement("durableSubscriberMessageCountStatement"):
            own = self.durable_subscriber_message_count
            self.durable_subscriber_message_count = self._count_pending(count, own)
        if count := self._given.statement("durableSubscriberMessageCountStatementWithPriority"):
            own = self.durable_subscriber_message_count_with_priority
            self.durable_subscriber_message_count_with_priority = self._count_pending(
                count, own, by_lane=True
            )

    def _still_pending(self, *, by_lane: bool = False) -> Sql:
        t = self._tables.messages

        def pending() -> Select[Any]:
            here = and_(self._committed_here(), t.c.id.between(bindparam("after") + ONE, bindparam("up_to")))
            return select(t.c.id).where(here, self._is_behind_mark(by_lane), self._not_ahead())

        return self._compile(pending)

    def _count_pending(self, given: Sql, own: Statement, *, by_lane: bool = False) -> Query:
        t = self._tables.messages

        def ahead() -> Select[Any]:
            count = select(func.count()).select_from(t)
            return count.where(self._here(t), self._is_behind_mark(by_lane), self._ahead_id() == t.c.id)

        return pending_count(given, self._compile(ahead), self.find_in_doubt_messages, own)

    def _is_behind_mark(self, by_lane: bool) -> ColumnElement[bool]:
        t, acks = self._tables.messages, self._tables.acks
        mark = select(ONE).where(self._sub(acks), self._behind_mark(acks))
        if by_lane:
            mark = mark.where(acks.c.priority == self._priority())
        return exists(mark.correlate(t))

    def _define_cleanup(self) -> None:
        t, ahead = self._tables.messages, self._tables.acknowledged
        self.find_acknowledged = self._page_of(
            lambda: (
                select(ahead.c.id, t.c.id, case((self._is_done(), ONE), else_=ZERO))
                .select_from(ahead.outerjoin(t, same_message(ahead, t)))
                .where(self._sub(ahead), ahead.c.id > bindparam("after"))
                .order_by(ahead.c.id)
            )
        )

        def stale() -> ColumnElement[bool]:
            # Removed messages, also by an ActiveMQ that may have assigned the ID to another message.
            gone = not_(exists(select(ONE).select_from(t).where(same_message(ahead, t))))
            return and_(between(ahead), ahead.c.xid.is_(None), gone)

        self.remove_stale_acknowledged = self._compile(lambda: delete(ahead).where(self._sub(ahead), stale()))

    def _is_done(self) -> ColumnElement[bool]:
        """Return whether the message exists, and no subscription still needs it."""
        t, acks = self._tables.messages, self._tables.acks
        by_others = self._tables.acknowledged.alias("by_others")
        other = acks.alias("other")
        others = (self._here(other), same_subscription(other, acks), other.c.priority != acks.c.priority)
        # The only row of a subscription holds for every priority.
        governs = or_(acks.c.priority == self._priority(), not_(exists(select(ONE).where(*others))))
        acknowledged = (
            exists(
                select(ONE)
                .select_from(by_others)
                .where(
                    same_message(by_others, t),
                    by_others.c.xid.is_(None),
                    same_subscription(by_others, acks),
                )
            )
            # By default it correlates with one level only, and would match any message of the topic.
            .correlate(t, acks)
        )
        behind = self._behind_mark(acks)
        wanted = exists(select(ONE).where(self._here(acks), governs, behind, not_(acknowledged)))
        return and_(t.c.id.is_not(None), t.c.xid.is_(None), not_(wanted.correlate(t)))

    def _define_state(self) -> None:
        lock, state, messages = self._tables.lock, self._tables.state, self._tables.messages
        named = state.c.name == bindparam("name_")
        self.find_lock = self._compile(lambda: select(lock.c.id, lock.c.time, lock.c.broker_name))
        self.find_number = self._compile(lambda: select(state.c.number).where(named))
        self.find_number_for_update = self._compile(
            lambda: self._adapter.locked(select(state.c.number).where(named))
        )
        self.find_journal = self._compile(
            lambda: select(state.c.name, state.c.number).where(
                state.c.name.in_([literal(name) for name in JOURNAL_ROWS])
            )
        )
        self.add_number = self._insert(state)
        touch = self._compile(lambda: update(state).where(named).values(number=state.c.number))
        self.lock_number = touch if self._adapter.touches_to_lock else None
        self.hold_number = self._compile(lambda: self._holding("name_", "number_"))
        self.find_written = self._compile(
            lambda: select(ONE).where(
                messages.c.id == cast(bindparam("id_"), BigInteger),
                messages.c.msgid_prod == bindparam("msgid_prod"),
                messages.c.msgid_seq == cast(bindparam("msgid_seq"), BigInteger),
                messages.c.container == bindparam("container"),
            )
        )
        """Finds the message that a batch has added under an ID, and not another's."""
        self.update_number = self._compile(lambda: self._changing("name_", bindparam("new")))
        """Changes the sequence, which transactions hold."""
        self.update_position = self._compile(
            lambda: update(state).where(named).values(number=bindparam("new"))
        )
