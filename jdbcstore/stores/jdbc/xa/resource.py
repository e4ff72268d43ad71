"""XA transactions on ActiveMQ's tables, prepared ones as their XID columns record them, also an ActiveMQ's.

Each phase is one database transaction of the writer's.
A phase may run again after a lost connection, whether its commit took effect or not: it finds out from the
XID columns which.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count as counted
from typing import Any

from jdbcstore.abc import PreparedTransaction, PreparedWrites
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.xa import XaStatements
from jdbcstore.errors import SubscriptionNotFound
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.jdbc.acknowledgements import (
    AcknowledgementPlan,
    AcknowledgementTracker,
    by_subscription,
)
from jdbcstore.stores.jdbc.bodies import claim_bodies, numbered, renumber_bodies
from jdbcstore.stores.jdbc.writer.units import WriteUnit
from jdbcstore.stores.jdbc.writer.writer import UnitWriter
from jdbcstore.stores.jdbc.xa.column import ACKNOWLEDGED, ADDED, OURS_ALONE, Flag, decode_flag, encode_flag
from jdbcstore.stores.shared._rows_cy import have_bodies
from jdbcstore.stores.shared.encoding import Name
from jdbcstore.stores.shared.transaction import (
    BufferedStore,
    BufferedXATransaction,
    check_xid,
    not_prepared,
    prepared_before,
    prepared_transactions,
)

log = logging.getLogger(__name__)

Fetch = Callable[..., list[Row]]
"""(statement, **values) -> its rows."""

Subscription = tuple[str, str, str]
"""Container, client id and name."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A row of ACTIVEMQ_ACKS with an XID."""

    subscription: Subscription
    priority: int
    last_acked: int
    text: str
    flag: Flag

    def pending(self, lanes: int) -> dict[str, Any]:
        """Return the parameters for the messages that the transaction acknowledges in this row.

        ``lanes`` is the number of the subscription's rows: a single one is for every priority.
        """
        values = {**columns_of(self.subscription), "after": self.last_acked, "up_to": self.flag.sequence}
        return values if lanes == 1 else {**values, "priority": self.priority}


@dataclass(slots=True)
class Branch:
    """One prepared transaction."""

    xid: XATransactionId
    messages: dict[tuple[bytes, str], dict[str, int]] = field(default_factory=dict)
    """(Tag, text) in ACTIVEMQ_MSGS -> container -> how many."""
    marks: list[Mark] = field(default_factory=list)
    acknowledged: dict[Subscription, dict[str, int]] = field(default_factory=dict)
    """Subscription -> text -> how many messages are acknowledged for it."""

    def texts(self, tag: bytes) -> list[str]:
        return [text for message_tag, text in self.messages if message_tag == tag]

    def writes(self) -> Iterator[PreparedWrites]:
        """Yield the messages and acknowledgements of this transaction, by destination and subscription."""
        for (tag, _), containers in self.messages.items():
            for container, count in containers.items():
                added, acknowledged = (count, 0) if tag == ADDED else (0, count)
                yield PreparedWrites(Destination.parse(container), added, acknowledged)
        for (container, client_id, name), texts in self.acknowledged.items():
            topic = Destination.parse(container, DestinationKind.TOPIC)
            yield PreparedWrites(topic, 0, sum(texts.values()), client_id, name)


@dataclass(slots=True)
class PreparedBranches:
    """All prepared transactions, and where JDBCSTORE_ACKS does not agree with ACTIVEMQ_ACKS."""

    branches: dict[XATransactionId, Branch] = field(default_factory=dict)
    unknown: list[tuple[Mark, int]] = field(default_factory=list)
    """Prepared by an ActiveMQ, so JDBCSTORE_ACKS has no rows for them; with the subscription's lanes."""
    decided: list[tuple[Subscription, str]] = field(default_factory=list)
    """Rows of JDBCSTORE_ACKS whose transactions an ActiveMQ has committed or rolled back."""

    def branch(self, flag: Flag) -> Branch:
        return self.branches.setdefault(flag.xid, Branch(flag.xid))


def find_prepared(session: DatabaseSession, fetch: Fetch) -> PreparedBranches:
    """Return every prepared transaction, read by ``fetch``."""
    branches, sql = PreparedBranches(), session.of(XaStatements)
    for text, container, count in fetch(sql.find_flags):
        flag = _read(text)
        if flag is not None and flag.tag in (ADDED, ACKNOWLEDGED):
            of_text = branches.branch(flag).messages.setdefault((flag.tag, text), {})
            of_text[container] = count
    for container, client_id, name, priority, last_acked, text in fetch(sql.find_acks_pending_outcome):
        flag = _read(text)
        if flag is not None:
            mark = Mark((container, client_id, name), priority, last_acked or 0, text, flag)
            branches.branch(flag).marks.append(mark)
    _find_acknowledged(session, fetch, branches)
    return branches


def _find_acknowledged(session: DatabaseSession, fetch: Fetch, branches: PreparedBranches) -> None:
    sql = session.of(XaStatements)
    marks = [mark for branch in branches.branches.values() for mark in branch.marks]
    said = {(mark.subscription, mark.text) for mark in marks}
    known = set()
    rows = fetch(sql.find_prepared_flags) if session.has_own_tables else ()
    for container, client_id, name, text, count in rows:
        flag, subscription = _read(text), (container, client_id, name)
        if flag is not None and (flag.tag == OURS_ALONE or (subscription, text) in said):
            branches.branch(flag).acknowledged.setdefault(subscription, {})[text] = count
            known.add((subscription, text))
        elif flag is not None:
            branches.decided.append((subscription, text))
    for mark in marks:
        if (mark.subscription, mark.text) not in known:
            lanes = len(fetch(session.statements.find_durable_sub, **columns_of(mark.subscription)))
            query = sql.count_between if lanes == 1 else sql.count_between_in_lane
            texts = branches.branch(mark.flag).acknowledged.setdefault(mark.subscription, {})
            texts[mark.text] = texts.get(mark.text, 0) + fetch(query, **mark.pending(lanes))[0][0]
            branches.unknown.append((mark, lanes))


