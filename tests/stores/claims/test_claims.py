"""Claims of one process: order, priorities, delays, returns, dead letters."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from sqlalchemy import make_url

import jdbcstore
from jdbcstore import Destination, Message, MessageId, StoreConfig
from jdbcstore.database.connection import Connection
from jdbcstore.errors import (
    ClaimLost,
    ConfigurationError,
    InvalidDestination,
    MessageTooLarge,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.stores.claims import Claim, ClaimQueue, Claims
from jdbcstore.stores.claims.marks import LOOK_AGAIN
from jdbcstore.stores.claims.upkeep import Upkeep
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.clock import SystemClock
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database
from tests.support.servers import Server

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


def bodies(claims: Iterable[Claim]) -> list[object]:
    return [claim.message.body for claim in claims]


def numbered(count: int) -> list[Message]:
    return [Message(str(number)) for number in range(count)]


def drained(queues: Iterable[ClaimQueue]) -> Counter[object]:
    """What threads claim and acknowledge, one for each of the queues."""
    found: Counter[object] = Counter()
    errors: list[BaseException] = []

    def drain(queue: ClaimQueue) -> None:
        try:
            while some := queue.claim(7, wait=0.2):
                found.update(bodies(some))
                queue.acknowledge(*some)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=drain, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return found


def test_messages_are_claimed_in_order_and_once(queue: ClaimQueue) -> None:
    queue.add(*numbered(5))

    assert bodies(queue.claim(3)) == ["0", "1", "2"]
    assert bodies(queue.claim(1 << 63)) == ["3", "4"]
    assert queue.claim(3) == []
    assert queue.count() == (5, 0)


def test_a_message_is_as_it_was_added(queue: ClaimQueue) -> None:
    queue.add(Message(b"\0\xff", properties={"table": 7}, correlation_id="c", priority=2))

    [claim] = queue.claim()

    assert (claim.message.body, claim.message.properties["table"]) == (b"\0\xff", 7)
    assert (claim.message.correlation_id, claim.message.priority) == ("c", 2)
    assert claim.message.sequence == claim.sequence
    assert claim.message.destination == queue.destination


def test_higher_priorities_first(queue: ClaimQueue) -> None:
    queue.add(*(Message(str(priority), priority=priority) for priority in (4, 0, 9, 4, 5)))

    assert bodies(queue.claim(2)) == ["9", "5"]
    assert bodies(queue.claim(9)) == ["4", "4", "0"]


def test_queues_are_apart(claims: Claims, queue: ClaimQueue) -> None:
    other = claims.queue("orders")
    queue.add(Message("upper"))
    other.add(Message("lower"))

    assert bodies(other.claim(2)) == ["lower"]
    assert bodies(queue.claim(2)) == ["upper"]
    assert claims.queue("ORDERS") is queue


def test_acknowledged_messages_are_gone(queue: ClaimQueue, database: Database) -> None:
    queue.add(*numbered(3))
    first, second, third = queue.claim(3)

    queue.acknowledge(third, first)

    assert queue.count() == (1, 0)
    assert database.rows("SELECT ID FROM JDBCSTORE_CLAIMS") == [(second.sequence,)]


def test_one_lost_claim_changes_nothing(queue: ClaimQueue) -> None:
    queue.add(*numbered(3))
    first, second, third = queue.claim(3)
    queue.acknowledge(second)

    for settle in (queue.acknowledge, queue.release, queue.reject, queue.extend):
        with pytest.raises(ClaimLost) as lost:
            settle(first, second, third)
        assert lost.value.sequences == (second.sequence,)
    assert queue.count() == (2, 0)
    queue.acknowledge(first, third)
    assert queue.count() == (0, 0)


def test_of_claims_of_two_sessions_those_of_the_ended_one_are_lost(
    claims: Claims, queue: ClaimQueue, database: Database
) -> None:
    queue.add(*numbered(2))
    [old] = queue.claim()
    database.execute("DELETE FROM JDBCSTORE_CLAIM_SESSIONS")
    claims.database.lease.renew()
    claimed = queue.claim(2)
    new = claimed[-1]

    # In any order: an answer to the older session may have been the last to arrive.
    for some in ((old, new), (new, old)):
        for settle in (queue.acknowledge, queue.release, queue.reject, queue.extend):
            with pytest.raises(ClaimLost) as lost:
                settle(*some)
            assert lost.value.sequences == (old.sequence,)
    queue.acknowledge(*claimed)
    assert new.sequence not in {row[0] for row in database.rows("SELECT ID FROM ACTIVEMQ_MSGS")}


def test_many_are_settled_at_once(queue: ClaimQueue) -> None:
    queue.add(*numbered(600))
    claims = queue.claim(600)

    queue.extend(*claims)
    queue.release(*claims)
    again = queue.claim(600)
    queue.acknowledge(*again)

    assert bodies(again) == bodies(claims)
    assert queue.count() == (0, 0)


def test_a_released_message_is_in_its_place_and_not_redelivered(queue: ClaimQueue) -> None:
    queue.add(*numbered(4))
    first, second = queue.claim(2)

    queue.release(second)

    assert [(claim.message.body, claim.redeliveries) for claim in queue.claim(2)] == [("1", 0), ("2", 0)]
    queue.acknowledge(first)


def test_another_process_sees_a_return_in_its_place(open_claims: OpenClaims) -> None:
    one, other = open_claims().queue("ORDERS"), open_claims().queue("ORDERS")
    one.add(*numbered(3))
    first = one.claim(1)
    assert bodies(other.claim(1)) == ["1"]

    one.release(*first)

    # At its next look from the start, or the first wake-up, whichever comes first.
    found = bodies(other.claim(1))
    found += bodies(other.claim(1, wait=180.0))
    assert sorted(map(str, found)) == ["0", "2"]


def test_a_rejected_message_counts_its_redeliveries(queue: ClaimQueue) -> None:
    queue.add(Message("x"))
    for redeliveries in range(3):
        [claim] = queue.claim()
        assert (claim.redeliveries, claim.message.redelivery_counter) == (redeliveries, redeliveries)
        queue.reject(claim)


def test_rejected_too_often_is_a_dead_letter(open_claims: OpenClaims) -> None:
    claims = open_claims(max_redeliveries=2, dead_letters="DEAD")
    queue, dead = claims.queue("ORDERS"), claims.queue("DEAD")
    queue.add(Message("poison", properties={"table": 7}, message_id=MessageId.parse("ID:host-1:1:1:1:1")))
    for _ in range(3):
        queue.reject(*queue.claim())

    assert queue.count() == (0, 0)
    [letter] = dead.claim()
    assert (letter.message.body, letter.message.properties["table"]) == ("poison", 7)
    assert letter.message.original_destination == queue.destination
    assert "too often" in str(letter.message.properties["dlqDeliveryFailureCause"])
    assert str(letter.message.message_id) == "ID:host-1:1:1:1:1"
    assert letter.message.redelivery_counter == 0, "it is new to its consumers"


def test_without_a_queue_for_dead_letters_they_are_removed(open_claims: OpenClaims) -> None:
    queue = open_claims(max_redeliveries=0, dead_letters=None).queue("ORDERS")
    queue.add(Message("poison"))

    queue.reject(*queue.claim())

    assert queue.count() == (0, 0)


def test_dead_letters_that_are_rejected_stay_where_they_are(open_claims: OpenClaims) -> None:
    dead = open_claims(max_redeliveries=1, dead_letters="DEAD").queue("DEAD")
    dead.add(Message("poison"))
    for redeliveries in range(4):
        [claim] = dead.claim()
        assert claim.redeliveries == redeliveries
        dead.reject(claim)

    assert dead.count() == (1, 1)


def damage(database: Database, id_: int, at: bytes | int, length: int) -> None:
    """Overwrite a part of a blob."""
    [(blob,)] = database.rows(f"SELECT MSG FROM ACTIVEMQ_MSGS WHERE ID = {id_}")
    start = at if isinstance(at, int) else bytes(blob).index(at) - 2
    damaged = (bytes(blob[:start]) + b"\xff" * length + bytes(blob[start + length :])).hex()
    literal = f"'\\x{damaged}'" if "postgresql" in database.url else f"X'{damaged}'"
    database.execute(f"UPDATE ACTIVEMQ_MSGS SET MSG = {literal} WHERE ID = {id_}")


def test_one_that_cannot_be_a_dead_letter_holds_up_no_other(
    open_claims: OpenClaims, database: Database
) -> None:
    """Its properties are damaged, or it has no room for the reason: it is moved as it is."""
    claims = open_claims(max_redeliveries=0, dead_letters="DEAD")
    queue = claims.queue("ORDERS")
    [good, broken, large, headless] = queue.add(
        Message("good"),
        Message("broken", properties={f"p{number}": "x" * 50 for number in range(10)}),
        Message("large"),
        Message("headless"),
    )
    damage(database, broken, b"p5", 20)
    damage(database, headless, 3, 20)
    found = {claim.sequence: claim for claim in queue.claim(10)}
    assert found.keys() == {good, broken, large}
    encode = claims.database.encode

    def too_large(destination: Destination, message: Message) -> Any:
        if message.body == "large":
            raise MessageTooLarge(2, 1, "send it in parts")
        return encode(destination, message)

    claims.database.encode = too_large  # type: ignore[method-assign]
    queue.reject(*found.values())

    assert queue.count() == (0, 0)
    rows = database.rows(
        "SELECT ID, EXPIRATION FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://DEAD' ORDER BY ID"
    )
    assert {broken, large, headless} < {row[0] for row in rows}
    assert len(rows) == 4
    assert database.rows("SELECT ID FROM JDBCSTORE_CLAIMS") == []
    # Those that can be read are delivered from there, and are not held up by the others either.
    letters = []
    while claim := claims.queue("DEAD").claim(10):
        letters += [one for one in claim if one.sequence != broken]
    assert sorted(str(one.message.body) for one in letters) == ["good", "large"]


def test_claims_of_dead_processes_with_a_damaged_one_among_them(
    open_claims: OpenClaims, database: Database
) -> None:
    claims = open_claims(max_redeliveries=0, dead_letters="DEAD")
    queue = claims.queue("ORDERS")
    properties = {f"p{number}": "x" * 50 for number in range(10)}
    ids = queue.add(
        Message("delivered too often", properties=properties), *(Message(f"{n}") for n in range(3))
    )
    [claim] = queue.claim()
    damage(database, ids[0], b"p5", 20)
    database.execute("UPDATE JDBCSTORE_CLAIMS SET SESSION = 7")

    other = open_claims(max_redeliveries=0, dead_letters="DEAD").queue("ORDERS")
    assert bodies(other.claim(10)) == ["0", "1", "2"]

    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://DEAD'") == [
        (claim.sequence,)
    ]


@pytest.mark.backends("sqlite")
def test_a_dead_letter_that_the_database_refuses_keeps_no_other(
    open_claims: OpenClaims, database: Database
) -> None:
    queue = open_claims(max_redeliveries=0, dead_letters="DEAD").queue("ORDERS")
    queue.add(Message("poison"), *numbered(3))
    queue.claim()
    database.execute("UPDATE JDBCSTORE_CLAIMS SET SESSION = 7")
    database.execute(
        "CREATE TRIGGER refused BEFORE INSERT ON ACTIVEMQ_MSGS WHEN NEW.CONTAINER = 'queue://DEAD'"
        " BEGIN SELECT RAISE(ABORT, 'refused'); END"
    )
    other = open_claims(max_redeliveries=0, dead_letters="DEAD").queue("ORDERS")
    with pytest.raises(StoreError):
        other.claim(10)
    database.execute("DROP TRIGGER refused")

    assert bodies(other.claim(10)) == ["0", "1", "2"]


def test_several_are_added_after_a_claim_was_lost(queue: ClaimQueue) -> None:
    queue.add(*numbered(2))
    claims = queue.claim(2)
    queue.acknowledge(claims[0])
    queue.reject(claims[1])
    for _ in range(9):  # a driver prepares what is repeated
        queue.release(*queue.claim())
    [claim] = queue.claim()
    queue._database.run(lambda connection: connection.execute(queue._sql.return_all, session=claim.session))
    with pytest.raises(ClaimLost):
        queue.release(claim)

    assert len(queue.add(*numbered(2))) == 2


def test_a_rejection_with_a_delay(queue: ClaimQueue, database: Database) -> None:
    queue.add(Message("later"), Message("now"))
    [later] = queue.claim()

    queue.reject(later, delay=3600.0)

    assert bodies(queue.claim()) == ["now"]
    assert queue.claim() == []
    database.execute("UPDATE JDBCSTORE_CLAIMS SET DUE = 1 WHERE DUE > 0")
    assert bodies(queue.claim(wait=30.0)) == ["later"]


def test_a_delayed_message_is_held_by_nobody(queue: ClaimQueue, database: Database) -> None:
    queue.add(Message("later"), delay=3600.0)
    queue.add(Message("now"))

    assert queue.count() == (2, 1)
    assert bodies(queue.claim(2)) == ["now"]
    database.execute("UPDATE JDBCSTORE_CLAIMS SET DUE = 1 WHERE DUE > 0")
    [later] = queue.claim(wait=30.0)
    assert (later.message.body, later.redeliveries) == ("later", 0)
    queue.acknowledge(later)
    assert len(database.rows("SELECT ID FROM JDBCSTORE_CLAIMS")) == 1


def test_how_long_a_wait_lasts_without_a_wake_up(open_claims: OpenClaims, clock: FakeClock) -> None:
    queue = open_claims(clock=clock).queue("ORDERS")
    claims, count = queue.try_claim(1)
    assert (claims, queue.seconds(100.0), queue.seconds(0.1)) == ([], LOOK_AGAIN, 0.1)
    assert [queue.next_pause(pause, count) for pause in (0.2, 0.4, 0.8)] == [0.4, 0.8, 1.0]
    queue.add(Message("later"), delay=0.75)
    assert queue.seconds(100.0) == 0.75, "until the message can be claimed"
    assert queue.next_pause(0.2, count) == 0.4, "there is nothing to claim yet"
    queue.add(Message("now"))
    assert queue.next_pause(0.2, count) == 0.2
    [claim] = queue.claim()
    count = queue.try_claim(1)[1]
    queue.reject(claim, delay=0.5)
    assert (queue.seconds(100.0), queue.next_pause(0.2, count)) == (0.5, 0.4)


def test_a_look_that_a_limit_stopped_is_made_up_for(open_claims: OpenClaims, clock: FakeClock) -> None:
    """Otherwise a message in front of its mark would wait until the next look from the start."""
    one, other = (open_claims(clock=clock).queue("ORDERS") for _ in range(2))
    one.add(*[Message(str(number)) for number in range(3)])
    first, second = one.claim(2)
    other.acknowledge(*other.claim())
    clock.advance(1.0)
    assert other.claim() == []  # its mark is behind the third message
    one.flow.limit(claims=1)
    one.release(first)
    clock.advance(LOOK_AGAIN)
    assert other.claim() == []
    one.acknowledge(second)
    assert [claim.message.body for claim in other.claim()] == ["0"]


@pytest.mark.backends("postgresql")
def test_what_another_process_returns_is_found_before_the_next_look(
    open_claims: OpenClaims, clock: FakeClock
) -> None:
    """It is in front of the mark, and the clock does not move."""
    one, other = (open_claims(clock=clock).queue("ORDERS") for _ in range(2))
    one.add(*[Message(str(number)) for number in range(3)])
    first, _ = one.claim(2)
    other.acknowledge(*other.claim())
    clock.advance(LOOK_AGAIN / 2)
    assert other.claim(wait=0.01) == []  # from now on it listens
    count = other.try_claim(1)[1]

    def is_woken() -> bool:
        one.wake()
        return other.try_claim(1)[1] != count

    wait_until(is_woken)
    one.release(first)
    wait_until(lambda: [claim.message.body for claim in other.claim()] == ["0"])


def test_many_that_become_due_are_not_left_behind(
    open_claims: OpenClaims, database: Database, clock: FakeClock
) -> None:
    queue = open_claims(clock=clock).queue("ORDERS")
    queue.add(*numbered(50), delay=3600.0)
    queue.add(Message("now"))
    [now] = queue.claim()
    queue.acknowledge(now)
    database.execute("UPDATE JDBCSTORE_CLAIMS SET DUE = 1")
    clock.advance(2.0)

    found: list[object] = []
    while some := queue.claim(7):
        found += bodies(some)

    assert found == [str(number) for number in range(50)]


def test_expired_messages_are_removed(open_claims: OpenClaims) -> None:
    queue = open_claims().queue("ORDERS")
    queue.add(Message("old", expiration_ms=1), Message("new"))

    assert bodies(queue.claim(2)) == ["new"]
    assert queue.count() == (1, 0)


def test_purge_leaves_what_is_claimed(queue: ClaimQueue) -> None:
    queue.add(*numbered(300))
    queue.add(Message("later"), delay=60.0)
    claimed = queue.claim(2)

    assert queue.purge() == 299
    assert queue.count() == (2, 0)
    queue.acknowledge(*claimed)


def test_a_delay_ends(queue: ClaimQueue) -> None:
    queue.add(Message("later"), delay=0.2)

    assert bodies(queue.claim(wait=30.0)) == ["later"]


def test_waiting_ends_when_a_message_is_added(queue: ClaimQueue) -> None:
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.extend(bodies(queue.claim(wait=30.0))))
    waiting.start()

    queue.add(Message("x"))

    waiting.join()
    assert found == ["x"]


def test_waiting_ends_when_another_process_adds(open_claims: OpenClaims) -> None:
    one, other = open_claims().queue("ORDERS"), open_claims().queue("ORDERS")
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.extend(bodies(one.claim(wait=30.0))))
    waiting.start()

    other.add(Message("x"))

    waiting.join()
    assert found == ["x"]


def test_threads_of_several_processes_claim_each_once(open_claims: OpenClaims) -> None:
    queues = [open_claims().queue("ORDERS") for _ in range(3)]
    queues[0].add(*numbered(300))

    assert drained(queues * 2) == Counter(str(number) for number in range(300))


@pytest.mark.backends("mariadb")
def test_with_snapshot_isolation_each_is_claimed_once(server: Server, database: Database) -> None:
    """A change of a row that another transaction has changed is error 1020 then, and tried again."""
    server.execute_as_administrator("SET GLOBAL innodb_snapshot_isolation = ON")
    with Claims(database.url) as one, Claims(database.url) as other:
        queues = [one.queue("ORDERS"), other.queue("ORDERS")]
        queues[0].add(*numbered(200))

        assert drained(queues * 2) == Counter(str(number) for number in range(200))


def test_a_history_has_what_was_acknowledged(open_claims: OpenClaims, database: Database) -> None:
    queue = open_claims(config=StoreConfig(history_retention=3600.0)).queue("ORDERS")
    queue.add(Message("x"), Message("y"))

    queue.acknowledge(*queue.claim())

    assert database.rows("SELECT OUTCOME FROM JDBCSTORE_HISTORY") == [("acknowledged",)]
    assert queue.count() == (1, 1)


def test_old_records_of_a_history_are_removed(open_claims: OpenClaims, database: Database) -> None:
    config = StoreConfig(history_retention=3600.0, cleanup_period=300.0)
    queue = open_claims(config=config).queue("ORDERS")
    queue.add(*numbered(3))
    queue.acknowledge(*queue.claim(2))
    database.execute("UPDATE JDBCSTORE_HISTORY SET REMOVED = 1")

    recent = open_claims(config=config).queue("ORDERS")
    recent.acknowledge(*recent.claim())

    wait_until(lambda: len(database.rows("SELECT ID FROM JDBCSTORE_HISTORY")) == 1, what="old records to go")


def test_a_clock_that_is_ahead_removes_nothing(open_claims: OpenClaims, database: Database) -> None:
    other = open_claims().queue("ORDERS")
    clock = FakeClock(SystemClock().now_ms() + 3_600_000)
    other.add(Message("current", expiration_ms=clock.now_ms() - 1_800_000))

    assert bodies(open_claims(clock=clock).queue("ORDERS").claim()) == ["current"]
    assert len(database.rows("SELECT ID FROM ACTIVEMQ_MSGS")) == 1


def test_rows_without_a_priority_of_0_to_9_are_claimed(
    open_claims: OpenClaims, database: Database, clock: FakeClock
) -> None:
    """Also if others add them while messages are claimed."""
    queue, other = (open_claims(clock=clock).queue("ORDERS") for _ in range(2))
    assert queue.claim() == other.claim() == []
    ids = queue.add(*numbered(4), Message("4", priority=9))
    for id_, priority in zip(ids, ("NULL", "-1", "10", "2000000000"), strict=False):
        database.execute(f"UPDATE ACTIVEMQ_MSGS SET PRIORITY = {priority} WHERE ID = {id_}")
    assert queue.count() == (5, 1)
    clock.advance(2.0)
    assert bodies(queue.claim(5)) == ["4"]

    clock.advance(10.0)

    assert bodies(queue.claim(3)) == ["2", "3", "0"]
    assert queue.count() == (5, 1)
    assert bodies(other.claim(3)) == ["1"]


def test_a_look_that_takes_long_is_taken_seldom(
    open_claims: OpenClaims, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the whole queue, for what nobody claims anyway."""
    looks: list[str] = []

    def look(_: Upkeep) -> None:
        looks.append("a look")
        clock.advance(1.0)

    monkeypatch.setattr(Upkeep, "_bring_in", look)
    queue = open_claims(clock=clock).queue("ORDERS")
    for seconds, number in ((0.0, 1), (90.0, 1), (11.0, 2)):
        clock.advance(seconds)
        queue.claim()
        assert len(looks) == number


