"""Claims that were lost, or of which nobody knows: they come back, marked, and nobody else's with them.

Found by the model of claims, ``tests/model/claims.pml``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import ClaimLost, NotMaster, OutcomeUnknown, StoreError, StoreUnavailable
from jdbcstore.lockers.database import LeaseDatabaseLocker
from jdbcstore.plugins import sharing
from jdbcstore.stores.claims import Claim, ClaimQueue, Claims
from jdbcstore.stores.claims.numbers import read_held, read_shared
from jdbcstore.stores.jdbc.store import JdbcStore
from tests.stores.claims.conftest import OpenClaims
from tests.support.claims.callers import opened
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb")

LEASE = 600.0
"""So long that nothing is renewed while a test runs."""
HOW = ("acknowledge", "release", "reject", "dead_letter", "extend")


@pytest.fixture
def one(open_claims: OpenClaims) -> Claims:
    one = open_claims(lease=LEASE)
    one.queue("Q").add(Message("0"))
    return one


@pytest.fixture
def other(open_claims: OpenClaims) -> Claims:
    return open_claims(lease=LEASE)


def expire(database: Database, claims: Claims, ends: int = 1) -> None:
    """Set the end of a lease in epoch milliseconds, as a step of the database's clock would seem to do."""
    database.execute(
        "UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = :ends WHERE ID = :id",
        ends=ends,
        id=claims.database.lease.number,
    )


def claim_without_answer(database: Database, claims: Claims, id_: int) -> None:
    """Claim a message as by a query whose answer was lost."""
    database.execute("DELETE FROM JDBCSTORE_CLAIMS WHERE ID = :id", id=id_)
    database.execute(
        "INSERT INTO JDBCSTORE_CLAIMS (ID, SESSION, DUE, TAKEN, FAILED) VALUES (:id, :session, 0, 1, 0)",
        id=id_,
        session=claims.database.lease.number,
    )
    claims.database.return_unknown()


@pytest.mark.backends("postgresql", "mariadb")
def test_a_claim_of_another_process_is_not_returned(
    one: Claims, other: Claims, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one was paused for longer than its lease, between two statements."""
    [(id_,)] = database.rows("SELECT ID FROM ACTIVEMQ_MSGS")
    claim_without_answer(database, one, id_)
    fetch, taken = Connection.fetch, list[Claim]()

    def paused(connection: Connection, sql: Any, **values: Any) -> list[Row]:
        rows = fetch(connection, sql, **values)
        if sql is one.database.session.of(ClaimStatements).find_all:
            expire(database, one)
            taken.extend(other.queue("Q").claim())
        return rows

    monkeypatch.setattr(Connection, "fetch", paused)
    one.database.return_orphans()

    assert [claim.redeliveries for claim in taken] == [1]
    other.queue("Q").acknowledge(*taken)


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_a_claim_that_was_answered_after_its_lease_is_not_delivered(
    one: Claims, other: Claims, database: Database, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Seed 305484 of the world of kombu: it came unmarked, behind the delivery of another process."""
    queue, taken, sessions = one.queue("Q"), list[Claim](), list[int]()
    add = queue.held.add

    def paused(ids: Iterable[int], session: int) -> int:
        number = add(ids, session)
        sessions.append(session)
        if taken:
            return number
        expire(database, one)
        if is_known:
            one.database.lease.renew()
        else:
            monkeypatch.setattr(one.database.lease, "_believed_until", float("-inf"))
        taken.extend(other.queue("Q").claim())
        return number

    monkeypatch.setattr(queue.held, "add", paused)

    assert queue.claim() == []

    assert queue.held.of(sessions[0]) == set()
    assert [claim.redeliveries for claim in taken] == [1]
    one.database.return_orphans()
    other.queue("Q").acknowledge(*taken)


def test_a_claim_that_was_answered_late_in_a_lease_that_runs_is_delivered(
    one: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = one.queue("Q")
    add = queue.held.add

    def paused(ids: Iterable[int], session: int) -> int:
        number = add(ids, session)
        monkeypatch.setattr(one.database.lease, "_believed_until", float("-inf"))
        return number

    monkeypatch.setattr(queue.held, "add", paused)

    [claim] = queue.claim()

    assert claim.redeliveries == 0
    queue.acknowledge(claim)


@pytest.mark.parametrize("how", ["release", "reject", "abandon"])
@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "unanswered"])
def test_what_this_process_claims_again_before_the_answer_to_a_return_is_kept(
    one: Claims, other: Claims, monkeypatch: pytest.MonkeyPatch, how: str, is_answered: bool
) -> None:
    queue, again = one.queue("Q"), list[Claim]()
    [claim] = queue.claim()
    run = one.database.run

    def overtaken(work: Callable[[Connection], Any]) -> Any:
        monkeypatch.undo()
        result = run(work)
        queue.returned()  # as if it were time to look from the start
        again.extend(queue.claim())
        if not is_answered:
            raise OutcomeUnknown
        return result

    monkeypatch.setattr(one.database, "run", overtaken)
    with nullcontext() if is_answered or how == "abandon" else pytest.raises(OutcomeUnknown):
        queue.abandon([claim]) if how == "abandon" else getattr(queue, how)(claim)
    one.database.return_unknown()
    one.database.return_orphans()

    assert other.queue("Q").claim() == []
    queue.acknowledge(*again)


