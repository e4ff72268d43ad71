"""Claims by key: fair shares with weights, limits of a key, and order within a key."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.database.statements.flow import FlowStatements
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.errors import ConfigurationError
from jdbcstore.stores.claims import Claim, ClaimQueue, Claims, KeySettings
from jdbcstore.stores.claims.marks import LOOK_AGAIN
from jdbcstore.stores.claims.numbers import read_shared
from jdbcstore.testing.clock import FakeClock
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database
from tests.support.hostile import NAMES

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@pytest.fixture
def two(open_claims: OpenClaims) -> tuple[ClaimQueue, ClaimQueue]:
    """The queue as two processes have it."""
    one, other = (open_claims(name=name).queue("ORDERS") for name in ("one", "other"))
    return one, other


def add(queue: ClaimQueue, keys: str, **more: Any) -> None:
    """Add messages of these keys, whose bodies are the key and a number in it."""
    counts = Counter[str]()
    messages = []
    for key in keys:
        messages.append(Message(f"{key}{counts[key]}", group_id=None if key == "-" else key, **more))
        counts[key] += 1
    queue.add(*messages)


def bodies(claims: list[Any]) -> list[str]:
    return [str(claim.message.body) for claim in claims]


def one_by_one(queue: ClaimQueue, times: int = 99) -> str:
    """The keys of what is claimed one after the other, and removed."""
    keys = ""
    for _ in range(times):
        claims = queue.claim()
        if not claims:
            break
        keys += bodies(claims)[0][0]
        queue.acknowledge(*claims)
    return keys


def test_each_key_gets_its_share_whoever_claims(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    add(one, "aaaaaaabbcc-")
    one.flow.share()

    assert "".join(one_by_one(queue, 1) for queue in (one, other, other, one)) in ("-abc", "abc-")
    assert sorted(body[0] for body in bodies(one.claim(3))) == ["a", "b", "c"]
    assert one_by_one(other) == "aaaaa"


def test_a_flood_does_not_delay_another_key(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    one.flow.share()
    add(one, "a" * 600)
    assert one_by_one(one, 3) == "aaa"

    add(other, "b")

    assert "b" in one_by_one(one, 2)
    assert one_by_one(one, 2) == "aa"


def test_shares_are_by_weight_and_what_one_leaves_others_get(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    add(one, "abc" * 60)
    one.flow.share()
    one.flow.set_key("b", weight=3)
    one.flow.set_key("c", weight=2)

    found = "".join(one_by_one(queue, 10) for queue in (one, other) * 6)

    assert Counter(found) == {"a": 20, "b": 60, "c": 40}
    assert Counter(one_by_one(one)) == {"a": 40, "c": 20}
    assert one.flow.key_settings() == {"b": KeySettings(weight=3), "c": KeySettings(weight=2)}


def test_a_weight_counts_in_one_claim_of_many(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, _ = two
    add(one, "ab" * 9)
    one.flow.share()
    one.flow.set_key("b", weight=2)

    assert Counter(body[0] for body in bodies(one.claim(9))) == {"a": 3, "b": 6}
    assert Counter(body[0] for body in bodies(one.claim(99))) == {"a": 6, "b": 3}


def test_a_limit_is_one_of_each_key(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    add(one, "aaaabbbb")
    one.flow.share(claims=2)
    one.flow.set_key("b", claims=1)

    held = one.claim(99)

    assert bodies(held) == ["a0", "a1", "b0"]
    assert other.claim() == []
    one.acknowledge(held[2])
    assert bodies(other.claim(99)) == ["b1"]
    one.release(held[0])
    assert bodies(other.claim(99)) == ["a0"]
    one.flow.limit(claims=4)
    one.flow.set_key("a", claims=9)
    assert bodies(other.claim(99)) == ["a2"]


def test_within_a_key_the_next_is_claimed_once_the_one_before_is_settled(
    two: tuple[ClaimQueue, ClaimQueue], database: Database
) -> None:
    one, other = two
    add(one, "aaabb")
    one.flow.share(in_order=True)

    a0, b0 = one.claim(99)

    assert bodies([a0, b0]) == ["a0", "b0"]
    assert other.claim() == []
    one.acknowledge(b0)
    assert bodies(other.claim(99)) == ["b1"]
    one.reject(a0, delay=3600.0)
    assert other.claim() == []
    database.execute("UPDATE JDBCSTORE_CLAIMS SET DUE = 1 WHERE DUE > 1")
    [again] = other.claim(99)
    assert (again.message.body, again.redeliveries) == ("a0", 1)
    other.dead_letter(again, reason="test")
    assert bodies(one.claim(99)) == ["a1"]


def test_claims_of_a_dead_process_are_claimed_again_in_order(
    two: tuple[ClaimQueue, ClaimQueue], database: Database
) -> None:
    one, other = two
    add(one, "aa")
    one.flow.share(in_order=True)
    assert bodies(one.claim(9)) == ["a0"]
    assert other.claim() == []

    database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE NAME = 'one'")

    [again] = other.claim(9)
    assert (again.message.body, again.redeliveries) == ("a0", 1)
    assert other.claim() == []


def test_a_paused_key_keeps_its_messages(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    add(one, "aabb")
    one.flow.share()
    one.flow.set_key("a", paused=True)

    assert one_by_one(other) == "bb"
    one.flow.set_key("a")
    assert one.flow.key_settings() == {}
    assert one_by_one(other) == "aa"


def test_priorities_are_within_a_key(claims: Claims) -> None:
    queue = claims.queue("ORDERS")
    queue.flow.share()
    queue.add(
        Message("a0", group_id="a", priority=1),
        Message("a1", group_id="a", priority=9),
        Message("b0", group_id="b", priority=0),
    )
    assert sorted(bodies(queue.claim(2))) == ["a1", "b0"]
    assert bodies(queue.claim(2)) == ["a0"]


def test_messages_that_were_there_before_and_those_that_come_late(
    open_claims: OpenClaims, clock: FakeClock, database: Database
) -> None:
    queue = open_claims(clock=clock).queue("ORDERS")
    add(queue, "aab")
    [held] = queue.claim()
    queue.flow.share(claims=1)
    assert bodies(queue.claim(9)) == ["b0"]
    queue.acknowledge(held)
    assert bodies(queue.claim(9)) == ["a1"]
    # As a broker adds one, which took an earlier ID and was committed later.
    [added] = queue.add(Message("c0", group_id="c"))
    database.execute(f"UPDATE ACTIVEMQ_MSGS SET ID = {held.sequence} WHERE ID = {added}")
    database.execute(f"DELETE FROM JDBCSTORE_KEYED WHERE ID = {added}")
    clock.advance(LOOK_AGAIN)
    assert bodies(queue.claim()) == ["c0"], "before all messages are searched"


def test_keys_of_removed_messages_are_forgotten(
    open_claims: OpenClaims, clock: FakeClock, database: Database
) -> None:
    queue = open_claims(clock=clock).queue("ORDERS")
    add(queue, "aabb")
    queue.flow.share()
    queue.acknowledge(*queue.claim(3))
    assert database.rows("SELECT COUNT(*) FROM JDBCSTORE_KEYED") == [(1,)]
    database.execute("DELETE FROM ACTIVEMQ_MSGS")  # as an older version or an ActiveMQ does
    clock.advance(30.0)

    assert queue.claim() == []
    assert database.rows("SELECT COUNT(*) FROM JDBCSTORE_KEYED") == [(0,)]


def test_keys_that_are_no_plain_words(claims: Claims) -> None:
    queue = claims.queue("ORDERS")
    queue.flow.share(claims=1)
    keys = ["É", "é", "e", "E", "e ", "a" * 500, "a" * 501, "", "漢字", "with, comma", "%s"]
    queue.add(*(Message(key, group_id=key) for key in keys for _ in range(2)))

    assert sorted(bodies(queue.claim(99))) == sorted(keys)


@pytest.mark.parametrize("in_order", [False, True])
def test_whatever_its_key_a_message_is_claimed(two: tuple[ClaimQueue, ClaimQueue], *, in_order: bool) -> None:
    one, other = two
    one.flow.share(in_order=in_order)
    for turn in "01":
        one.add(*(Message(f"{key!a}{turn}", group_id=key) for key in NAMES))

    found = list[str]()
    while claims := [*one.claim(), *other.claim(5)]:
        found += bodies(claims)
        one.acknowledge(*claims[:1])
        other.acknowledge(*claims[1:])

    assert sorted(found) == sorted(f"{key!a}{turn}" for key in NAMES for turn in "01")
    for key in NAMES:
        assert found.index(f"{key!a}0") < found.index(f"{key!a}1")


def test_filing_reads_no_bodies(claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, body, count = claims.queue("ORDERS"), 200_000, 40
    queue.add(*(Message(b"x" * body, group_id=f"k{number % 4}") for number in range(count)))
    queue.flow.share()
    read = list[int]()
    fetch = Connection.fetch

    def counted(connection: Connection, *arguments: Any, **values: Any) -> list[Row]:
        rows = fetch(connection, *arguments, **values)
        read.extend(len(value) for row in rows for value in row if isinstance(value, bytes))
        return rows

    monkeypatch.setattr(Connection, "fetch", counted)
    [claim] = queue.claim()
    read_shared(claims.database.session)

    assert sum(size for size in read if size >= body) <= len(claim.message.body or b"") + 1000
    assert sum(read) < body + (count + 2) * 5000


@pytest.mark.parametrize("before", [{}, {"group_id": "k" * 9000}, {"correlation_id": "c" * 9000}])
def test_headers_that_are_longer_than_what_is_read_at_first(claims: Claims, before: dict[str, str]) -> None:
    queue = claims.queue("ORDERS")
    queue.flow.share(in_order=True)
    message = Message("0" * 9000, **{"group_id": "k", **before})  # type: ignore[arg-type]
    queue.add(message, message.replace(body="1"))
    queue.add(Message("other", group_id="l"))

    assert sorted(str(body)[0] for body in bodies(queue.claim(9))) == ["0", "o"]


@pytest.mark.backends("postgresql", "mariadb")
def test_what_is_committed_late_is_not_overtaken(open_claims: OpenClaims, monkeypatch: Any) -> None:
    """A producer is slow between the number of its message and the commit, while others add and claim."""
    claims, worker = open_claims(), open_claims()
    queue, mine = worker.queue("ORDERS"), claims.queue("ORDERS")
    queue.flow.share(in_order=True)
    numbered, goes_on, numbers = threading.Event(), threading.Event(), claims.database.adder.numbers

    def slow(*given: Any) -> list[int]:
        found = numbers(*given)
        numbered.set()
        assert goes_on.wait(60.0)
        return found

    monkeypatch.setattr(claims.database.adder, "numbers", slow)
    created = [Message(f"created {number}", group_id="k") for number in range(2)]
    thread = threading.Thread(target=mine.add, args=created)
    thread.start()
    assert numbered.wait(60.0)
    for other in range(2):
        queue.add(Message("other", group_id=f"other {other}"))
        queue.acknowledge(*queue.claim(9))
    goes_on.set()
    thread.join()
    mine.add(Message("paid", group_id="k"))

    found = []
    while claimed := queue.claim(9):
        found += bodies(claimed)
        queue.acknowledge(*claimed)
    assert found == ["created 0", "created 1", "paid"]


def test_without_keys_again(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    add(one, "aaab")
    one.flow.share(claims=1)
    assert sorted(bodies(other.claim(9))) == ["a0", "b0"]

    one.flow.unshare()

    assert bodies(one.claim(9)) == ["a1", "a2"]


HOUR_NS = 3600 * 10**9


def pass_hours(database: Database, hours: int) -> None:
    """As if the database's clock had moved."""
    database.execute(f"UPDATE JDBCSTORE_FLOW_KEYS SET DRAWN = DRAWN - {hours * HOUR_NS}")


