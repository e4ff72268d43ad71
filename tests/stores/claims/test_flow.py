"""Pauses, limits and rates of a queue that several processes share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from sqlalchemy import inspect

from jdbcstore import Message
from jdbcstore.database.statements.claims import LANES
from jdbcstore.database.statements.flow import FlowStatements
from jdbcstore.errors import ClaimLost, ConfigurationError, SchemaError
from jdbcstore.stores.claims import ClaimQueue, Claims, FlowSettings
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database
from tests.support.faults.blocking import WAITING

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

HOUR_NS = 3600 * 10**9


@pytest.fixture
def two(open_claims: OpenClaims) -> tuple[ClaimQueue, ClaimQueue]:
    """The queue as two processes have it, with nine messages."""
    one, other = (open_claims(name=name).queue("ORDERS") for name in ("one", "other"))
    one.add(*(Message(str(number)) for number in range(9)))
    return one, other


def bodies(claims: list[Any]) -> list[object]:
    return [claim.message.body for claim in claims]


def test_nobody_claims_while_a_queue_is_paused(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    [held] = one.claim()

    one.flow.pause()

    assert one.claim(9) == other.claim(9) == []
    assert one.flow.settings() == other.flow.settings() == FlowSettings(paused=True)
    one.acknowledge(held)
    other.flow.resume()
    assert bodies(one.claim(1)) == ["1"]
    assert one.flow.settings() == FlowSettings()


def test_a_paused_queue_takes_messages_and_others_are_not_concerned(claims: Claims) -> None:
    paused, other = claims.queue("ORDERS"), claims.queue("OTHER")
    paused.flow.pause()

    for queue in (paused, other):
        queue.add(Message("new"))

    assert paused.claim() == []
    assert bodies(other.claim()) == ["new"]
    assert paused.count() == (1, 1)


def test_a_limit_is_one_of_all_processes(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    one.flow.limit(claims=3)

    some, more = one.claim(2), other.claim(9)

    assert bodies([*some, *more]) == ["0", "1", "2"]
    assert one.claim() == other.claim() == []
    one.acknowledge(some[0])
    assert bodies(other.claim(9, wait=180.0)) == ["3"]
    one.release(some[1])
    assert bodies(one.claim(9)) == ["1"]
    other.reject(more[0])
    assert bodies(one.claim(9, wait=180.0)) == ["2"]


def test_claims_of_other_queues_and_delayed_messages_do_not_count(claims: Claims) -> None:
    orders, other = claims.queue("ORDERS"), claims.queue("OTHER")
    other.add(Message("x"), Message("y"))
    assert len(other.claim(2)) == 2
    orders.flow.limit(claims=1)
    orders.add(Message("later"), delay=3600.0)
    orders.add(Message("rejected"), Message("0"), Message("1"))
    orders.reject(*orders.claim(), delay=3600.0)

    assert bodies(orders.claim(9)) == ["0"]


def test_a_lower_limit_takes_nothing_away_and_waits_for_room(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    one.flow.limit(claims=4)
    held = one.claim(9)

    other.flow.limit(claims=2)

    for claim in held[:2]:
        assert other.claim() == []
        one.acknowledge(claim)
    assert other.claim() == []
    one.acknowledge(held[2])
    assert bodies(other.claim(9)) == ["4"]
    one.flow.limit(claims=5)
    assert bodies(one.claim(9)) == ["5", "6", "7"]
    one.flow.limit()
    assert bodies(one.claim(9)) == ["8"]


def test_claims_of_a_dead_process_count_until_its_lease_has_ended(
    two: tuple[ClaimQueue, ClaimQueue], database: Database
) -> None:
    one, other = two
    one.flow.limit(claims=2)
    lost = one.claim(9)
    assert other.claim(9) == []

    assert database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE NAME = 'one'") == 1

    assert bodies(other.claim(9)) == ["0", "1"]
    assert other.claim(9) == []
    with pytest.raises(ClaimLost):
        one.acknowledge(*lost)


def test_what_a_closed_process_held_does_not_count(open_claims: OpenClaims) -> None:
    queue = open_claims().queue("ORDERS")
    queue.add(Message("0"))
    queue.flow.limit(claims=1)
    with open_claims() as other:
        assert bodies(other.queue("ORDERS").claim()) == ["0"]
        assert queue.claim() == []

    assert bodies(queue.claim()) == ["0"]


def pass_hours(database: Database, hours: int) -> None:
    """As if the database's clock had moved."""
    database.execute(f"UPDATE JDBCSTORE_FLOW SET DRAWN = DRAWN - {hours * HOUR_NS}")


