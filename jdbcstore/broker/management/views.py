"""Views of a broker at one moment, for administrators. Durations are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jdbcstore import __version__
from jdbcstore.abc import PausedQueue, PreparedWrites
from jdbcstore.broker.condition import BrokerCondition
from jdbcstore.broker.consumer_watch import SLOW, ConsumerWatch
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.management.loads import ConsumerLoads
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.durable import Durable, DurableSubscriber
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.util.clock import Clock
from jdbcstore.util.timings import Timings


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """The name and addresses that distinguish a broker from others, also while it is not serving."""

    name: str = ""
    """The option ``broker_name``; the address if the option is the default."""
    address: str = ""
    """HOST:PORT of its management, for other machines."""
    database: str = ""
    """The URL of the database, without a password."""
    environment: str = ""
    """The option ``environment``; empty by default."""
    color: str = "gray"
    """Its colour, one of :data:`jdbcstore.config.broker.COLORS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """The whole broker, of this ``version``.

    ``connections`` counts clients that have logged in. ``enqueued``, ``dequeued``, ``dispatched``,
    ``expired`` and ``dead`` count messages of all destinations since it became the master.
    """

    name: str = ""
    """The broker's id for its connections: host, process, and the time of its start."""
    identity: BrokerIdentity = BrokerIdentity()
    """Its name, address, database and environment."""
    version: str = __version__
    """The version of jdbcstore."""
    condition: BrokerCondition
    """Its state, with the reason and what to do. Without service most other fields are 0."""
    uptime: float
    """Seconds since this process started."""
    addresses: tuple[str, ...] = ()
    """The addresses that clients connect to, as URIs."""
    connections: int = 0
    """Connections that are logged in."""
    connections_total: int = 0
    """Connections accepted since it became the master."""
    queues: int = 0
    """Queues in memory."""
    topics: int = 0
    """Topics in memory."""
    enqueued: int = 0
    """Messages of all destinations that arrived since it became the master, like the following counters."""
    dequeued: int = 0
    """Messages that left."""
    dispatched: int = 0
    """Deliveries."""
    expired: int = 0
    """Messages that expired."""
    dead: int = 0
    """Messages that went to a dead-letter queue."""
    refused: int = 0
    """Messages that were rejected because the disk was nearly full."""
    moved: int = 0
    """Rows of the outbox that were moved."""
    bad: int = 0
    """Rows of the outbox that became dead letters or stay with an error."""
    memory_used: int = 0
    """Bytes of messages in memory."""
    memory_limit: int = 0
    """The option of this name."""
    temp_used: int = 0
    """Bytes of messages in temporary files."""
    temp_limit: int = 0
    """The option of this name."""


class Activity(NamedTuple):
    """Messages per second in the last minute, and seconds since the last message; None if unknown."""

    enqueued: float | None
    dispatched: float | None
    dequeued: float | None
    idle: float | None


@dataclass(slots=True, kw_only=True)  # not frozen: that would take thrice as long to make thousands
class DestinationView:
    """A queue, or a topic if ``is_topic``. Its counters begin when it first is in the broker's memory."""

    name: str
    """The qualified name, such as ``queue://ORDERS``."""
    is_topic: bool
    """Whether it is a topic."""
    size: int | None = None
    """Messages of a queue, including unacknowledged ones; None for a topic."""
    ready: int | None = None
    """Messages of a queue that no consumer has; None for a topic, and if it is not known."""
    memory_limit: int = 0
    """Maximum bytes of its messages in memory: the policy's, or the broker's."""
    enqueued: int = 0
    """Messages that arrived since it was first in the broker's memory, like the following counters."""
    dequeued: int = 0
    """Messages that left: acknowledged, removed, moved, expired or dead."""
    dispatched: int = 0
    """Deliveries."""
    in_flight: int = 0
    """Unacknowledged messages of consumers."""
    expired: int = 0
    """Messages that expired."""
    dead: int = 0
    """Messages that went to a dead-letter queue."""
    consumers: int = 0
    """Consumers."""
    producers: int = 0
    """Connections that have sent to it."""
    memory_used: int = 0
    """Bytes of its messages in memory."""
    is_paused: bool = False
    """Whether an administrator paused its deliveries."""
    paused_by: str | None = None
    """The login or address of the administrator who paused it."""
    paused_since_ms: int | None = None
    """The time when it was paused."""
    average_wait: float | None = None
    """Average seconds from sending to delivery; None without a delivery."""
    enqueued_per_second: float | None = None
    """Arrivals per second in the last minute; None if not known, as for less busy destinations."""
    dispatched_per_second: float | None = None
    """Deliveries per second in the last minute."""
    dequeued_per_second: float | None = None
    """Messages per second that left in the last minute."""
    growth_per_second: float | None = None
    """Growth of a queue per second in the last minute, negative if it shrinks."""
    utilisation: float | None = None
    """Share of the prefetch limits of a queue's consumers that is in use; at 1 all of them are busy."""
    idle: float | None = None
    """Seconds without any of these, in steps of ten."""
    oldest_age: float | None = None
    """The age of a queue's first message; None if it is empty, and in lists without ``ages``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionView:
    """A client's connection. Its ``consumers`` have ``in_flight`` unacknowledged messages."""

    id: str
    """Its ID, for ``DELETE /api/connections/ID``."""
    client_id: str | None
    """The client ID of JMS or STOMP."""
    user: str
    """The login; empty without one."""
    peer: str
    """The client's address."""
    protocol: str
    """The protocol."""
    age: float
    """Seconds since it was accepted."""
    consumers: int
    """Consumers."""
    in_flight: int
    """Unacknowledged messages."""
    is_slow: bool
    """Whether the client does not read its output."""
    sends_to: tuple[str, ...]
    """Destinations that it has sent to, at most 1,000."""
    connector: str
    """The URI of the connector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionView:
    """A consumer, or a durable subscription without one.

    It has ``in_flight`` unacknowledged messages, out of ``dispatched`` deliveries.
    """

    destination: str
    """The destination; may have wildcards."""
    connection_id: str | None = None
    """The ID of the connection; None for a durable subscription without a consumer."""
    client: str = ""
    """The client of a consumer: its client id, user, address and connection."""
    client_id: str | None = None
    """The client id of JMS, if the subscription is durable."""
    name: str | None = None
    """The name of a durable subscription."""
    selector: str | None = None
    """Its selector, if it has one."""
    is_active: bool = False
    """Whether it has a consumer."""
    is_browser: bool = False
    """Whether it is a browser, which consumes nothing."""
    prefetch: int = 0
    """Maximum number of unacknowledged messages."""
    in_flight: int = 0
    """Unacknowledged messages."""
    dispatched: int = 0
    """Deliveries."""
    rejected: int = 0
    """Messages that it rejected."""
    pending: int | None = None
    """Unacknowledged messages of a durable subscription; None for others, and in lists without
    ``pending``."""
    consumer_id: str | None = None
    """The consumer's ID, if its client names it, or its number in the connection."""
    idle: float | None = None
    """Seconds without a delivery or an acknowledgement, in steps of ten; None without a consumer."""
    oldest_unacknowledged: float | None = None
    """Seconds since the delivery of its first unacknowledged message; None without one."""
    acknowledged_per_second: float | None = None
    """Acknowledgements per second in the last minute; None for a new consumer."""
    utilisation: float | None = None
    """Share of its prefetch limit that is in use; at 1 it receives no more. None without a limit."""
    unsettled: float | None = None
    """Seconds with unacknowledged messages and no acknowledgement, in steps of ten; otherwise None."""
    is_slow: bool = False
    """Whether ``unsettled`` is at least 30."""

    @property
    def rejects_most(self) -> bool:
        """Whether it has rejected more than half of its deliveries."""
        return rejects_most(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritesView:
    """The numbers of messages that the commit of an XA transaction adds to a destination and acknowledges.

    ``client_id`` and ``subscription_name`` name a durable subscription that it acknowledges for.
    """

    destination: str
    added: int
    acknowledged: int
    client_id: str | None
    subscription_name: str | None

    @classmethod
    def of(cls, writes: PreparedWrites) -> WritesView:
        """Return the view of a store's prepared writes."""
        return cls(
            destination=str(writes.destination),
            added=writes.added,
            acknowledged=writes.acknowledged,
            client_id=writes.client_id,
            subscription_name=writes.subscription_name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionView:
    """A prepared XA transaction: ``xid`` is neither committed nor rolled back."""

    xid: str
    """Its XID."""
    writes: tuple[WritesView, ...]
    """One entry for each destination and durable subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledView:
    """A scheduled message."""

    id: str
    """ActiveMQ's job ID."""
    destination: str
    """Its destination."""
    at_ms: int
    """The time of the next sending."""
    last_ms: int | None
    """The time of the last sending; None if there was none."""
    repeats: int
    """Repetitions after that; -1 repeats forever."""
    sequence: int
    """The ID of its row in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MastershipView:
    """The mastership of a broker."""

    is_held: bool
    """Whether this broker is the master."""
    epoch: int | None
    """The epoch of this mastership; None without a locker."""
    lost: str | None
    """The reason of its loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEvent:
    """A change of the mastership, seen by this process."""

    time_ms: int
    """The time of the change."""
    event: str
    """``waiting``, ``master``, ``lost`` or ``handed_over``."""
    epoch: int | None
    """The epoch of the mastership, if it is known."""
    detail: str | None
    """The holder of the lock, or the reason of its loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingsView:
    """Timings of one kind of work since the store was opened: done ``count`` times, with ``items`` in total.

    ``p95`` and ``p99`` are percentiles, like ``median``.
    """

    count: int
    items: int
    seconds: float
    """The total duration."""
    median: float | None
    """The median in seconds; None if it is above 10 s, or no work was done."""
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreView:
    """A store and its pending work."""

    kind: str
    """The kind of store."""
    pending_writes: int
    """Waiting or running writes."""
    pending_bytes: int
    """Their bytes."""
    last_sequence: int
    """The highest assigned sequence."""
    timings: Mapping[str, TimingsView]
    """``commit``: database transactions and their rows; ``journal``: journal writes and their records. Empty
    for a store that does not measure them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedView:
    """A created or existing durable subscription."""

    pending: int
    """Unacknowledged messages."""


_SHOWN = ("enqueued", "dequeued", "dispatched", "expired", "dead")


def values_of(counters: Counters) -> dict[str, int]:
    """Return the counters as fields of a view."""
    return {name: getattr(counters, name) for name in _SHOWN}


def rejects_most(consumer: SubscriptionView | BaseSubscription) -> bool:
    """Return whether a consumer has rejected more than half of its deliveries."""
    return consumer.rejected * 2 > consumer.dispatched


def destination_view(
    target: Queue | Topic,
    counters: Counters,
    loads: ConsumerLoads,
    producers: int,
    pause: PausedQueue | None,
    activity: Activity,
) -> DestinationView:
    """Return the current view of a queue or topic, with these counters."""
    queue = target if isinstance(target, Queue) else None
    name, size = target.destination, None if queue is None else queue.size
    in_flight = loads.held.get(name, 0)
    growth = None
    if queue is not None and activity.enqueued is not None and activity.dequeued is not None:
        growth = activity.enqueued - activity.dequeued
    average_wait = counters.waited_ms / counters.dispatched / 1000 if counters.dispatched else None
    return DestinationView(
        name=str(name),
        is_topic=queue is None,
        size=size,
        ready=None if size is None else max(size - in_flight, 0),
        in_flight=in_flight,
        consumers=target.consumer_count,
        producers=producers,
        memory_used=target.memory.used,
        memory_limit=target.memory.limit,
        is_paused=queue is not None and queue.is_paused,
        paused_by=None if pause is None else pause.user,
        paused_since_ms=None if pause is None else pause.since_ms,
        average_wait=average_wait,
        enqueued_per_second=activity.enqueued,
        dispatched_per_second=activity.dispatched,
        dequeued_per_second=activity.dequeued,
        growth_per_second=growth,
        utilisation=None if queue is None else loads.utilisation(name),
        idle=activity.idle,
        enqueued=counters.enqueued,
        dequeued=counters.dequeued,
        dispatched=counters.dispatched,
        expired=counters.expired,
        dead=counters.dead,
    )


def durable_of(subscription: BaseSubscription) -> Durable | None:
    """Return the durable subscription of a consumer, if it has one."""
    return subscription.durable if isinstance(subscription, DurableSubscriber) else None


def subscription_view(
    subscription: BaseSubscription, number: int, watch: ConsumerWatch, clock: Clock
) -> SubscriptionView:
    """Return the current view of a consumer, with its number in its connection, and its recorded progress."""
    request, now = subscription.request, clock.monotonic()
    unsettled, oldest_ms = watch.unsettled(subscription, now), subscription.oldest_ms
    prefetch = subscription.prefetch
    consumer_id = f"{request.connection_id}:{number}" if request.consumer_id is None else request.consumer_id
    return SubscriptionView(
        destination=str(request.destination),
        connection_id=request.connection_id,
        client=request.client,
        client_id=request.client_id,
        name=request.subscription_name,
        selector=request.selector,
        consumer_id=str(consumer_id),
        is_active=True,
        is_browser=request.browser,
        prefetch=prefetch,
        in_flight=len(subscription.held),
        dispatched=subscription.dispatched,
        rejected=subscription.rejected,
        idle=watch.idle(subscription, now),
        oldest_unacknowledged=None if oldest_ms is None else max(clock.now_ms() - oldest_ms, 0) / 1000,
        acknowledged_per_second=watch.acknowledged_per_second(subscription, now),
        utilisation=min(subscription.in_use / prefetch, 1.0) if prefetch else None,
        unsettled=unsettled,
        is_slow=unsettled is not None and unsettled >= SLOW,
    )


def offline_view(durable: Durable) -> SubscriptionView:
    """Return a durable subscription without a consumer."""
    client_id, name = durable.key
    return SubscriptionView(
        destination=str(durable.destination),
        client_id=client_id,
        name=name,
        selector=durable.selector,
    )


def timings_view(timings: Timings) -> TimingsView:
    """Return the timings of one kind of work."""
    median, p95, p99 = map(timings.quantile, (0.5, 0.95, 0.99))
    return TimingsView(
        count=timings.count, items=timings.items, seconds=timings.seconds, median=median, p95=p95, p99=p99
    )
