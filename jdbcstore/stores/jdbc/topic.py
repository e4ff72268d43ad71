"""A topic in the database: messages in ACTIVEMQ_MSGS, durable subscriptions in ACTIVEMQ_ACKS."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from jdbcstore.abc import Cursor, Page, Reference, SubscriptionInfo
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection, RemovalReason
from jdbcstore.errors import SchemaError
from jdbcstore.message.destination import Destination
from jdbcstore.stores.jdbc.acknowledgements import AcknowledgementTracker
from jdbcstore.stores.jdbc.queue import JdbcMessageStore
from jdbcstore.stores.jdbc.writer.units import WriteUnit
from jdbcstore.stores.shared.encoding import nothing
from jdbcstore.stores.shared.paging import PRIORITIES, read_page
from jdbcstore.stores.shared.rows import fits
from jdbcstore.stores.shared.subscriptions import (
    SubscribedTopic,
    check_subscription,
    subscription_exists,
    subscription_not_found,
)


class JdbcTopicMessageStore(JdbcMessageStore, SubscribedTopic[WriteUnit]):
    """See :class:`jdbcstore.abc.TopicMessageStore`."""

    def __init__(self, destination: Destination, prioritized: bool | None, **parts: Any) -> None:
        super().__init__(destination, prioritized, **parts)
        self._trackers: dict[tuple[str, str], AcknowledgementTracker] = {}
        self._doubted: WeakValueDictionary[tuple[str, str], AcknowledgementTracker] = WeakValueDictionary()
        """Trackers in use of subscriptions that may have been deleted: a subscription never has two."""
        self._lock = threading.Lock()

    def _looks_prioritized(self) -> bool:
        if super()._looks_prioritized():
            return True
        # A subscription has a row for each priority before the first message comes.
        return any(row[2] > 0 for row in self._fetch(self._sql.find_all_marks))

    def _subscribe(self, info: SubscriptionInfo, *, retroactive: bool) -> None:
        check_subscription(info, self._lengths)
        if self.prioritized:
            self._session.widen_acks_key()
        self._writer.call(lambda connection: self._create(connection, info, retroactive))

    def _create(self, connection: Connection, info: SubscriptionInfo, retroactive: bool) -> None:
        sub = _key(info.client_id, info.subscription_name)
        rows = connection.fetch(self._sql.find_durable_sub, container=self._container, **sub)
        if rows:
            existing = self._info(rows[0])
            if existing != info:
                raise subscription_exists(existing)
            return
        for container, client_id, name in connection.fetch(
            self._sql.find_taken_for_it, container=self._container, **sub
        ):
            # Equal by the comparison of the primary key, not by that of this statement.
            raise _taken_for(info, container, client_id, name, str(self._session.tables.acks.name))
        last = connection.fetch(self._sql.find_last_sequence_id_in_msgs)[0][0] or 0
        self.create(connection, info, -1 if retroactive else last, PRIORITIES if self.prioritized else 1)

    def create(self, connection: Connection, info: SubscriptionInfo, mark: int, lanes: int) -> None:
        """Create the rows of a subscription that has consumed everything up to a mark."""
        for priority in range(lanes):
            connection.execute(
                self._sql.create_durable_sub,
                container=self._container,
                sub_dest=info.subscribed_destination.qualified_name,
                selector=info.selector,
                last_acked_id=mark,
                priority=priority,
                xid=None,
                **_key(info.client_id, info.subscription_name),
            )

    def _info_of(self, client_id: str, subscription_name: str) -> SubscriptionInfo:
        return self._info(self.marks(client_id, subscription_name)[0])

    def subscriptions(self) -> list[SubscriptionInfo]:
        rows = self._fetch(self._sql.find_all_durable_subs)
        return list(dict.fromkeys(self._info(row) for row in rows))

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        self.marks(client_id, subscription_name)

        self._writer.call(lambda connection: self.delete(connection, client_id, subscription_name))

    def delete(self, connection: Connection, client_id: str, subscription_name: str) -> None:
        """Delete the rows of a subscription."""
        self._delete(connection, client_id, subscription_name)
        self._doubt_subscriptions()

    def remove_all_subscriptions(self) -> None:
        def delete(connection: Connection) -> None:
            if connection.fetch(self._sql.find_acknowledged_in_doubt, container=self._container):
                self._delete_decided(connection)
            else:
                connection.execute(self._sql.delete_destination_subscriptions, container=self._container)
                connection.execute(self._sql.remove_destination_acknowledged, container=self._container)
            self._doubt_subscriptions()

        self._writer.call(delete)

    def _delete_decided(self, connection: Connection) -> None:
        rows = connection.fetch(self._sql.find_all_marks, container=self._container)
        doubtful = connection.fetch(self._sql.find_subscriptions_in_doubt, container=self._container)
        for client_id, name in {(row[0], row[1]) for row in rows} - {tuple(row) for row in doubtful}:
            self._delete(connection, client_id, name)

    def _delete(self, connection: Connection, client_id: str, subscription_name: str) -> None:
        sub = {"container": self._container, **_key(client_id, subscription_name)}
        connection.execute(self._sql.delete_subscription, **sub)
        connection.execute(self._sql.remove_all_acknowledged, **sub)

    def in_doubt(self) -> set[int]:
        return {id_ for (id_,) in self._fetch(self._sql.find_acknowledged_in_doubt)}

    def marks(self, client_id: str, subscription_name: str) -> list[Row]:
        """Return the subscription's rows of ACTIVEMQ_ACKS, by priority."""
        rows = []
        length = self._lengths.string_id
        if fits(client_id, length) and fits(subscription_name, length):
            rows = self._fetch(self._sql.find_durable_sub, **_key(client_id, subscription_name))
        if not rows:
            raise subscription_not_found(client_id, subscription_name, self.destination)
        return rows

    def tracker(self, client_id: str, subscription_name: str) -> AcknowledgementTracker:
        """Return the tracker of one subscription's acknowledgements.

        Whether the subscription exists is checked when the tracker is used.
        """
        name = (client_id, subscription_name)
        with self._lock:
            tracker = self._trackers.get(name) or self._doubted.get(name)
            if tracker is None:
                tracker = AcknowledgementTracker(self._sql, self._container, *name)
                self._doubted[name] = tracker
            return tracker

    def acknowledgement(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> WriteUnit:
        unit = WriteUnit(nothing)
        self.acknowledge_for_in(unit, info.client_id, info.subscription_name, messages)
        return unit

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        sub = _key(info.client_id, info.subscription_name)
        marks = self._lane_marks(info)

        def fetch(lane: int | None, behind: int, count: int) -> list[Row]:
            priority = None if lane is None else marks[lane][0]
            query = self._sql.find_durable_sub_messages
            if priority is not None:
                query = self._sql.find_durable_sub_messages_by_priority.of(priority)
            pending: list[Row] = []
            while asked := count - len(pending):
                rows = self._fetch(query, **sub, priority=priority, after=behind, limit=asked)
                pending += self._still_pending(info, rows, lane or 0)
                if len(rows) < asked:
                    break
                behind = rows[-1][0]
            return pending

        return read_page(fetch, self._container, limit, after, [mark for _, mark in marks], self.complete)

    def _still_pending(self, info: SubscriptionInfo, rows: list[Row], lane: int) -> list[Row]:
        """Without messages acknowledged ahead of a gap that has closed since: only the mark shows these."""
        marks = self._lane_marks(info) if rows else []
        return [row for row in rows if row[0] > marks[lane][1]] if lane < len(marks) else rows

    def _lane_marks(self, info: SubscriptionInfo) -> list[tuple[int, int]]:
        return [(row[2], row[3] or 0) for row in self.marks(info.client_id, info.subscription_name)]

    def count_pending(self, info: SubscriptionInfo) -> int:
        rows = self.marks(info.client_id, info.subscription_name)
        values = _key(info.client_id, info.subscription_name)
        query = self._sql.durable_subscriber_message_count_with_priority
        if len(rows) == 1:
            query = self._sql.durable_subscriber_message_count
        counts = self._fetch(query, after=rows[0][3] or 0, **values)
        return int(counts[0][0])

    def acknowledge_in(self, writes: WriteUnit, messages: Sequence[Reference]) -> None:
        super().acknowledge_in(writes, messages)
        writes.committed.append(self.reset_trackers)

    def acknowledge_for_in(
        self, writes: WriteUnit, client_id: str, subscription_name: str, messages: Sequence[Reference]
    ) -> None:
        name = (client_id, subscription_name)
        tracker = self._trackers.get(name)
        if tracker is None:
            self.marks(client_id, subscription_name)
            tracker = self.tracker(*name)
            with self._lock:
                self._trackers[name] = tracker
        resolved = [
            pair for message in messages for pair in self.resolve(message, with_priority=self.prioritized)
        ]
        writes.acknowledgements.append((tracker, resolved))

    def remove_rows(self, connection: Connection, ids: Sequence[int], outcome: RemovalReason) -> int:
        removed = super().remove_rows(connection, ids, outcome)
        self.reset_trackers()
        return removed

    def reset_trackers(self) -> None:
        with self._lock:
            every = [*self._trackers.values(), *self._doubted.values()]
        for tracker in every:
            tracker.reset()

    def _doubt_subscriptions(self) -> None:
        """Check that subscriptions exist when they are next used."""
        self.reset_trackers()
        with self._lock:
            self._doubted.update(self._trackers)
            self._trackers.clear()

    def _info(self, row: Row) -> SubscriptionInfo:
        client_id, name, _, _, selector, pattern = row
        here = self.destination
        subscribed = here if pattern is None else Destination.named(pattern, here.kind)
        return SubscriptionInfo(client_id, name, here, subscribed, selector)


def _key(client_id: str, subscription_name: str) -> dict[str, str]:
    return {"client_id": client_id, "sub_name": subscription_name}


def _taken_for(info: SubscriptionInfo, container: str, client_id: str, name: str, table: str) -> SchemaError:
    """Return the error for two names of which the primary key, by its collation, holds one."""
    return SchemaError(
        f"the key of {table} takes the subscription {info.subscription_name!r} of client"
        f" {info.client_id!r} on {info.destination} for {name!r} of {client_id!r} on {container}, which"
        " exists: its collation does not distinguish them. Choose another name, or give the columns"
        " CONTAINER, CLIENT_ID and SUB_NAME a binary collation, there and in JDBCSTORE_ACKS",
    )