def test_a_rate_is_one_of_all_processes(two: tuple[ClaimQueue, ClaimQueue], database: Database) -> None:
    one, other = two
    one.flow.limit(rate=1 / 3600, burst=3)

    assert bodies([*one.claim(2), *other.claim(9)]) == ["0", "1", "2"]
    assert one.claim() == other.claim() == []
    pass_hours(database, 2)
    [third] = other.claim()
    other.release(third)
    assert bodies(one.claim(9)) == ["3"]  # which takes another token
    assert one.claim() == other.claim() == []
    pass_hours(database, 100)
    assert bodies(one.claim(9)) == ["4", "5", "6"]  # the bucket has room for three


def test_a_worker_waits_for_the_next_token_only(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    """However long it would pause otherwise."""
    one, other = two
    assert one.seconds(600.0) == 600.0
    one.flow.limit(rate=1 / 60, burst=1)
    assert bodies(one.claim(9)) == ["0"]
    assert other.claim(9) == []
    assert other.seconds(600.0) <= 60.0


def test_a_rate_and_a_limit_apply_together(two: tuple[ClaimQueue, ClaimQueue], database: Database) -> None:
    one, other = two
    one.flow.limit(claims=2, rate=1 / 3600, burst=3)

    held = one.claim(9)

    assert bodies(held) == ["0", "1"]
    one.acknowledge(*held)
    assert bodies(other.claim(9)) == ["2"]
    assert one.claim(9) == []
    pass_hours(database, 5)
    assert bodies(one.claim(9)) == ["3"]
    assert one.flow.settings() == FlowSettings(claims=2, rate=one.flow.settings().rate, burst=3)


def test_a_clock_that_was_set_back_does_not_stop_a_queue(
    two: tuple[ClaimQueue, ClaimQueue], database: Database
) -> None:
    one, other = two
    one.flow.limit(rate=1000.0, burst=1)
    assert len(one.claim()) == 1

    pass_hours(database, -10_000)

    assert len(other.claim(wait=60.0)) == 1


def test_a_pause_keeps_the_limits(claims: Claims) -> None:
    flow = claims.queue("ORDERS").flow
    flow.limit(claims=2, rate=2.5)
    flow.pause()
    assert flow.settings() == FlowSettings(paused=True, claims=2, rate=2.5, burst=2)
    flow.limit(rate=0.5)
    flow.resume()
    assert flow.settings() == FlowSettings(rate=0.5, burst=1)
    assert claims.flow() == {"ORDERS": FlowSettings(rate=0.5, burst=1)}
    claims.queue("OTHER").flow.pause()
    flow.limit()
    assert claims.flow() == {"OTHER": FlowSettings(paused=True)}


def test_another_process_notices_within_two_seconds_and_then_at_once(
    open_claims: OpenClaims, clock: FakeClock
) -> None:
    one, other = open_claims().queue("ORDERS"), open_claims(clock=clock).queue("ORDERS")
    one.add(*(Message(str(number)) for number in range(9)))
    assert bodies(other.claim()) == ["0"]

    one.flow.limit(claims=2)
    clock.advance(2.0)

    assert bodies(other.claim(9)) == ["1"]
    one.flow.limit(claims=4)
    assert bodies(other.claim(9, wait=180.0)) == ["2", "3"]
    one.flow.pause()
    assert other.claim() == []
    one.flow.limit()
    one.flow.resume()
    assert bodies(other.claim(9, wait=180.0)) == ["4", "5", "6", "7", "8"]


def test_a_process_that_waits_is_woken_when_there_is_room(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    one.flow.limit(claims=1)
    [held] = one.claim()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.claim, wait=180.0)
        wait_until(lambda: other.flow.is_blocked)
        one.acknowledge(held)
        assert bodies(waiting.result(180.0)) == ["1"]
        other.flow.pause()
        waiting = pool.submit(one.claim, wait=180.0)
        wait_until(lambda: one.flow.is_blocked)
        other.flow.limit(claims=2)
        other.flow.resume()
        assert bodies(waiting.result(180.0)) == ["2"]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_what_is_claimed_while_a_process_waits_for_the_lock_counts(
    two: tuple[ClaimQueue, ClaimQueue], database: Database
) -> None:
    one, _ = two
    one.flow.limit(claims=1)
    session = one._database.lease.number
    [(first,)] = database.rows("SELECT MIN(ID) FROM ACTIVEMQ_MSGS")
    waiting = WAITING[database.engine.dialect.name]
    with database.engine.connect() as rival, ThreadPoolExecutor(1) as pool:
        rival.exec_driver_sql("BEGIN")
        rival.exec_driver_sql("SELECT MOST FROM JDBCSTORE_FLOW FOR UPDATE")
        claimed = pool.submit(one.claim, 9)
        wait_until(lambda: database.rows(waiting) != [(0,)])
        columns, values = "ID, SESSION, DUE, TAKEN, FAILED", f"({first}, {session}, 0, 1, 0)"
        rival.exec_driver_sql(f"INSERT INTO JDBCSTORE_CLAIMS ({columns}) VALUES {values}")
        rival.exec_driver_sql("COMMIT")

        assert claimed.result(180.0) == []


def test_a_process_of_an_older_version_is_named(claims: Claims, database: Database) -> None:
    flow = claims.queue("ORDERS").flow
    columns = "ID, NAME, EXPIRES"
    database.execute(f"INSERT INTO JDBCSTORE_CLAIM_SESSIONS ({columns}) VALUES (7, 'old', 9000000000000000)")

    with pytest.raises(ConfigurationError, match="old claims messages with an older version"):
        flow.pause()

    assert flow.settings() == FlowSettings()
    database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE ID = 7")
    flow.pause()
    assert flow.settings() == FlowSettings(paused=True)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"claims": 0}, "claims=0 must be a whole number from 1 to 1000000; to claim nothing, pause"),
        ({"claims": -1}, "claims=-1 must be"),
        ({"claims": True}, "claims=True must be"),
        ({"claims": 1.5}, "claims=1.5 must be"),
        ({"rate": 0}, "rate=0 must be a number of claims per second"),
        ({"rate": -1.0}, "rate=-1.0 must be"),
        ({"rate": float("nan")}, "rate=nan must be"),
        ({"rate": float("inf")}, "rate=inf must be"),
        ({"rate": "1"}, "rate='1' must be"),
        ({"burst": 3}, "burst=3 needs a rate"),
        ({"rate": 1.0, "burst": 0}, "burst=0 must be"),
        ({"rate": 1e-6, "burst": 1_000_000}, "lower the burst"),
    ],
)
def test_limits_that_cannot_be(claims: Claims, limits: dict[str, Any], says: str) -> None:
    flow = claims.queue("ORDERS").flow
    with pytest.raises(ConfigurationError, match=says):
        flow.limit(**limits)
    assert flow.settings() == FlowSettings()


