"""When planner statistics are refreshed: often while a table grows, and seldom while it only changes."""

from __future__ import annotations

import pytest

from jdbcstore.database.connection import StatisticsRefresher


class Refreshes:
    """A refresher whose refreshes take 3 s of a clock, and are waited for."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.made = 0
        self._refresher = StatisticsRefresher(self._refresh, now=lambda: self.now)

    def _refresh(self) -> None:
        self.made += 1
        self.now += 3.0

    def after(self, added: int, removed: int = 0) -> int:
        """Count changes; return how many refreshes there were for them."""
        before = self.made
        self._refresher.count(added, removed)
        self._refresher.stop()
        return self.made - before


@pytest.fixture
def refreshes() -> Refreshes:
    """Statistics of an empty table, due again after 100,000 changes."""
    refreshes = Refreshes()
    assert refreshes.after(2_000) == 1
    assert refreshes.after(0, 2_000) == 0
    assert [refreshes.after(50_000, 50_000) for _ in range(6)] == [1] * 6
    return refreshes


def test_many_messages_in_an_empty_table(refreshes: Refreshes) -> None:
    refreshes.now += 30.0
    assert refreshes.after(1_999) == 0
    assert refreshes.after(1) == 1


def test_four_times_as_many(refreshes: Refreshes) -> None:
    refreshes.now += 30.0
    assert refreshes.after(10_000) == 1
    refreshes.now += 30.0
    assert refreshes.after(30_000) == 0
    assert refreshes.after(1) == 1


def test_other_messages(refreshes: Refreshes) -> None:
    refreshes.now += 30.0
    assert refreshes.after(10_000) == 1
    refreshes.now += 30.0
    assert refreshes.after(9_999, 9_999) == 0
    assert refreshes.after(1, 1) == 1


def test_they_take_a_tenth_of_the_time(refreshes: Refreshes) -> None:
    refreshes.now += 29.9
    assert refreshes.after(2_000) == 0
    refreshes.now += 0.1
    assert refreshes.after(1) == 1


def test_few_messages_that_come_and_go(refreshes: Refreshes) -> None:
    refreshes.now += 30.0
    assert sum(refreshes.after(10, 10) for _ in range(4_999)) == 0
    assert refreshes.after(10, 10) == 1
