"""Changes of the tables besides those of messages, each in a transaction, also for a record of a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import ADDRESS_ROW, LockStatements
from jdbcstore.message.destination import Destination
from jdbcstore.stores.jdbc.pauses import LONGEST_NAME, add_pause, remove_pause
from jdbcstore.stores.jdbc.topic import JdbcTopicMessageStore
from jdbcstore.stores.shared.operations import (
    ANNOUNCE,
    BEGIN,
    DROP_RECORD,
    PAUSE,
    RECORD_QUEUE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    RecordedOperation,
)

RECORDED = 11
"""PRIORITY of the row in ACTIVEMQ_ACKS by which ActiveMQ records a queue of a virtual topic."""


class Topics(Protocol):
    """A store of topics in the tables."""

    def topic(self, name: Destination, /) -> JdbcTopicMessageStore: ...


def operating(
    store: Topics, session: DatabaseSession, operation: RecordedOperation
) -> Callable[[Connection], None]:
    """Return a function that carries out an operation in a transaction, once."""

    def run(connection: Connection) -> None:
        def call(function: Callable[[Connection], None]) -> None:
            function(connection)

        facts = operation.facts
        if operation.kind == ANNOUNCE:
            announce(session, connection, [(kind, url) for kind, url in facts["addresses"]], facts["now_ms"])
            return
        if operation.kind == BEGIN:
            return
        place = operation.destination
        if operation.kind == SUBSCRIBE:
            _subscribe(store, session, connection, operation)
        elif operation.kind == UNSUBSCRIBE:
            store.topic(place).delete(connection, *operation.subscriber)
        elif operation.kind == RECORD_QUEUE:
            record_queue(session, connection, place.qualified_name)
        elif operation.kind == DROP_RECORD:
            drop_record(session, connection, place.qualified_name)
        elif operation.kind == PAUSE:
            add_pause(session, call, place, facts["user"], facts["now_ms"])
        else:
            remove_pause(session, call, place)

    return run


def _subscribe(
    store: Topics, session: DatabaseSession, connection: Connection, operation: RecordedOperation
) -> None:
    client_id, name = operation.subscriber
    place, facts = operation.destination, operation.facts
    values = {"container": place.qualified_name, "client_id": client_id, "sub_name": name}
    if not connection.fetch(session.statements.find_durable_sub, **values):
        store.topic(place).create(connection, operation.info, facts["mark"], facts["lanes"])


def record_queue(session: DatabaseSession, connection: Connection, container: str) -> None:
    """Record a queue, unless it is recorded or has a subscription."""
    sql, sub = session.statements, {"client_id": container, "sub_name": container}
    if not connection.fetch(sql.find_taken_for_it, container=container, **sub):
        row = {"selector": None, "last_acked_id": 0, "priority": RECORDED, "xid": None}
        connection.execute(sql.create_durable_sub, container=container, sub_dest=container, **row, **sub)


def drop_record(session: DatabaseSession, connection: Connection, container: str) -> None:
    """Undo :func:`record_queue`."""
    connection.execute(session.statements.delete_destination_subscriptions, container=container)


def announce(
    session: DatabaseSession, connection: Connection, addresses: Iterable[tuple[str, str]], since: int
) -> None:
    """Replace the addresses of the master; those too long for the table are left out."""
    sql = session.of(LockStatements)
    connection.execute(sql.remove_named, pattern=f"{ADDRESS_ROW}%")
    for name in sorted({f"{ADDRESS_ROW}{kind}:{url}" for kind, url in addresses}):
        if len(name) <= LONGEST_NAME:
            connection.execute(sql.add_named, name_=name, since=since)
