"""What a process leaves to the others where many claim: looks from the start, and for what has expired."""

from __future__ import annotations

import pytest

from jdbcstore import Message
from jdbcstore.stores.claims.taking import _TURNS
from jdbcstore.testing.clock import FakeClock
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite")
MIDDLE = 2**62 - 2**62 % 1000 + 1500
"""The number of a session that chooses the middle of a period."""


def begin_others(database: Database, count: int) -> None:
    """The leases of other processes, which do not end."""
    for number in range(count):
        values = f"({2**62 + number}, 'w-{number}', {2**62})"
        database.execute(f"INSERT INTO JDBCSTORE_CLAIM_SESSIONS (ID, NAME, EXPIRES) VALUES {values}")


def are_there(database: Database) -> int:
    return len(database.rows("SELECT ID FROM ACTIVEMQ_MSGS"))


@pytest.mark.parametrize("others", [0, 3])
def test_of_many_that_begin_at_once_few_look_for_what_has_expired(
    open_claims: OpenClaims,
    database: Database,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    others: int,
) -> None:
    monkeypatch.setattr("jdbcstore.stores.claims.lease._new_number", lambda _: MIDDLE)
    queue = open_claims(clock=clock).queue("ORDERS")
    begin_others(database, others)
    queue.add(Message("expired", expiration_ms=1))

    for seconds, left in ((0.0, 1), (19.9, 1), (2.1, 0)):
        clock.advance(seconds)
        assert queue.claim() == []
        assert are_there(database) == (left if others else 0)


@pytest.mark.parametrize(("others", "seconds"), [(0, 2.0), (63, 8.0)])
def test_each_of_many_processes_looks_from_the_start_less_often(
    open_claims: OpenClaims, database: Database, clock: FakeClock, others: int, seconds: float
) -> None:
    queue = open_claims(clock=clock).queue("ORDERS")
    begin_others(database, others)
    [first, *_] = queue.add(*map(Message, "abc"))
    assert len(queue.claim(3)) == 3
    clock.advance(2.0)
    assert queue.claim() == []
    # By nothing that wakes another process.
    database.execute(f"DELETE FROM JDBCSTORE_CLAIMS WHERE ID = {first}")

    clock.advance(seconds - 0.1)
    assert queue.claim() == []
    clock.advance(0.2)
    assert [claim.sequence for claim in queue.claim()] == [first]


def test_settings_are_looked_at_as_often_among_many(
    open_claims: OpenClaims, database: Database, clock: FakeClock
) -> None:
    queue, other = (open_claims(clock=clock).queue("ORDERS") for _ in range(2))
    begin_others(database, 62)
    queue.add(*map(Message, "abc"))
    for _ in range(2):
        assert queue.claim()
        clock.advance(2.0)
    other.flow.pause()

    assert queue.claim() == []
    assert not queue._marks.begin()[1]


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize(("others", "turns"), [(15, 0), (16, _TURNS - 1)])
def test_among_many_the_first_claims_take_turns(
    open_claims: OpenClaims, database: Database, others: int, turns: int
) -> None:
    queue = open_claims().queue("ORDERS")
    begin_others(database, others)
    queue.add(*map(Message, "ab"))

    assert len(queue.claim()) == 1
    assert queue._taking._turns == turns