def test_the_table_is_created_once_something_is_set(
    claims: Claims, open_claims: OpenClaims, database: Database
) -> None:
    def tables() -> set[str]:
        return {name.upper() for name in inspect(database.engine).get_table_names()}

    flow = claims.queue("ORDERS").flow
    flow.limit()
    flow.resume()
    assert flow.settings() == FlowSettings()
    assert claims.flow() == {}
    assert "JDBCSTORE_FLOW" not in tables()
    strict = open_claims(config=claims.config.replace(create_tables_on_startup=False))
    with pytest.raises(SchemaError, match=r"flow\.sql"):
        strict.queue("ORDERS").flow.pause()
    flow.pause()
    assert "JDBCSTORE_FLOW" in tables()
    strict.queue("ORDERS").flow.limit(claims=1)
    assert flow.settings() == FlowSettings(paused=True, claims=1)


@pytest.mark.backends("postgresql")
def test_a_statement_finds_the_room_that_a_process_would(claims: Claims, database: Database) -> None:
    """Where a claim is one statement, which counts in SQL what buckets.py counts in Python."""
    queue = claims.queue("ORDERS")
    queue.add(*(Message("x") for _ in range(150)))
    queue.flow.limit(claims=1)
    [(now_ns,)] = database.rows("SELECT CAST(extract(epoch FROM clock_timestamp()) AS BIGINT) * 1000000000")
    chance = Random(5)
    rooms = set()
    for _ in range(60):
        rate = chance.choice([None, 1, 7, 10**6, 3 * 10**6 + 1, 10**12])
        burst = None if rate is None else chance.choice([1, 2, 5, 1000])
        drawn = now_ns + chance.randint(-(10**10), 10**10) * chance.choice([0, 1, 10**5])
        most = chance.choice([None, 1, 5, 200])
        values = {"most": most, "rate": rate, "burst": burst, "drawn": drawn}
        values["paused"] = int(chance.randint(0, 9) == 9)
        database.execute(
            f"UPDATE JDBCSTORE_FLOW SET {', '.join(f'{one} = :{one}' for one in values)}", **values
        )

        limit = chance.randint(1, 4)
        found = claims.database.run(
            lambda connection, limit=limit: connection.fetch(  # type: ignore[misc]
                claims.database.session.of(FlowStatements).claim_seen,
                container="queue://ORDERS",
                session=claims.database.lease.check(),
                limit=limit,
                marks=[0] * len(LANES),
                leaps=[0] * len(LANES),
            )
        )

        room = queue.flow.room_of(found[0][:-5], limit)
        claimed = [row[-4] for row in found if row[-1]]
        assert len(claimed) == room.claims
        [(after,)] = database.rows("SELECT DRAWN FROM JDBCSTORE_FLOW")
        assert after == (room.drawn + len(claimed) * room.spacing if claimed and room.spacing else drawn)
        rooms.add(room.claims)
    assert {0, 1, 2} <= rooms
