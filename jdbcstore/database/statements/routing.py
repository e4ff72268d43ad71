"""The statements of queues, exchanges and bindings; ``now`` in all of them is the database's clock."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, and_, bindparam, delete, literal_column, or_, select, update
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.schema import ROUTING_ROW
from jdbcstore.database.statements.builder import StatementBuilder


class RoutingStatements(StatementBuilder):
    """Declaring, finding and deleting what routes messages to queues.

    A queue that has been unused for too long does not exist any more, even before it is deleted.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._now: ColumnElement[int] = literal_column(self._adapter.now_ms, BigInteger())
        self.find_version, self.count_change = self._versioned(ROUTING_ROW)
        self._define_queues()
        self._define_exchanges()

    def _define_queues(self) -> None:
        q = self._tables.queues
        named = self._equal(q.c.name, bindparam("name_", type_=q.c.name.type))
        exists = self._exists()
        ttl = bindparam("ttl_ms", type_=BigInteger())
        expires = bindparam("expires_ms", type_=BigInteger())
        until = self._now + bindparam("unused_ms", type_=BigInteger())
        left = q.c.unused_until - self._now
        self.find_queue = self._compile(
            lambda: select(q.c.message_ttl, q.c.expires, left).where(named, exists)
        )
        """Its properties, and the milliseconds for which it exists without a use."""
        self.add_queue = self._compile(
            lambda: q.insert().values(
                name=bindparam("name_"), message_ttl=ttl, expires=expires, unused_until=until
            )
        )
        self.change_queue = self._compile(
            lambda: update(q).where(named).values(message_ttl=ttl, expires=expires, unused_until=until)
        )
        self.use_queue = self._compile(
            lambda: update(q).where(named, exists, q.c.expires.is_not(None)).values(unused_until=until)
        )
        self.find_unused_queues = self._compile(lambda: select(q.c.name).where(q.c.unused_until < self._now))
        self.lock_unused_queue = self._compile(
            lambda: self._adapter.locked(select(q.c.name).where(named, q.c.unused_until < self._now))
        )
        self.remove_queue = self._compile(lambda: delete(q).where(named))

    def _exists(self) -> ColumnElement[bool]:
        q = self._tables.queues
        return or_(q.c.unused_until.is_(None), q.c.unused_until >= self._now)

    def _define_exchanges(self) -> None:
        e, b, q = self._tables.exchanges, self._tables.bindings, self._tables.queues
        named = self._equal(e.c.name, bindparam("name_", type_=e.c.name.type))
        of_exchange = self._equal(b.c.exchange, bindparam("name_", type_=e.c.name.type))
        of_queue = self._equal(b.c.queue, bindparam("name_", type_=q.c.name.type))
        this = and_(
            *(
                self._equal(b.c[key], bindparam(f"{key}_", type_=b.c[key].type))
                for key in ("exchange", "queue", "routing_key")
            )
        )
        bound = e.outerjoin(b, b.c.exchange == e.c.name).outerjoin(
            q, and_(q.c.name == b.c.queue, self._exists())
        )
        self.find_exchange = self._compile(
            lambda: (
                select(e.c.kind, b.c.routing_key, q.c.name, q.c.message_ttl, q.c.unused_until - self._now)
                .select_from(bound)
                .where(named)
            )
        )
        """Its kind, with each of its bindings, as in ``find_queue``; the queue is NULL if there is none."""
        self.add_exchange = self._insert(e)
        self.remove_exchange = self._compile(lambda: delete(e).where(named))
        self.remove_bindings_of_exchange = self._compile(lambda: delete(b).where(of_exchange))
        self.remove_bindings_of_queue = self._compile(lambda: delete(b).where(of_queue))
        self.add_binding = self._insert(b)
        self.remove_binding = self._compile(lambda: delete(b).where(this))
        self.find_bindings = self._compile(lambda: select(b.c.queue, b.c.exchange, b.c.routing_key))
