"""Claims that are settled in the application's own transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from jdbcstore import Message, StoreConfig
from jdbcstore.errors import ClaimLost, ConfigurationError, TransactionError
from jdbcstore.stores.claims import Claim, ClaimQueue, Claims
from tests.stores.claims.conftest import OpenClaims
from tests.support.claims.callers import WAYS, Caller, create_effects, effects, opened
from tests.support.databases import Database, GroupDatabase
from tests.support.servers import Server

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

servers = pytest.mark.backends("postgresql", "mariadb", "mysql")
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, database: Database) -> str:
    if request.param == "SERIALIZABLE" and isinstance(database, GroupDatabase):
        pytest.skip("a group with several primaries refuses writes of serializable transactions")
    return str(request.param)


def one_claim(queue: ClaimQueue, name: str = "0") -> Claim:
    queue.add(Message(name))
    [claim] = queue.claim()
    return claim


def work(claims: Claims, caller: Caller, claim: Claim) -> None:
    """Write, send and acknowledge."""
    joined, name = claims.join(caller.connection), str(claim.message.body)
    caller.write(name)
    joined.add("SENT", Message(name))
    joined.acknowledge("ORDERS", claim)


@contextmanager
def expired(database: Database) -> Iterator[None]:
    """While all leases have expired by the database, which their processes do not know."""
    [(most,)] = database.rows("SELECT MAX(EXPIRES) FROM JDBCSTORE_CLAIM_SESSIONS")
    database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1")
    yield
    database.execute(f"UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = {most}")


def test_consumed_written_and_sent_in_one_commit_or_not_at_all(claims: Claims, database: Database) -> None:
    create_effects(database)
    queue, sent = claims.queue("ORDERS"), claims.queue("SENT")
    for number, way in enumerate(WAYS):
        claim = one_claim(queue, way)
        with opened(database.url, way) as caller:
            work(claims, caller, claim)
            caller.rollback()
            assert queue.count() == (1, 0), "it is claimed as before"
            work(claims, caller, claim)
            caller.commit()
        assert (queue.count(), sent.count()) == ((0, 0), (number + 1, number + 1))
        claims.database.return_orphans()
        with pytest.raises(ClaimLost):
            queue.acknowledge(claim)
    assert effects(database) == sorted(WAYS)
    assert queue.held.joined == {}
    assert queue.held.of(claims.database.lease.number) == set()


@pytest.mark.parametrize("method", ["acknowledge", "release", "add"])
def test_without_the_name_of_the_queue_it_is_refused(claims: Claims, database: Database, method: str) -> None:
    queue = claims.queue("ORDERS")
    claim = one_claim(queue)
    first = claim.message if method == "add" else claim
    with opened(database.url, "driver") as caller:
        with pytest.raises(TypeError, match="the first argument is the queue"):
            getattr(claims.join(caller.connection), method)(first)
        caller.rollback()
    queue.acknowledge(claim)


@servers
@pytest.mark.parametrize("producer", ["joined", "alone"])
def test_what_a_producer_adds_afterwards_does_not_overtake(
    open_claims: OpenClaims, database: Database, producer: str
) -> None:
    """Others add and claim while its first transaction is open, whose message has an earlier ID."""
    claims, worker = open_claims(), open_claims()
    queue, mine = worker.queue("ORDERS"), claims.queue("ORDERS")
    queue.flow.share(in_order=True)
    bodies = list[object]()
    for number in range(3):
        with opened(database.url, "core") as caller:
            claims.join(caller.connection).add("ORDERS", Message(f"created {number}", group_id="k"))
            for other in range(2):
                mine.add(Message("other", group_id=f"other {number} {other}"))
                queue.acknowledge(*queue.claim(9))
            caller.commit()
        if producer == "alone":
            mine.add(Message(f"paid {number}", group_id="k"))
        else:
            with opened(database.url, "core") as caller:
                claims.join(caller.connection).add("ORDERS", Message(f"paid {number}", group_id="k"))
                caller.commit()
        while len(bodies) < 2 * number + 2:
            for claim in queue.claim(9, wait=60.0):
                bodies.append(claim.message.body)
                queue.acknowledge(claim)

    assert bodies == [f"{what} {number}" for number in range(3) for what in ("created", "paid")]
    assert database.rows("SELECT ID FROM JDBCSTORE_KEYED") == []


def test_released_after_the_commit(claims: Claims, database: Database) -> None:
    queue = claims.queue("ORDERS")
    queue.add(Message("now"), Message("later"))
    now, later = queue.claim(2)
    before = claims.database.wakeups.count(queue.destination.qualified_name)
    with opened(database.url, "driver") as caller:
        joined = claims.join(caller.connection)
        joined.release("ORDERS", now)
        joined.release("ORDERS", later, delay=3600.0)
        assert queue.count() == (2, 0)
        caller.commit()
        joined.wake()
    assert queue.count() == (2, 1)
    assert claims.database.wakeups.count(queue.destination.qualified_name) != before
    [again] = queue.claim(9)
    assert (again.message.body, again.redeliveries) == ("now", 0)


def test_a_claim_that_another_has_taken_is_lost(open_claims: OpenClaims, database: Database) -> None:
    create_effects(database)
    one, other = open_claims(lease=600.0), open_claims(lease=600.0)
    claim = one_claim(one.queue("ORDERS"))
    number = one.database.lease.number
    database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE ID = :id", id=number)
    [again] = other.queue("ORDERS").claim()
    with opened(database.url, "core") as caller:
        caller.write("0")
        with pytest.raises(ClaimLost) as lost:
            one.join(caller.connection).acknowledge("ORDERS", claim)
        caller.rollback()
        assert lost.value.sequences == (claim.sequence,)
        work(other, caller, again)
        caller.commit()
    assert effects(database) == ["0"]
    assert one.queue("SENT").count() == (1, 1)


def test_a_lease_that_was_begun_again_has_lost_its_claims(claims: Claims, database: Database) -> None:
    queue = claims.queue("ORDERS")
    claim = one_claim(queue)
    database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1")
    claims.database.lease.renew()
    with opened(database.url, "driver") as caller, pytest.raises(ClaimLost):
        claims.join(caller.connection).acknowledge("ORDERS", claim)
    assert queue.count() == (1, 1)


@servers
def test_what_is_settled_is_nobodys_although_the_lease_expires(
    open_claims: OpenClaims, database: Database
) -> None:
    one, other = open_claims(lease=600.0), open_claims(lease=600.0)
    claim = one_claim(one.queue("ORDERS"))
    with opened(database.url, "core") as caller:
        one.join(caller.connection).acknowledge("ORDERS", claim)
        with expired(database):
            assert other.queue("ORDERS").claim() == []
        caller.commit()
    assert one.queue("ORDERS").count() == (0, 0)


@pytest.mark.backends("postgresql")
def test_a_claim_that_is_being_released_is_passed_over(open_claims: OpenClaims, database: Database) -> None:
    """Whoever waited for it with a locked message would be waited for by those that settle that one."""
    one, other = open_claims(lease=600.0), open_claims(lease=600.0)
    queue = one.queue("ORDERS")
    claim = one_claim(queue)
    queue.add(Message("next"))
    with opened(database.url, "core") as caller:
        one.join(caller.connection).release("ORDERS", claim)
        with expired(database):
            assert [found.message.body for found in other.queue("ORDERS").claim()] == ["next"]
        caller.commit()
    assert queue.count() == (2, 1)


@servers
def test_isolation(open_claims: OpenClaims, database: Database, level: str) -> None:
    create_effects(database)
    claims = open_claims(lease=600.0)
    queue = claims.queue("ORDERS")
    claim = one_claim(queue)
    with opened(database.url, "core", level) as caller:
        with expired(database):
            caller.run("SELECT * FROM ACTIVEMQ_MSGS")  # the lease was renewed after this snapshot
        work(claims, caller, claim)
        caller.commit()
    assert (queue.count(), effects(database)) == ((0, 0), ["0"])

    with opened(database.url, "core", level) as caller:
        caller.run("SELECT * FROM app_effects")
        late = one_claim(queue, "late")  # after this snapshot
        if level != "READ COMMITTED" and (refused := refusal_of_late_claims(database)):
            kind, words = refused
            with pytest.raises(kind, match=words):
                work(claims, caller, late)
            caller.rollback()
        work(claims, caller, late)
        caller.commit()
    assert (queue.count(), effects(database)) == ((0, 0), ["0", "late"])


def refusal_of_late_claims(database: Database) -> tuple[type[Exception], str] | None:
    """The error for claims that are younger than a snapshot, and its words."""
    if database.engine.dialect.name == "postgresql":
        return ConfigurationError, "began before the claim"
    setting = database.rows("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'")
    if setting == [("innodb_snapshot_isolation", "ON")]:
        return DBAPIError, "1020, .*try restarting transaction"
    return None


@pytest.mark.backends("mariadb")
def test_snapshot_isolation(server: Server, open_claims: OpenClaims, database: Database, level: str) -> None:
    server.execute_as_administrator("SET GLOBAL innodb_snapshot_isolation = ON")
    test_isolation(open_claims, database, level)


@servers
def test_the_lease_is_not_locked(claims: Claims, database: Database, level: str) -> None:
    """It has to be renewed while the transaction is open."""
    with opened(database.url, "core", level) as caller:
        claims.join(caller.connection).add("SENT", Message("0"))
        free = "SELECT COUNT(*) FROM (SELECT ID FROM JDBCSTORE_CLAIM_SESSIONS FOR UPDATE SKIP LOCKED) AS free"
        assert database.rows(free) == [(1,)]
        caller.commit()


def test_limits_and_order_follow_the_transaction(claims: Claims, database: Database) -> None:
    queue = claims.queue("ORDERS")
    queue.flow.share(in_order=True)
    queue.flow.limit(claims=1)
    queue.add(Message("0", group_id="a"), Message("1", group_id="a"))
    keyed = "SELECT COUNT(*) FROM JDBCSTORE_KEYED"
    [claim] = queue.claim(9)
    with opened(database.url, "driver") as caller:
        joined = claims.join(caller.connection)
        joined.acknowledge("ORDERS", claim)
        assert database.rows(keyed) == [(2,)]
        if claims.database.session.adapter.locks_rows:
            assert queue.claim(9) == [], "there is no room before the commit"
        caller.rollback()
        assert queue.claim(9) == []
        joined.acknowledge("ORDERS", claim)
        caller.commit()
        joined.wake()
    assert database.rows(keyed) == [(1,)]
    assert [one.message.body for one in queue.claim(9)] == ["1"]


@servers
def test_a_long_transaction_keeps_nobody_from_filing_keys(
    open_claims: OpenClaims, database: Database
) -> None:
    claims = open_claims()
    queue = claims.queue("ORDERS")
    queue.flow.share()
    queue.add(Message("0", group_id="a"))
    [claim] = queue.claim()
    with opened(database.url, "core", "REPEATABLE READ") as caller:
        claims.join(caller.connection).acknowledge("ORDERS", claim)
        queue.add(Message("1", group_id="a"))
        assert [one.message.body for one in queue.claim(9)] == ["1"]
        caller.commit()


def test_the_history_has_what_was_committed(open_claims: OpenClaims, database: Database) -> None:
    claims = open_claims(config=StoreConfig(history_retention=3600.0))
    queue = claims.queue("ORDERS")
    claim = one_claim(queue)
    found = "SELECT OUTCOME FROM JDBCSTORE_HISTORY"
    with opened(database.url, "core") as caller:
        claims.join(caller.connection).acknowledge("ORDERS", claim)
        caller.rollback()
        assert database.rows(found) == []
        claims.join(caller.connection).acknowledge("ORDERS", claim)
        caller.commit()
    assert database.rows(found) == [("acknowledged",)]


def test_connections_that_cannot_be_joined(claims: Claims, database: Database) -> None:
    queue = claims.queue("ORDERS")
    claim = one_claim(queue)
    with opened(database.url, "driver", "AUTOCOMMIT") as caller:
        joined = claims.join(caller.connection)
        with pytest.raises(ConfigurationError, match="begin a transaction"):
            joined.acknowledge("ORDERS", claim)
        with pytest.raises(ConfigurationError, match="begin a transaction"):
            joined.add("ORDERS", Message("1"))
    with opened(database.url, "core") as caller:
        caller.connection.close()
        with pytest.raises(TransactionError, match="closed"):
            claims.join(caller.connection).acknowledge("ORDERS", claim)

    class Foreign:
        def cursor(self) -> None: ...

        async def commit(self) -> None: ...

    with pytest.raises(ConfigurationError, match="asynchronous"):
        claims.join(Foreign())
    del Foreign.commit
    with pytest.raises(ConfigurationError, match=r"Foreign, and the store uses the driver"):
        claims.join(Foreign())
    with pytest.raises(ConfigurationError, match="cannot join a dict"):
        claims.join({})
    queue.acknowledge(claim)


@pytest.fixture
def elsewhere(database: Database) -> Iterator[str]:
    """A statement after which a connection is where the tables are not."""
    if database.engine.dialect.name == "postgresql":
        yield "SET search_path TO pg_catalog"
        return
    name = f"{database.name}_elsewhere"
    database.execute(f"CREATE DATABASE {name}")
    yield f"USE {name}"
    database.execute(f"DROP DATABASE {name}")


@servers
def test_a_transaction_without_the_tables(claims: Claims, database: Database, elsewhere: str) -> None:
    claim = one_claim(claims.queue("ORDERS"))
    for way in ("core", "driver"):
        with opened(database.url, way) as caller:
            caller.run(elsewhere)
            with pytest.raises(ConfigurationError, match="same database and schema"):
                claims.join(caller.connection).acknowledge("ORDERS", claim)
            caller.rollback()


@pytest.mark.backends("postgresql")
def test_a_transaction_that_has_failed(claims: Claims, database: Database) -> None:
    claim = one_claim(claims.queue("ORDERS"))
    for way in ("core", "driver"):
        with opened(database.url, way) as caller:
            with pytest.raises(Exception, match="nowhere"):
                caller.run("SELECT * FROM nowhere")
            with pytest.raises(TransactionError, match="roll it back"):
                claims.join(caller.connection).acknowledge("ORDERS", claim)
            caller.rollback()
            claims.join(caller.connection).release("ORDERS", claim)
            caller.rollback()


@pytest.mark.backends("sqlite")
def test_another_database_with_the_same_tables(
    claims: Claims, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    queue = claims.queue("ORDERS")
    claim = one_claim(queue)
    url = f"sqlite:///{tmp_path_factory.mktemp('other')}/other.db"
    with Claims(url) as others, opened(url, "driver") as caller:
        joined = claims.join(caller.connection)
        with pytest.raises(ConfigurationError, match="another database"):
            joined.acknowledge("ORDERS", claim)
        with pytest.raises(ConfigurationError, match="another database"):
            joined.add("ORDERS", Message("1"))
        caller.rollback()
        assert others.queue("ORDERS").count() == (0, 0)
    engine = create_engine(database.url)
    with engine.begin() as connection:
        claims.join(connection).acknowledge("ORDERS", claim)
    engine.dispose()
    assert queue.count() == (0, 0)
