"""Prepared transactions as the XID columns of the tables record them, also those of an ActiveMQ."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jdbcstore.abc import PreparedWrites
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.stores.jdbc.xa.column import ACKNOWLEDGED, ADDED, OURS_ALONE, Flag, decode_flag

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
        """The parameters for the messages that the transaction acknowledges in this row.

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
        """The XID column values in ACTIVEMQ_MSGS with this tag."""
        return [text for found, text in self.messages if found == tag]

    def writes(self) -> Iterator[PreparedWrites]:
        """The messages and acknowledgements of this transaction, by destination and subscription."""
        for (tag, _), containers in self.messages.items():
            for container, count in containers.items():
                added, acknowledged = (count, 0) if tag == ADDED else (0, count)
                yield PreparedWrites(Destination.parse(container), added, acknowledged)
        for (container, client_id, name), texts in self.acknowledged.items():
            topic = Destination.parse(container, DestinationKind.TOPIC)
            yield PreparedWrites(topic, 0, sum(texts.values()), client_id, name)


@dataclass(slots=True)
class Found:
    """All prepared transactions, and where JDBCSTORE_ACKS does not agree with ACTIVEMQ_ACKS."""

    branches: dict[XATransactionId, Branch] = field(default_factory=dict)
    unknown: list[tuple[Mark, int]] = field(default_factory=list)
    """Prepared by an ActiveMQ, so JDBCSTORE_ACKS has no rows for them; with the subscription's lanes."""
    decided: list[tuple[Subscription, str]] = field(default_factory=list)
    """Rows of JDBCSTORE_ACKS whose transactions an ActiveMQ has committed or rolled back."""

    def branch(self, flag: Flag) -> Branch:
        return self.branches.setdefault(flag.xid, Branch(flag.xid))


def find_prepared(session: Session, fetch: Fetch) -> Found:
    """Every prepared transaction, read by ``fetch``."""
    found, sql = Found(), session.xa_statements
    for text, container, count in fetch(sql.find_flags):
        flag = _read(text)
        if flag is not None and flag.tag in (ADDED, ACKNOWLEDGED):
            of_text = found.branch(flag).messages.setdefault((flag.tag, text), {})
            of_text[container] = count
    for container, client_id, name, priority, last_acked, text in fetch(sql.find_acks_pending_outcome):
        flag = _read(text)
        if flag is not None:
            mark = Mark((container, client_id, name), priority, last_acked or 0, text, flag)
            found.branch(flag).marks.append(mark)
    _find_acknowledged(session, fetch, found)
    return found


def _find_acknowledged(session: Session, fetch: Fetch, found: Found) -> None:
    sql = session.xa_statements
    marks = [mark for branch in found.branches.values() for mark in branch.marks]
    said = {(mark.subscription, mark.text) for mark in marks}
    known = set()
    rows = fetch(sql.find_prepared_flags) if session.has_own_tables else ()
    for container, client_id, name, text, count in rows:
        flag, subscription = _read(text), (container, client_id, name)
        if flag is not None and (flag.tag == OURS_ALONE or (subscription, text) in said):
            found.branch(flag).acknowledged.setdefault(subscription, {})[text] = count
            known.add((subscription, text))
        elif flag is not None:
            found.decided.append((subscription, text))
    for mark in marks:
        if (mark.subscription, mark.text) not in known:
            lanes = len(fetch(session.statements.find_durable_sub, **columns_of(mark.subscription)))
            query = sql.count_between if lanes == 1 else sql.count_between_in_lane
            texts = found.branch(mark.flag).acknowledged.setdefault(mark.subscription, {})
            texts[mark.text] = texts.get(mark.text, 0) + fetch(query, **mark.pending(lanes))[0][0]
            found.unknown.append((mark, lanes))


def columns_of(subscription: Subscription) -> dict[str, str]:
    """A subscription's columns."""
    return dict(zip(("container", "client_id", "sub_name"), subscription, strict=True))


def _read(text: str) -> Flag | None:
    flag = decode_flag(text)
    if flag is None:
        log.warning("the XID %r was not written by a broker; its rows stay in doubt", text)
    return flag


def take_over(session: Session, writer: Writer) -> None:
    """Make the rows of JDBCSTORE_ACKS agree with what an ActiveMQ left, before anything is read by them.

    ActiveMQ stores how far a transaction acknowledges in the row of the subscription. Every message up to
    there is in doubt, and is not delivered; what it decided meanwhile is no longer in doubt.
    """
    found = find_prepared(session, session.fetch)
    if found.decided or found.unknown:
        writer.call(lambda connection: _reconcile(session, connection))


def _reconcile(session: Session, connection: Connection) -> None:
    sql = session.xa_statements
    found = find_prepared(session, connection.fetch)
    for subscription, text in found.decided:
        connection.execute(sql.remove_prepared, **columns_of(subscription), xid_=text)
    for mark, lanes in found.unknown:
        note = sql.add_prepared_between if lanes == 1 else sql.add_prepared_between_in_lane
        connection.execute(note, **mark.pending(lanes), xid_=mark.text)
