"""A transport for kombu, and so for Celery, on claims; see docs/guide/celery.md.

``import jdbcstore.plugins.kombu`` registers URLs like ``jdbcstore+postgresql://user@host/database`` with
kombu.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from queue import Empty
from typing import Any

from amqp.protocol import queue_declare_ok_t
from kombu.entity import TRANSIENT_DELIVERY_MODE
from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.transport.base import RecoverableConnectionError, to_rabbitmq_queue_arguments
from kombu.utils.json import dumps, loads
from kombu.utils.uuid import uuid

import jdbcstore
from jdbcstore import Destination, Message
from jdbcstore.errors import (
    ClaimLost,
    DatabaseLocked,
    InvalidDestination,
    InvalidMessage,
    NotMaster,
    OutcomeUnknown,
    StoreClosed,
    StoreUnavailable,
)
from jdbcstore.plugins.sharing import SharedClaims, open_claims
from jdbcstore.plugins.turns import SHORTEST_PAUSE, LoopTurns, PollSchedule
from jdbcstore.stores.claims import Claim, ClaimQueue
from jdbcstore.stores.claims.routing import Exchange
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_BATCH = 10
"""The most messages in one claim."""
_LONGEST_NAME = 250
_AUTO_DELETE_MS = 300_000
"""Default time after which an auto-delete queue without a consumer is deleted."""
_TYPE = "kombu"
"""The JMSType of messages that kombu has sent."""
_PREFETCH_KEY = ""
"""Wake-up key of connections at their prefetch limit."""
_SETTLED = "-"
"""The prefix of delivery tags of messages that were removed before delivery."""


_joined: ContextVar[Any] = ContextVar("joined", default=None)
"""The application's connection whose transaction sends messages; None for a separate transaction."""


@contextmanager
def joined(connection: Any) -> Iterator[None]:
    """Send messages published in this context in the open transaction of the application's connection.

    Tasks and messages exist if and only if that transaction commits, like an outbox without another table.
    Workers see them within two seconds of the commit. The queues must have been declared before, by a worker
    or an earlier send, because declaring a queue is not part of the transaction. This applies to the current
    thread or asyncio task.

    :param connection: a connection to the transport's database: a connection or ORM session of SQLAlchemy, or
        a connection of the driver (in Django ``connection.connection``)
    :raises ConfigurationError: a message is published, and the connection cannot be joined
    """
    token = _joined.set(connection)
    try:
        yield
    finally:
        _joined.reset(token)


class LockedOut(ChannelError):  # type: ignore[misc]
    """Waiting for the lock of an SQLite file timed out; this thread's own transaction may hold it.

    Kombu does not retry, because each attempt would take as long. Celery's workers do retry.
    """


@contextmanager
def _trying_once(method: str) -> Iterator[None]:
    try:
        yield
    except DatabaseLocked as error:
        advice = "connect and declare queues before the transaction writes, and send inside it with joined()"
        raise LockedOut(f"{error}; {advice}", (50, 10), f"Channel.{method}", "405") from error


