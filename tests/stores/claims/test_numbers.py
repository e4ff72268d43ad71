"""Claims, delays, failures and workers, as one who only looks sees them."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any
from unittest.mock import ANY

import pytest

from jdbcstore import Claims, Destination, Message
from jdbcstore.cli import main
from jdbcstore.errors import ClaimLost, MessageNotFound
from jdbcstore.stores.claims.managing import SharedManagement
from jdbcstore.stores.claims.numbers import read_held, read_shared
from jdbcstore.testing.clock import FakeClock
from jdbcstore.util.shared_queues import ClaimNumbers
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database


def test_what_is_claimed_and_by_which_worker(
    open_claims: OpenClaims, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = open_claims(name="w-1"), open_claims(name="w-2")
    queue = first.queue("ORDERS")
    queue.add(*[Message(str(n)) for n in range(5)])
    queue.add(Message("later"), delay=3600)
    [failing] = queue.claim()
    queue.reject(failing)
    assert len(queue.claim(limit=2)) == 2
    [other] = second.queue("ORDERS").claim()
    second.queue("OTHER").add(Message("0"))

    found = read_shared(first.database.session)
    assert [_of(one) for one in found.queues] == [("ORDERS", 2, 3, 1, 1), ("OTHER", 1, 0, 0, 0)]
    assert [(one.name, one.claims) for one in found.workers] == [("w-1", 2), ("w-2", 1)]
    for worker in found.workers:
        assert 0 < worker.lease_left <= 30
        assert worker.age is not None

    assert _status(database, capsys)["claims"][0] == {
        "queue": "ORDERS", "free": 2, "has_more": False, "claimed": 3, "delayed": 1, "redeliveries": 1,
        "oldest_free": ANY, "oldest_claimed": ANY, "keys": [], "has_more_keys": False,
    }  # fmt: skip

    second.queue("ORDERS").acknowledge(other)
    [left] = second.queue("ORDERS").claim()
    assert left.message is not None
    database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE NAME = 'w-2'")
    found = read_shared(first.database.session)
    numbers = found.queues[0]
    assert (numbers.claimed, numbers.delayed) == (2, 1)
    assert numbers.redeliveries >= 2  # of the one that was left, too
    assert (found.running, found.left) == (1, 1)
    assert [(one.name, one.claims, one.lease_left > 0) for one in found.workers] == [
        ("w-1", 2, True),
        ("w-2", 1, False),
    ]
    capsys.readouterr()
    assert main(["status", "--url", database.url]) == 0
    out = capsys.readouterr().out
    assert "Workers" in out
    assert "ended " in out


def test_a_worker_is_ended_and_others_have_its_claims(open_claims: OpenClaims) -> None:
    hanging, other = open_claims(name="w-1"), open_claims(name="w-2")
    hanging.queue("ORDERS").add(Message("0"))
    [claim] = hanging.queue("ORDERS").claim()

    with pytest.raises(MessageNotFound, match="there is no worker w-3"):
        other.database.lease.end_those_of("w-3")
    assert other.queue("ORDERS").claim() == []
    assert other.database.lease.end_those_of("w-1") == 1
    [again] = other.queue("ORDERS").claim()

    assert again.sequence == claim.sequence
    with pytest.raises(ClaimLost):
        hanging.queue("ORDERS").acknowledge(claim)
    other.queue("ORDERS").acknowledge(again)


def test_where_nobody_has_claimed_there_is_nothing(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--url", database.url]) == 0
    found = _status(database, capsys)
    assert (found["claims"], found["workers"]) == ([], [])


def test_the_oldest_free_and_claimed(open_claims: OpenClaims) -> None:
    clock = FakeClock()
    claims = open_claims(clock=clock)
    queue, now_ms = claims.queue("ORDERS"), time.time_ns() // 1_000_000
    for age, priority in ((400, 4), (300, 4), (200, 1), (100, 9)):
        queue.add(Message("x", timestamp_ms=now_ms - age * 1000, priority=priority))
    assert len(queue.claim(2)) == 2  # that of priority 9, and the oldest

    [numbers] = read_shared(claims.database.session).queues
    assert numbers.oldest_claimed == pytest.approx(400, abs=60)
    assert numbers.oldest_free == pytest.approx(300, abs=60)


@pytest.mark.backends("sqlite")
def test_only_so_many_messages_keys_and_queues_are_looked_at(
    open_claims: OpenClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = open_claims()
    queue = claims.queue("ORDERS")
    queue.add(*(Message("x", group_id=key) for key in "aaabbc"))
    claims.queue("OTHER").add(Message("x"))
    queue.flow.share()
    queue.claim()
    for name, most in (("COUNTED", 3), ("OF_KEY", 1), ("KEYS", 2), ("QUEUES", 1)):
        monkeypatch.setattr(f"jdbcstore.stores.claims.numbers.MOST_{name}", most)

    found = read_shared(claims.database.session, keys=True)
    [numbers] = found.queues
    assert (numbers.queue, found.more_queues) == ("ORDERS", 1)
    assert (numbers.free, numbers.has_more, numbers.claimed) == (3, True, 1)
    assert [(key.key, key.free, key.has_more, key.claimed) for key in numbers.keys] == [
        ("a", 1, True, 1),
        ("b", 1, True, 0),
    ]
    assert numbers.has_more_keys


def test_what_is_claimed_delayed_and_failed_of_each_key(open_claims: OpenClaims, database: Database) -> None:
    first, second = open_claims(name="w-1"), open_claims(name="w-2")
    queue = first.queue("ORDERS")
    queue.add(*(Message(key, group_id=key) for key in "aaAb"))
    queue.add(Message("later", group_id="a"), delay=3600)
    queue.flow.share()
    queue.flow.set_key("b", weight=2)
    queue.flow.set_key("none", claims=1)
    claimed = {one.sequence: one for one in queue.claim(9)}
    rejected, _, *others = (claimed[id_] for id_ in sorted(claimed))
    queue.reject(rejected)
    queue.release(*others)
    assert len(second.queue("ORDERS").claim(9)) == 3
    database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE NAME = 'w-2'")

    def found(*, only_set: bool = False) -> list[tuple[str, int, int, int, int]]:
        [numbers] = read_shared(first.database.session, keys=True, only_set=only_set).queues
        return [(one.key, one.free, one.claimed, one.delayed, one.redeliveries) for one in numbers.keys]

    every = [("A", 1, 0, 0, 1), ("a", 1, 1, 1, 2), ("b", 1, 0, 0, 1), ("none", 0, 0, 0, 0)]
    assert found() == every
    assert found(only_set=True) == every[2:]


def test_held_messages(open_claims: OpenClaims) -> None:
    claims = open_claims(name="w-1")
    queue = claims.queue("ORDERS")
    ids = [*queue.add(Message("0")), *queue.add(Message("1"), delay=3600), *queue.add(Message("2"))]
    queue.reject(*queue.claim())
    queue.claim()
    claims.queue("OTHER").add(Message("3"), delay=3600)

    held = read_held(claims.database.session, queue.destination, 10)
    assert [(one.sequence, one.worker, one.due_in > 0, one.redeliveries) for one in held] == [
        (ids[0], "w-1", False, 1),
        (ids[1], None, True, 0),
    ]
    assert len(read_held(claims.database.session, queue.destination, 1)) == 1


def test_one_message_is_released(open_claims: OpenClaims, database: Database) -> None:
    claims, other = open_claims(name="w-1"), open_claims(name="w-2")
    queue = claims.queue("ORDERS")
    queue.add(Message("0"))
    [later] = queue.add(Message("1"), delay=3600)
    [held] = queue.claim()
    managed = SharedManagement(claims.database.session, partial(Claims, database.url))

    for wrong, sequence in ((Destination.queue("OTHER"), later), (queue.destination, later + 1)):
        with pytest.raises(MessageNotFound, match="neither claimed nor delayed"):
            managed.release_message(wrong, sequence)
    for sequence in (later, held.sequence):
        managed.release_message(queue.destination, sequence)
    assert {claim.sequence for claim in other.queue("ORDERS").claim(9)} == {later, held.sequence}
    with pytest.raises(ClaimLost):
        queue.acknowledge(held)


def _of(one: ClaimNumbers) -> tuple[str, int, int, int, int]:
    return (one.queue, one.free, one.claimed, one.delayed, one.redeliveries)


def _status(database: Database, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", "--json", "--url", database.url]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
