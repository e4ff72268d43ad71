"""Claims by key: fair shares with weights, limits of a key, and order within a key."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.errors import ConfigurationError
from jdbcstore.stores.claims import ClaimQueue, Claims, KeySettings
from jdbcstore.testing.clock import FakeClock
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database

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
    # As one that took an earlier ID and was committed later.
    queue.add(Message("c0", group_id="c"), Message("d0", group_id="d"))
    [d0] = [claim for claim in queue.claim(9) if claim.message.body == "d0"]
    queue.acknowledge(d0)
    database.execute(f"UPDATE ACTIVEMQ_MSGS SET ID = {d0.sequence} WHERE ID = {held.sequence + 1}")
    assert queue.count()[0] == 3


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


def test_without_keys_again(two: tuple[ClaimQueue, ClaimQueue]) -> None:
    one, other = two
    add(one, "aaab")
    one.flow.share(claims=1)
    assert sorted(bodies(other.claim(9))) == ["a0", "b0"]

    one.flow.unshare()

    assert bodies(one.claim(9)) == ["a1", "a2"]


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("weight", [0, -1, 1.5, True, None, "2"])
def test_weights_that_cannot_be(claims: Claims, weight: Any) -> None:
    flow = claims.queue("ORDERS").flow
    with pytest.raises(ConfigurationError, match="weight="):
        flow.set_key("a", weight=weight)
    with pytest.raises(ConfigurationError, match="claims=0"):
        flow.share(claims=0)
    assert flow.key_settings() == {}