def test_a_rate_is_one_of_each_key(two: tuple[ClaimQueue, ClaimQueue], database: Database) -> None:
    one, other = two
    add(one, "aaaaabbbbb")
    one.flow.share(rate=1 / 3600, burst=2)
    one.flow.set_key("b", rate=2 / 3600, burst=3)
    assert one.flow.settings().burst_per_key == 2
    assert one.flow.key_settings()["b"].burst == 3

    assert sorted(bodies([*one.claim(3), *other.claim(9)])) == ["a0", "a1", "b0", "b1", "b2"]
    assert one.claim() == other.claim() == []
    pass_hours(database, 1)
    assert sorted(bodies(other.claim(9))) == ["a2", "b3", "b4"]
    assert one.claim() == []
    pass_hours(database, 99)
    assert one_by_one(one) == "aa"


def test_a_clock_that_was_set_back_stops_no_key(
    two: tuple[ClaimQueue, ClaimQueue], database: Database
) -> None:
    one, other = two
    add(one, "aa")
    one.flow.share(rate=1000.0, burst=1)
    assert bodies(one.claim()) == ["a0"]

    pass_hours(database, -10_000)

    assert bodies(other.claim(wait=60.0)) == ["a1"]


def test_rates_that_are_not_needed_any_more_are_forgotten(
    open_claims: OpenClaims, clock: FakeClock, database: Database
) -> None:
    queue = open_claims(clock=clock).queue("ORDERS")
    add(queue, "abc")
    queue.flow.share(rate=1 / 3600)
    queue.flow.set_key("c", weight=2)
    assert len(queue.claim(9)) == 3
    assert database.rows("SELECT COUNT(*) FROM JDBCSTORE_FLOW_KEYS") == [(3,)]
    pass_hours(database, 2)
    clock.advance(30.0)

    assert queue.claim() == []
    assert database.rows("SELECT NAME FROM JDBCSTORE_FLOW_KEYS") == [("c",)]
    assert [*queue.flow.key_settings()] == ["c"]


