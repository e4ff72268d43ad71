"""Alarms: problems of a broker, with advice.

Each is also an alert in docs/monitoring/alerts.yml, which Prometheus evaluates over the metrics.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

from jdbcstore.abc import JournalState
from jdbcstore.broker.condition import BrokerState
from jdbcstore.broker.management.history import DEAD, ENQUEUED, INTERVAL, CounterHistory
from jdbcstore.broker.management.texts import counted, duration, moment, rate
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
_TEN_MINUTES = 60
_NAMED = 3
_DROP = "check the program; dropping its connection sends its messages to other consumers"
_BACKLOG = 1000
"""The number of messages from which a queue's growth matters."""
_GROWTH = 1.2
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
    slow_consumers: Sequence[SubscriptionView] = ()
    """Consumers that have held messages for long without acknowledging any."""
    journal: JournalState | None = None
    streams: Sequence[StreamHealth] = ()
    """The streams of journals."""
    checkup: Checkup | None = None
    """The state of the database."""


def alarms(now: Watched) -> list[Alarm]:
    """Return all alarms, the most severe first."""
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
            yield Alarm("JdbcstoreNoMaster", BAD, text, help_)
        return
    if condition.state is BrokerState.READ_ONLY:
        text = f"The broker rejects messages: {condition.reason}"
        yield Alarm("JdbcstoreReadOnly", BAD, text, condition.what_to_do)
    for diagnosis in () if now.checkup is None else now.checkup.diagnoses:
        text = f"The database: {diagnosis.name}. {diagnosis.text}"
        yield Alarm("JdbcstoreDatabaseSick", diagnosis.severity, text, diagnosis.cure, page="database")
    yield from _of_space(now.broker, now.folders)
    yield from _of_journal(now.journal)
    yield from _of_streams(now.streams)
    if now.in_doubt:
        what = "1 transaction is" if len(now.in_doubt) == 1 else f"{len(now.in_doubt):,} transactions are"
        yield Alarm(
            "JdbcstoreInDoubt",
            WARNING,
            f"{what} prepared, but neither committed nor rolled back",
            "restart the transaction manager; only if it never returns, commit or roll back here",
            page="transactions",
        )
    dead = {str(name) for name in now.dead}
    yield from _of_dead_letters(now)
    yield from _of_backlogs(now, [view for view in now.views if view.name not in dead])
    yield from _of_slow_consumers(now.slow_consumers)
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


def _of_slow_consumers(slow: Sequence[SubscriptionView]) -> Iterator[Alarm]:
    if slow:
        longest = max(consumer.unsettled or 0.0 for consumer in slow)
        what = "consumer has" if len(slow) == 1 else "consumers have"
        yield from _about(
            "JdbcstoreSlowConsumer",
            f"{len(slow):,} {what} held messages for {duration(longest)} without acknowledging any, from",
            _DROP,
            sorted({consumer.destination for consumer in slow}),
            page="subscribers",
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
        when = moment(now.now_ms - int(1000 * first * INTERVAL))[11:16]
        yield from _about(
            "JdbcstoreDeadLetters",
            f"{counted(int(total), 'dead letter')} since {when} UTC" + (" in" if grown else ""),
            "check the reasons, fix the consumers, and retry the messages",
            list(grown),
            page="dead-letters",
        )


def _of_backlogs(now: Watched, views: Sequence[DestinationView]) -> Iterator[Alarm]:
    paused = [view for view in views if view.is_paused]
    yield from _about(
        "JdbcstorePaused",
        "",
        "resume it when its consumers work again",
        [view.name for view in paused],
        f"is paused{_since(paused[0])}" if paused else "",
        "are paused",
    )
    alone = [view for view in views if view.size and not (view.consumers or view.is_paused)]
    alone.sort(key=lambda view: -(view.size or 0))
    yield from _about(
        "JdbcstoreNoConsumer",
        "",
        "start consumers; if the messages are not needed, move or purge them",
        [view.name for view in alone],
        "has messages but no consumer",
        "have messages but no consumer",
    )
    growing = [
        (slope, view)
        for view in views
        if view.consumers and not view.is_paused and (view.size or 0) >= _BACKLOG
        if (slope := _slope(now.history.sizes(Destination.parse(view.name)))) is not None
    ]
    for slope, view in sorted(growing, key=lambda pair: -pair[0])[:_NAMED]:
        yield Alarm(
            "JdbcstoreGrowingBacklog",
            WARNING,
            "",
            "add consumers, or find the cause of their slowness",
            (view.name,),
            after=f"grows by {rate(slope)}, and has {counted(view.size or 0, 'message')}",
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


def _slope(sizes: Sequence[float]) -> float | None:
    """Return the growth of a queue in messages per second; None unless it has grown for ten minutes."""
    before, between, now = (sizes[-at] for at in (_TEN_MINUTES + 1, _TEN_MINUTES // 2 + 1, 1))
    if any(map(isnan, (before, between, now))) or not (before < between and now > _GROWTH * before):
        return None
    return (now - before) / (_TEN_MINUTES * INTERVAL) if now > between else None


def _about(
    rule: str,
    text: str,
    help_: str,
    names: Sequence[str],
    singular: str = "",
    several: str = "",
    page: str | None = None,
) -> Iterator[Alarm]:
    if names or page:
        after = singular if len(names) == 1 else several
        more = max(len(names) - _NAMED, 0)
        yield Alarm(rule, WARNING, text, help_, tuple(names[:_NAMED]), more, after, page)
