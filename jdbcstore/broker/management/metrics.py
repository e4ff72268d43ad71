"""Metrics for Prometheus at ``/metrics``, collected from the broker's counters at each scrape."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from jdbcstore.abc import JournalState
from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.views import BrokerView, DestinationView, MastershipView
from jdbcstore.config.users import VIEW
from jdbcstore.errors import StoreError
from jdbcstore.util.checkup import BAD, FIGURES, Checkup
from jdbcstore.util.stream_health import StreamHealth
from jdbcstore.util.timings import BOUNDS, Timings

OTHER = "other"
"""The label ``destination`` for all destinations beyond the limit."""
_COUNTERS = {
    "enqueued": "Messages that arrived.",
    "dequeued": "Messages that left: acknowledged, removed, moved, expired or dead.",
    "dispatched": "Deliveries to consumers, redeliveries included.",
    "expired": "Messages that expired.",
    "dead": "Messages that were moved to a dead letter queue.",
}
"""The description of each counter in views; a metric's name is ``jdbcstore_destination_FIELD_messages``."""
_GAUGES = {
    "size": ("messages", "Messages of a queue, including messages with consumers."),
    "in_flight": ("in_flight_messages", "Unacknowledged messages of consumers."),
    "consumers": ("consumers", "Consumers."),
    "producers": ("producers", "Connections that have sent to the destination."),
    "memory_used": ("memory_bytes", "Bytes of messages in memory."),
    "is_paused": ("paused", "Whether an administrator has paused its deliveries."),
    "oldest_age": ("oldest_message_age_seconds", "The age of the first message of a queue."),
}
_LABELS = ("type", "destination")
_WORK = {
    "commit": (
        "store_commit_seconds",
        "store_committed_rows",
        "Database transactions.",
        "Their rows.",
    ),
    "journal": ("journal_write_seconds", "journal_records", "Writes of the journal.", "Their records."),
}

_OF_STREAMS: dict[str, tuple[str, Callable[[StreamHealth], float | None]]] = {
    "writable": ("Whether the journal's stream is writable.", lambda health: health.problem is None),
    "wanted_replicas": (
        "The configured number of servers: the option replicas.",
        lambda health: health.replicas,
    ),
    "current_replicas": ("Servers that are up and have the whole stream.", lambda health: health.current),
    "messages": ("NATS messages in the stream.", lambda health: health.messages),
    "bytes": ("Their bytes.", lambda health: health.size),
    "limit_bytes": ("The stream's limit in bytes, if it has one.", lambda health: health.limit),
}
"""Each figure of a stream with its description and value; a metric's name is ``jdbcstore_stream_FIGURE``."""
_WAITING = {
    "transactions_in_doubt": "Prepared XA transactions that are neither committed nor rolled back.",
    "slow_connections": "Clients that do not read their messages.",
    "slow_consumers": "Consumers that have held messages for 30 seconds or more without acknowledging any.",
    "rejecting_consumers": "Consumers that have rejected more than half of their deliveries.",
}


class Metrics:
    """The page of metrics of one broker.

    :param most: the number of destinations with their own labels: the first ones seen
    :param folders: the folders whose disks are monitored
    """

    def __init__(self, views: Views, guard: Guard, most: int, folders: Iterable[Path] = ()) -> None:
        self._folders = tuple(folders)
        self._views = views
        self._guard = guard
        self._labelled = _Labelled(most)

    def application(self) -> web.Application:
        """Return an application to be mounted under ``/metrics``."""
        return served(self.page, self._guard)

    async def page(self) -> bytes:
        """Return all metrics in the text format."""
        views = self._views
        broker = views.broker(monotonic=True)
        named: Sequence[DestinationView] = ()
        other: _Other | None = None
        pending = (0, 0)
        dead: set[str] = set()
        checkup: Checkup | None = None
        journal: JournalState | None = None
        streams: Sequence[StreamHealth] = ()
        waiting: dict[str, int] = {}
        if broker.condition.serves:
            try:
                named, other = self._labelled.split(await views.destinations(monotonic=True))
                named = await views.with_ages(named)
                pending = views.pending()
                dead = {str(name) for name in views.dead_letter_queues()}
                checkup = await views.checkup()
                journal, streams = await views.journal(), await views.streams()
                failing = views.failing_consumers()
                waiting = {
                    "transactions_in_doubt": len(await views.transactions()),
                    "slow_connections": len(views.slow_clients()),
                    "slow_consumers": sum(consumer.is_slow for consumer in failing),
                    "rejecting_consumers": sum(consumer.rejects_most for consumer in failing),
                }
            except StoreError:  # the broker stopped serving meanwhile
                named, other = (), None
        families = [
            *_of_broker(broker, pending),
            *_of_lock(views.lock()),
            *_of_destinations(named, other, dead),
            *_of_work(views.timings()),
            *(_gauge(name, _WAITING[name], value) for name, value in waiting.items()),
            *_of_journal(journal),
            *of_streams(streams),
            *_of_disks(self._folders),
            *of_checkup(checkup),
        ]
        return await text_of(families)