def test_what_has_expired_is_not_free(queue: ClaimQueue) -> None:
    queue.add(Message("current"), Message("expired", expiration_ms=1))
    assert queue.count() == (2, 1)


@pytest.mark.backends("postgresql")
def test_many_are_added_all_or_none(
    queue: ClaimQueue, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they take several statements."""
    monkeypatch.setattr("jdbcstore.database.adapters.postgresql_writing._MAX_SENT", 1 << 20)
    adding = threading.Thread(target=queue.add, args=[Message(b"x" * 700) for _ in range(20_000)])
    adding.start()
    seen = set()
    while adding.is_alive():
        seen.add(connection.exec_driver_sql("SELECT count(*) FROM ACTIVEMQ_MSGS").scalar())
    adding.join()

    assert seen <= {0, 20_000}
    assert connection.exec_driver_sql("SELECT count(*) FROM ACTIVEMQ_MSGS").scalar() == 20_000


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_idle_connections_that_have_ended_leave_nothing_in_doubt(
    queue: ClaimQueue, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add(*numbered(2))
    monkeypatch.setattr("jdbcstore.stores.claims.connections._TRUSTED", 0.0)
    for number in range(2):
        database.end_connections()

        assert bodies(queue.claim()) == [str(number)]


@pytest.mark.backends("postgresql")
def test_a_claim_that_is_carried_out_late_is_nobodys(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This read would be lost in place of the claim, and repeated.
    monkeypatch.setattr("jdbcstore.stores.claims.flow.QueueFlow.refresh", lambda _: None)
    with Claims(database.url, StoreConfig(network_timeout=1.0)) as claims:
        queue = claims.queue("ORDERS")
        queue.add(*numbered(3))
        queue.release(*queue.claim())
        pids = database.rows(
            "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        for (pid,) in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(OutcomeUnknown):
                queue.claim(3)
            # The server cannot end it yet: what it was sent may still be carried out.
            with pytest.raises(StoreUnavailable):
                queue.claim(3)
        finally:
            for (pid,) in pids:
                os.kill(pid, signal.SIGCONT)

        assert bodies(queue.claim(3, wait=30.0)) == ["0", "1", "2"]


@pytest.mark.backends("postgresql")
def test_claims_whose_answer_was_lost_are_returned(claims: Claims, database: Database) -> None:
    queue = claims.queue("ORDERS")
    queue.add(*numbered(3))
    [held] = queue.claim()
    # As by a claim of this process whose connection was lost before the answer.
    database.execute(
        "INSERT INTO JDBCSTORE_CLAIMS (ID, SESSION, DUE, TAKEN, FAILED) VALUES (:id, :session, 0, 1, 0)",
        id=held.sequence + 1,
        session=claims.database.lease.number,
    )
    database.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    with pytest.raises(OutcomeUnknown):
        queue.claim()

    assert bodies(queue.claim(3)) == ["1", "2"]
    queue.acknowledge(held)


@pytest.mark.backends("postgresql")
def test_claims_whose_answer_was_lost_are_returned_without_another_claim(
    open_claims: OpenClaims, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a process that adds from then on would hold them for as long as it lives."""
    monkeypatch.setattr("jdbcstore.stores.claims.lease._RENEWALS", 100)
    monkeypatch.setattr("jdbcstore.stores.claims.connections._TRUSTED", 3600.0)
    claims = open_claims(lease=30.0)
    queue = claims.queue("ORDERS")
    [id_] = queue.add(Message("0"))
    database.execute(
        "INSERT INTO JDBCSTORE_CLAIMS (ID, SESSION, DUE, TAKEN, FAILED) VALUES (:id, :session, 0, 1, 0)",
        id=id_,
        session=claims.database.lease.number,
    )
    queue.claim()
    with claims.database.lease._lock:  # else a renewal may find the lost connection first
        database.end_connections()
        with pytest.raises(OutcomeUnknown):
            queue.claim()

    wait_until(lambda: queue.count() == (1, 1), 30.0)
    assert claims.database._lost == []


@pytest.mark.backends("postgresql")
def test_a_renewal_of_the_lease_waits_for_a_connection_that_is_in_use(
    claims: Claims, queue: ClaimQueue, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one would be kept for some seconds, in each idle process, at each renewal."""
    queue.claim()
    monkeypatch.setattr("jdbcstore.stores.claims.connections._PATIENCE", 60.0)
    before, renewing = database.connections(), threading.Thread(target=claims.database.lease.renew)

    def work(_: Connection) -> int:
        renewing.start()
        wait_until(lambda: bool(claims.database._connections._freed._waiters))  # type: ignore[attr-defined]
        return database.connections()

    assert claims.database.run(work) == before
    renewing.join()
    assert database.connections() == before


def test_a_connection_that_cannot_be_prepared_is_closed(
    claims: Claims, queue: ClaimQueue, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.claim()
    claims.database._connections.forget_idle()
    before = database.connections()

    def fail(_: Connection) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(Connection, "identify", fail)
    with pytest.raises(StoreUnavailable):
        queue.claim()
    wait_until(lambda: database.connections() <= before, 30.0)
    assert claims.database._connections._used == []
    monkeypatch.undo()


def test_closing_returns_the_claims(open_claims: OpenClaims, queue: ClaimQueue) -> None:
    queue.add(*numbered(2))
    ended = open_claims()
    ended.queue("ORDERS").claim(2)

    ended.close()

    assert [(claim.message.body, claim.redeliveries) for claim in queue.claim(2)] == [("0", 0), ("1", 0)]
    with pytest.raises(StoreClosed):
        ended.queue("ORDERS").claim()
    with pytest.raises(StoreClosed):
        ended.queue("ORDERS").add(Message("x"))


def test_a_store_reads_what_was_added(open_claims: OpenClaims, database: Database) -> None:
    claims = open_claims()
    claims.queue("ORDERS").add(*numbered(2))
    claims.close()

    with jdbcstore.open(database.url) as store:
        page = store.queue("ORDERS").recover(limit=5)
        assert [message.body for message in page] == ["0", "1"]


def test_names_and_options_are_checked(claims: Claims, open_claims: OpenClaims) -> None:
    with pytest.raises(InvalidDestination):
        claims.queue("topic://NEWS")
    for lease in (0, math.nan, math.inf, 1e300):
        with pytest.raises(ConfigurationError, match="lease"):
            open_claims(lease=lease)


@pytest.mark.parametrize("delay", [math.nan, math.inf, -math.inf, 2.0**60, 10**30])
def test_a_delay_that_cannot_be(queue: ClaimQueue, claims: Claims, database: Database, delay: float) -> None:
    queue.add(Message("m"))
    [claim] = queue.claim()
    for call in (queue.add, claims.queue("LATER").add):
        with pytest.raises(ConfigurationError, match="delay"):
            call(Message("late"), delay=delay)
    for settle in (queue.release, queue.reject):
        with pytest.raises(ConfigurationError, match="delay"):
            settle(claim, delay=delay)
    queue.reject(claim, delay=250e9)  # until the year 9900 or so
    assert queue.claim() == []
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(1,)]


def test_a_database_that_cannot_be_shared_says_so() -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL, MySQL"):
        Claims("oracle+oracledb://127.0.0.1:1/?service_name=x")


@pytest.mark.backends("mariadb")
def test_mysql_s_url_of_a_mariadb_is_refused(database: Database) -> None:
    """Those with its own URL take numbers from its sequence, and these would give them again."""
    url = make_url(database.url).set(drivername="mysql+pymysql").render_as_string(hide_password=False)

    with pytest.raises(ConfigurationError, match="begins with mariadb"):
        Claims(url)
    assert database.connections() == 0


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_connections_take_turns(claims: Claims, queue: ClaimQueue) -> None:
    rows = [claims.database.encode(queue.destination, Message(str(number))) for number in range(4)]

    def one(first: Connection) -> None:
        def other(second: Connection) -> None:
            for connection, row in zip([first, second, first, second], rows, strict=True):
                claims.database.adder.add_rows(connection, [row])

        claims.database.run(other)

    claims.database.run(one)

    assert [claim.message.body for claim in queue.claim(4)] == ["0", "1", "2", "3"]
