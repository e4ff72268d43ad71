"""Processes that share a limited queue while some are killed and settings change: no limit is exceeded."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from jdbcstore import Message
from jdbcstore.testing.polling import wait_until
from tests.stores.claims.conftest import OpenClaims
from tests.support.claims.limited import QUEUE, Limited, Note, excess, most_at_once, overtaken, read

pytestmark = [pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql"), pytest.mark.slow]

LEASE = 10.0
TURNS = 10_000


@contextmanager
def working(url: str, file: Path, names: str) -> Iterator[dict[str, Limited]]:
    """Processes that have begun to claim."""
    processes = {name: Limited(url, LEASE, name, file) for name in names}
    try:
        wait_until(lambda: {note.name for note in read(file) if note.what == "ready"} >= {*names}, 180.0)
        for process in processes.values():
            process.work(TURNS)
        yield processes
    finally:
        for process in processes.values():
            process.kill()


def removed(file: Path) -> int:
    return sum(note.what == "removed" for note in read(file))


def has_removed(file: Path, count: int) -> bool:
    return removed(file) >= count


def test_a_limit_holds_while_processes_are_killed(open_claims: OpenClaims, url: str, tmp_path: Path) -> None:
    queue, notes = open_claims().queue(QUEUE), tmp_path / "notes"
    queue.flow.limit(claims=3)
    queue.add(*(Message(str(number)) for number in range(2000)))
    chance, killed = random.Random(1), dict[str, float]()
    with working(url, notes, "abcdef") as processes:
        for number, name in enumerate(chance.sample("abcdef", 3)):
            wait_until(partial(has_removed, notes, 30 * (number + 1)), 180.0)
            killed[name] = processes[name].kill()
        # With three that held a claim there is no room until their leases have ended.
        wait_until(partial(has_removed, notes, removed(notes) + 60), 180.0)

    found = read(notes)
    assert 2 <= most_at_once(found, killed) <= 3
    assert {note.what for note in found} <= {"ready", "taken", "ending", "removed", "lost"}


def test_a_rate_holds_for_all_processes(open_claims: OpenClaims, url: str, tmp_path: Path) -> None:
    queue, notes = open_claims().queue(QUEUE), tmp_path / "notes"
    queue.flow.limit(rate=40.0, burst=5)
    queue.add(*(Message(str(number)) for number in range(2000)))
    with working(url, notes, "abcd") as processes:
        wait_until(partial(has_removed, notes, 40), 180.0)
        processes["a"].kill()
        wait_until(partial(has_removed, notes, 100), 180.0)

    # The database's clock and this one may differ by a little.
    assert excess(read(notes), 40.0 * 1.001, 5) <= 1.0


def test_keys_hold_while_processes_are_killed(open_claims: OpenClaims, url: str, tmp_path: Path) -> None:
    """First shares and limits, then order."""
    queue, notes, keys = open_claims().queue(QUEUE), tmp_path / "notes", "abcdefgh"
    queue.flow.share(claims=9)
    queue.flow.set_key("b", weight=2)
    queue.flow.set_key("c", claims=1)
    ids = queue.add(*(Message(key, group_id=key) for _ in range(200) for key in keys))
    key_of = dict(zip(ids, keys * 200, strict=True))
    killed = dict[str, float]()
    with working(url, notes, "wxyz") as processes:
        wait_until(partial(has_removed, notes, 60), 180.0)
        killed["w"] = processes["w"].kill()
        wait_until(partial(has_removed, notes, 160), 180.0)
        shared = [note for note in read(notes) if note.what == "taken"]
        queue.flow.share(in_order=True)
        ordered = time.monotonic()
        wait_until(partial(has_removed, notes, removed(notes) + 30), 180.0)
        killed["x"] = processes["x"].kill()
        wait_until(partial(has_removed, notes, removed(notes) + 60), 180.0)

    found = read(notes)
    taken = Counter(key_of[id_] for note in shared for id_ in note.ids)
    for key in keys.replace("b", "").replace("c", ""):
        # What was claimed by a process, and not noted yet, is up to two each.
        assert abs(taken["b"] - 2 * taken[key]) <= 12, taken
    assert most_at_once(of_keys(found, key_of, "c"), killed) == 1
    for key in keys:
        assert overtaken(of_keys(found, key_of, key), ordered) == []


def of_keys(notes: list[Note], key_of: dict[int, str], keys: str) -> list[Note]:
    """The same about the messages of some keys only."""
    return [note._replace(ids=[id_ for id_ in note.ids if key_of[id_] in keys]) for note in notes]


def test_what_notes_say_of_order() -> None:
    notes = [
        Note("taken", "a", 0.0, 1.0, [2]),
        Note("taken", "a", 3.0, 4.0, [1]),
        Note("ending", "a", 4.0, 5.0, [1]),
        Note("taken", "b", 5.0, 6.0, [3]),
    ]
    assert overtaken(notes, 2.0) == [2]
    assert overtaken(notes, 9.0) == []


def test_what_notes_say_of_limits() -> None:
    notes = [
        Note("taken", "a", 0.0, 1.0, [1, 2]),
        Note("ending", "a", 1.0, 2.0, [1]),
        Note("taken", "b", 1.5, 3.0, [3]),
        Note("removed", "a", 1.0, 3.5, [1]),
        Note("taken", "c", 3.0, 4.0, [4]),
        Note("ending", "c", 4.0, 5.0, [4]),
        Note("lost", "c", 4.0, 6.0, [4]),
    ]
    assert most_at_once(notes, {"a": 9.0, "b": 9.0}) == 2
    assert most_at_once(notes, {"a": 2.5}) == 2
    assert excess(notes, 1.0, 2) == pytest.approx(-1.0)
    assert excess(notes, 0.5, 1) == pytest.approx(1.0)