def served(page: Callable[[], Awaitable[bytes]], guard: Guard) -> web.Application:
    """Return an application with a page of metrics for users with the role view."""

    async def answer(request: web.Request) -> web.Response:
        await guard.admit(request, VIEW)
        return web.Response(body=await page(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("", answer)
    return application


async def text_of(families: Sequence[Metric]) -> bytes:
    """Return metrics in the text format; made in a thread, so that clients do not wait."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(families))
    return await asyncio.to_thread(generate_latest, registry)


@dataclass(eq=False)
class _Given(Collector):
    families: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.families


@dataclass(frozen=True)
class _Other:
    """The sum of all destinations without their own labels."""

    count: int
    counters: dict[str, int]
    gauges: dict[str, float]


class _Labelled:
    """The selection of destinations with their own labels.

    A destination keeps its labels until the broker forgets it. The counters of the others include forgotten
    destinations, so that no counter falls, which Prometheus would take for a restart.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: set[str] = set()
        self._others: dict[str, tuple[int, ...]] = {}
        """The last counters of each destination."""
        self._ended = [0] * len(_COUNTERS)

    def split(self, views: Sequence[DestinationView]) -> tuple[list[DestinationView], _Other]:
        """Return the destinations with their own labels, and the others."""
        present = {view.name for view in views}
        self._named &= present
        for name in self._others.keys() - present:
            self._ended = [sum(pair) for pair in zip(self._ended, self._others.pop(name), strict=True)]
        named, others = [], []
        for view in views:
            if view.name not in self._named and view.name not in self._others:
                if len(self._named) < self._most:
                    self._named.add(view.name)
                else:
                    self._others[view.name] = ()
            if view.name in self._named:
                named.append(view)
            else:
                others.append(view)
                self._others[view.name] = tuple(getattr(view, field) for field in _COUNTERS)
        totals = [sum(column) for column in zip(self._ended, *self._others.values(), strict=True)]
        gauges: dict[str, float] = {
            field: sum(getattr(view, field) or 0 for view in others)
            for field in _GAUGES
            if field not in ("oldest_age", "is_paused")
        }
        return named, _Other(len(others), dict(zip(_COUNTERS, totals, strict=True)), gauges)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"jdbcstore_{name}", text, value=value)


def _of_broker(broker: BrokerView, pending: tuple[int, int]) -> Iterator[Metric]:
    yield InfoMetricFamily("jdbcstore_broker", "The broker.", value={"version": broker.version})
    condition = broker.condition
    labels = {"state": condition.state, "reason": condition.reason, "what_to_do": condition.what_to_do}
    yield InfoMetricFamily("jdbcstore_broker_condition", "Its state, and the reason for it.", value=labels)
    yield _gauge("broker_serving", "Whether it serves clients.", condition.serves)
    yield _gauge("broker_uptime_seconds", "Seconds since the process began.", broker.uptime)
    if not condition.serves:
        return
    yield _gauge("connections", "Connected clients.", broker.connections)
    yield _gauge("memory_used_bytes", "Bytes of messages in memory.", broker.memory_used)
    yield _gauge("memory_limit_bytes", "The option memory_limit.", broker.memory_limit)
    yield _gauge("temporary_used_bytes", "Bytes of messages in temporary files.", broker.temp_used)
    yield _gauge("temporary_limit_bytes", "The option temp_limit.", broker.temp_limit)
    text = "Messages that were rejected because the disk was nearly full."
    yield CounterMetricFamily("jdbcstore_broker_refused_messages", text, value=broker.refused)
    text = "Rows of the outbox that were moved to their destinations."
    yield CounterMetricFamily("jdbcstore_outbox_moved_rows", text, value=broker.moved)
    text = "Rows of the outbox that became dead letters, or stay there with an error."
    yield CounterMetricFamily("jdbcstore_outbox_bad_rows", text, value=broker.bad)
    kinds = GaugeMetricFamily("jdbcstore_destinations", "Queues and topics in memory.", labels=["type"])
    kinds.add_metric(["queue"], broker.queues)
    kinds.add_metric(["topic"], broker.topics)
    yield kinds
    for field, text in _COUNTERS.items():
        value = getattr(broker, field)
        yield CounterMetricFamily(f"jdbcstore_broker_{field}_messages", f"{text} All together.", value=value)
    count, size = pending
    yield _gauge("store_pending_writes", "Pending writes: waiting for the store, or running.", count)
    yield _gauge("store_pending_bytes", "Their bytes.", size)


def _of_lock(lock: MastershipView) -> Iterator[Metric]:
    yield _gauge("lock_held", "Whether this broker is the master.", lock.is_held)
    if lock.epoch is not None:
        yield _gauge("lock_epoch", "The epoch of this mastership.", lock.epoch)


def _of_destinations(
    named: Sequence[DestinationView], other: _Other | None, dead: Container[str]
) -> Iterator[Metric]:
    if other is None:
        return
    letters = GaugeMetricFamily(
        "jdbcstore_destination_dead_letter_queue", "Whether the queue is a dead letter queue.", labels=_LABELS
    )
    for view in named:
        letters.add_metric(_labels(view), view.name in dead)
    yield letters
    yield _gauge("destinations_without_labels", f'Destinations that are "{OTHER}".', other.count)
    for field, text in _COUNTERS.items():
        counter = CounterMetricFamily(f"jdbcstore_destination_{field}_messages", text, labels=_LABELS)
        for view in named:
            counter.add_metric(_labels(view), getattr(view, field))
        counter.add_metric((OTHER, OTHER), other.counters[field])
        yield counter
    for field, (name, text) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"jdbcstore_destination_{name}", text, labels=_LABELS)
        for view in named:
            value = getattr(view, field)
            if value is not None:
                gauge.add_metric(_labels(view), value)
        if field in other.gauges:
            gauge.add_metric((OTHER, OTHER), other.gauges[field])
        yield gauge


