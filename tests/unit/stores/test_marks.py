"""Low-water marks of one queue in one process: where a look begins, and how often from the start."""

from __future__ import annotations

import pytest

from jdbcstore.database.statements.claims import LANES
from jdbcstore.stores.claims.marks import START, Marks
from jdbcstore.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def marks(clock: FakeClock) -> Marks:
    """After its first look, which is from the start."""
    marks = Marks(clock)
    assert marks.begin() == (START, True)
    return marks


@pytest.mark.parametrize(
    ("processes", "seconds"), [(0, 2.0), (1, 2.0), (16, 2.0), (24, 3.0), (64, 8.0), (80, 10.0), (256, 10.0)]
)
def test_the_more_processes_look_the_less_often_each(
    marks: Marks, clock: FakeClock, processes: int, seconds: float
) -> None:
    marks.shared_by(processes)
    clock.advance(2.0)
    assert marks.begin()[1], "the first period is that of a process that does not know of others"
    clock.advance(seconds - 0.1)
    assert not marks.begin()[1]
    clock.advance(0.2)
    assert marks.begin()[1]


def test_a_look_from_the_start_comes_earlier_if_asked_for(marks: Marks, clock: FakeClock) -> None:
    marks.look_again(0.5)
    marks.look_again(60.0)
    assert marks.looks_in == 0.5
    clock.advance(0.5)
    assert marks.begin()[1]


@pytest.mark.parametrize(("took", "later"), [(0.01, 2.0), (0.2, 4.0), (3.0, 10.0)])
def test_a_look_that_takes_long_is_taken_less_often(
    marks: Marks, clock: FakeClock, took: float, later: float
) -> None:
    clock.advance(2.0)
    marks.begin()
    marks.looked(took)
    assert marks.looks_in == later


def test_a_look_that_was_asked_for_meanwhile_is_not_put_off(marks: Marks) -> None:
    marks.look_again(0.5)
    marks.looked(3.0)
    assert marks.looks_in == 0.5


def test_a_mark_trails(marks: Marks, clock: FakeClock) -> None:
    lane = LANES.index(4)
    marks.begin()
    marks.found([(4, 10), (4, 11)], from_start=False)
    assert marks.begin()[0].marks[lane] == 0
    clock.advance(0.2)
    assert marks.begin()[0].marks[lane] == 12