def test_a_lower_limit_of_a_key_takes_nothing_away(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    add(one, "aaaab")
    one.flow.share()
    held = one.claim(4)
    assert sorted(bodies(held)) == ["a0", "a1", "a2", "b0"]

    other.flow.set_key("a", claims=2)

    a0, a1 = (claim for claim in held if claim.message.body in ("a0", "a1"))
    one.acknowledge(a0)
    assert other.claim() == []
    one.acknowledge(a1)
    assert bodies(other.claim(9)) == ["a3"]


def test_keys_that_have_nothing_to_claim_are_passed_over(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    one.flow.share(claims=1)
    one.add(
        *(Message(f"{number:02}.{turn}", group_id=f"k{number:02}") for number in range(60) for turn in "01")
    )
    held = one.claim(60)
    assert sorted(bodies(held)) == [f"{number:02}.0" for number in range(60)]

    assert one.claim() == other.claim() == []
    one.acknowledge(held[40])
    assert bodies(other.claim()) == [str(held[40].message.body).replace(".0", ".1")]


@pytest.mark.backends("postgresql")
def test_what_others_claimed_since_a_look_is_not_claimed_again(
    open_claims: OpenClaims, clock: FakeClock
) -> None:
    one, other = open_claims(clock=clock).queue("ORDERS"), open_claims().queue("ORDERS")
    add(one, "aaabb")
    one.flow.share(in_order=True)
    one.acknowledge(*one.claim())  # it knows all keys, and need not lock the queue
    choose, claimed = one._taking.keyed.choose, list[str]()

    def overtaken(*arguments: Any) -> Any:
        choice = choose(*arguments)
        if not claimed:
            claimed.extend(bodies(other.claim(9)))
        return choice

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one._taking.keyed, "choose", overtaken)
        assert one.claim(9) == []

    assert sorted(claimed) == ["a1", "b0"]


def test_a_claim_obeys_an_order_of_which_its_process_does_not_know(
    two: tuple[ClaimQueue, ClaimQueue],
) -> None:
    one, other = two
    add(one, "aab")
    one.flow.share()
    other.release(*other.claim())

    one.flow.share(in_order=True)
    assert sorted(bodies(other.claim(9))) == ["a0", "b0"]
    one.flow.share()
    assert bodies(other.claim(9)) == ["a1"]


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize("in_order", [False, True])
def test_one_statement_claims_what_a_process_would_choose(claims: Claims, *, in_order: bool) -> None:
    chance, answers = Random(7), Counter[int]()
    queues = claims.queue("ORDERS"), claims.queue("CHOSEN")
    for queue in queues:
        add(queue, "abacabdae-" * 12)
        queue.flow.share(claims=None if in_order else 5, in_order=in_order)
        queue.flow.set_key("b", weight=3)
        queue.flow.set_key("c", claims=1)
        queue.flow.pause_key("e")
    choose = queues[1]._taking
    held: tuple[list[Claim], list[Claim]] = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "_take_seen", lambda *_: None)
        for step in range(70):
            if step == 35:
                for queue in queues:
                    queue.flow.limit(claims=6, rate=10_000)
            limit, settled = chance.choice([1, 1, 1, 2, 3]), chance.random()
            claimed = [queue.claim(limit) for queue in queues]
            assert bodies(claimed[0]) == bodies(claimed[1]), step
            answers[len(claimed[0])] += 1
            for queue, some, new in zip(queues, held, claimed, strict=True):
                some += new
                while len(some) > 3:
                    one = some.pop(int(settled * len(some)))
                    (queue.release if settled > 0.8 else queue.acknowledge)(one)
    assert {1, 2} <= {*answers}