class QoS(virtual.QoS):  # type: ignore[misc]
    """The delivered messages of a channel, each with its claim."""

    def ack(self, delivery_tag: str) -> None:
        """Remove a message. Thread-safe.

        :raises ClaimLost: the claim was lost, and another process may have the message
        """
        self._settle(delivery_tag, ClaimQueue.acknowledge)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Remove a message, or return it to its place, which counts as a redelivery.

        :raises ClaimLost: the claim was lost, and another process may have the message
        """
        self._settle(delivery_tag, ClaimQueue.reject if requeue else ClaimQueue.acknowledge)

    def _settle(self, delivery_tag: str, how: Callable[[ClaimQueue, Claim], None]) -> None:
        try:
            self.channel.deliveries.settle(delivery_tag, how)
        except ClaimLost:
            # The message no longer counts: Celery only logs this error, and another message may be delivered.
            super().ack(delivery_tag)
            self.channel.deliveries.forget(delivery_tag)
            raise
        super().ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        """Return all messages to their places, which does not count as a redelivery."""
        self._flush()
        self._delivered.clear()
        self.channel.deliveries.release()
        return []


class Deliveries:
    """The claims of the messages that a channel has delivered, by delivery tag."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._claims: dict[str, tuple[ClaimQueue, Claim]] = {}
        self._numbers = itertools.count(1)

    def add(
        self, queue: ClaimQueue, claim: Claim, payload: dict[str, Any], *, no_ack: bool
    ) -> dict[str, Any]:
        """Return the message in kombu's form; with ``no_ack`` it is removed, otherwise it must be settled."""
        tag = f"{claim.sequence}.{next(self._numbers)}"
        if no_ack:
            queue.acknowledge(claim)
            tag = _SETTLED + tag
        else:
            self._claims[tag] = (queue, claim)
        payload["properties"]["delivery_tag"] = tag
        payload["properties"].setdefault("delivery_info", {})["redelivered"] = claim.redeliveries > 0
        return payload

    def settle(self, delivery_tag: str, how: Callable[[ClaimQueue, Claim], None]) -> None:
        """Settle the claim of a delivered message. Thread-safe.

        :raises ClaimLost: the claim was lost, and another process may have the message
        """
        if delivery_tag.startswith(_SETTLED):
            return
        if delivery_tag not in self._claims:
            raise ClaimLost((int(delivery_tag.partition(".")[0]),))
        queue, claim = self._claims[delivery_tag]
        if how is ClaimQueue.acknowledge and self._transport.turns is not None:
            # One statement settles all claims of a loop iteration; the loop does not wait for it.
            self._transport.shared.acknowledger.acknowledge(queue, claim)
        else:
            try:
                how(queue, claim)
            except OutcomeUnknown:
                if how is ClaimQueue.reject:
                    # The message returns by itself, and may already be claimed again.
                    self.forget(delivery_tag)
                raise
        self.forget(delivery_tag)

    def forget(self, delivery_tag: str) -> None:
        """Note that a claim is lost."""
        self._claims.pop(delivery_tag, None)
        self._transport.shared.claims.database.wakeups.notify(_PREFETCH_KEY)

    def release(self) -> None:
        """Return claimed messages to their places."""
        held: dict[ClaimQueue, list[Claim]] = {}
        while self._claims:
            _, (queue, claim) = self._claims.popitem()
            held.setdefault(queue, []).append(claim)
        for queue, claims in held.items():
            self._transport.shared.release(queue, claims)


