"""The view ``history``, and what is asked of it: as plain Python computes it from what happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

import jdbcstore
from jdbcstore import Message, MessageId, ProducerId
from jdbcstore.analytics.questions import named
from jdbcstore.testing.clock import FakeClock
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import Row

    from jdbcstore.analytics import Analytics

pytest.importorskip("pyspark")
every_vendor = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
file = pytest.mark.backends("sqlite")
"""Spark answers: that the rows are right on each vendor is one test, and that DuckDB agrees another."""

Ask = Callable[[str], "list[Row]"]
CAUSE = "dlqDeliveryFailureCause"
DESTINATIONS = ("queue://ORDERS", "queue://INVOICES", "topic://NEWS")
START_MS = 1_750_000_000_000


@dataclass(frozen=True)
class Life:
    """What happened to one message."""

    destination: str
    producer: str
    sequence: int
    produced_ms: int
    redeliveries: int
    removed_ms: int | None = None
    state: str = "waiting"
    reason: str | None = None

    @property
    def dwell(self) -> float:
        assert self.removed_ms is not None
        return (self.removed_ms - self.produced_ms) / 1000


@pytest.fixture
def lives(database: Database) -> list[Life]:
    """What happened in a store that records it."""
    clock, chance, happened = FakeClock(START_MS), Random(3), []
    with jdbcstore.open(database.url, clock=clock, cleanup_period=0.0, history_retention=1e9) as store:
        store.topic("NEWS").subscribe("ann", "all")
        for number in range(120):
            clock.advance(chance.choice([0.25, 7.0, 700.0]))
            name = chance.choice(DESTINATIONS)
            producer = ProducerId(f"ID:host-{number % 5}", 1, 1)
            place = store.topic("NEWS") if name == "topic://NEWS" else store.queue(name)
            message = Message(
                "x" * chance.randrange(50),
                message_id=MessageId(producer, number),
                redelivery_counter=chance.choice([0, 0, 3]),
                expiration_ms=clock.now_ms() + 60_000 if number % 10 == 0 and number % 7 != 3 else 0,
            )
            reference = place.add_message(message)
            life = Life(name, str(producer), number, clock.now_ms(), message.redelivery_counter)
            clock.advance(chance.choice([0.5, 61.0]))
            now_ms, overdue = clock.now_ms(), 0 < message.expiration_ms < clock.now_ms()
            end = "wait" if number % 7 == 3 else "expire" if overdue else chance.choice(["ack", "ack", "die"])
            if name == "topic://NEWS":
                if end != "wait":
                    store.topic("NEWS").subscription("ann", "all").acknowledge(reference.sequence)
                    store.cleanup()
                    state = "expired" if overdue else "acknowledged"
                    life = replace(life, state=state, removed_ms=now_ms)
            elif end == "expire":
                place.remove_expired()
                life = replace(life, state="expired", removed_ms=now_ms)
            elif end == "ack":
                place.acknowledge(reference.sequence)
                life = replace(life, state="acknowledged", removed_ms=now_ms)
            elif end == "die":
                reason = chance.choice(["no table", "no waiter"])
                [stored] = [one for one in place.recover() if one.sequence == reference.sequence]
                with store.transaction() as transaction:
                    letter = stored.replace(properties={CAUSE: reason}, expiration_ms=0)
                    transaction.queue("ActiveMQ.DLQ").add_message(letter)
                    transaction.queue(name).acknowledge(stored)
                happened.append(replace(life, destination="queue://ActiveMQ.DLQ", reason=reason))
                life = replace(life, state="dead", removed_ms=now_ms, reason=reason)
            happened.append(life)
    assert {life.state for life in happened} == {"waiting", "acknowledged", "dead", "expired"}
    return happened


@pytest.fixture
def views(connect: Callable[[], Analytics], lives: list[Life]) -> Analytics:
    assert lives
    return connect()


def ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def start_of(milliseconds: int | None, unit: timedelta) -> int:
    assert milliseconds is not None
    return milliseconds - milliseconds % round(unit.total_seconds() * 1000)


def rows(ask: Ask, name: str) -> list[tuple[Any, ...]]:
    """The answer to a named query, times in milliseconds."""
    return [
        tuple(ms(value) if isinstance(value, datetime) else value for value in row)
        for row in ask(named()[name])
    ]


@every_vendor
def test_every_message_is_a_row(views: Analytics, ask: Ask, lives: list[Life]) -> None:
    found = ask("SELECT * FROM history")
    expected = Counter(
        (one.destination, one.producer, one.sequence, one.state, one.produced_ms, one.removed_ms)
        for one in lives
    )
    assert expected == Counter(
        (one.destination, one.msgid_prod, one.msgid_seq, one.state, ms(one.produced), ms(one.removed))
        for one in found
    )
    details = Counter((one.sequence, one.state, one.redeliveries, one.reason) for one in lives)
    assert details == Counter((one.msgid_seq, one.state, one.redeliveries, one.reason) for one in found)
    assert {one.destination_type for one in found} == {"queue", "topic"}
    assert all(one.size > 100 and one.priority == 4 for one in found)
    gone = {(one.destination, one.sequence): one.dwell for one in lives if one.removed_ms is not None}
    assert gone == {(one.destination, one.msgid_seq): one.dwell for one in found if one.removed is not None}
    since = datetime.now(UTC).timestamp() - START_MS / 1000
    assert all(since - 86_400 < one.dwell < since + 60 for one in found if one.state == "waiting")
    assert views.spark.sql("SELECT count(*) FROM history").collect()[0][0] == len(lives)


@file
@pytest.mark.usefixtures("views")
def test_how_long_messages_were_stored(ask: Ask, lives: list[Life]) -> None:
    dwells: dict[tuple[int, str], list[float]] = defaultdict(list)
    for one in lives:
        if one.removed_ms is not None:
            dwells[start_of(one.removed_ms, timedelta(hours=1)), one.destination].append(one.dwell)
    answer = rows(ask, "dwell")
    assert [(*key, len(some), round(median(some), 3)) for key, some in sorted(dwells.items())] == [
        row[:4] for row in answer
    ]
    assert [max(some) for _, some in sorted(dwells.items())] == [row[5] for row in answer]
    assert all(middle <= high <= longest for *_, middle, high, longest in answer)


@file
@pytest.mark.usefixtures("views")
def test_what_is_produced_and_what_goes(ask: Ask, lives: list[Life]) -> None:
    minute = timedelta(minutes=1)
    produced = Counter((one.destination, start_of(one.produced_ms, minute)) for one in lives)
    gone = Counter((one.destination, start_of(one.removed_ms, minute)) for one in lives if one.removed_ms)
    waiting: Counter[str] = Counter()
    expected = []
    for name, time in sorted({*produced, *gone}, key=lambda key: (key[1], key[0])):
        waiting[name] += produced[name, time] - gone[name, time]
        expected.append((time, name, produced[name, time], gone[name, time], waiting[name]))
    assert rows(ask, "rates") == expected


@file
@pytest.mark.usefixtures("views")
def test_why_messages_died(ask: Ask, lives: list[Life]) -> None:
    dead = Counter((one.destination, one.reason) for one in lives if one.state == "dead")
    assert {row[:2]: row[2] for row in rows(ask, "reasons")} == dead


@file
@pytest.mark.usefixtures("recorded")
def test_why_messages_of_activemq_died(ask: Ask) -> None:
    """It keeps no history; its dead letters have the reasons while they wait."""
    reasons = rows(ask, "reasons")
    poison = rows(ask, "poison")
    assert any(row[1] for row in reasons)
    assert {row[:2]: row[2] for row in reasons} == {(row[1], row[2]): row[3] for row in poison}
    assert all(row[3] is not None for row in reasons)


@file
@pytest.mark.usefixtures("views")
def test_who_sends_most(ask: Ask, lives: list[Life]) -> None:
    producers = Counter(one.producer for one in lives)
    answer = rows(ask, "talkers")
    assert [(row[0], row[1]) for row in answer] == sorted(
        producers.items(), key=lambda one: (-one[1], one[0])
    )
    for producer, _, _, destinations, first, last in answer:
        mine = [one for one in lives if one.producer == producer]
        times = [one.produced_ms for one in mine]
        assert (destinations, first, last) == (len({one.destination for one in mine}), min(times), max(times))


@file
@pytest.mark.usefixtures("views")
def test_what_is_missing_in_a_producers_sequence(ask: Ask, lives: list[Life]) -> None:
    """Each producer here has every fifth number."""
    expected = set()
    for producer in {one.producer for one in lives}:
        numbers = sorted({one.sequence for one in lives if one.producer == producer})
        for one, other in pairwise(numbers):
            expected.add((producer, one + 1, other - 1, other - one - 1))
    answer = rows(ask, "gaps")
    assert len(answer) == len(expected)
    assert set(answer) == expected


@file
@pytest.mark.usefixtures("views")
def test_what_came_back(ask: Ask, lives: list[Life]) -> None:
    back: dict[str, list[int]] = defaultdict(list)
    for one in lives:
        if one.redeliveries:
            back[one.destination].append(one.redeliveries)
    assert {row[0]: row[1:] for row in rows(ask, "redelivery")} == {
        name: (len(counts), max(counts), sum(counts)) for name, counts in back.items()
    }


@pytest.mark.backends("postgresql")
def test_a_picture_has_both_halves(database: Database, views: Analytics, ask: Ask, lives: list[Life]) -> None:
    """A message that is removed meanwhile is still waiting, and nowhere else."""
    [(waiting,)] = ask("SELECT count(*) FROM history WHERE state = 'waiting'")
    with views.picture(partitions=3):
        with jdbcstore.open(database.url, cleanup_period=0.0, history_retention=1e9) as store:
            assert store.queue("ORDERS").remove_all_messages() > 0
        states = ask("SELECT state, count(*) AS messages FROM history GROUP BY state")
        assert {row.state: row.messages for row in states} == Counter(one.state for one in lives)
    [(purged,)] = ask("SELECT count(*) FROM history WHERE state = 'purged'")
    assert ask("SELECT count(*) FROM history WHERE state = 'waiting'") == [(waiting - purged,)]


@file
def test_without_the_table_there_is_what_waits(
    database: Database, connect: Callable[[], Analytics], ask: Ask
) -> None:
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        store.queue("ORDERS").add_messages([Message("a"), Message("b")])
        store.queue("ORDERS").acknowledge(next(iter(store.queue("ORDERS").recover())))
    connect()
    assert [row.state for row in ask("SELECT state FROM history")] == ["waiting"]
