"""Messages that SQL statements insert, moved to queues by processes that claim."""

from __future__ import annotations

import itertools
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import StoreConfig
from jdbcstore.errors import StoreUnavailable
from jdbcstore.message.dead_letters import CAUSE, DEAD_LETTERS
from jdbcstore.message.inserted import InsertedMessage
from jdbcstore.message.jobs import JOBS
from jdbcstore.stores.claims import ClaimQueue, Claims
from jdbcstore.stores.claims.outbox import OutboxMover
from jdbcstore.stores.jdbc.outbox import OutboxTable, read_numbers, read_refused
from jdbcstore.stores.shared.encoding import MessageEncoder
from tests.stores.claims.conftest import OpenClaims
from tests.support.claims.callers import opened
from tests.support.databases import Database
from tests.support.migrations.clients import run_script

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

WITH = StoreConfig(outbox=True)


def insert(body: str, destination: str = "queue://ORDERS", **columns: str) -> str:
    names = ", ".join(["DESTINATION", "BODY", *columns])
    values = ", ".join(f"'{value}'" for value in (destination, body, *columns.values()))
    return f"INSERT INTO JDBCSTORE_OUTBOX ({names}) VALUES ({values})"


@pytest.fixture
def mover(claims: Claims) -> OutboxMover:
    """A mover that only moves when it is told to."""
    return OutboxMover(claims.database, claims.queue, DEAD_LETTERS)


def taken(queue: ClaimQueue, count: int) -> list[Any]:
    """Claim and acknowledge messages; their bodies in order."""
    found: list[Any] = []
    while len(found) < count:
        claims = queue.claim(100, wait=60.0)
        assert claims, found
        found += [claim.message.body for claim in claims]
        queue.acknowledge(*claims)
    return found


def move_all(mover: OutboxMover) -> None:
    while mover.move():
        pass


def test_inserted_messages_arrive_in_order(open_claims: OpenClaims, database: Database) -> None:
    queue = open_claims(config=WITH).queue("ORDERS")
    for way in ("core", "driver"):
        with opened(database.url, way) as caller:
            caller.run(insert("rolled back"))
            caller.rollback()
            for number in range(3):
                caller.run(insert(f"{way} {number}"))
            caller.commit()
        assert taken(queue, 3) == [f"{way} {number}" for number in range(3)]
    assert database.rows("SELECT * FROM JDBCSTORE_OUTBOX") == []
    assert queue.claim() == []


def test_columns_become_headers_and_properties(
    database: Database, mover: OutboxMover, claims: Claims
) -> None:
    properties = {"properties": '{"table": 7, "total": 2.5, "new": true}', "priority": "9"}
    database.execute(insert("two pints", **properties, correlation_id="C", jms_type="order"))
    move_all(mover)
    [claim] = claims.queue("ORDERS").claim()
    message = claim.message
    assert dict(message.properties) == {"table": 7, "total": 2.5, "new": True}
    assert (message.body, message.priority, message.correlation_id) == ("two pints", 9, "C")
    assert (message.jms_type, message.persistent) == ("order", True)
    assert message.timestamp_ms


def test_delayed_messages_wait(database: Database, mover: OutboxMover, claims: Claims) -> None:
    database.execute(insert("later", delay="3600000"))
    database.execute(insert("now"))
    move_all(mover)
    queue = claims.queue("ORDERS")
    assert taken(queue, 1) == ["now"]
    assert queue.claim() == []
    assert queue.count() == (1, 0)


def test_bad_rows_become_dead_letters_and_do_not_stop_others(
    database: Database, mover: OutboxMover, claims: Claims
) -> None:
    bad = ("topic://NEWS", "temp-queue://A", "QUEUE://A", "queue://A,queue://B", str(JOBS))
    for destination in bad:
        database.execute(insert(destination, destination))
    database.execute(insert("{", body_type="map"))
    database.execute(insert("late", delay=str((1 << 63) - 1)))
    database.execute(insert("good"))
    move_all(mover)
    assert taken(claims.queue("ORDERS"), 1) == ["good"]
    letters = claims.queue("ActiveMQ.DLQ").claim(100)
    assert [letter.message.body for letter in letters] == [*bad, "{", "late"]
    assert all(letter.message.properties[CAUSE] for letter in letters)
    assert database.rows("SELECT * FROM JDBCSTORE_OUTBOX") == []


@pytest.mark.backends("sqlite")
def test_any_value_in_any_column_of_sqlite_is_moved_or_refused(
    database: Database, mover: OutboxMover, claims: Claims
) -> None:
    names = [name for name in InsertedMessage._fields if name not in ("row_id", "is_duplicate")]
    columns = [name.removesuffix("_ms").replace("expiration", "expires") for name in names]
    values = ("CAST(x'ff' AS TEXT)", "x'fe'", "1e300", "'[]'")
    for column, value in itertools.product(columns, values):
        row = {"destination": "'ORDERS'", column: value}
        into = f"INSERT INTO JDBCSTORE_OUTBOX ({', '.join(row)}) VALUES ({', '.join(row.values())})"
        database.execute(into)
    move_all(mover)
    session = claims.database.session
    refused = read_refused(session, 1000)
    assert json.dumps(refused)
    assert read_numbers(session)[:2] == (0, len(refused))
    [(moved,)] = database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")
    assert moved + len(refused) == len(columns) * len(values)


