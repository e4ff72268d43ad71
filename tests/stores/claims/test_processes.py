"""Processes that end, stop or come back: what becomes of their claims."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from jdbcstore import Message
from jdbcstore.errors import ClaimLost
from jdbcstore.testing.polling import wait_until
from tests.stores.claims.conftest import OpenClaims
from tests.support.claims.worker import Worker
from tests.support.databases import Database

pytestmark = [pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql"), pytest.mark.slow]

LEASE = 5.0
"""Seconds; a process of a busy machine may not run for as long as one."""

one_is_enough = pytest.mark.backends("postgresql")
"""For what takes longer than a lease, and no database decides."""


def test_two_processes_claim_each_message_once(open_claims: OpenClaims, url: str) -> None:
    queue = open_claims().queue("ORDERS")
    queue.add(*(Message(str(number)) for number in range(400)))

    with Worker(url) as one, Worker(url) as other:
        one.tell("drain 9")
        other.tell("drain 9")
        found = Counter([*one.answer(), *other.answer()])

    assert found == Counter(str(number) for number in range(400))
    assert queue.count() == (0, 0)


def test_what_a_killed_process_claimed_is_claimed_by_another(open_claims: OpenClaims, url: str) -> None:
    queue = open_claims().queue("ORDERS")
    queue.add(Message("0"), Message("1"))

    with Worker(url, LEASE) as worker:
        assert worker.ask("claim 2") == ["0", "1"]
        assert queue.claim(2) == []
        worker.kill()
        [zero, one] = queue.claim(2, wait=180.0)

    assert [(claim.message.body, claim.redeliveries) for claim in (zero, one)] == [("0", 1), ("1", 1)]
    queue.acknowledge(zero, one)


@one_is_enough
def test_a_process_that_works_for_longer_than_its_lease_keeps_its_claims(
    open_claims: OpenClaims, url: str
) -> None:
    queue = open_claims().queue("ORDERS")
    queue.add(Message("0"))

    with Worker(url, LEASE) as worker:
        assert worker.ask("claim 1") == ["0"]
        assert queue.claim(1, wait=2 * LEASE) == []
        assert worker.ask("acknowledge") is None
    assert queue.count() == (0, 0)


@one_is_enough
def test_a_stopped_process_finds_its_claims_lost(open_claims: OpenClaims, url: str) -> None:
    queue = open_claims().queue("ORDERS")
    queue.add(Message("0"))

    with Worker(url, LEASE) as worker:
        assert worker.ask("claim 1") == ["0"]
        os.kill(worker.process.pid, signal.SIGSTOP)
        try:
            [claim] = queue.claim(1, wait=180.0)
            assert queue.claim(1, wait=LEASE) == []
        finally:
            os.kill(worker.process.pid, signal.SIGCONT)
        assert worker.ask("acknowledge") == "ClaimLost"
        assert queue.count() == (1, 0)
        queue.acknowledge(claim)
        queue.add(Message("1"))
        assert worker.ask("claim 1") == ["1"]
        assert worker.ask("acknowledge") is None


def test_claims_of_a_session_that_was_deleted_are_free(open_claims: OpenClaims, database: Database) -> None:
    one, other = open_claims(name="one").queue("ORDERS"), open_claims(name="other").queue("ORDERS")
    one.add(Message("0"))
    [lost] = one.claim()

    assert database.execute("DELETE FROM JDBCSTORE_CLAIM_SESSIONS WHERE NAME = 'one'") == 1

    [claim] = other.claim(wait=60.0)
    assert (claim.message.body, claim.redeliveries) == ("0", 1)
    with pytest.raises(ClaimLost):
        one.acknowledge(lost)
    other.acknowledge(claim)


@one_is_enough
def test_a_process_restarted_under_its_old_name_does_not_keep_the_claims_of_the_old_one(
    open_claims: OpenClaims, url: str, database: Database
) -> None:
    open_claims().queue("ORDERS").add(Message("0"))

    # The new one's lease is longer than any stay of this process, so it leaves one row at most.
    with Worker(url, LEASE, name="same") as old, Worker(url, 600.0, name="same") as new:
        assert old.ask("claim 1") == ["0"]
        old.kill()
        assert new.ask("claim 1") == ["0"]
        assert new.ask("acknowledge") is None
    wait_until(lambda: len(database.rows("SELECT ID FROM JDBCSTORE_CLAIM_SESSIONS WHERE NAME = 'same'")) <= 1)


@one_is_enough
def test_what_kills_each_process_becomes_a_dead_letter(open_claims: OpenClaims, url: str) -> None:
    claims = open_claims(max_redeliveries=0)
    queue = claims.queue("ORDERS")
    queue.add(Message("poison"), Message("good"))

    with Worker(url, LEASE) as worker:
        assert worker.ask("claim 1") == ["poison"]
        worker.kill()
        [good] = queue.claim()
        wait_until(lambda: queue.claim() == [] and queue.count()[0] == 1, what="that the poison is gone")

    assert good.message.body == "good"
    [letter] = claims.queue("ActiveMQ.DLQ").claim(wait=30.0)
    assert letter.message.body == "poison"
