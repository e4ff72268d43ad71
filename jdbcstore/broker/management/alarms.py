"""Alarms: problems of a broker, with advice.

Each is also an alert in docs/monitoring/alerts.yml, which Prometheus evaluates over the metrics.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from jdbcstore.abc import JournalState
from jdbcstore.broker.condition import BrokerState
from jdbcstore.broker.management.history import DEAD, ENQUEUED, INTERVAL, CounterHistory
from jdbcstore.broker.management.texts import bare, counted, duration, moment, rate
from jdbcstore.broker.management.views import (
    BrokerView,
    DestinationView,
    MastershipView,
    SubscriptionView,
    TransactionView,
)
from jdbcstore.message.destination import Destination
from jdbcstore.util.checkup import BAD, WARNING, Checkup
from jdbcstore.util.stream_health import DEGRADED, FULL, MISSED, STOPPED, UNSAFE, StreamHealth

_FULL = 0.8
_FREE = 0.1
_TEN_MINUTES, _THREE_MINUTES, _MINUTE = 60, 18, 6
_NAMED = 3
_DROP = "check the program; dropping its connection sends its messages to other consumers"
_GROWTH = 0.1
"""The share of a queue's arrivals that must stay in it."""
_STREAM_RULES = {
    STOPPED: "JdbcstoreStreamStopped",
    UNSAFE: "JdbcstoreStreamStopped",
    DEGRADED: "JdbcstoreStreamDegraded",
    FULL: "JdbcstoreStreamFull",
    MISSED: "JdbcstoreFollowerMissed",
}
_OLD = 3600.0
"""Seconds after which the first message of a queue is old."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A problem."""

    rule: str
    """The corresponding alert of Prometheus."""
    level: str
    text: str
    """The text, which never comes from users."""
    help: str
    """The advice."""
    names: tuple[str, ...] = ()
    """The first affected destinations."""
    more: int = 0
    """The number of other affected destinations."""
    after: str = ""
    """The sentence about the destinations, after their names."""
    page: str | None = None
    """The page with details."""
    since_ms: int | None = None
    """The time when the problem began, if it is known."""
    operation: str = ""
    """The operation that helps, if there is one: an action of the console."""
    target: str = ""
    """The queue or the connection for the operation."""
    silenced_until_ms: int | None = None
    """The time until which an administrator silenced it."""
    key: str = ""
    """The name of this problem, the same while it concerns the same destinations."""

    def named(self) -> Alarm:
        """Return the alarm with its key."""
        text = "\0".join((self.rule, *sorted(self.names), str(self.more), "" if self.names else self.target))
        return replace(self, key=sha256(text.encode(errors="surrogatepass")).hexdigest()[:16])


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The input of alarms at one moment."""

    broker: BrokerView
    lock: MastershipView
    now_ms: int
    folders: Iterable[Path] = ()
    """The folders whose disks are monitored."""
    history: CounterHistory
    views: Sequence[DestinationView] = ()
    dead: Iterable[Destination] = ()
    """The dead letter queues."""
    largest: Sequence[DestinationView] = ()
    """The largest queues, with the age of their first message."""
    in_doubt: Sequence[TransactionView] = ()
    """The prepared transactions."""
    slow_clients: Sequence[str] = ()
    """Clients that do not read their messages."""
    failing_consumers: Sequence[SubscriptionView] = ()
    """Consumers that have held messages for long without acknowledging any, or reject most."""
    journal: JournalState | None = None
    streams: Sequence[StreamHealth] = ()
    """The streams of journals."""
    checkup: Checkup | None = None
    """The state of the database."""


def alarms(now: Watched) -> list[Alarm]:
    """Return all alarms, the most severe first, then by harm: no service, no writes, the database, growth,
    stuck consumers, dead letters, no consumers."""
    return sorted(_alarms(now), key=lambda alarm: alarm.level != BAD)


def _alarms(now: Watched) -> Iterator[Alarm]:
    if now.lock.lost is not None:
        help_ = (
            "check the log and the database; another broker may be the master, or this one is "
            "waiting for the lock"
        )
        yield Alarm("JdbcstoreNoMaster", BAD, f"The lock is lost: {now.lock.lost}", help_, page="broker")
    condition = now.broker.condition
    if not condition.serves:
        if condition.state is not BrokerState.WAITING:
            text = f"The broker is not serving: {replace(condition, what_to_do='')}"
            help_ = condition.what_to_do or "check its log, and run jdbcstore doctor"
            yield Alarm("JdbcstoreNoMaster", BAD, text, help_, since_ms=condition.since_ms)
        return
    if condition.state is BrokerState.READ_ONLY:
        text = f"The broker rejects messages: {condition.reason}"
        yield Alarm("JdbcstoreReadOnly", BAD, text, condition.what_to_do, since_ms=condition.since_ms)
    for diagnosis in () if now.checkup is None else now.checkup.diagnoses:
        text = f"The database: {diagnosis.name}. {diagnosis.text}"
        yield Alarm("JdbcstoreDatabaseSick", diagnosis.severity, text, diagnosis.cure, page="database")
    yield from _of_space(now.broker, now.folders)
    yield from _of_journal(now.journal)
    yield from _of_streams(now.streams)
    dead = {str(name) for name in now.dead}
    waiting = [view for view in now.views if view.name not in dead]
    yield from _of_growth(now, waiting)
    yield from _of_slow_consumers(now)
    yield from _of_rejecting_consumers(now)
    if now.slow_clients:
        names = now.slow_clients
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        does = (
            "client does not read its messages" if len(names) == 1 else "clients do not read their messages"
        )
        yield Alarm(
            "JdbcstoreSlowClient",
            WARNING,
            f"{len(names):,} {does}:",
            _DROP,
            after=", ".join(names[:_NAMED]) + more,
            page="connections",
        )
    yield from _of_dead_letters(now)
    if now.in_doubt:
        what = "1 transaction is" if len(now.in_doubt) == 1 else f"{len(now.in_doubt):,} transactions are"
        yield Alarm(
            "JdbcstoreInDoubt",
            WARNING,
            f"{what} prepared, but neither committed nor rolled back",
            "restart the transaction manager; only if it never returns, commit or roll back here",
            page="transactions",
        )
    yield from _of_backlogs(now, waiting)


def _of_growth(now: Watched, views: Sequence[DestinationView]) -> Iterator[Alarm]:
    growing = [
        (slope, view)
        for view in views
        if _may_grow(view)
        if (slope := _slope(now.history, Destination.parse(view.name))) is not None
    ]
    growing.sort(key=lambda pair: -pair[0])
    if not growing:
        return
    slopes = " and ".join(rate(slope) for slope, _ in growing[:_NAMED])
    size = f", and has {counted(growing[0][1].size or 0, 'message')}"
    yield from _about(
        "JdbcstoreGrowingBacklog",
        "",
        "add consumers, or find the cause of their slowness",
        [view.name for _, view in growing],
        f"grows by {slopes}{size}",
        f"queues grow, by {slopes}:",
        since_ms=now.now_ms - int(1000 * _THREE_MINUTES * INTERVAL),
    )


def _may_grow(view: DestinationView) -> bool:
    """Return whether a queue with consumers grew in the last minute, as far as that is known."""
    growth = view.growth_per_second
    return view.consumers > 0 and not view.is_paused and (growth is None or growth > 0)


def _of_slow_consumers(now: Watched) -> Iterator[Alarm]:
    slow = [consumer for consumer in now.failing_consumers if consumer.is_slow]
    slow.sort(key=lambda consumer: -(consumer.unsettled or 0.0))
    if slow:
        longest, first = slow[0].unsettled or 0.0, slow[0].connection_id or ""
        what = "consumer has" if len(slow) == 1 else "consumers have"
        yield from _about(
            "JdbcstoreSlowConsumer",
            f"{len(slow):,} {what} held messages for {duration(longest)} without acknowledging any, from",
            _DROP,
            sorted({consumer.destination for consumer in slow}),
            page="consumers",
            since_ms=now.now_ms - int(1000 * longest),
            operation="drop" if len(slow) == 1 else "",
            target=first,
        )


def _of_rejecting_consumers(now: Watched) -> Iterator[Alarm]:
    rejecting = [consumer for consumer in now.failing_consumers if consumer.rejects_most]
    if rejecting:
        is_one, first = len(rejecting) == 1, rejecting[0]
        what = "consumer has" if is_one else "consumers have"
        yield from _about(
            "JdbcstoreRejectingConsumer",
            f"{len(rejecting):,} {what} rejected more than half of the messages from",
            "check the program and the causes of its dead letters",
            sorted({consumer.destination for consumer in rejecting}),
            f"(client {first.client})" if is_one else "",
            page="consumers",
            operation="drop" if is_one else "",
            target=first.connection_id or "",
        )


def _of_space(broker: BrokerView, folders: Iterable[Path]) -> Iterator[Alarm]:
    for folder in folders:
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        if usage.free < _FREE * usage.total:
            text = f"The disk of {folder} has only {100 * usage.free // usage.total} % free"
            yield Alarm("JdbcstoreDiskLow", BAD, text, "free space, or move the folder to a larger disk")
    for used, limit, what, rule in (
        (broker.memory_used, broker.memory_limit, "memory_limit", "JdbcstoreMemoryFull"),
        (broker.temp_used, broker.temp_limit, "temp_limit", "JdbcstoreTemporaryFilesFull"),
    ):
        if limit and used > _FULL * limit:
            text = f"{100 * used // limit} % of {what} is used; when it is full, producers must wait"
            yield Alarm(rule, WARNING, text, f"add consumers to the largest queues, or raise {what}")


def _of_journal(journal: JournalState | None) -> Iterator[Alarm]:
    if journal is None:
        return
    if journal.failure is not None:
        text = f"The last checkpoint of the journal failed: {journal.failure}"
        help_ = "fix the database; the journal keeps everything and retries"
        yield Alarm("JdbcstoreCheckpointFailed", BAD, text, help_, page="broker")
    if journal.pending_bytes > _FULL * journal.memory_limit:
        share = 100 * journal.pending_bytes // journal.memory_limit
        text = (
            f"The journal is {share} % full because the database is behind; when it is full, writers "
            "must wait"
        )
        yield Alarm("JdbcstoreJournalFull", WARNING, text, "check the database", page="broker")
    if journal.refused:
        text = f"The database rejected {counted(journal.refused, 'message')} of the journal"
        help_ = "list them with jdbcstore journal refused, then retry or drop them"
        yield Alarm("JdbcstoreMessagesRefused", WARNING, text, help_, page="broker")


def _of_streams(streams: Iterable[StreamHealth]) -> Iterator[Alarm]:
    every = [diagnosis for stream in streams for diagnosis in stream.diagnoses]
    for diagnosis in sorted(every, key=lambda diagnosis: diagnosis.severity != BAD):
        yield Alarm(
            _STREAM_RULES[diagnosis.name], diagnosis.severity, diagnosis.text, diagnosis.cure, page="broker"
        )


def _of_dead_letters(now: Watched) -> Iterator[Alarm]:
    grown = {}
    for name in now.dead:
        growth = now.history.growth(ENQUEUED, name, _TEN_MINUTES)
        if growth > 0:
            grown[str(name)] = growth, now.history.since(ENQUEUED, name, _TEN_MINUTES)
    total = sum(growth for growth, _ in grown.values())
    first = max((since for _, since in grown.values()), default=0)
    if not grown:  # in a queue without its own history
        total = now.history.growth(DEAD, samples=_TEN_MINUTES)
        first = now.history.since(DEAD, samples=_TEN_MINUTES)
    if total > 0:
        since_ms = now.now_ms - int(1000 * first * INTERVAL)
        when = moment(since_ms)[11:16]
        yield from _about(
            "JdbcstoreDeadLetters",
            f"{counted(int(total), 'dead letter')} since {when} UTC" + (" in" if grown else ""),
            "check the reasons, fix the consumers, and retry the messages",
            list(grown),
            page="dead-letters",
            since_ms=since_ms,
            operation="retry" if len(grown) == 1 else "",
            target=bare(next(iter(grown), "")),
        )


def _of_backlogs(now: Watched, views: Sequence[DestinationView]) -> Iterator[Alarm]:
    alone = [view for view in views if view.size and not (view.consumers or view.is_paused)]
    alone.sort(key=lambda view: -(view.size or 0))
    yield from _about(
        "JdbcstoreNoConsumer",
        "",
        "start consumers; if the messages are not needed, move or purge them",
        [view.name for view in alone],
        "has messages but no consumer",
        "queues have messages but no consumer:",
    )
    paused = [view for view in views if view.is_paused]
    yield from _about(
        "JdbcstorePaused",
        "",
        "resume it when its consumers work again",
        [view.name for view in paused],
        f"is paused{_since(paused[0])}" if paused else "",
        "queues are paused:",
        since_ms=paused[0].paused_since_ms if paused else None,
        operation="resume" if len(paused) == 1 else "",
        target=bare(paused[0].name) if paused else "",
    )
    names = {view.name for view in views}
    old = {view.name: view.oldest_age for view in now.largest if view.name in names and _is_old(view)}
    if old:
        yield from _about(
            "JdbcstoreBacklog",
            f"Messages are up to {duration(max(filter(None, old.values())))} old in",
            "add consumers; look for messages that match no selector",
            list(old),
        )


def _is_old(view: DestinationView) -> bool:
    return view.oldest_age is not None and view.oldest_age > _OLD


def _since(view: DestinationView) -> str:
    """Return the user who paused a queue, and the time."""
    if view.paused_since_ms is None:
        return ""
    by = f" by {view.paused_by}" if view.paused_by else ""
    return f"{by} since {moment(view.paused_since_ms)} UTC"


def _slope(history: CounterHistory, name: Destination) -> float | None:
    """Return the growth of a queue in messages per second.

    None unless it has grown in each of the last three minutes, by a tenth of its arrivals.
    """
    if not history.has(name):
        return None
    sizes = history.sizes(name)[-(_THREE_MINUTES + 1) :: _MINUTE]
    arrived = history.rate(ENQUEUED, name, _THREE_MINUTES)
    if arrived is None or not all(before < after for before, after in pairwise(sizes)):
        return None  # a comparison with NaN is false
    slope = (sizes[-1] - sizes[0]) / (_THREE_MINUTES * INTERVAL)
    return slope if slope > _GROWTH * arrived else None


def _about(
    rule: str,
    text: str,
    help_: str,
    names: Sequence[str],
    singular: str = "",
    several: str = "",
    page: str | None = None,
    **known: Any,
) -> Iterator[Alarm]:
    """Yield one alarm for all destinations that have a problem, if there are any."""
    if names or page:
        if several and len(names) > 1:
            text, singular = f"{len(names):,} {several}", ""
        more = max(len(names) - _NAMED, 0)
        yield Alarm(rule, WARNING, text, help_, tuple(names[:_NAMED]), more, singular, page, **known)
