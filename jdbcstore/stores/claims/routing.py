"""Queues, exchanges and bindings in the database: what routes messages to queues, for all processes.

Each change is counted, in its own transaction. So a process caches the routing, and the statement that adds
a message checks that there was no change since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.routing import RoutingStatements
from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.claims.claims import Claims
from jdbcstore.stores.claims.joined import JoinedTransaction
from jdbcstore.util.clock import Clock

T = TypeVar("T")

_MOST_KNOWN = 1000
"""Queues and exchanges in memory: there may be a new one for each client that awaits answers."""
_TRUSTED = 0.25
"""Seconds that a declaration trusts the cache without a query."""


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
    """The kind of an exchange: ``direct``, ``topic``, ``fanout``."""
    bindings: list[Binding]


Declaration = tuple[str, tuple[Any, ...]]
"""The kind of an exchange, queue or binding, and its arguments."""


def _check_name(name: str) -> None:
    if name.endswith(" "):  # which MariaDB and MySQL ignore
        raise InvalidDestination(f"the name {name[-200:]!r} ends with a blank; remove it")


class KnownRouting:
    """A cache of routing at a number of changes, or later. Thread-safe."""

    def __init__(self, version: int, clock: Clock, at: float) -> None:
        self.version = version
        """The number of changes."""
        self.checked_at = at
        """When that was last the number, at least; by the monotonic clock, as all times here."""
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], tuple[Any, float]] = {}
        self._assumed: dict[Declaration, float] = {}

    def get(self, kind: str, name: str) -> tuple[bool, Any]:
        """Return whether a queue or exchange is cached, and its value; none with an expired queue."""
        with self._lock:
            value, until = self._found.get((kind, name), (None, float("-inf")))
        return self._clock.monotonic() < until, value

    def put(self, kind: str, name: str, value: Any, until: float) -> None:
        """Keep it in memory until this time."""
        with self._lock:
            if len(self._found) >= _MOST_KNOWN:
                self._found.clear()
            self._found[kind, name] = value, until

    def assume(self, declaration: Declaration) -> None:
        """Note a declaration that was answered from the cache."""
        with self._lock:
            self._assumed[declaration] = self._clock.monotonic()

    def checked(self, at: float) -> None:
        """Note that there was no change: earlier assumptions hold."""
        self.checked_at = at
        with self._lock:
            self._assumed = {key: since for key, since in self._assumed.items() if since >= at}

    def take_assumed(self) -> list[Declaration]:
        """Return the declarations that are to be looked at after all."""
        with self._lock:
            assumed, self._assumed = [*self._assumed], {}
        return assumed


class Routing:
    """The queues, exchanges and bindings of a database. Thread-safe.

    Each method is durable on return, and raises StoreUnavailable if the database does not answer.

    :raises SchemaError: the tables are missing and must not be created
    """

    def __init__(self, claims: Claims, grace: float) -> None:
        self._claims = claims
        self._database = database = claims.database
        self._clock = database.clock
        self._grace_ms = round(grace * 1000)
        self._used: dict[str, float] = {}
        """When a use of queues that expire was last written down."""
        self._known: KnownRouting | None = None
        database.session.prepare_routing()
        database.session.drop_idle()
        self._sql = database.session.of(RoutingStatements)

    def _fetch(self, sql: Sql, **values: Any) -> list[Row]:
        return self._database.run(lambda connection: connection.fetch(sql, **values))

    def _change(self, *changes: tuple[Sql, dict[str, Any]]) -> None:
        def change(connection: Connection) -> None:
            with connection.transaction():
                for sql, values in changes:
                    connection.execute(sql, **values)
                connection.execute(self._sql.count_change)

        self._run(change)

    def _insert(self, sql: Sql, **values: Any) -> bool:
        """Return whether there was no such row before."""

        def insert(connection: Connection) -> bool:
            try:
                with connection.transaction():
                    connection.execute(sql, **values)
                    connection.execute(self._sql.count_change)
            except self._database.session.failures as error:
                if self._database.session.classify(error) is not Failure.DUPLICATE:
                    raise
                return False
            return True

        return self._run(insert)

    def _run(self, change: Callable[[Connection], T]) -> T:
        """Make a change; the next use reads queues and exchanges again."""
        try:
            return self._database.run(change)
        finally:
            self._known = None

    # In memory

    def _current(self) -> KnownRouting:
        known = self._known
        if known is None:
            at = self._clock.monotonic()
            [(version,)] = self._fetch(self._sql.find_version)
            known = self._known = KnownRouting(version, self._clock, at)
        return known

    def _assumes(self, kind: str, name: str, is_so: Callable[[Any], bool], declaration: Declaration) -> bool:
        """Return whether a declaration changes nothing, by a cache that was checked a moment ago."""
        known = self._known
        if known is None or self._clock.monotonic() - known.checked_at > _TRUSTED:
            return False
        there, value = known.get(kind, name)
        if not there or value is None or not is_so(value):
            return False
        known.assume(declaration)
        return True

    def _declare_assumed(self, known: KnownRouting | None) -> bool:
        """Declare assumed queues and exchanges; return whether there were any."""
        self._known = None
        assumed = [] if known is None else known.take_assumed()
        declare: dict[str, Callable[..., Any]] = {
            "exchange": self.declare_exchange,
            "queue": self.declare_queue,
            "binding": self.bind,
        }
        for kind, again in declare.items():  # bindings last: they need the others
            for declaration in (given for of_kind, given in assumed if of_kind == kind):
                again(*declaration)
        return bool(assumed)

    def _find(self, load: Callable[[str], T | None], name: str) -> T | None:
        """Read a queue or exchange; if it is missing, declare what was assumed to exist, and read again."""
        declared = load(name)
        return load(name) if declared is None and self._declare_assumed(self._known) else declared

    def known_queue(self, name: str) -> DeclaredQueue | None:
        """Return a queue as in memory; for :meth:`send`, which checks it."""
        there, queue = self._current().get("queue", name)
        return queue if there else self._load_queue(name)

    def known_exchange(self, name: str) -> Exchange | None:
        """Return an exchange as in memory; for :meth:`send`, which checks it."""
        there, exchange = self._current().get("exchange", name)
        return exchange if there else self._load_exchange(name)

    def _until(self, left_ms: int | None) -> float:
        return float("inf") if left_ms is None else self._clock.monotonic() + left_ms / 1000

    # Queues

    def declare_queue(self, name: str, message_ttl_ms: int | None, expires_ms: int | None) -> None:
        """Create a queue, or change the properties of the one there is; either counts as a use.

        :raises InvalidDestination: not every database tells it from another
        """
        _check_name(name)
        values = {
            "name_": name,
            "ttl_ms": message_ttl_ms,
            "expires_ms": expires_ms,
            "unused_ms": self._unused_ms(expires_ms),
        }
        wanted = DeclaredQueue(message_ttl_ms, expires_ms)
        now = self._clock.monotonic()
        # Celery declares some queues at each message: a use is written down once in a while.
        recent = expires_ms is None or now - self._used.get(name, float("-inf")) < self._grace_ms / 4000
        if recent and self._assumes("queue", name, wanted.__eq__, ("queue", (name, *wanted))):
            return
        declared = self._load_queue(name)
        if declared == wanted:
            if recent:
                return
            self._database.run(lambda connection: connection.execute(self._sql.change_queue, **values))
        else:
            if declared is None:
                self._remove_unused(name)
            if declared is not None or not self._insert(self._sql.add_queue, **values):
                self._change((self._sql.change_queue, values))
        if expires_ms is not None:
            if len(self._used) >= _MOST_KNOWN:
                self._used.clear()  # each costs a statement more
            self._used[name] = now

    def _unused_ms(self, expires_ms: int | None) -> int | None:
        # A consumer says only now and then that it uses the queue.
        return None if expires_ms is None else expires_ms + self._grace_ms

    def find_queue(self, name: str) -> DeclaredQueue | None:
        """Return a queue; None if there is none of this name."""
        return self._find(self._load_queue, name)

    def _load_queue(self, name: str) -> DeclaredQueue | None:
        known, queue, until = self._current(), None, float("inf")
        for ttl_ms, expires_ms, left_ms in self._fetch(self._sql.find_queue, name_=name):
            queue, until = DeclaredQueue(ttl_ms, expires_ms), self._until(left_ms)
        known.put("queue", name, queue, until)
        return queue

    def use_queue(self, name: str, expires_ms: int) -> bool:
        """Keep a queue from expiring; whether it is there."""
        values = {"name_": name, "unused_ms": self._unused_ms(expires_ms)}
        # Some drivers count only rows that have changed.
        used = self._database.run(lambda connection: connection.change(self._sql.use_queue, **values))
        return bool(used) or self._load_queue(name) is not None

    def remove_queue(self, name: str) -> int:
        """Delete a queue, its bindings and its unclaimed messages; return the number of messages."""
        named = {"name_": name}
        self._change((self._sql.remove_queue, named), (self._sql.remove_bindings_of_queue, named))
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
                connection.execute(self._sql.count_change)
                return True

        if not self._database.run(is_unused):
            return False
        self._claims.queue(Destination.queue(name)).purge()
        return self._run(remove)

    # Exchanges

    def find_exchange(self, name: str) -> Exchange | None:
        """Return an exchange with its bindings to queues that exist; None if there is none of this name."""
        return self._find(self._load_exchange, name)

    def _load_exchange(self, name: str) -> Exchange | None:
        known, rows = self._current(), self._fetch(self._sql.find_exchange, name_=name)
        bound = [row for row in rows if row[2] is not None]
        bindings = [Binding(key, queue, ttl_ms) for _, key, queue, ttl_ms, _ in bound]
        exchange = Exchange(rows[0][0], bindings) if rows else None
        known.put(
            "exchange", name, exchange, min((self._until(row[4]) for row in bound), default=float("inf"))
        )
        return exchange

    def declare_exchange(self, name: str, kind: str) -> str:
        """Create an exchange, if there is none of this name; its kind.

        :raises InvalidDestination: not every database tells it from another
        """
        _check_name(name)
        declaration = "exchange", (name, kind)
        if self._assumes("exchange", name, lambda exchange: exchange.kind == kind, declaration):
            return kind
        declared = self._load_exchange(name)
        if declared is None and self._insert(self._sql.add_exchange, name=name, kind=kind):
            return kind
        declared = declared or self._load_exchange(name)
        return declared.kind if declared else kind

    def remove_exchange(self, name: str) -> None:
        """Delete an exchange with its bindings."""
        named = {"name_": name}
        self._change((self._sql.remove_exchange, named), (self._sql.remove_bindings_of_exchange, named))

    def bind(self, exchange: str, queue: str, routing_key: str) -> bool:
        """Have an exchange route messages to a queue; false if there is no exchange of this name.

        :raises InvalidDestination: not every database tells the routing key from another
        """
        _check_name(routing_key)

        def is_bound(declared: Exchange) -> bool:
            return any(
                binding.queue == queue and binding.routing_key == routing_key for binding in declared.bindings
            )

        declaration = "binding", (exchange, queue, routing_key)
        if self._assumes("exchange", exchange, is_bound, declaration):
            return True
        declared = self.find_exchange(exchange)
        if declared is not None and not is_bound(declared):
            self._insert(self._sql.add_binding, exchange=exchange, queue=queue, routing_key=routing_key)
        return declared is not None

    def unbind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Undo :meth:`bind`."""
        key = {"exchange_": exchange, "queue_": queue, "routing_key_": routing_key}
        self._change((self._sql.remove_binding, key))

    def bindings(self) -> list[tuple[str, str, str]]:
        """Return all bindings, each as queue, exchange and routing key."""
        return [(queue, exchange, key) for queue, exchange, key in self._fetch(self._sql.find_bindings)]

    # Messages

    def send(self, route: Callable[[], Mapping[str, Message]], *, durable: bool = True) -> None:
        """Add messages, one to each of these queues, all or none.

        If not ``durable``, they may be lost if the database crashes soon afterwards, or a standby takes over.
        ``route`` is called with nothing, and again if the answers of :meth:`known_queue` and
        :meth:`known_exchange` have changed meanwhile.
        """
        while True:
            known, begun = self._current(), self._clock.monotonic()
            if self._send(route(), known.version, durable):
                known.checked(begun)
                return
            self._declare_assumed(known)

    def send_joined(self, route: Callable[[], Mapping[str, Message]], joined: JoinedTransaction) -> None:
        """Add messages, one to each of these queues, in the application's own transaction.

        ``route`` is as in :meth:`send`. Assumed declarations are made outside of it.

        :raises NotMaster: a broker or store serves the tables now
        """
        while True:
            known, begun = self._current(), self._clock.monotonic()
            messages = route()
            [(version,)] = self._fetch(self._sql.find_version)
            if version == known.version:
                known.checked(begun)
                break
            self._declare_assumed(known)
        for name, message in messages.items():
            joined.add(Destination.queue(name), message)

    def _send(self, messages: Mapping[str, Message], version: int, durable: bool) -> bool:
        queues = [self._claims.queue(Destination.queue(name)) for name in messages]
        self._database.lease.check()
        rows = [
            self._database.encode(queue.destination, message)
            for queue, message in zip(queues, messages.values(), strict=True)
        ]
        keyed = {queue.destination.qualified_name for queue in queues if queue.flow.files()}
        added = self._database.run(
            lambda connection: self._database.adder.add_routed(
                connection, rows, version, durable=durable, keyed=keyed
            )
        )
        if added:
            for queue in queues:
                queue.wake()
        return added
