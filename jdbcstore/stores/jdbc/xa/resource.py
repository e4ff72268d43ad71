"""XA transactions on ActiveMQ's tables: each phase is one database transaction of the writer's.

A phase may run again after a lost connection, whether its commit took effect or not: it finds out from the
XID columns which.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from jdbcstore.abc import PreparedTransaction
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.errors import SubscriptionNotFound
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.jdbc.acknowledgements import AcknowledgementTracker, Plan, by_subscription
from jdbcstore.stores.jdbc.writer.units import Unit
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.stores.jdbc.xa.column import ACKNOWLEDGED, ADDED, OURS_ALONE, encode_flag
from jdbcstore.stores.jdbc.xa.prepared import Branch, Subscription, columns_of, find_prepared
from jdbcstore.stores.shared.encoding import Name
from jdbcstore.stores.shared.transaction import (
    BufferedStore,
    BufferedXATransaction,
    check_xid,
    not_prepared,
    prepared_before,
    prepared_transactions,
)


class JdbcXAResource:
    """See :class:`jdbcstore.abc.XAResource`.

    ``forget`` discards the acknowledgements that the store caches of a topic.
    """

    def __init__(
        self, store: BufferedStore[Unit], session: Session, writer: Writer, forget: Callable[[str], None]
    ) -> None:
        self._store = store
        self._session = session
        self._writer = writer
        self._forget = forget

    def start(self, xid: XATransactionId) -> BufferedXATransaction[Unit]:
        check_xid(xid, self._session.config.name_lengths)
        writer = self._writer
        return BufferedXATransaction(
            self._store, Unit(), writer.execute, writer.submit, xid=xid, prepare=self._prepare
        )

    def _prepare(self, xid: XATransactionId, unit: Unit) -> bool:
        prepare = Prepare(self._session, xid, unit)
        prepared: bool = self._writer.call_numbered(prepare.count, prepare.run, adding=unit)
        return prepared

    def recover(self) -> list[PreparedTransaction]:
        branches = find_prepared(self._session, self._session.fetch).branches
        return prepared_transactions(
            (xid, writes) for xid, branch in branches.items() for writes in branch.writes()
        )

    def commit(self, xid: XATransactionId) -> None:
        commit = Commit(self._session, xid, self._forget)
        self._writer.call_numbered(commit.count, commit.run)

    def rollback(self, xid: XATransactionId) -> None:
        rollback = Rollback(self._session, xid, self._forget)
        self._writer.call_numbered(rollback.count, rollback.run, removed=lambda: rollback.names)


class Prepare:
    """The first phase; False if there is nothing to decide."""

    def __init__(self, session: Session, xid: XATransactionId, unit: Unit) -> None:
        self._session = session
        self._sql = session.xa_statements
        self._xid = xid
        self._unit = unit
        self._tried = False
        """A commit was sent."""

    def count(self, _connection: Connection) -> int:
        """How many sequences the messages take."""
        return len(self._unit.adds)

    def run(self, connection: Connection, first: int) -> bool:
        if self._is_there(connection):
            if self._tried:
                return True
            raise prepared_before(self._xid)
        added, acknowledged = (encode_flag(tag, self._xid) for tag in (ADDED, ACKNOWLEDGED))
        connection.add_messages([add.row(id_, added) for id_, add in enumerate(self._unit.adds, first)])
        flag = self._sql.update_xid_flag
        free = (key for key in self._unit.removes if self._may_flag(connection, *key))
        rows = [flag.row(container=container, id_=id_, xid_=acknowledged) for container, id_ in free]
        connection.execute_many(flag, rows)
        for tracker, messages in by_subscription(self._unit.acknowledgements).items():
            self._acknowledge(connection, tracker, messages)
        self._tried = True
        return self._is_there(connection)

    def _may_flag(self, connection: Connection, container: str, id_: int) -> bool:
        if not self._sql.looks_before_flagging:
            return True
        here = self._session.statements.find_priority_by_id
        free = all(xid is None for (xid,) in connection.fetch(self._sql.find_xid_by_id, id_=id_))
        return free and bool(connection.fetch(here, id_=id_, container=container))

    def _is_there(self, connection: Connection) -> bool:
        return self._xid in find_prepared(self._session, connection.fetch).branches

    def _acknowledge(
        self, connection: Connection, tracker: AcknowledgementTracker, messages: list[tuple[int, int]]
    ) -> None:
        sql, sub = self._sql, tracker.subscription
        for priority, up_to, alone, ids in tracker.reach(connection, messages):
            # A row of a subscription has one XID, which records up to where, not which messages.
            text = encode_flag(OURS_ALONE, self._xid)
            [(_, taken)] = connection.fetch(sql.find_mark, **sub, priority_=priority)
            if up_to is not None and taken is None:
                text = encode_flag(ACKNOWLEDGED, self._xid, up_to, priority)
                update = sql.update_durable_last_ack_with_priority_in_tx
                if alone:
                    update = sql.update_durable_last_ack_in_tx
                connection.execute(update, **sub, priority_=priority, xid_=text)
            add = sql.add_prepared
            connection.execute_many(add, [add.row(id_=id_, xid_=text, **sub) for id_ in ids])
        tracker.reset()


class _Outcome:
    """The second phase."""

    def __init__(self, session: Session, xid: XATransactionId, forget: Callable[[str], None]) -> None:
        self._session = session
        self._sql = session.xa_statements
        self._branch = Branch(xid)
        self._forget = forget
        """Discards the cached acknowledgements of a topic."""
        self._tried = False
        """A commit was sent."""

    def _find(self, connection: Connection) -> None:
        xid = self._branch.xid
        found = find_prepared(self._session, connection.fetch).branches.get(xid)
        if found is None and not self._tried:
            raise not_prepared(xid)
        self._branch = found or Branch(xid)

    def _flagged(self, connection: Connection, tag: bytes) -> list[Row]:
        """ID, MSGID_PROD, MSGID_SEQ and CONTAINER of the messages with this tag, in their order."""
        sql = self._sql.find_flagged
        return sorted(row for text in self._branch.texts(tag) for row in connection.fetch(sql, xid_=text))

    def _release(self, connection: Connection, rows: list[Row]) -> None:
        release = self._sql.release_xid_flag
        connection.execute_many(release, [release.row(id_=row[0]) for row in rows])

    def _clear_marks(self, connection: Connection) -> None:
        for mark in self._branch.marks:
            lane = {**columns_of(mark.subscription), "priority_": mark.priority}
            connection.execute(self._sql.clear_durable_last_ack_in_tx, **lane)
        for container, _, _ in self._branch.acknowledged:
            self._forget(container)


class Commit(_Outcome):
    """The second phase: added messages become visible, acknowledged ones are removed."""

    _added: list[int]

    def count(self, connection: Connection) -> int:
        """The number of messages that get a new sequence."""
        self._find(connection)
        self._added = [row[0] for row in self._flagged(connection, ADDED)]
        return len(self._added)

    def run(self, connection: Connection, first: int) -> None:
        clear = self._sql.clear_xid_flag
        renumbered = [clear.row(new_id=new, id_=id_) for new, id_ in enumerate(self._added, first)]
        connection.execute_many(clear, renumbered)
        gone = self._flagged(connection, ACKNOWLEDGED)
        self._release(connection, gone)
        connection.remove_messages([(container, id_) for id_, _, _, container in gone])
        self._clear_marks(connection)
        for subscription, texts in self._branch.acknowledged.items():
            self._acknowledge(connection, subscription, texts)
        self._tried = True

    def _acknowledge(self, connection: Connection, subscription: Subscription, texts: Iterable[str]) -> None:
        sql, sub = self._sql, columns_of(subscription)
        messages: list[tuple[int, int]] = []
        for text in texts:
            found = connection.fetch(sql.find_prepared, **sub, xid_=text)
            messages += [(id_, priority or 0) for id_, priority in found]
            connection.execute(sql.acknowledge_prepared, **sub, xid_=text)
        plan = Plan()
        # After an unsubscribe there is nothing to acknowledge.
        with contextlib.suppress(SubscriptionNotFound):
            tracker = AcknowledgementTracker(self._session.statements, *subscription)
            tracker.plan(connection, messages, plan)
        for statement, rows in plan.statements:
            connection.execute_many(statement, rows)


class Rollback(_Outcome):
    """The second phase: added messages are removed, acknowledged ones become visible again."""

    names: tuple[Name, ...] = ()
    """The message ids of the removed messages, after the run."""

    def count(self, connection: Connection) -> int:
        """No message gets a new sequence."""
        self._find(connection)
        return 0

    def run(self, connection: Connection, _first: int) -> None:
        added = self._flagged(connection, ADDED)
        self.names = tuple((producer, sequence) for _, producer, sequence, _ in added) or self.names
        self._release(connection, added + self._flagged(connection, ACKNOWLEDGED))
        connection.remove_messages([(container, id_) for id_, _, _, container in added])
        self._clear_marks(connection)
        for subscription, texts in self._branch.acknowledged.items():
            for text in texts:
                connection.execute(self._sql.remove_prepared, **columns_of(subscription), xid_=text)
        self._tried = True
