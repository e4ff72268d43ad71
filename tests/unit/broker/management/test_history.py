"""The history of the console: samples in bounded memory, and charts of them."""

from __future__ import annotations

from math import isnan

from jdbcstore.broker.console.charts import chart
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.management.history import (
    DEAD,
    DEQUEUED,
    ENQUEUED,
    INTERVAL,
    LENGTH,
    SIZE,
    SPANS,
    CounterHistory,
)
from jdbcstore.message.destination import Destination

Q, R = Destination.queue("Q"), Destination.queue("R")


def counted(enqueued: int, dequeued: int = 0) -> Counters:
    found = Counters()
    found.enqueued, found.dequeued = enqueued, dequeued
    return found


def sample(history: CounterHistory, tick: int, enqueued: int, *names: Destination) -> None:
    tallies = {name: (enqueued, counted(enqueued)) for name in names}
    history.add(tick * INTERVAL, tallies, (enqueued, counted(enqueued)))


def test_rates_of_the_last_minute() -> None:
    history = CounterHistory()
    assert history.rate(ENQUEUED) is None
    for tick in range(5):
        sample(history, tick, 20 * tick, Q)
    assert history.rate(ENQUEUED) == 2.0
    assert history.rate(ENQUEUED, Q) == 2.0
    assert history.rate(DEQUEUED, Q) == 0.0
    assert history.growth(ENQUEUED) == 80.0
    assert history.growth(DEAD) == 0.0
    assert [*history.sizes(Q)][-4:] == [20.0, 40.0, 60.0, 80.0]


def test_what_a_destination_does_and_since_when_it_rests() -> None:
    history = CounterHistory()
    assert history.activity(Q, 0.0) == (None, None, None, None)
    for tick in range(5):
        sample(history, tick, 20 * tick, Q)
    now = 5 * INTERVAL
    assert history.activity(Q, now) == (2.0, 0.0, 0.0, 10.0)
    sample(history, 5, 80, Q)
    assert history.activity(Q, now).idle == 10.0
    assert history.activity(R, now).idle is None
    others = CounterHistory(most=0)  # which have no series
    sample(others, 0, 3, Q)
    assert others.activity(Q, 0.0) == (None, None, None, 0.0)
    sample(others, 7, 3, Q)
    assert others.activity(Q, 7 * INTERVAL) == (0.0, 0.0, 0.0, 70.0)


def test_gaps_and_restarts_of_a_counter_are_not_rates() -> None:
    history = CounterHistory()
    sample(history, 0, 100, Q)
    sample(history, 5, 200, Q)
    sample(history, 6, 0, Q)
    sample(history, 7, 30, Q)
    assert [one for one in history.shown(ENQUEUED, SPANS["hour"], Q) if not isnan(one)] == [3.0]
    assert [one for one in history.sizes(Q) if not isnan(one)] == [100, 200, 0, 30]
    sample(history, 7 + 10 * LENGTH, 30, Q)
    assert [one for one in history.sizes(Q) if not isnan(one)] == [30]


def test_the_growth_of_a_counter_includes_what_it_began_with() -> None:
    history = CounterHistory()
    sample(history, 0, 0)
    sample(history, 1, 20, Q)  # it appears with its first messages
    assert history.growth(ENQUEUED, Q) == 20.0
    sample(history, 2, 0, Q)  # it was reset
    sample(history, 3, 5, Q)
    assert history.growth(ENQUEUED, Q) == 25.0
    assert history.growth(ENQUEUED, Q, samples=2) == 5.0
    sample(history, 100, 5, Q)
    assert history.growth(ENQUEUED, Q, samples=60) == 0.0


def test_destinations_are_bounded_and_the_busy_ones_stay() -> None:
    history = CounterHistory(most=10)
    many = [Destination.queue(f"Q{number}") for number in range(30)]
    sample(history, 0, 0, *many)
    assert len(history) == 0  # nothing has happened to them
    sample(history, 1, 1, *many)
    assert len(history) == 10
    kept = [name for name in many if history.has(name)]
    busy = kept[0]
    for tick in range(2, 30):
        history.add(tick * INTERVAL, {busy: (tick, counted(tick))}, (0, counted(tick)))
    history.add(30 * INTERVAL, {busy: (30, counted(30)), R: (1, counted(1))}, (0, counted(30)))
    assert history.has(busy)
    assert history.has(R)
    assert len(history) == 10
    for tick in range(31, 31 + LENGTH):
        sample(history, tick, tick, busy)
    assert (len(history), history.has(busy)) == (1, True)


def test_spans_of_ten_minutes_an_hour_and_a_day() -> None:
    history = CounterHistory()
    for tick in range(0, 3 * 24 * LENGTH, 3):  # three days
        sample(history, tick, 30 * tick, Q)
    for name, count, rate in (("10min", 60, None), ("hour", LENGTH, None), ("day", 288, 3.0)):
        sizes, rates = (history.shown(kind, SPANS[name], Q) for kind in (SIZE, ENQUEUED))
        assert (len(sizes), len(rates)) == (count, count)
        assert sizes[-1] == 30 * (3 * 24 * LENGTH - 3)
        assert {one for one in rates if not isnan(one)} == (set() if rate is None else {rate})
    day = history.shown(SIZE, SPANS["day"])
    sample(history, 4 * 24 * LENGTH, 7, Q)  # nothing for a day
    again = history.shown(SIZE, SPANS["day"])
    assert (day[-1], again[-1], [one for one in again if not isnan(one)]) == (
        30 * (3 * 24 * LENGTH - 3),
        7,
        [7],
    )


def test_charts() -> None:
    nan = float("nan")
    hour = SPANS["hour"]
    found = chart("c", hour, [("a", [nan, 1.0, 7.0, nan, 3.0], 2.5), ("b", [nan] * 5, None)])
    assert found.top == 8.0
    assert [line.latest for line in found.lines] == [2.5, None]
    assert found.points == "[[1.0,7.0,null,3.0],[null,null,null,null]]"  # it begins with the first value
    assert found.seconds == 3 * INTERVAL
    assert found.lines[0].path.count("M") == 2
    assert found.lines[1].path == ""
    assert chart("c", hour, [("b", [nan], None)]).is_empty
    assert [chart("c", hour, [("a", [value], None)]).top for value in (0.0, 1.2, 11.0, 250.0, 99_999.0)] == [
        1.0,
        1.5,
        15.0,
        300.0,
        100_000.0,
    ]
