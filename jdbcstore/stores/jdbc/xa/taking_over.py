"""Taking over from an ActiveMQ: its prepared acknowledgements, message by message."""

from __future__ import annotations

from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.stores.jdbc.xa.found import columns_of, find_prepared


def take_over(session: Session, writer: Writer) -> None:
    """Make the rows of our own agree with what an ActiveMQ left, before anything is read by them.

    ActiveMQ says how far a transaction acknowledges, in the row of the subscription. Whatever is
    pending up to there is in doubt, and not delivered. What it decided in its turn is so no longer.
    """
    found = find_prepared(session, session.fetch)
    if found.decided or found.unknown:
        writer.call(lambda connection: _agree(session, connection))


def _agree(session: Session, connection: Connection) -> None:
    sql = session.xa_statements
    found = find_prepared(session, connection.fetch)
    for subscription, text in found.decided:
        connection.execute(sql.remove_prepared, **columns_of(subscription), xid_=text)
    for mark, lanes in found.unknown:
        note = sql.add_prepared_between if lanes == 1 else sql.add_prepared_between_in_lane
        connection.execute(note, **mark.pending(lanes), xid_=mark.text)
