"""The user's statements in place of the store's own, under ActiveMQ's contract for each."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from sqlalchemy import Dialect, Select, bindparam, exists, func, select
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.sql import Batch, Sql
from jdbcstore.database.statements.builder import ONE
from jdbcstore.database.statements.given import GivenStatements
from jdbcstore.database.statements.own import Statements
from jdbcstore.database.statements.queries import (
    Lanes,
    MessageById,
    MessageByName,
    OneLane,
    Pending,
    PendingCount,
    Picked,
    Statement,
    SubscriptionRows,
)
from jdbcstore.database.tables import Tables


class ReplacedStatements(Statements):
    """The store's own statements, but for those that ``given`` has."""

    def __init__(
        self,
        tables: Tables,
        adapter: Adapter,
        dialect: Dialect,
        given: GivenStatements,
        *,
        ours: bool,
        hinted: bool,
    ) -> None:
        super().__init__(tables, adapter, dialect, ours=ours, hinted=hinted)
        self._given = given
        self._replace_writes()
        self._replace_messages()
        self._replace_pages()
        self._replace_totals()
        self._replace_subscriptions()
        self._replace_pending()

    def arrange(self, batch: Batch) -> Batch:
        """Bulk paths rewrite the store's own text; the user's is run once for each row."""
        adds, removes, others = batch.adds, batch.removes, list(batch.others)
        if self.removes_singly and removes:
            others.insert(0, (self.remove_message, [(id_,) for _, id_ in removes]))
            removes = []
        if self._adds_singly and adds:
            others.insert(0, (self.add_message, [self._in_order(row) for row in adds]))
            adds = []
        return Batch(adds, batch.updates, removes, others)

    def _replace_writes(self) -> None:
        own = self.add_message
        add = self._given.take("addMessageStatement")
        remove = self._given.take("removeMessageStatement", id="id_")
        self.update_message_by_name = self._given.take("updateMessageStatement", msg="blob")
        self._adds_singly, self.removes_singly = add is not None, remove is not None
        self.add_message, self.remove_message = add or own, remove or self.remove_message
        if add:
            self._in_order = itemgetter(*map(own.names.index, add.names))

    def _replace_messages(self) -> None:
        if find := self._given.take("findMessageSequenceIdStatement"):
            named = Picked(find, (0, 1), sort=True)
            self.find_message_sequence_id = MessageByName(named, self.find_priority_by_id)
        if find := self._given.take("findMessageByIdStatement", id="id_"):
            self.find_message_by_id = MessageById(self.find_priority_by_id, find)

    def _replace_pages(self) -> None:
        page = self._given.take("findNextMessagesStatement", last_id="after")
        self.find_next_messages = page or self.find_next_messages
        if page := self._given.take("findNextMessagesByPriorityStatement"):
            self.find_next_messages_by_priority = Lanes(OneLane(page), OneLane(page))
        if page := self._given.take("findAllMessageIdsStatement"):
            self.find_all_message_ids = Picked(page, (1, 2))

    def _replace_totals(self) -> None:
        count = self._given.take("destinationMessageCountStatement")
        self.destination_message_count = count or self.destination_message_count
        find = self._given.take("findAllDestinationsStatement")
        self.find_all_destinations = find or self.find_all_destinations
        last = self._given.take("findLastSequenceIdInMsgsStatement")
        self.find_last_sequence_id_in_msgs = last or self.find_last_sequence_id_in_msgs
        last = self._given.take("findLastSequenceIdInAcksStatement")
        self.find_last_sequence_id_in_acks = last or self.find_last_sequence_id_in_acks
        last = self._given.take("lastProducerSequenceIdStatement")
        self.last_producer_sequence_id = last or self.last_producer_sequence_id

    def _replace_subscriptions(self) -> None:
        if sql := self._given.take("findAllDurableSubsStatement"):
            # It has SELECTOR, SUB_NAME, CLIENT_ID, SUB_DEST, in no order.
            self.find_all_durable_subs = Picked(sql, (2, 1, None, None, 0, 3), sort=True)
        if sql := self._given.take("findDurableSubStatement"):
            self.find_durable_sub = SubscriptionRows(self.find_marks, sql)
        self.create_durable_sub = self._given.take("createDurableSubStatement") or self.create_durable_sub
        self.delete_subscription = self._given.take("deleteSubscriptionStatement") or self.delete_subscription
        delete = self._given.take("removeAllSubscriptionsStatement")
        self.delete_destination_subscriptions = delete or self.delete_destination_subscriptions
        move = self._given.take("updateDurableLastAckStatement", last_acked_id="last")
        self.update_durable_last_ack = move or self.update_durable_last_ack
        name = "updateDurableLastAckWithPriorityStatement"
        move = self._given.take(name, last_acked_id="last", priority="priority_")
        self.update_durable_last_ack_with_priority = move or self.update_durable_last_ack_with_priority

    def _replace_pending(self) -> None:
        page = self._given.take("findDurableSubMessagesStatement", last_id="after")
        if page:
            self.find_durable_sub_messages = Pending(page, self._still_pending())
        page = self._given.take("findDurableSubMessagesByPriorityStatement", last_id="after")
        if page:
            pending = Pending(page, self._still_pending(by_lane=True))
            self.find_durable_sub_messages_by_priority = Lanes(pending, pending)
        if count := self._given.take("durableSubscriberMessageCountStatement"):
            own = self.durable_subscriber_message_count
            self.durable_subscriber_message_count = self._count_pending(count, own)
        if count := self._given.take("durableSubscriberMessageCountStatementWithPriority"):
            own = self.durable_subscriber_message_count_with_priority
            self.durable_subscriber_message_count_with_priority = self._count_pending(
                count, own, by_lane=True
            )

    def _still_pending(self, *, by_lane: bool = False) -> Sql:
        t = self._tables.messages

        def pending() -> Select[Any]:
            between = t.c.id.between(bindparam("after") + ONE, bindparam("up_to"))
            here = (self._here(t), t.c.xid.is_(None), between)
            return select(t.c.id).where(*here, self._is_behind_mark(by_lane), self._not_ahead())

        return self._compile(pending)

    def _count_pending(self, given: Sql, own: Statement, *, by_lane: bool = False) -> PendingCount:
        t = self._tables.messages

        def ahead() -> Select[Any]:
            count = select(func.count()).select_from(t)
            return count.where(self._here(t), self._is_behind_mark(by_lane), self._ahead_id() == t.c.id)

        return PendingCount(given, self._compile(ahead), self.find_in_doubt_messages, own)

    def _is_behind_mark(self, by_lane: bool) -> ColumnElement[bool]:
        t, acks = self._tables.messages, self._tables.acks
        mark = select(ONE).where(self._sub(acks), self._behind_mark(acks))
        if by_lane:
            mark = mark.where(acks.c.priority == self._priority())
        return exists(mark.correlate(t))
