"""What one claim reads, in a long queue and behind removed messages, and what rivals do to it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.database.statements.flow import FlowStatements
from jdbcstore.stores.claims import Claim, ClaimQueue, Claims
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database

pytestmark = [pytest.mark.backends("postgresql"), pytest.mark.slow]

REMOVED = 20_000


def buffers(database: Database, claims: Claims, queue: ClaimQueue) -> int:
    """The pages that a claim of ten reads, from where this process would begin to look."""
    sql = claims.database.session.of(ClaimStatements)
    begin, _ = queue._marks.begin()
    places = {"marks": begin.marks, "leaps": begin.leaps}
    row = sql.claim.row(container=queue.destination.qualified_name, session=1, limit=10, **places)
    return explained(database, claims, sql.claim, row)


def explained(database: Database, claims: Claims, sql: Sql, row: Row) -> int:
    """The pages that a statement of claims reads; what it writes is rolled back."""
    with database.engine.connect() as connection:
        raw: Any = connection.connection.dbapi_connection
        raw.autocommit = False
        cursor = raw.cursor()
        claims.database.session.adapter.control(cursor).read_in_order()
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql.text}", row)
        [[[plan]]] = cursor.fetchall()
        raw.rollback()
        raw.autocommit = True
    return max(int(node["Shared Hit Blocks"] + node["Shared Read Blocks"]) for node in nodes(plan["Plan"]))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan and all that is below it: what writes last is not counted above."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def test_a_claim_reads_little_behind_removed_messages(
    open_claims: OpenClaims, database: Database, clock: FakeClock
) -> None:
    claims = open_claims(clock=clock)
    queue = claims.queue("ORDERS")
    queue.claim()
    queue.add(*(Message("fresh") for _ in range(10)))
    fresh = buffers(database, claims, queue)
    with database.engine.connect() as snapshot:
        # The marks of this process advance; the old snapshot keeps every removed row.
        snapshot.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ")
        snapshot.exec_driver_sql("SELECT COUNT(*) FROM activemq_msgs")
        for _ in range(REMOVED // 2000):
            queue.add(*(Message("x") for _ in range(2000)))
            queue.acknowledge(*queue.claim(2000))
            clock.advance(0.3)
        queue.add(*(Message("x") for _ in range(10)))
        clock.advance(0.3)
        assert queue.claim(1)
        clock.advance(0.3)
        with database.engine.connect() as connection:
            # As autovacuum may at any time: the planner then takes the queue for a short one.
            connection.exec_driver_sql("ANALYZE activemq_msgs")

        assert buffers(database, claims, queue) <= 3 * fresh


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
def test_an_acknowledgement_reads_little_whatever_is_believed_of_the_table(
    open_claims: OpenClaims, database: Database, *, keyed: bool
) -> None:
    claims = open_claims()
    queue = claims.queue("ORDERS")
    if keyed:
        queue.flow.share()

    def fill() -> None:
        queue.add(*(Message("x", group_id=f"k{number % 7}") for number in range(3000)))
        queue.claim()

    fill()
    with database.engine.connect() as connection:
        for table in ("activemq_msgs", "jdbcstore_claims", *(["jdbcstore_keyed"] if keyed else ())):
            connection.exec_driver_sql(f"DELETE FROM {table}")
            # As autovacuum may: many pages, in which it has found no row.
            connection.exec_driver_sql(f"VACUUM (ANALYZE, TRUNCATE OFF) {table}")
    fill()
    found = queue.claim(10)
    ids = [claim.sequence for claim in found]
    sql = claims.database.session.of(ClaimStatements)
    acknowledge = sql.acknowledge_keyed if keyed else sql.acknowledge
    row = acknowledge.row(ids=ids, session=found[0].session, count=len(ids))

    assert explained(database, claims, acknowledge, row) <= 30 * len(ids)


def test_a_claim_by_key_reads_little_in_a_table_of_which_nothing_is_known(
    open_claims: OpenClaims, database: Database
) -> None:
    claims = open_claims()
    queue = claims.queue("ORDERS")
    queue.flow.share()
    queue.add(*(Message("x", group_id=f"k{number % 7}") for number in range(3000)))
    assert queue.claim()
    container = queue.destination.qualified_name
    values = {"container": container, "session": claims.database.lease.number, "limit": 2, "number": 2}
    for sql in claims.database.session.of(FlowStatements).claim_next.values():
        row = sql.row(**values, after=queue._taking.keyed.filed_to)
        assert explained(database, claims, sql, row) <= 100


def test_a_claim_reads_little_behind_what_others_hold(
    open_claims: OpenClaims, database: Database, clock: FakeClock
) -> None:
    claims, other = open_claims(clock=clock), open_claims(clock=clock).queue("ORDERS")
    queue = claims.queue("ORDERS")
    queue.claim()
    other.add(*(Message(str(number)) for number in range(3000)))
    fresh = buffers(database, claims, queue)
    assert bodies(queue.claim(2)) == ["0", "1"]
    held = other.claim(2000)
    clock.advance(0.3)
    assert bodies(queue.claim(2)) == ["2002", "2003"]

    assert any(queue._marks.begin()[0].leaps)
    assert buffers(database, claims, queue) <= 4 * fresh
    assert bodies(queue.claim(3)) == ["2004", "2005", "2006"], "none was passed over"
    other.claim(1000)
    assert queue.claim() == []
    other.release(held[7])
    assert bodies(queue.claim()) == ["9"], "nothing is found so far away"


@pytest.mark.parametrize("is_limited", [False, True])
def test_what_becomes_free_before_the_place_where_claims_end_is_found(
    open_claims: OpenClaims, database: Database, clock: FakeClock, is_limited: bool
) -> None:
    queue, other = (open_claims(clock=clock).queue("ORDERS") for _ in range(2))
    queue.add(*(Message(str(number)) for number in range(300)))
    if is_limited:
        queue.flow.limit(claims=1000)
    queue.claim(2)
    held = other.claim(200)
    clock.advance(0.3)
    queue.claim(2)
    other.claim(300)
    assert any(queue._marks.begin()[0].leaps)
    assert queue.claim() == []
    # By nothing that wakes another process.
    database.execute(f"DELETE FROM JDBCSTORE_CLAIMS WHERE ID = {held[100].sequence}")
    assert bodies(queue.claim()) == ["102"]


def bodies(found: list[Claim]) -> list[object]:
    return [claim.message.body for claim in found]


def test_a_claim_reads_little_in_a_long_queue(open_claims: OpenClaims, database: Database) -> None:
    claims = open_claims()
    queue, other = claims.queue("ORDERS"), claims.queue("OTHER")
    queue.claim()
    queue.add(*(Message("fresh") for _ in range(10)))
    fresh = buffers(database, claims, queue)

    other.add(*(Message("x") for _ in range(2000)))
    queue.add(*(Message("x") for _ in range(2000)))
    with database.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE activemq_msgs")

    # Nine priorities have no messages: what is read for them is not the primary key.
    assert buffers(database, claims, queue) <= 2 * fresh


def test_a_claim_that_another_took_meanwhile_does_not_end_the_search(
    open_claims: OpenClaims, database: Database
) -> None:
    claims = open_claims()
    queue = claims.queue("ORDERS")
    [first, second] = queue.add(Message("first"), Message("second"))
    columns = "ID, SESSION, DUE, TAKEN, FAILED"
    with database.engine.connect() as rival, ThreadPoolExecutor(1) as pool:
        rival.exec_driver_sql("BEGIN")
        values = f"({first}, {claims.database.lease.number}, 0, 1, 0)"
        rival.exec_driver_sql(f"INSERT INTO jdbcstore_claims ({columns}) VALUES {values}")
        claimed = pool.submit(queue.claim)
        # Its snapshot is from before the rival's commit.
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        wait_until(lambda: bool(database.rows(waiting)))
        rival.exec_driver_sql("COMMIT")

        assert [claim.sequence for claim in claimed.result(180.0)] == [second]


def test_nobody_waits_long_for_a_turn(open_claims: OpenClaims, database: Database) -> None:
    """The one before may be stopped while the server sends it what it has claimed."""
    claims = open_claims()
    queue = claims.queue("ORDERS")
    queue.add(Message("0"), Message("1"), Message("2"))
    taking = queue._taking
    taking._turns = 2
    assert bodies(queue.claim()) == ["0"]
    assert taking._turns == 1
    with database.engine.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_advisory_lock(hashtextextended(%(name)s, 0))", {"name": taking._name}
        )
        assert bodies(queue.claim()) == ["1"]
        assert taking._turns == 0
        connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
    taking._turns = 1
    assert bodies(queue.claim()) == ["2"]