@pytest.mark.backends("postgresql")
def test_a_claim_by_key_is_one_statement(open_claims: OpenClaims, clock: FakeClock) -> None:
    claims = open_claims(clock=clock)
    queue = claims.queue("ORDERS")
    add(queue, "abcabcabcabcabcabc")
    queue.flow.share(in_order=True)
    queue.acknowledge(*queue.claim())
    connection, asked = claims.database._connections.checkout(), list[Sql]()
    fetch = connection.fetch

    def counted(sql: Sql, **values: Any) -> list[Row]:
        asked.append(sql)
        return fetch(sql, **values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "fetch", counted)
        claims.database._connections.give_back(connection)
        found = []
        for limit in (1, 1, 2):
            claimed = queue.claim(limit)
            found.append(bodies(claimed))
            queue.acknowledge(*claimed)

    assert found == [["b0"], ["c0"], ["a1", "b1"]]
    # An idle connection is asked whether it is there before it is used again.
    asked = [sql for sql in asked if sql is not claims.database.session.of(LockStatements).find_epoch]
    acknowledge = claims.database.session.of(ClaimStatements).acknowledge_keyed
    claim_next = claims.database.session.of(FlowStatements).claim_next
    assert asked == [sql for single in (True, True, False) for sql in (claim_next[True, single], acknowledge)]