class Channel(virtual.Channel):  # type: ignore[misc]
    """A channel: AMQP's queues, exchanges and bindings in the database."""

    QoS = QoS
    """Keeper of the delivered messages."""
    supports_fanout = True
    """Whether exchanges of the type fanout are supported."""

    def __init__(self, connection: Transport, **options: Any) -> None:
        super().__init__(connection, **options)
        self._shared = connection.shared
        self.routing = self._shared.routing
        """The queues, exchanges and bindings."""
        self.deliveries = Deliveries(connection)
        """The claims of the messages that were delivered."""
        self._without_ack: set[str] = set()
        self._schedules: dict[str, PollSchedule] = {}

    # Exchanges

    def exchange_declare(
        self,
        exchange: str | None = None,
        type: str = "direct",  # noqa: A002
        durable: bool = False,  # noqa: ARG002
        auto_delete: bool = False,  # noqa: ARG002
        arguments: Any = None,  # noqa: ARG002
        nowait: bool = False,  # noqa: ARG002
        passive: bool = False,
    ) -> None:
        """Declare an exchange. All exchanges are durable and never deleted automatically.

        :raises ChannelError: ``passive``, and it does not exist; or it has another type
        """
        type = type or "direct"  # noqa: A001
        exchange = exchange or f"amq.{type}"
        if passive:
            if self.routing.find_exchange(exchange) is None:
                raise _missing_exchange(exchange, "exchange_declare")
            return
        if type not in self.exchange_types:
            raise _error(f"NOT_IMPLEMENTED - no exchanges of the type {type!r}", 540, "exchange_declare")
        _check_length(exchange)
        with _trying_once("exchange_declare"):
            kind = self.routing.declare_exchange(exchange, type)
        if kind != type:
            raise _error(
                f"PRECONDITION_FAILED - the exchange {exchange!r} is of the type {kind!r}, not {type!r}",
                406,
                "exchange_declare",
            )

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:  # noqa: ARG002
        """Delete an exchange and its bindings; with ``if_unused`` only if it has no bindings."""
        if if_unused and self.get_table(exchange):
            return
        self.routing.remove_exchange(exchange)

    def get_exchanges(self) -> list[str]:
        """Return the names of exchanges that have bindings."""
        return sorted({exchange for _, exchange, _ in self.routing.bindings()})

    def get_table(self, exchange: str) -> list[tuple[str, Any, str]]:
        """Return the bindings of an exchange, for kombu's exchange types."""
        known = self.routing.find_exchange(exchange)
        return self._table(known) if known else []

    def _table(self, exchange: Exchange) -> list[tuple[str, Any, str]]:
        prepare = self.exchange_types[exchange.kind].prepare_bind
        return [prepare(binding.queue, None, binding.routing_key, None) for binding in exchange.bindings]

    def typeof(self, exchange: str, default: str = "direct") -> Any:
        """Return the type of an exchange."""
        known = self.routing.find_exchange(exchange)
        return self.exchange_types[known.kind if known else default]

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Bind a queue to an exchange.

        :raises ChannelError: the exchange does not exist
        """
        exchange = exchange or "amq.direct"
        if exchange.startswith("amq.") and exchange[4:] in self.exchange_types:
            self.exchange_declare(exchange, exchange[4:])
        _check_length(routing_key or "")
        with _trying_once("queue_bind"):
            is_bound = self.routing.bind(exchange, queue, routing_key or "")
        if not is_bound:
            raise _missing_exchange(exchange, "queue_bind")

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Undo :meth:`queue_bind`."""
        self.routing.unbind(exchange or "amq.direct", queue, routing_key or "")

    def list_bindings(self) -> Iterator[tuple[str, str, str]]:
        """Return all bindings, each as queue, exchange and routing key."""
        return iter(self.routing.bindings())

    # Queues

    def prepare_queue_arguments(self, arguments: Any, **options: Any) -> Any:
        """Return the arguments of a queue under RabbitMQ's names."""
        return to_rabbitmq_queue_arguments(arguments, **options)

    def queue_declare(
        self, queue: str | None = None, passive: bool = False, **options: Any
    ) -> queue_declare_ok_t:
        """Declare a queue. All queues are durable.

        The answer is its name and, if ``passive``, the number of claimable messages. Otherwise nothing is
        counted, because Celery declares some queues at each message, and counting takes longer with more
        messages.

        :raises ChannelError: ``passive``, and it does not exist
        """
        queue = queue or f"amq.gen-{uuid()}"
        if not passive:
            self._new_queue(queue, **options)
        elif not self._has_queue(queue):
            raise _error(f"NOT_FOUND - no queue {queue!r}", 404, "queue_declare")
        return queue_declare_ok_t(queue, self._size(queue) if passive else 0, 0)

    def _new_queue(self, queue: str, arguments: Any = None, auto_delete: bool = False, **_: Any) -> None:
        given = arguments or {}
        expires = given.get("x-expires")
        if expires is None and auto_delete:
            expires = _AUTO_DELETE_MS
        self._shared.queue(queue)  # this checks the name
        with _trying_once("queue_declare"):
            self.routing.declare_queue(queue, given.get("x-message-ttl"), expires)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return self.routing.find_queue(queue) is not None

    def _size(self, queue: str) -> int:
        return self._shared.queue(queue).count()[1]

    def _purge(self, queue: str) -> int:
        return self._shared.queue(queue).purge()

    def _delete(self, queue: str, *_: Any, **__: Any) -> None:
        self._shared.disuse(queue)
        self.routing.remove_queue(queue)

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any) -> None:
        """Delete a queue, with its bindings and its unclaimed messages.

        Only consumers of this connection count as users.
        """
        if (if_empty and self._size(queue)) or (if_unused and queue in self.connection.callbacks):
            return
        self._delete(queue)

    # Sending

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """Encode the body for storage: a string unchanged, bytes in ``encoding``."""
        if isinstance(body, str):
            return body, "utf-8"
        encoded: tuple[Any, str | None] = super().encode_body(body, encoding)
        return encoded

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **_: Any) -> None:
        """Add a message to the queues that the exchange routes it to, all or none; durable on return.

        As in AMQP, it is dropped if there are no such queues. Without an exchange, the routing key names the
        queue. On PostgreSQL a transient message, with the delivery mode 1, is not yet durable on return.
        """
        self._inplace_augment_message(message, exchange, routing_key)

        def route() -> dict[str, int | None]:
            targets = self._routed(exchange, routing_key)
            if not targets and self.deadletter_queue:
                self._new_queue(self.deadletter_queue)
                return {self.deadletter_queue: None}
            return targets

        self._send(route, message)

    def _routed(self, exchange: str, routing_key: str) -> dict[str, int | None]:
        """Return the queues for a message, each with its TTL."""
        if not exchange:
            queue = self.routing.known_queue(routing_key)
            return {} if queue is None else {routing_key: queue.message_ttl_ms}
        declared = self.routing.known_exchange(exchange)
        if declared is None:
            return {}
        kind = self.exchange_types[declared.kind]
        queues = kind.lookup(self._table(declared), exchange, routing_key, None)
        return {
            binding.queue: binding.message_ttl_ms for binding in declared.bindings if binding.queue in queues
        }

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:  # noqa: ARG002
        return [*self._routed(exchange, routing_key)]

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        self._send(lambda: self._routed("", queue), message)

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **_: Any) -> None:
        self._send(lambda: self._routed(exchange, routing_key), message)

    def _key_of(self, message: dict[str, Any]) -> str | None:
        header = self.connection.client.transport_options.get("key_header")
        key = (message.get("headers") or {}).get(header) if header else None
        return None if key is None else str(key)

    def _send(self, route: Callable[[], dict[str, int | None]], message: dict[str, Any]) -> None:
        properties = message["properties"]
        own = properties.get("expiration")
        own_ms = None if own is None else int(own)
        now_ms = self._shared.claims.database.clock.now_ms()
        made = Message(
            dumps(message),
            priority=self._get_message_priority(message),
            correlation_id=properties.get("correlation_id"),
            jms_type=_TYPE,
            group_id=self._key_of(message),
        )

        def limited(ttl_ms: int | None) -> Message:
            given = [limit for limit in (own_ms, ttl_ms) if limit is not None]
            return made.replace(expiration_ms=now_ms + min(given)) if given else made

        def routed() -> dict[str, Message]:
            return {queue: limited(ttl_ms) for queue, ttl_ms in route().items()}

        connection = _joined.get()
        with _trying_once("basic_publish"):
            if connection is not None:
                self.routing.send_joined(routed, self._shared.claims.join(connection))
            else:
                durable = properties.get("delivery_mode") != TRANSIENT_DELIVERY_MODE
                self.routing.send(routed, durable=durable)

    # Receiving

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[..., Any], consumer_tag: str, **options: Any
    ) -> None:
        """Consume from a queue.

        :raises ChannelError: it does not exist
        """
        declared = self.routing.find_queue(queue)
        if declared is None:
            raise _error(f"NOT_FOUND - no queue {queue!r}", 404, "basic_consume")
        self._shared.use(queue, declared.expires_ms)
        if no_ack:
            self._without_ack.add(queue)
        super().basic_consume(queue, no_ack, callback, consumer_tag, **options)
        self._shared.claims.database.wakeups.notify(_PREFETCH_KEY)

    def basic_cancel(self, consumer_tag: str) -> None:
        """Stop consuming."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None and queue not in self._active_queues:
            self._without_ack.discard(queue)
            self._shared.disuse(queue)

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> Any:
        """Claim the next message of a queue; None if there is none."""
        try:
            message = self.Message(self._get(queue, no_ack=no_ack), channel=self)
        except Empty:
            return None
        if not no_ack:
            self.qos.append(message, message.delivery_tag)
        return message

    def _get(self, queue: str, timeout: float | None = None, *, no_ack: bool = False) -> dict[str, Any]:
        claims = self._shared.queue(queue)
        while taken := claims.claim(wait=timeout or 0.0):
            if (payload := _readable(claims, taken[0])) is not None:
                return self.deliveries.add(claims, taken[0], payload, no_ack=no_ack)
        raise Empty

    def _get_and_deliver(self, queue: str, callback: Callable[..., Any]) -> None:
        """Deliver the claimable messages of a queue, up to the prefetch count."""
        allowed = self.qos.can_consume_max_estimate()
        limit = _BATCH if allowed is None else min(allowed, _BATCH)
        schedule, count = self._schedule(queue)
        if not limit or schedule.seconds(count):
            raise Empty
        claims = self._shared.queue(queue)
        left = claims.claim(limit)
        # The interval applies to all queues of the connection together.
        longest = (self.connection.polling_interval or SHORTEST_PAUSE) * len(self.connection.callbacks)
        schedule.record(more=len(left) == limit, count=count, longest=longest)
        if not left:
            raise Empty
        database = self._shared.claims.database
        clock, lease = database.clock, database.lease
        try:
            # A callback may have taken longer than the lease, for example in a suspended process.
            while left and queue in self._active_queues and lease.holds(left[0].session):
                no_ack = queue in self._without_ack
                payload = _readable(claims, left[0])
                if payload is None:
                    left.pop(0)
                    continue
                if not no_ack and (early := _seconds_early(payload, clock, self._shared.lease)) > 0:
                    try:
                        claims.release(left[0], delay=early)
                    except OutcomeUnknown:
                        left.pop(0)  # the message returns by itself, and may already be claimed again
                        raise
                    left.pop(0)
                    continue
                payload = self.deliveries.add(claims, left[0], payload, no_ack=no_ack)
                left.pop(0)
                callback(payload, queue)
        finally:
            self._shared.release(claims, left)

    def _schedule(self, queue: str) -> tuple[PollSchedule, int]:
        """Return the polling schedule of a queue, and the number of its wake-ups."""
        container = Destination.queue(queue).qualified_name
        database = self._shared.claims.database
        return self._schedules.setdefault(queue, PollSchedule(database.clock)), database.wakeups.count(
            container
        )[0]

    @property
    def looks_in(self) -> float:
        """Seconds until the next poll of a consumed queue; infinite without consumed queues."""
        if not self.qos.can_consume():
            return float("inf")
        schedules = (self._schedule(queue) for queue in self._active_queues)
        return min((schedule.seconds(count) for schedule, count in schedules), default=float("inf"))

    @property
    def containers(self) -> list[str]:
        """Wake-up keys of the consumed queues."""
        return [Destination.queue(name).qualified_name for name in self._active_queues]


def _seconds_early(payload: dict[str, Any], clock: Clock, lease: float) -> float:
    """Return the seconds for which a task must not be claimed: until its ETA, less the lease."""
    eta = (payload.get("headers") or {}).get("eta")
    if not isinstance(eta, str):
        return 0.0
    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return 0.0
    if due.tzinfo is None:  # the worker knows the kind
        return 0.0
    return due.timestamp() - clock.now_ms() / 1000 - lease


def _readable(queue: ClaimQueue, claim: Claim) -> dict[str, Any] | None:
    """Return kombu's payload, or None after dead-lettering a message that would crash a worker."""

    def payload(message: Message) -> dict[str, Any]:
        try:
            made = _payload(queue.destination.name, message)
            # Kombu's own message does this too, where nothing catches the error.
            (made.get("body") or "").encode()
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a kombu message: {error}") from error
        return made

    return queue.read(claim, payload)


