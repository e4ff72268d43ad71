"""Many processes, of which some are killed, and connections that are cut: no message is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from jdbcstore.testing.polling import wait_until
from tests.stores.claims.conftest import OpenClaims
from tests.support.claims.crowd import QUEUE, Crowd, Note, verdict
from tests.support.databases import Database

pytestmark = [pytest.mark.backends("postgresql"), pytest.mark.slow]

CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


def test_kills_lose_nothing_and_repeat_only_what_was_claimed_by_the_killed(
    open_claims: OpenClaims, url: str, database: Database, tmp_path: Path
) -> None:
    queue = open_claims().queue(QUEUE)

    def count(what: str) -> int:
        return Counter(note.what for note in crowd.notes())[what]

    with Crowd(url, tmp_path, lease=5.0, rate=100.0) as crowd:
        for kind in ("producer", "worker", "worker"):
            crowd.start(kind)
        wait_until(lambda: count("removed") >= 50, 120.0, "that messages are removed")
        crowd.kill(crowd.names("worker")[0])
        crowd.start("worker")
        wait_until(lambda: count("ready") == 4, 120.0, "that it is connected")  # else it ends when it is cut
        database.rows(CUT)
        removed = count("removed")
        wait_until(lambda: count("removed") >= removed + 50, 120.0, "more of them")
        crowd.kill(crowd.names("producer")[0])
        wait_until(lambda: queue.count() == (0, 0), 120.0, "that the queue is empty")
        found = verdict(crowd.notes(), crowd.killed)

        assert crowd.ended() == []
    assert found.wrong == []
    assert found.added >= 100


def test_a_verdict_is_about_each_time_that_a_process_took_a_message() -> None:
    notes = [
        Note(1.0, "added", "m", "producer1"),
        Note(2.0, "taken", "m", "worker1"),
        Note(3.0, "removing", "m", "worker1"),
        Note(4.0, "taken", "m", "worker2"),
        Note(5.0, "lost", "m", "worker1"),
        Note(6.0, "taken", "m", "worker1"),
        Note(7.0, "removed", "m", "worker1"),
        Note(8.0, "removed", "m", "worker2"),
    ]

    once, twice = verdict(notes[:-1], {"worker2": 5.5}), verdict(notes, {})

    assert once.wrong == []
    assert once.reruns == {"its lease had expired: ClaimLost": 1, "its worker was killed": 1}
    assert len(twice.wrong) == 1  # by worker2, which removed it


def test_what_is_taken_around_a_crash_may_be_taken_again() -> None:
    notes = [Note(at, "taken", "m", f"worker{at}") for at in (3.0, 5.0)] + [Note(6.0, "done", "m", "worker5")]

    assert verdict(notes, {}, [(4.0, 4.5)]).wrong == verdict(notes, {}, [(2.0, 3.5)]).wrong == []
    for elsewhere in [], [(2.0, 2.5)], [(5.5, 6.0)]:
        assert len(verdict(notes, {}, elsewhere).wrong) == 1