@pytest.mark.parametrize(("how", "redeliveries"), [("release", 0), ("reject", 1)])
def test_a_return_that_may_not_have_taken_effect_is_made_later(
    one: Claims, other: Claims, monkeypatch: pytest.MonkeyPatch, how: str, redeliveries: int
) -> None:
    queue = one.queue("Q")
    [claim] = queue.claim()

    def lost(_: Any) -> None:
        monkeypatch.undo()
        raise OutcomeUnknown

    monkeypatch.setattr(one.database, "run", lost)
    with pytest.raises(OutcomeUnknown):
        getattr(queue, how)(claim)
    one.database.return_orphans()

    assert [claim.redeliveries for claim in other.queue("Q").claim()] == [redeliveries]


def test_what_was_held_in_an_earlier_session_is_returned(
    one: Claims, other: Claims, database: Database
) -> None:
    [claim] = one.queue("Q").claim()
    expire(database, one)
    one.database.lease.renew()
    assert claim.session != one.database.lease.number
    claim_without_answer(database, one, claim.sequence)

    one.database.return_orphans()

    assert len(other.queue("Q").claim()) == 1


def test_what_was_lost_while_the_clock_was_ahead_is_returned_as_a_redelivery(
    one: Claims, other: Claims, database: Database
) -> None:
    [claim] = one.queue("Q").claim()
    expire(database, one)
    with pytest.raises(ClaimLost):
        one.queue("Q").acknowledge(claim)
    expire(database, one, 2**52)
    assert other.queue("Q").claim() == []

    one.database.return_orphans()

    assert [claim.redeliveries for claim in other.queue("Q").claim()] == [1]


def test_what_was_lost_before_a_close_is_a_redelivery(one: Claims, other: Claims, database: Database) -> None:
    [claim] = one.queue("Q").claim()
    expire(database, one)
    with pytest.raises(ClaimLost):
        one.queue("Q").acknowledge(claim)

    one.close()

    assert [claim.redeliveries for claim in other.queue("Q").claim()] == [1]