def _payload(queue: str, message: Message) -> dict[str, Any]:
    """Return kombu's payload, or the payload of another client's message in kombu's form.

        :raises ValueError: it is damaged, or has kombu's type but not kombu's form
    :raises RecursionError: likewise
    """
    if message.jms_type == _TYPE and isinstance(message.body, str):
        return _checked(loads(message.body))
    body, type_, encoding = message.body, "text/plain", "utf-8"
    if isinstance(body, bytes):
        body, type_, encoding = virtual.Base64().encode(body), "application/data", "binary"
    elif not isinstance(body, str):
        whole = dict(body) if isinstance(body, Mapping) else body
        body, type_ = json.dumps(whole, default=str), "application/json"
    return {
        "body": body,
        "content-type": type_,
        "content-encoding": encoding,
        "headers": {**message.properties},
        "properties": {
            "body_encoding": "base64" if encoding == "binary" else "utf-8",
            "correlation_id": message.correlation_id,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": message.priority,
        },
    }


def _checked(sent: Any) -> dict[str, Any]:
    """Return an envelope with all fields that kombu and Celery require.

    :raises ValueError: a field is missing or wrong
    """
    properties = sent.get("properties") if isinstance(sent, dict) else None
    if not isinstance(sent, dict) or not isinstance(properties, dict):
        raise ValueError("it is not an object with properties")
    for where, name, kinds in (
        (sent, "body", str),
        (sent, "headers", dict),
        (sent, "content-type", str),
        (sent, "content-encoding", str),
        (properties, "delivery_info", dict),
        (properties, "body_encoding", str),
    ):
        if not isinstance(where.get(name), kinds | None):
            raise ValueError(f"its {name} is {type(where[name]).__name__}")
    encoding = str(properties.get("body_encoding") or "utf-8").lower()
    if encoding == "base64":
        virtual.Base64().decode(sent.get("body") or "")
    elif encoding != "utf-8":
        raise ValueError(f"the encoding {encoding[:80]!r} of its body is unknown")
    properties["body_encoding"] = encoding  # kombu accepts neither null nor upper case
    properties["delivery_info"] = properties.get("delivery_info") or {}
    return sent