def columns_of(subscription: Subscription) -> dict[str, str]:
    return dict(zip(("container", "client_id", "sub_name"), subscription, strict=True))


def _read(text: str) -> Flag | None:
    flag = decode_flag(text)
    if flag is None:
        log.warning("the XID %r was not written by a broker; its rows stay in doubt", text)
    return flag


def take_over(session: DatabaseSession, writer: UnitWriter) -> None:
    """Make the rows of JDBCSTORE_ACKS agree with what an ActiveMQ left, before anything is read by them.

    ActiveMQ stores how far a transaction acknowledges in the row of the subscription. Messages up to
    there are prepared and not delivered, except those that it has decided meanwhile.
    """
    branches = find_prepared(session, session.fetch)
    if branches.decided or branches.unknown:
        writer.call(lambda connection: _reconcile(session, connection))


def _reconcile(session: DatabaseSession, connection: Connection) -> None:
    sql = session.of(XaStatements)
    branches = find_prepared(session, connection.fetch)
    for subscription, text in branches.decided:
        connection.execute(sql.remove_prepared, **columns_of(subscription), xid_=text)
    for mark, lanes in branches.unknown:
        note = sql.add_prepared_between if lanes == 1 else sql.add_prepared_between_in_lane
        connection.execute(note, **mark.pending(lanes), xid_=mark.text)


class JdbcXAResource:
    """See :class:`jdbcstore.abc.XAResource`.

    ``forget`` discards the acknowledgements that the store caches of a topic.
    """

    def __init__(
        self,
        store: BufferedStore[WriteUnit],
        session: DatabaseSession,
        writer: UnitWriter,
        forget: Callable[[str], None],
    ) -> None:
        self._store = store
        self._session = session
        self._writer = writer
        self._forget = forget

    def start(self, xid: XATransactionId) -> BufferedXATransaction[WriteUnit]:
        check_xid(xid, self._session.config.name_lengths)
        return BufferedXATransaction(self._store, WriteUnit(), self._writer, xid=xid, prepare=self._prepare)

    def _prepare(self, xid: XATransactionId, unit: WriteUnit) -> bool:
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

    def __init__(self, session: DatabaseSession, xid: XATransactionId, unit: WriteUnit) -> None:
        self._session = session
        self._sql = session.of(XaStatements)
        self._xid = xid
        self._unit = unit
        self._tried = False
        """A commit was sent."""

    def count(self, _connection: Connection) -> int:
        return len(self._unit.adds)

    def run(self, connection: Connection, first: int) -> bool:
        if self._is_there(connection):
            if self._tried:
                return True
            raise prepared_before(self._xid)
        added, acknowledged = (encode_flag(tag, self._xid) for tag in (ADDED, ACKNOWLEDGED))
        if have_bodies(self._unit.adds):
            claim_bodies(self._session, connection, numbered(self._unit.adds, first))
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

    def __init__(self, session: DatabaseSession, xid: XATransactionId, forget: Callable[[str], None]) -> None:
        self._session = session
        self._sql = session.of(XaStatements)
        self._branch = Branch(xid)
        self._forget = forget
        """Discards the cached acknowledgements of a topic."""
        self._tried = False
        """A commit was sent."""

    def _find(self, connection: Connection) -> None:
        xid = self._branch.xid
        branch = find_prepared(self._session, connection.fetch).branches.get(xid)
        if branch is None and not self._tried:
            raise not_prepared(xid)
        self._branch = branch or Branch(xid)

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
        """Return the number of messages that get a new sequence."""
        self._find(connection)
        self._added = [row[0] for row in self._flagged(connection, ADDED)]
        return len(self._added)

    def run(self, connection: Connection, first: int) -> None:
        clear = self._sql.clear_xid_flag
        renumbered = [clear.row(new_id=new, id_=id_) for new, id_ in enumerate(self._added, first)]
        connection.execute_many(clear, renumbered)
        renumber_bodies(self._session, connection, zip(self._added, counted(first)))
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
            rows = connection.fetch(sql.find_prepared, **sub, xid_=text)
            messages += [(id_, priority or 0) for id_, priority in rows]
            connection.execute(sql.acknowledge_prepared, **sub, xid_=text)
        plan = AcknowledgementPlan()
        # After an unsubscribe there is nothing to acknowledge.
        with contextlib.suppress(SubscriptionNotFound):
            tracker = AcknowledgementTracker(self._session.statements, *subscription)
            tracker.plan(connection, messages, plan)
        plan.run(connection)


class Rollback(_Outcome):
    """The second phase: added messages are removed, acknowledged ones become visible again."""

    names: tuple[Name, ...] = ()
    """The message ids of the removed messages, after the run."""

    def count(self, connection: Connection) -> int:
        """Return no message gets a new sequence."""
        self._find(connection)
        return 0

    def run(self, connection: Connection, _first: int) -> None:
        added = self._flagged(connection, ADDED)
        self.names = tuple((producer, sequence) for _, producer, sequence, _ in added) or self.names
        self._release(connection, added + self._flagged(connection, ACKNOWLEDGED))
        connection.remove_messages([(container, id_) for id_, _, _, container in added], None)
        self._clear_marks(connection)
        for subscription, texts in self._branch.acknowledged.items():
            for text in texts:
                connection.execute(self._sql.remove_prepared, **columns_of(subscription), xid_=text)
        self._tried = True
