"""Large bodies as the messages have them: the rows of JDBCSTORE_LARGE that a transaction reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import LARGE_ROW, create_large_tables
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.large import LargeStatements
from jdbcstore.errors import LargeBodyMissing, StoreError
from jdbcstore.message.openwire.pieces import has_body_in_pieces, read_head
from jdbcstore.stores.shared.rows import EncodedMessage


def has_large(session: DatabaseSession, connection: Connection | None = None) -> bool:
    """Return whether there are the tables of large bodies.

    :param connection: the transaction under way: where readers wait for writers, others would wait for it
    """
    fetch = session.fetch if connection is None else connection.fetch
    return session.has_own_tables and bool(fetch(session.statements.find_number, name_=LARGE_ROW))


def prepare_large(session: DatabaseSession) -> None:
    """Create the tables of large bodies, unless they are there.

    :raises SchemaError: one cannot be created, or is missing and must not be created
    """
    if not has_large(session):
        session.check_creates(session.tables.large, "large.sql")
        session.on_engine(lambda engine: create_large_tables(engine, session.adapter, session.tables))


def refuse_bodies(session: DatabaseSession) -> None:
    """Raise if there are large bodies: a journal cannot keep their messages.

    :raises StoreError: there are
    """
    if has_large(session) and session.fetch(session.of(LargeStatements).find_any, limit=1):
        raise StoreError(
            f"there are large bodies in pieces in {session.place}, and a journal cannot be in front of their"
            " messages; consume them without the journal, with min_large_message_size = 0, and begin again"
        )


def claim_bodies(
    session: DatabaseSession, connection: Connection, messages: Iterable[tuple[int, bytes]]
) -> None:
    """Note in a transaction that these messages, their IDs and MSG, have their large bodies.

    :raises LargeBodyMissing: one is not in this database, or is being removed
    """
    for id_, blob in messages:
        if has_body_in_pieces(blob):
            number, sql = read_head(blob).number, session.of(LargeStatements)
            if not has_large(session, connection) or not connection.change(sql.touch, number=number):
                raise LargeBodyMissing(number)
            connection.execute(sql.add, id=number, msg_id=id_, touched=0, begun=0)


def renumber_bodies(
    session: DatabaseSession, connection: Connection, numbers: Iterable[tuple[int, int]]
) -> None:
    """Note in a transaction that messages have other IDs: pairs of the old and the new one."""
    rows = [*numbers]
    if rows and has_large(session, connection):
        sql = session.of(LargeStatements).renumber
        connection.execute_many(sql, [sql.row(old_id=old, new_id=new) for old, new in rows])


def numbered(adds: Sequence[EncodedMessage], first: int) -> list[tuple[int, bytes]]:
    """Return the IDs and MSG of messages, from the first ID on."""
    return [(id_, add.blob) for id_, add in enumerate(adds, first)]