def _error(text: str, code: int, method: str) -> ChannelError:
    return ChannelError(text, (50, 10), f"Channel.{method}", str(code))


def _missing_exchange(name: str, method: str) -> ChannelError:
    return _error(f"NOT_FOUND - no exchange {name!r}", 404, method)


def _check_length(name: str) -> None:
    if len(name) > _LONGEST_NAME:
        raise _error(f"{name[:40]!r}... has more than {_LONGEST_NAME} characters", 406, "exchange_declare")


class Transport(virtual.Transport):  # type: ignore[misc]
    """The transport of ``jdbcstore+`` URLs. The part behind the plus sign is the URL of the database."""

    Channel = Channel
    """The class of its channels."""
    can_parse_url = True
    """Whether kombu passes the URL unchanged."""
    driver_type = "jdbcstore"
    """Not ``sql``, because Celery switches its events off for that."""
    driver_name = "jdbcstore"
    """The name of this project."""
    connection_errors = (
        *virtual.Transport.connection_errors,
        StoreUnavailable,
        StoreClosed,
        NotMaster,
        ClaimLost,  # so that Celery logs it and continues
        LockedOut,
    )
    """The errors after which a caller connects again."""
    channel_errors = (*virtual.Transport.channel_errors, InvalidMessage, InvalidDestination)
    """The errors of a call that leave the connection usable."""
    recoverable_connection_errors = tuple(error for error in connection_errors if error is not LockedOut)
    """The errors after which kombu retries."""
    recoverable_channel_errors = ()
    """None of these, because the same call fails again."""
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False
    )
    """Features of the transport."""
    shared: SharedClaims
    """The claims of this process on the database, while the connection is established."""

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self._process: int | None = None
        self.turns: LoopTurns | None = None
        """The polling in an event loop, if there is one."""

    def driver_version(self) -> str:
        """Return the version of jdbcstore."""
        return jdbcstore.__version__

    @property
    def callbacks(self) -> dict[str, Any]:
        """The consumers' callbacks by the names of their queues."""
        callbacks: dict[str, Any] = self._callbacks
        return callbacks

    def establish_connection(self) -> Transport:
        """Connect to the database, and create the tables if they are missing.

        An SQLite file that stays locked, perhaps by a transaction of this thread, is a ChannelError.

        :raises StoreUnavailable: the database does not answer
        :raises NotMaster: a broker or a store with a locker uses the same tables
        """
        options = self.client.transport_options
        with _trying_once("open"):
            self.shared = open_claims.acquire(
                self.client.hostname,
                float(options.get("lease", 30.0)),
                int(options.get("max_redeliveries", -1)),
                options.get("dead_letters"),
                options.get("table_prefix", ""),
            )
        self._process = os.getpid()
        connected: Transport = super().establish_connection()
        return connected

    def close_connection(self, connection: Any) -> None:
        """Return claimed messages to their queues."""
        if self._process != os.getpid():
            # It belongs to the parent process, or was never established.
            self.turns = None
            self.channels.clear()
            self._avail_channels.clear()
            return
        super().close_connection(connection)
        if self.turns is not None:
            self.turns.close()
            self.turns = None
        self._process = None
        open_claims.release(self.shared)

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # noqa: ARG002
        """Deliver messages; wait for them up to ``timeout`` seconds, or without limit.

        :raises TimeoutError: there was none
        """
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        wakeups = self.shared.claims.database.wakeups
        while True:
            counts = {name: wakeups.count(name)[0] for name in self._names()}
            if self._deliver_some(timeout):
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            wakeups.wait_any(counts, min(self._looks_in(), left))

    def _deliver_some(self, timeout: float | None = None) -> bool:
        """Deliver from one queue; return whether there was a message."""
        if lost := self.shared.lost:
            raise RecoverableConnectionError(f"the queues {', '.join(lost)} have expired")
        try:
            self.cycle.get(self._deliver, timeout=timeout)
        except Empty:
            return False
        return True

    def _looks_in(self) -> float:
        channels: Sequence[Channel] = self.channels
        return min([self.polling_interval or SHORTEST_PAUSE, *(channel.looks_in for channel in channels)])

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:  # noqa: ARG002
        """Deliver messages from kombu's event loop until the connection is closed."""
        if self.turns is not None:
            if self.turns.loop is loop:
                return
            self.turns.close()
        wakeups = self.shared.claims.database.wakeups
        self.turns = LoopTurns(loop, wakeups, self._names, self._deliver_some, self._looks_in)

    def _names(self) -> list[str]:
        """Return the wake-up keys of this connection."""
        channels: Sequence[Channel] = self.channels
        return [_PREFETCH_KEY, *(name for channel in channels for name in channel.containers)]


TRANSPORT_ALIASES["jdbcstore"] = "jdbcstore.plugins.kombu:Transport"
