"""Queues, exchanges and bindings in the database: what routes messages to queues, for all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.claims.claims import Claims

_MOST_USED = 1000
"""Queues of which the last use is in memory: there may be a new one for each client that awaits answers."""


class DeclaredQueue(NamedTuple):
    """The properties of a queue."""

    message_ttl_ms: int | None
    """For how long a message can be claimed; None: without limit."""
    expires_ms: int | None
    """After how long without a use the queue is deleted; None: never."""


class Binding(NamedTuple):
    """A queue that an exchange routes messages to."""

    routing_key: str
    queue: str
    message_ttl_ms: int | None
    """As of the queue."""


class Exchange(NamedTuple):
    """An exchange with its bindings."""

    kind: str
    """What decides between bindings: ``direct``, ``topic``, ``fanout``."""
    bindings: list[Binding]


class Routing:
    """The queues, exchanges and bindings of a database. Thread-safe.

    Each method is durable on return, and raises StoreUnavailable if the database does not answer.

    :raises SchemaError: the tables are missing and must not be created
    """

    def __init__(self, claims: Claims, grace: float) -> None:
        self._claims = claims
        self._grace_ms = round(grace * 1000)
        self._used: dict[str, float] = {}
        """When a use of queues that expire was last written down."""
        claims.session.prepare_routing()
        self._sql = claims.session.routing_statements

    def _fetch(self, sql: Sql, **values: Any) -> list[Row]:
        return self._claims.run(lambda connection: connection.fetch(sql, **values))

    def _change(self, sql: Sql, **values: Any) -> int:
        return self._claims.run(lambda connection: connection.change(sql, **values))

    def _insert(self, sql: Sql, **values: Any) -> bool:
        """Whether there was no such row before."""

        def insert(connection: Connection) -> bool:
            try:
                connection.execute(sql, **values)
            except self._claims.session.failures as error:
                if self._claims.session.classify(error) is not Failure.DUPLICATE:
                    raise
                return False
            return True

        return self._claims.run(insert)

    def declare_queue(self, name: str, message_ttl_ms: int | None, expires_ms: int | None) -> None:
        """Create a queue, or change the properties of the one there is; either counts as a use."""
        values = {
            "name_": name,
            "ttl_ms": message_ttl_ms,
            "expires_ms": expires_ms,
            "unused_ms": self._unused_ms(expires_ms),
        }
        now = self._claims.clock.monotonic()
        found = self.find_queue(name)
        if found == (message_ttl_ms, expires_ms):
            # Celery declares some queues at each message: a use is written down once in a while.
            recent = now - self._used.get(name, float("-inf")) < self._grace_ms / 4000
            if expires_ms is None or recent:
                return
        if found is None:
            self._remove_unused(name)
        if found is not None or not self._insert(self._sql.add_queue, **values):
            self._change(self._sql.change_queue, **values)
        if expires_ms is not None:
            if len(self._used) >= _MOST_USED:
                self._used.clear()  # each costs a statement more
            self._used[name] = now

    def _unused_ms(self, expires_ms: int | None) -> int | None:
        # A consumer says only now and then that it uses the queue.
        return None if expires_ms is None else expires_ms + self._grace_ms

    def find_queue(self, name: str) -> DeclaredQueue | None:
        """A queue; None if there is none of this name."""
        found = self._fetch(self._sql.find_queue, name_=name)
        return DeclaredQueue(*found[0]) if found else None

    def use_queue(self, name: str, expires_ms: int) -> bool:
        """Keep a queue from expiring; whether it is there."""
        values = {"name_": name, "unused_ms": self._unused_ms(expires_ms)}
        # Some drivers count only rows that have changed.
        return bool(self._change(self._sql.use_queue, **values)) or self.find_queue(name) is not None

    def remove_queue(self, name: str) -> int:
        """Delete a queue, with its bindings and the messages that nobody has claimed; their number."""

        def remove(connection: Connection) -> None:
            with connection.transaction():
                connection.execute(self._sql.remove_queue, name_=name)
                connection.execute(self._sql.remove_bindings_of_queue, name_=name)

        self._claims.run(remove)
        return self._claims.queue(Destination.queue(name)).purge()

    def remove_unused_queues(self) -> list[str]:
        """Delete the queues that have expired; their names."""
        names = [row[0] for row in self._fetch(self._sql.find_unused_queues)]
        return [name for name in names if self._remove_unused(name)]

    def _remove_unused(self, name: str) -> bool:
        # Messages first: once the row is gone, the queue may be declared again, and get new ones.
        def is_unused(connection: Connection) -> bool:
            return bool(connection.fetch(self._sql.lock_unused_queue, name_=name))

        def remove(connection: Connection) -> bool:
            with connection.transaction():
                if not is_unused(connection):
                    return False
                connection.execute(self._sql.remove_queue, name_=name)
                connection.execute(self._sql.remove_bindings_of_queue, name_=name)
                return True

        if not self._claims.run(is_unused):
            return False
        self._claims.queue(Destination.queue(name)).purge()
        return self._claims.run(remove)

    def find_exchange(self, name: str) -> Exchange | None:
        """An exchange with its bindings to queues that exist; None if there is none of this name."""
        found = self._fetch(self._sql.find_exchange, name_=name)
        if not found:
            return None
        bindings = [Binding(key, queue, ttl) for _, key, queue, ttl in found if queue is not None]
        return Exchange(found[0][0], bindings)

    def declare_exchange(self, name: str, kind: str) -> str:
        """Create an exchange, if there is none of this name; its kind."""
        found = self.find_exchange(name)
        if found is None and self._insert(self._sql.add_exchange, name=name, kind=kind):
            return kind
        found = found or self.find_exchange(name)
        return found.kind if found else kind

    def remove_exchange(self, name: str) -> None:
        """Delete an exchange with its bindings."""

        def remove(connection: Connection) -> None:
            with connection.transaction():
                connection.execute(self._sql.remove_exchange, name_=name)
                connection.execute(self._sql.remove_bindings_of_exchange, name_=name)

        self._claims.run(remove)

    def bind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Have an exchange route messages to a queue."""
        if not self._fetch(self._sql.find_binding, **_key(exchange, queue, routing_key)):
            row = {"exchange": exchange, "queue": queue, "routing_key": routing_key}
            self._insert(self._sql.add_binding, **row)

    def unbind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Undo :meth:`bind`."""
        self._change(self._sql.remove_binding, **_key(exchange, queue, routing_key))

    def bindings(self) -> list[tuple[str, str, str]]:
        """All bindings, each as queue, exchange and routing key."""
        return [(queue, exchange, key) for queue, exchange, key in self._fetch(self._sql.find_bindings)]

    def send(self, messages: Mapping[str, Message]) -> None:
        """Add a message to each of these queues, all or none."""
        queues = {name: self._claims.queue(Destination.queue(name)) for name in messages}
        if len(messages) == 1:
            [(name, message)] = messages.items()
            queues[name].add(message)
            return
        rows = [self._claims.checked(queues[name].destination, one) for name, one in messages.items()]

        def add(connection: Connection) -> None:
            with connection.transaction():
                self._claims.add_rows(connection, rows)

        if rows:
            self._claims.run(add)
        for queue in queues.values():
            queue.wake()


def _key(exchange: str, queue: str, routing_key: str) -> dict[str, str]:
    return {"exchange_": exchange, "queue_": queue, "routing_key_": routing_key}
