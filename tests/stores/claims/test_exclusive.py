"""Claims and stores of one master refuse each other, and continue each other's IDs."""

from __future__ import annotations

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.errors import NotMaster
from jdbcstore.lockers.database import LeaseDatabaseLocker
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.jdbc.store import JdbcStore
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb")


def master(url: str) -> JdbcStore:
    return JdbcStore(url, locker=LeaseDatabaseLocker(name="broker"), lock_timeout=0.0)


def test_a_master_refuses_claims(url: str) -> None:
    with master(url) as store:
        with pytest.raises(NotMaster, match="broker") as refused:
            Claims(url)
        assert str(refused.value.holder).startswith("broker")
        store.queue("ORDERS").add_message(Message("x"))

    with Claims(url) as claims:
        assert [claim.message.body for claim in claims.queue("ORDERS").claim()] == ["x"]


def test_claims_refuse_a_master(open_claims: OpenClaims, url: str) -> None:
    claims = open_claims(name="worker-7")
    with pytest.raises(NotMaster, match="worker-7"):
        master(url)
    with pytest.raises(NotMaster, match="worker-7"):
        jdbcstore.open(url)
    with JdbcStore(url, read_only=True) as store:
        assert str(store.lock().holder).startswith("worker-7")

    claims.close()

    with master(url) as store:
        assert store.lock().holder is not None


def test_a_store_without_a_locker_adds_nothing_once_messages_are_claimed(url: str) -> None:
    with jdbcstore.open(url) as store:
        orders = store.queue("ORDERS")
        orders.add_message(Message("0"))
        with Claims(url) as claims:
            claims.queue("ORDERS").add(Message("1"))
            with pytest.raises(NotMaster):
                orders.add_message(Message("2"))
        orders.add_message(Message("3"))
        assert [message.body for message in orders.recover(limit=9)] == ["0", "1", "3"]


def test_a_claimer_that_died_is_refused_for_as_long_as_its_lease(database: Database) -> None:
    claims = Claims(database.url, lease=60.0)
    try:
        database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1")
        with jdbcstore.open(database.url) as store:
            store.queue("ORDERS").add_message(Message("x"))
    finally:
        claims.close()


def test_ids_are_never_given_twice(url: str) -> None:
    ids: list[int] = []
    for _ in range(2):
        with jdbcstore.open(url) as store:
            orders = store.queue("ORDERS")
            reference = orders.add_message(Message("x"))
            ids.append(reference.sequence)
            orders.acknowledge(reference)
        with Claims(url) as claims:
            queue = claims.queue("ORDERS")
            ids += queue.add(Message("y"), Message("z"))
            queue.acknowledge(*queue.claim(2))

    assert ids == sorted(set(ids))
