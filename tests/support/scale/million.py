"""Two destinations in one table: a queue of up to a million messages, and a topic of as many, or fewer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text

import jdbcstore
from jdbcstore import Message
from jdbcstore.abc import MessageStore
from tests.support.databases import Database

MILLION = 1_000_000

_DOUBLINGS = 6
_DOUBLE = text(
    "INSERT INTO ACTIVEMQ_MSGS"
    " SELECT ID + :count, CONTAINER, MSGID_PROD, MSGID_SEQ + :count, EXPIRATION, MSG, PRIORITY, XID"
    " FROM ACTIVEMQ_MSGS WHERE ID > :after AND ID <= :after + :count"
)
_ACKNOWLEDGE_AHEAD = text(
    "INSERT INTO JDBCSTORE_ACKS (CONTAINER, CLIENT_ID, SUB_NAME, ID, MSGID_PROD, MSGID_SEQ)"
    " SELECT CONTAINER, 'client', 'second', ID, MSGID_PROD, MSGID_SEQ FROM ACTIVEMQ_MSGS"
    " WHERE CONTAINER = 'topic://NEWS' AND ID > :after"
)
_MARK = text("UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID = :mark WHERE SUB_NAME = :name")


class Million:
    """Queue BACKLOG has the first IDs, and topic NEWS those behind.

    NEWS has two durable subscriptions that have acknowledged nothing.
    """

    def __init__(self, database: Database, backlog: int, news: int) -> None:
        self.database = database
        self.backlog = backlog
        self.news = news
        self.gap = backlog + news // 2 + 1
        """The only message that a subscription still wants, once :meth:`acknowledge` was called."""
        self._is_acknowledged = False

    @contextmanager
    def filled(self) -> Iterator[Million]:
        """Fill the tables by way of a connection that is closed then, so that the server has counted it."""
        with self.database.engine.connect() as connection:
            with jdbcstore.open(self.database.url, cleanup_period=0) as store:
                for name in ("first", "second"):
                    store.topic("NEWS").subscribe("client", name, retroactive=True)
                _fill(connection, store.queue("BACKLOG"), 0, self.backlog)
            # Opened anew, it goes on behind what was filled in.
            with jdbcstore.open(self.database.url, cleanup_period=0) as store:
                _fill(connection, store.topic("NEWS"), self.backlog, self.news)
            if connection.dialect.name == "postgresql":
                # An autovacuum that has begun before the last rows sets their count to zero when it ends.
                connection.execute(text("ANALYZE ACTIVEMQ_MSGS"))
        yield self

    def acknowledge(self) -> None:
        """Both subscriptions consume NEWS, once, ``second`` half of it ahead of one message left out."""
        if self._is_acknowledged:
            return
        self._is_acknowledged = True
        with self.database.engine.connect() as connection:
            connection.execute(_MARK, {"name": "first", "mark": self.backlog + self.news})
            connection.execute(_MARK, {"name": "second", "mark": self.gap - 1})
            connection.execute(_ACKNOWLEDGE_AHEAD, {"after": self.gap})


def _fill(connection: Connection, destination: MessageStore, after: int, total: int) -> None:
    count = total >> _DOUBLINGS
    references = destination.add_messages([Message("x" * 200) for _ in range(count)])
    assert references[0].sequence == after + 1
    for _ in range(_DOUBLINGS):
        connection.execute(_DOUBLE, {"after": after, "count": count})
        count *= 2
    assert count == total
