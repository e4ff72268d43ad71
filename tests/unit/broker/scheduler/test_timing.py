"""When cron entries are due, in time zones whose clocks are put forward and back."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest
import tzlocal

from jdbcstore import Destination, Message
from jdbcstore.broker.scheduler.timing import Timing, next_jobs
from jdbcstore.message.jobs import Job

Zone = Callable[[str], None]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Zone]:
    """Sets the time zone of this process."""

    def to(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(LookupError):
            tzlocal.reload_localzone()

    yield to
    monkeypatch.undo()
    time.tzset()
    tzlocal.reload_localzone()


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def due(cron: str, after: str, count: int) -> list[str]:
    """The next times, as day and time of UTC."""
    timing, at_ms, found = Timing(0, 0, 0, cron), ms(after), []
    for _ in range(count):
        at_ms = timing.next_ms(at_ms)
        found.append(datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%dT%H:%M"))
    return found


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        # 02:00 to 03:00 comes twice in the night to 2026-10-25, until 01:00Z and after it.
        ("*/10 * * * *", "2026-10-25T00:55", ["25T01:00", "25T01:10", "25T01:20"]),
        ("*/10 * * * *", "2026-10-25T01:05", ["25T01:10", "25T01:20", "25T01:30"]),
        ("30 * * * *", "2026-10-25T00:00", ["25T00:30", "25T01:30", "25T02:30"]),
        ("30 2 * * *", "2026-10-25T00:05", ["25T00:30", "26T01:30"]),
        ("30 2 * * *", "2026-10-25T01:05", ["26T01:30", "27T01:30"]),
        ("0 3 * * *", "2026-10-25T00:05", ["25T02:00", "26T02:00"]),
        # 02:00 to 03:00 is left out in the night to 2026-03-29, at 01:00Z.
        ("*/20 * * * *", "2026-03-29T00:30", ["29T00:40", "29T01:00", "29T01:20"]),
        ("30 2 * * *", "2026-03-28T12:00", ["29T01:00", "30T00:30"]),
    ],
)
def test_the_nights_in_which_berlin_changes_its_clocks(
    zone: Zone, cron: str, after: str, expected: list[str]
) -> None:
    zone("Europe/Berlin")
    assert due(cron, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("Europe/Berlin", "2026-10-24T22:00"),
        ("Europe/Berlin", "2026-03-28T22:00"),
        ("Australia/Lord_Howe", "2026-04-04T12:00"),  # by half an hour
        ("Australia/Lord_Howe", "2026-10-03T12:00"),
        ("Asia/Kathmandu", "2026-03-28T22:00"),
        ("right/Europe/Berlin", "2016-12-31T22:00"),  # with leap seconds, if the machine has these zones
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-24T22:00"),  # a rule of POSIX
        ("UTC", "2026-10-24T22:00"),
    ],
)
@pytest.mark.parametrize("cron", ["* * * * *", "*/7 1-4 * * *", "5,35 * * * *", "30 2 * * *", "15 1 * * 0"])
def test_each_time_is_later_than_the_one_before(zone: Zone, name: str, after: str, cron: str) -> None:
    """Else the message is sent again at once, and again."""
    zone(name)
    timing, times = Timing(0, 0, 0, cron), [ms(after)]
    for _ in range(400 if cron.startswith("*") else 20):
        times.append(timing.next_ms(times[-1]))
    assert all(earlier < later for earlier, later in pairwise(times))
    for after_ms in range(times[0] + 1, times[0] + 600 * 60_000, 7 * 60_000):
        assert timing.next_ms(after_ms) > after_ms
    if cron == "* * * * *":
        assert {later - earlier for earlier, later in pairwise(times)} == {60_000}


def job(at: str) -> Job:
    return Job(
        job_id="1",
        at_ms=ms(at),
        repeats=0,
        destination="queue://Q",
        original_destination=None,
        expiration_ms=0,
    )


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-06-01T10:00", "2026-06-01T11:00"),
        ("2026-06-01T13:15", "2026-06-01T14:00"),
        ("2026-06-01T09:58", "2026-06-01T11:00"),
        ("2026-05-20T09:58", "2026-05-20T10:00"),
    ],
    ids=["in time", "late", "put back a little", "put back to another day"],
)
def test_a_clock_that_is_put_back_repeats_nothing(zone: Zone, now: str, expected: str) -> None:
    zone("UTC")
    row = Message("x", destination=Destination.queue("Q"), properties={"AMQ_SCHEDULED_CRON": "0 * * * *"})
    assert [one.at_ms for one in next_jobs(job("2026-06-01T10:00"), row, ms(now))] == [ms(expected)]