@pytest.mark.backends("sqlite")
def test_numbers_of_keys_and_claims(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, _ = two
    add(one, "aab")
    one.flow.share(claims=1)
    one.claim(9)

    one.flow.set_key("z", paused=True)
    [numbers] = read_shared(one._database.session, keys=True).queues

    assert (numbers.queue, numbers.claimed, numbers.waiting_keys) == ("ORDERS", 2, 1)
    assert [(key.key, key.free, key.claimed, key.settings.paused) for key in numbers.keys] == [
        ("a", 1, 1, False),
        ("b", 0, 1, False),
        ("z", 0, 0, True),
    ]
    assert not read_shared(one._database.session).queues[0].keys


def test_each_key_is_set_and_paused_by_its_name(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    one.flow.share()
    one.add(*(Message(ascii(key), group_id=key) for key in NAMES))
    for key in NAMES[::2]:
        one.flow.set_key(key, claims=5)
        one.flow.pause_key(key)

    assert sorted(bodies(other.claim(99))) == sorted(map(ascii, NAMES[1::2]))
    assert len(one.flow.key_settings()) == len(NAMES[::2])
    [numbers] = read_shared(one._database.session, keys=True).queues
    assert sum(key.free for key in numbers.keys) == len(NAMES[::2])
    assert sum(key.claimed for key in numbers.keys) == len(NAMES[1::2])
    for key in NAMES[::2]:
        one.flow.resume_key(key)
        other.flow.set_key(key)
    assert one.flow.key_settings() == {}
    assert sorted(bodies(other.claim(99))) == sorted(map(ascii, NAMES[::2]))


def test_a_key_is_paused_and_resumed_and_keeps_its_settings(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    add(one, "ab")
    one.flow.share()
    one.flow.set_key("a", claims=5, rate=9.0, burst=9)

    one.flow.pause_key("a")
    one.flow.pause_key("b")
    settings = other.flow.key_settings()
    assert (settings["a"].paused, settings["a"].claims, settings["a"].burst) == (True, 5, 9)
    assert other.claim(9) == []
    other.flow.resume_key("b")
    assert [claim.message.group_id for claim in other.claim(9)] == ["b"]
    other.flow.resume_key("a")
    assert [*one.flow.key_settings()] == ["a"]


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("weight", [0, -1, 1.5, True, None, "2"])
def test_weights_that_cannot_be(claims: Claims, weight: Any) -> None:
    flow = claims.queue("ORDERS").flow
    with pytest.raises(ConfigurationError, match="weight="):
        flow.set_key("a", weight=weight)
    wrong: dict[str, Any]
    for wrong, says in (
        ({"claims": 0}, "claims=0 must be"),
        ({"rate": 0}, "rate=0 must be .*; to claim nothing, pause the key"),
        ({"burst": 2}, "burst=2 needs a rate"),
    ):
        changes: tuple[Callable[..., None], ...] = (flow.share, partial(flow.set_key, "a"))
        for change in changes:
            with pytest.raises(ConfigurationError, match=says):
                change(**wrong)
    assert flow.key_settings() == {}
