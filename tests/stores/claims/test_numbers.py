"""Claims, delays, failures and workers, as one who only looks sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.cli import main
from jdbcstore.errors import ClaimLost
from jdbcstore.stores.claims.numbers import ClaimNumbers, read_claims
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

    queues, workers = read_claims(first.session)
    assert queues == [ClaimNumbers("ORDERS", claimed=3, delayed=1, failures=1)]
    assert [(one.name, one.claims) for one in workers] == [("w-1", 2), ("w-2", 1)]
    assert all(0 < one.lease_left <= 30 for one in workers)

    assert _status(database, capsys)["claims"] == [
        {"queue": "ORDERS", "free": 2, "claimed": 3, "delayed": 1, "failures": 1}
    ]

    second.queue("ORDERS").acknowledge(other)
    [left] = second.queue("ORDERS").claim()
    assert left.message is not None
    database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE NAME = 'w-2'")
    queues, workers = read_claims(first.session)
    [numbers] = queues
    assert (numbers.claimed, numbers.delayed) == (2, 1)
    assert numbers.failures >= 2  # of the one that was left, too
    assert [(one.name, one.claims, one.lease_left > 0) for one in workers] == [
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

    assert other.lease.end_those_of("w-3") == 0
    assert other.queue("ORDERS").claim() == []
    assert other.lease.end_those_of("w-1") == 1
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


def _status(database: Database, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", "--json", "--url", database.url]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