def _labels(view: DestinationView) -> tuple[str, str]:
    return "topic" if view.is_topic else "queue", view.name.partition("://")[2]


def _of_work(timings: dict[str, Timings]) -> Iterator[Metric]:
    for name, timing in timings.items():
        seconds, items, work, parts = _WORK[name]
        bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
        buckets = list(zip(bounds, accumulate(timing.buckets), strict=True))
        yield HistogramMetricFamily(f"jdbcstore_{seconds}", work, buckets=buckets, sum_value=timing.seconds)
        yield CounterMetricFamily(f"jdbcstore_{items}", parts, value=timing.items)


def _of_journal(journal: JournalState | None) -> Iterator[Metric]:
    if journal is not None:
        yield _gauge(
            "journal_pending_bytes",
            "Bytes of the journal that are not in the database yet.",
            journal.pending_bytes,
        )
        pending = journal.last_record - journal.applied
        yield _gauge(
            "journal_pending_records", "Records of the journal that are not in the database yet.", pending
        )
        yield _gauge("journal_limit_bytes", "The journal's option memory_limit.", journal.memory_limit)
        failed = journal.failure is not None
        yield _gauge("journal_checkpoint_failed", "Whether the last checkpoint failed.", failed)
        yield _gauge("journal_refused_messages", "Messages that the database rejected.", journal.refused)


def of_streams(streams: Sequence[StreamHealth]) -> Iterator[Metric]:
    """Yield the figures of the journals' streams, if there are any."""
    if not streams:
        return
    known = InfoMetricFamily("jdbcstore_stream", "The stream of a journal.", labels=["stream"])
    for stream in streams:
        known.add_metric([stream.name], {"sync": stream.sync, "leader": stream.leader or ""})
    yield known
    for name, (text, value) in _OF_STREAMS.items():
        gauge = GaugeMetricFamily(f"jdbcstore_stream_{name}", text, labels=["stream"])
        for stream in streams:
            number = value(stream)
            if number is not None:
                gauge.add_metric([stream.name], number)
        yield gauge
    if any(stream.members for stream in streams):
        yield from _of_members(streams)


def _of_members(streams: Sequence[StreamHealth]) -> Iterator[Metric]:
    labels = ["stream", "broker", "role"]
    follows = GaugeMetricFamily(
        "jdbcstore_follower_up", "Whether a broker with its own database follows the stream.", labels=labels
    )
    lag = GaugeMetricFamily(
        "jdbcstore_follower_lag_records",
        "Records of the stream that are missing in its database.",
        labels=labels,
    )
    for stream in streams:
        for member in stream.members:
            follows.add_metric(
                [stream.name, member.name, member.role], member.is_alive and not member.trouble
            )
            lag.add_metric([stream.name, member.name, member.role], member.lag)
    yield from (follows, lag)


def _of_disks(folders: Iterable[Path]) -> Iterator[Metric]:
    names = ("disk_free_bytes", "Free bytes on the disk of a folder."), ("disk_bytes", "Its size.")
    free, size = (GaugeMetricFamily(f"jdbcstore_{name}", text, labels=["folder"]) for name, text in names)
    for folder in folders:
        with suppress(OSError):
            usage = shutil.disk_usage(folder)
            free.add_metric([str(folder)], usage.free)
            size.add_metric([str(folder)], usage.total)
    yield from (free, size)


def of_checkup(checkup: Checkup | None) -> Iterator[Metric]:
    """Yield the figures, the server and the problems of a database."""
    if checkup is None:
        return
    if (server := checkup.server) is not None:
        facts = {
            "engine": server.engine,
            "version": server.version,
            "role": server.role or "",
            "nodes": "" if server.nodes is None else str(server.nodes),
        }
        yield InfoMetricFamily("jdbcstore_database", "The server of the database.", value=facts)
    for name, value in checkup.figures.items():
        yield _gauge(f"database_{name}", FIGURES[name], value)
    numbers = Counter((diagnosis.name, diagnosis.severity) for diagnosis in checkup.diagnoses)
    sick = GaugeMetricFamily(
        "jdbcstore_database_diagnoses", "Problems of the database.", labels=["name", "severity"]
    )
    for labels, number in numbers.items():
        sick.add_metric(labels, number)
    yield sick
    bad = any(diagnosis.severity == BAD for diagnosis in checkup.diagnoses)
    yield _gauge("database_sick", "Whether a problem harms the queues now.", bad)