def test_an_answer_that_is_lost_while_claims_are_returned_is_not_overlooked(
    one: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned, work = [], one.database._return_unknown

    def return_unknown(connection: Connection) -> None:
        returned.append(connection)
        work(connection)
        if len(returned) == 1:
            one.database.return_unknown()

    monkeypatch.setattr(one.database, "_return_unknown", return_unknown)
    one.database.return_unknown()
    for _ in range(3):
        one.database.return_orphans()
    assert len(returned) == 2


def settle(queue: ClaimQueue, how: str, claim: Claim) -> None:
    """Settle a claim, or make sure of it, in one of the ways."""
    options = {"reason": "a test"} if how == "dead_letter" else {}
    getattr(queue, how)(claim, **options)


@pytest.mark.parametrize("again", HOW)
@pytest.mark.parametrize("how", ["release", "reject"])
def test_a_claim_that_was_returned_settles_no_newer_one(
    one: Claims, other: Claims, how: str, again: str
) -> None:
    queue = one.queue("Q")
    [old] = queue.claim()
    settle(queue, how, old)
    [new] = queue.claim()
    assert new.sequence == old.sequence

    with pytest.raises(ClaimLost) as lost:
        settle(queue, again, old)

    assert lost.value.sequences == (old.sequence,)
    one.database.return_orphans()  # which returns what nobody holds
    assert other.queue("Q").claim() == []
    queue.acknowledge(new)
    assert queue.count() == (0, 0)


@pytest.mark.parametrize("how", ["release", "reject"])
def test_a_return_in_doubt_that_is_made_again_leaves_a_newer_claim(
    one: Claims, other: Claims, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    queue = one.queue("Q")
    [old] = queue.claim()

    def lost(_: Any) -> None:
        monkeypatch.undo()
        raise OutcomeUnknown

    monkeypatch.setattr(one.database, "run", lost)
    with pytest.raises(OutcomeUnknown):
        settle(queue, how, old)
    with pytest.raises(ClaimLost):
        settle(queue, how, old)
    [new] = queue.claim()
    with pytest.raises(ClaimLost):
        settle(queue, how, old)

    one.database.return_orphans()
    assert other.queue("Q").claim() == []
    queue.acknowledge(new)


@pytest.mark.parametrize("how", HOW)
def test_a_claim_is_settled_by_one_call_at_a_time(
    one: Claims, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Once the first call has returned the message, the second one could meet a newer claim."""
    queue, run, new = one.queue("Q"), one.database.run, list[Claim]()
    [old] = queue.claim()

    def overtaken(work: Callable[[Connection], Any]) -> Any:
        monkeypatch.undo()
        if how != "extend":  # which changes nothing
            with pytest.raises(ClaimLost):
                settle(queue, how, old)
        result = run(work)
        queue.returned()  # as if it were time to look from the start
        new.extend(queue.claim())
        with pytest.raises(ClaimLost):
            settle(queue, how, old)
        return result

    monkeypatch.setattr(one.database, "run", overtaken)
    queue.release(old)

    queue.acknowledge(*new)
    assert queue.count() == (0, 0)


def fail_once(claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next work fail, as if the database did not answer."""

    def unavailable(_: Any) -> None:
        monkeypatch.undo()
        raise StoreUnavailable("a test")

    monkeypatch.setattr(claims.database, "run", unavailable)


@pytest.mark.parametrize("how", [how for how in HOW if how != "extend"])
def test_what_could_not_be_settled_can_be_again(
    one: Claims, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Then the process has forgotten the claim: it may run for years."""
    queue = one.queue("Q")
    [claim] = queue.claim()

    fail_once(one, monkeypatch)
    with pytest.raises(StoreUnavailable, match="a test"):
        settle(queue, how, claim)
    assert queue.held.of(claim.session) == {claim.sequence}

    settle(queue, how, claim)
    assert queue.held.of(claim.session) == set()


def test_a_claim_that_could_not_be_abandoned_is_returned_later(
    one: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = one.queue("Q")
    [claim] = queue.claim()

    fail_once(one, monkeypatch)
    queue.abandon([claim])

    [again] = queue.claim()
    assert (again.sequence, again.redeliveries) == (claim.sequence, 0)


@pytest.mark.parametrize("error", [StoreUnavailable("a test"), ClaimLost(())], ids=["outage", "lost"])
def test_what_was_claimed_and_could_not_be_buried_is_returned(
    one: Claims, database: Database, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    """And so are the messages that were claimed with it, unless these are delivered."""
    queue, good = one.queue("Q"), list[Claim]()
    [damaged] = queue.add(Message("damaged"))
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE ID = :id", msg=b"\0", id=damaged)

    def settle(*_: Any, **__: Any) -> None:
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(queue.settling, "settle", settle)
    with suppress(StoreUnavailable):
        good += queue.claim(2)
    assert one.queue("ActiveMQ.DLQ").count() == (0, 0)

    queue.returned()  # as if it were time to look from the start
    good += queue.claim(2)
    assert [(claim.message.body, claim.redeliveries) for claim in good] == [("0", 0)]
    assert one.queue("ActiveMQ.DLQ").count() == (1, 1)


def test_a_claim_that_was_returned_by_a_joined_transaction_settles_no_newer_one(
    one: Claims, database: Database
) -> None:
    queue = one.queue("Q")
    [old] = queue.claim()
    with opened(database.url, "core") as caller:
        one.join(caller.connection).release("Q", old)
        caller.commit()
        queue.returned()
        [new] = queue.claim()
        for how in ("release", "acknowledge"):
            with pytest.raises(ClaimLost):
                getattr(one.join(caller.connection), how)("Q", old)
        caller.rollback()
        one.join(caller.connection).acknowledge("Q", new)
        caller.commit()
    assert queue.count() == (0, 0)


def test_a_copy_of_a_claim_settles_it(one: Claims) -> None:
    queue = one.queue("Q")
    [claim] = queue.claim()
    queue.acknowledge(replace(claim, redeliveries=1))
    with pytest.raises(ClaimLost):
        queue.acknowledge(claim)


def test_an_old_claim_beside_a_new_one_of_the_same_message_is_the_only_one_lost(one: Claims) -> None:
    """As a worker may have them that settles many at once."""
    queue = one.queue("Q")
    [old] = queue.claim()
    queue.release(old)
    [new] = queue.claim()
    both = [old, new]
    sharing.settle(queue.acknowledge, both)
    assert both == []
    assert queue.count() == (0, 0)


HOUR_MS = 3_600_000


def set_clock_back(database: Database) -> None:
    """As if the database's clock had been set back by an hour."""
    for table, column in (("CLAIM_SESSIONS", "EXPIRES"), ("CLAIMS", "DUE")):
        database.execute(
            f"UPDATE JDBCSTORE_{table} SET {column} = {column} + {HOUR_MS} WHERE {column} > {HOUR_MS}"
        )
    database.execute(f"UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER + {HOUR_MS} WHERE NAME = 'clock'")


def test_a_clock_that_is_set_back_lengthens_no_lease_and_no_delay(
    open_claims: OpenClaims, database: Database
) -> None:
    victim, other = open_claims(name="victim", lease=60.0), open_claims(name="other", lease=60.0)
    queue = other.queue("ORDERS")
    queue.add(Message("held"), Message("later"))
    assert victim.queue("ORDERS").claim()
    queue.reject(*queue.claim(), delay=100.0)

    set_clock_back(database)
    assert all(one.lease_left > 3000 for one in read_shared(other.database.session).workers)
    open_claims(name="third", lease=60.0)

    assert all(0 < one.lease_left < 70 for one in read_shared(other.database.session).workers)
    held = read_held(other.database.session, queue.destination, 9)
    assert [(one.worker, one.due_in < 110) for one in held] == [("victim", True), (None, True)]
    assert held[1].due_in > 50
    victim.database.lease.check()


def test_a_clock_that_is_set_forward_is_noted_with_the_lease(
    open_claims: OpenClaims, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease ends an hour later then: once the clock is right again, that is seen."""
    note = "SELECT NUMBER FROM JDBCSTORE_STATE WHERE NAME = 'clock'"
    claims, renewed = open_claims(lease=3.0), threading.Event()
    monkeypatch.setattr(claims.database.lease, "_renewed", renewed.set)
    [(before,)] = database.rows(note)
    database.execute(f"UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER - {HOUR_MS} WHERE NAME = 'clock'")
    for _ in range(2):  # the first one may have begun before
        renewed.clear()
        assert renewed.wait(180.0)
    [(after,)] = database.rows(note)
    assert after >= before


def test_a_store_opens_soon_after_the_clock_was_set_back(open_claims: OpenClaims, database: Database) -> None:
    claims = open_claims(name="victim", lease=60.0)
    set_clock_back(database)

    with pytest.raises(NotMaster, match="victim"):
        JdbcStore(database.url, locker=LeaseDatabaseLocker(name="broker"), lock_timeout=0.0)

    assert 0 < read_shared(claims.database.session).workers[0].lease_left < 70


def test_a_dead_letter_that_is_lost_is_not_made(one: Claims, other: Claims, database: Database) -> None:
    [claim] = one.queue("Q").claim()
    expire(database, one)
    assert len(other.queue("Q").claim()) == 1
    with pytest.raises(ClaimLost):
        one.queue("Q").dead_letter(claim, reason="a test")
    assert one.queue("ActiveMQ.DLQ").count() == (0, 0)
