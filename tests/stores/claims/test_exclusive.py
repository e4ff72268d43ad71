"""Claims and stores of one master refuse each other, and continue each other's IDs."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Self

import pytest
from sqlalchemy import create_engine, make_url

import jdbcstore
from jdbcstore import Message
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.errors import ClaimLost, NotMaster, OutcomeUnknown
from jdbcstore.lockers.database import LeaseDatabaseLocker
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.claims.routing import Routing
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.jdbc.writer.committer import Committer
from jdbcstore.testing.polling import wait_until
from tests.stores.claims.conftest import OpenClaims
from tests.support.claims.worker import Worker
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


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


def test_one_whose_lease_a_master_has_ended_adds_nothing(database: Database) -> None:
    """It believes in its lease, as a process that stood still does, or one with a statement under way."""
    claims = Claims(database.url, max_redeliveries=0, dead_letters="DEAD")
    engine = create_engine(database.url)
    try:
        queue, routing = claims.queue("ORDERS"), Routing(claims, 0.0)
        queue.add(Message("poison"), Message("lost"))
        poison, lost = queue.claim(2)
        # Alive for its own renewals and claims, but not for the master.
        number = claims.database.lease.number
        database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET ID = -1, EXPIRES = 1")
        with master(database.url) as store:
            [(lease,)] = database.rows("SELECT EXPIRES FROM JDBCSTORE_CLAIM_SESSIONS")
            with pytest.raises(ClaimLost):
                queue.acknowledge(lost)
            database.execute(f"UPDATE JDBCSTORE_CLAIM_SESSIONS SET ID = {number}, EXPIRES = {2**52}")
            for add in (
                lambda: queue.add(Message("one")),
                lambda: queue.add(Message("several"), Message("several")),
                lambda: queue.add(Message("later"), delay=1.0),
                lambda: queue.reject(poison),
                lambda: routing.send(lambda: {"ORDERS": Message("routed")}),
                lambda: routing.send(lambda: {"ORDERS": Message("a"), "OTHER": Message("b")}),
            ):
                with pytest.raises(NotMaster, match="broker"):
                    add()
            with engine.connect() as connection, pytest.raises(NotMaster, match="broker"):
                claims.join(connection).add("ORDERS", Message("joined"))
            assert [message.body for message in store.queue("ORDERS").recover()] == ["poison", "lost"]
            assert store.queue("DEAD").message_count() == 0
        # It serves no longer, and claims go on.
        assert queue.add(Message("after"))
        assert lease == 1
    finally:
        engine.dispose()
        claims.close()


# INNODB_TRX does not change while it is asked often.
_OF_INNODB = (
    "SELECT 1 FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND INFO LIKE 'UPDATE%epoch%'"
)
WAITING = {
    "postgresql": "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    " AND wait_event_type = 'Lock'",
    **dict.fromkeys(("mariadb", "mysql"), _OF_INNODB),
}


@pytest.mark.needs("row_locks")
@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("locker", [LeaseDatabaseLocker, None])
def test_a_store_waits_for_what_a_joined_transaction_has_added(locker: Any, database: Database) -> None:
    claims, committed, found = Claims(database.url), threading.Event(), list[object]()
    engine = create_engine(database.url)

    def serve() -> None:
        with JdbcStore(database.url, locker=locker and locker(name="broker")) as store:
            found.append(committed.is_set())
            found.extend(message.body for message in store.queue("ORDERS").recover())

    try:
        with engine.connect() as connection:
            claims.join(connection).add("ORDERS", Message("x"))
            claims.close()
            serving = threading.Thread(target=serve)
            serving.start()
            # A store that does not wait is found, too.
            wait_until(lambda: found or database.rows(WAITING[claims.database.session.adapter.name]))
            committed.set()
            connection.commit()
        serving.join()
    finally:
        engine.dispose()
        claims.close()
    assert found == [True, "x"]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_process_that_stands_still_while_it_looks_for_a_master_is_none(database: Database) -> None:
    with JdbcStore(database.url) as store:
        session = DatabaseSession(database.url, store.config)
        try:
            with contextlib.closing(session.connect()) as looks:
                looks.begin()
                looks.fetch(session.of(LockStatements).lock_probe)
                with Claims(database.url) as claims:
                    claims.queue("ORDERS").add(Message("x"))
        finally:
            session.close()


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


@pytest.mark.backends("postgresql", "mariadb")
@pytest.mark.parametrize("locker", [..., None])
@pytest.mark.parametrize("end", ["expired", "released", "removed"])
def test_nothing_is_added_behind_a_store_that_opened_after_the_lease(
    end: str, open_claims: OpenClaims, database: Database, locker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is paused for longer than its lease, between the numbers of its messages and their commit."""
    claims, stores = open_claims(name="paused", lease=600.0), list[JdbcStore]()
    numbers, passed = claims.database.adder.numbers, list[int]()

    def paused(*given: Any) -> list[int]:
        found = numbers(*given)
        if not stores:
            if end == "released":
                with Claims(database.url) as administrator:
                    administrator.database.lease.end_those_of("paused")
            elif end == "removed":  # by processes that began a day later
                database.execute("DELETE FROM JDBCSTORE_CLAIM_SESSIONS")
            else:
                database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1")
            stores.append(JdbcStore(database.url, locker=locker))
            passed.append(stores[0].queue("ORDERS").add_message(Message("passed")).sequence)
        return found

    monkeypatch.setattr(claims.database.adder, "numbers", paused)
    ids = claims.queue("ORDERS").add(Message("0"), Message("1"))

    [store] = stores
    assert min(ids) > passed[0]
    assert [one.body for one in store.queue("ORDERS").recover()] == ["passed", "0", "1"]
    with pytest.raises(NotMaster):
        store.queue("ORDERS").add_message(Message("beside claims"))
    store.close()