def test_only_allowed_destinations_are_sent_to(database: Database, open_claims: OpenClaims) -> None:
    claims = open_claims(config=StoreConfig(outbox_destinations="ORDERS.>, queue://MAIL"))
    mover = OutboxMover(claims.database, claims.queue, DEAD_LETTERS)
    for name in ("ORDERS.EU", "MAIL", "BILLING"):
        database.execute(insert(name, name))
    move_all(mover)
    assert [taken(claims.queue(name), 1) for name in ("ORDERS.EU", "MAIL")] == [["ORDERS.EU"], ["MAIL"]]
    [letter] = claims.queue("ActiveMQ.DLQ").claim()
    assert "BILLING is not in outbox_destinations" in str(letter.message.properties[CAUSE])


def test_rows_that_cannot_be_dead_letters_stay_with_an_error(
    database: Database, mover: OutboxMover, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = MessageEncoder(claims.database.clock, 1000, 250)
    monkeypatch.setattr(claims.database, "_encoder", small)
    database.execute(insert("x" * 2000))
    database.execute(insert("good"))
    move_all(mover)
    assert taken(claims.queue("ORDERS"), 1) == ["good"]
    [(error,)] = database.rows("SELECT ERROR FROM JDBCSTORE_OUTBOX")
    assert "1000" in error
    assert not mover.move()


def test_a_send_id_is_sent_once(database: Database, mover: OutboxMover, claims: Claims) -> None:
    for body, send_id in (("a", "1"), ("again", "1"), ("b", "2")):
        database.execute(insert(body, send_id=send_id))
    move_all(mover)
    for body, send_id in (("again", "1"), ("again", "2"), ("c", "3")):
        database.execute(insert(body, send_id=send_id))
    move_all(mover)
    assert taken(claims.queue("ORDERS"), 3) == ["a", "b", "c"]
    assert database.rows("SELECT * FROM JDBCSTORE_OUTBOX") == []
    assert claims.queue("ORDERS").claim() == []


def test_old_send_ids_are_forgotten(database: Database, mover: OutboxMover, claims: Claims) -> None:
    table = OutboxTable(claims.database.session)
    for expected in (["a"], [], ["a"]):
        database.execute(insert("a", send_id="1"))
        move_all(mover)
        assert taken(claims.queue("ORDERS"), len(expected)) == expected
        assert claims.queue("ORDERS").claim() == []
        if not expected:
            database.execute("UPDATE JDBCSTORE_INBOX SET PROCESSED = PROCESSED - 604801000")
            table.clean(claims.database.run)


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_of_two_movers_one_begins_again(
    database: Database, mover: OutboxMover, open_claims: OpenClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_claims = open_claims()
    other = OutboxMover(other_claims.database, other_claims.queue, DEAD_LETTERS)
    for number in range(5):
        database.execute(insert(str(number)))
    have_read = threading.Barrier(2)
    read = OutboxTable.read

    def read_together(*arguments: Any) -> Any:
        rows = read(*arguments)
        if len(rows) == 5:
            have_read.wait(60)
        return rows

    monkeypatch.setattr(OutboxTable, "read", read_together)
    thread = threading.Thread(target=move_all, args=(other,))
    thread.start()
    move_all(mover)
    thread.join()
    assert taken(other_claims.queue("ORDERS"), 5) == list("01234")
    assert other_claims.queue("ORDERS").claim() == []


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_rows_that_are_committed_late_are_moved(
    database: Database, mover: OutboxMover, claims: Claims
) -> None:
    queue = claims.queue("ORDERS")
    with opened(database.url, "core") as late, opened(database.url, "core") as early:
        late.run(insert("late"))
        early.run(insert("early"))
        early.commit()
        move_all(mover)
        assert taken(queue, 1) == ["early"]
        late.commit()
    move_all(mover)
    assert taken(queue, 1) == ["late"]


def test_rows_stay_if_their_messages_are_not_added(
    database: Database, mover: OutboxMover, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **_options: Any) -> list[int]:
        raise StoreUnavailable("gone")

    database.execute(insert("a", send_id="1"))
    with monkeypatch.context() as patched:
        patched.setattr(claims.database.adder, "add_rows", fail)
        with pytest.raises(StoreUnavailable):
            mover.move()
    move_all(mover)
    assert taken(claims.queue("ORDERS"), 1) == ["a"]


def test_a_master_ends_moving(database: Database, mover: OutboxMover, claims: Claims) -> None:
    database.execute(insert("a"))
    database.execute("UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER + 1 WHERE NAME = 'epoch'")
    assert mover.move()  # the lease follows the epoch of a master that serves no longer
    assert taken(claims.queue("ORDERS"), 1) == ["a"]


def test_the_client_of_the_database_sends(
    database: Database, mover: OutboxMover, claims: Claims, tmp_path: Path
) -> None:
    script = tmp_path / "send.sql"
    properties = '{"table": 7, "total": 2.5, "new": true, "name": "naïve"}'
    is_mysql = database.engine.dialect.name in ("mariadb", "mysql")
    names = "SET NAMES utf8mb4;\n" if is_mysql else ""  # else the client takes the locale's
    script.write_text(f"{names}{insert('two pints 😀', properties=properties)};\n", encoding="utf-8")
    run_script(database, script)
    move_all(mover)
    [claim] = claims.queue("ORDERS").claim()
    assert claim.message.body == "two pints 😀"
    assert dict(claim.message.properties) == {"table": 7, "total": 2.5, "new": True, "name": "naïve"}