def test_a_store_that_opens_after_the_claims_ends_no_masters_epoch(database: Database) -> None:
    with Claims(database.url):
        database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1")
        with master(database.url) as served, JdbcStore(database.url, locker=None):
            served.queue("ORDERS").add_message(Message("x"))


def in_transaction(store: JdbcStore, one: Message) -> None:
    with store.transaction() as transaction:
        transaction.queue("ORDERS").acknowledge(one)


WRITES: dict[str, Callable[[JdbcStore, Message], object]] = {
    "acknowledgement": lambda store, one: store.queue("ORDERS").acknowledge(one),
    "update": lambda store, one: store.queue("ORDERS").update_message(one.replace(body="changed")),
    "purge": lambda store, _: store.queue("ORDERS").remove_all_messages(),
    "transaction": in_transaction,
    "subscription": lambda store, _: store.topic("PRICES").subscribe("client", "subscription"),
    "message": lambda store, _: store.queue("ORDERS").add_message(Message("more")),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_store_without_a_locker_writes_nothing_while_another_process_claims(
    write: str, database: Database
) -> None:
    """It was opened before, and would acknowledge what the other one delivers."""
    tables = {"ACTIVEMQ_MSGS": "ID, CONTAINER, MSG", "ACTIVEMQ_ACKS": "CONTAINER, CLIENT_ID, LAST_ACKED_ID"}

    def rows() -> list[list[Any]]:
        return [database.rows(f"SELECT {columns} FROM {table}") for table, columns in tables.items()]

    with JdbcStore(database.url) as store:
        orders = store.queue("ORDERS")
        orders.add_messages([Message("0"), Message("1")])
        one = orders.recover()[0]
        orders.acknowledge(orders.recover()[1])
        for _ in range(2):
            with Worker(database.url, name="worker-7") as worker:
                assert worker.ask("claim 1") == ["0"]
                before = rows()
                with pytest.raises(NotMaster, match="worker-7"):
                    WRITES[write](store, one)
                assert rows() == before
        # It is closed: the message is the store's again.
        WRITES[write](store, one)
        assert rows() != before


@pytest.mark.backends("postgresql")
def test_a_lost_connection_is_not_waited_for_while_messages_are_claimed(
    open_claims: OpenClaims, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the store had sent may have been carried out, and it cannot write it again."""
    pauses: list[float] = []

    def pause(_: Committer, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 20:
            raise AssertionError("it waits until the claims are closed")

    monkeypatch.setattr(Committer, "pause", pause)
    with JdbcStore(database.url) as store:
        reference = store.queue("ORDERS").add_message(Message("0"))
        open_claims(name="worker-7")
        database.end_connections()
        with pytest.raises(OutcomeUnknown) as unknown:
            store.queue("ORDERS").acknowledge(reference)
        assert "worker-7" in str(unknown.value.__cause__)


def test_a_store_without_a_locker_closes_while_messages_are_claimed(
    open_claims: OpenClaims, url: str
) -> None:
    with jdbcstore.open(url) as store:
        store.queue("ORDERS").add_message(Message("0"))
        claims = open_claims()
    assert [claim.message.body for claim in claims.queue("ORDERS").claim()] == ["0"]


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


@pytest.mark.backends("sqlite")
def test_a_master_that_begins_before_a_joined_transaction_writes(database: Database) -> None:
    """SQLite's driver begins a transaction at its first write: a guard before that guards nothing."""
    claims, masters = Claims(database.url), list[JdbcStore]()

    class Late(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = (), /) -> Self:
            if not masters and not sql.startswith("SELECT"):
                number = claims.database.lease.number
                database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET ID = -1, EXPIRES = 1")
                masters.append(master(database.url))
                database.execute(
                    f"UPDATE JDBCSTORE_CLAIM_SESSIONS SET ID = {number}, EXPIRES = {2**52} WHERE ID = -1"
                )
            return super().execute(sql, parameters)

    class Application(sqlite3.Connection):
        def cursor(self, factory: Any = Late) -> Any:
            return super().cursor(factory)

    connection = sqlite3.connect(str(make_url(database.url).database), factory=Application)
    try:
        with pytest.raises(NotMaster, match="broker"):
            claims.join(connection).add("ORDERS", Message("x"))
        connection.rollback()
        [store] = masters
        assert not store.queue("ORDERS").message_count()
        store.close()
        # It serves no longer: what the application adds is in the new epoch.
        assert claims.join(connection).add("ORDERS", Message("x"))
        connection.commit()
        assert [claim.message.body for claim in claims.queue("ORDERS").claim()] == ["x"]
    finally:
        connection.close()
        for store in masters:
            store.close()
        claims.close()
