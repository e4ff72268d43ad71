"""Messages of the past are delivered anew, once each, whatever stops it."""

from __future__ import annotations

import signal

import pytest

import jdbcstore
from jdbcstore import Destination, Message, MessageId, ProducerId
from jdbcstore.abc import Store
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.selector import Selector
from jdbcstore.message.values import Long
from jdbcstore.tools.replay import MARKS, replay
from tests.support.cli.zygote import run_program
from tests.support.databases import Database
from tests.support.tools.replayed import AGAIN, ORDERS, Past, consumed, past

LONG_AGO = 1_500_000_000_000


def test_a_replayed_message_is_new_and_says_what_it_was(store: Store) -> None:
    before = Message(
        {"pint": 1},
        destination=ORDERS,
        message_id=MessageId(ProducerId("ID:long-gone-1", 1, 1), 7),
        timestamp_ms=LONG_AGO,
        expiration_ms=LONG_AGO + 1,
        priority=7,
        correlation_id="c",
        reply_to=Destination.queue("REPLIES"),
        jms_type="order",
        group_id="g",
        group_sequence=3,
        redelivery_counter=5,
        broker_in_time_ms=LONG_AGO,
        properties={"n": 1, "text": "zwölf"},
    )

    assert replay(Past(before), store, AGAIN).messages == 1

    [after] = consumed(store)
    said = {"originalMessageID": "ID:long-gone-1:1:1:7", "originalTimestamp": Long(LONG_AGO)}
    said["originalExpiration"] = Long(LONG_AGO + 1)
    assert after == before.replace(
        destination=AGAIN,
        original_destination=ORDERS,
        message_id=after.message_id,
        producer_id=after.producer_id,
        timestamp_ms=after.timestamp_ms,
        expiration_ms=0,
        redelivery_counter=0,
        broker_in_time_ms=0,
        properties={**before.properties, **said},
    )
    assert after.message_id != before.message_id
    assert (after.timestamp_ms or 0) > LONG_AGO

    assert replay(Past(after), store, ORDERS).messages == 1
    [third] = consumed(store, ORDERS)
    assert (third.original_destination, third.properties) == (ORDERS, after.properties)


def test_it_goes_on_where_it_was_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when all that was delivered until then is consumed; and what has ended begins anew."""
    monkeypatch.setattr("jdbcstore.tools.pages.PAGE", 4)
    seen: list[str] = []
    for stop in (3, 10, 17):
        with pytest.raises(OSError, match="stopped"):
            replay(past(20, stop), store, AGAIN)
        seen += [str(message.body) for message in consumed(store)]
        assert len(seen) == stop // 4 * 4
    assert store.queue(MARKS).message_count() == 1

    result = replay(past(20), store, AGAIN)

    assert (result.messages, result.before) == (4, 16)
    assert seen + [message.body for message in consumed(store)] == [str(number) for number in range(20)]
    assert store.queue(MARKS).message_count() == 0
    assert replay(past(20), store, AGAIN).messages == 20


def test_others_do_not_go_on_with_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.tools.pages.PAGE", 4)
    with pytest.raises(OSError, match="stopped"):
        replay(past(20, 10), store, AGAIN)

    elsewhere = Destination.topic("ELSEWHERE")
    assert replay(past(20), store, elsewhere).messages == 20
    assert replay(past(20), store, AGAIN, selector=Selector("n < 5")).messages == 5
    assert store.topic(elsewhere).message_count() == 20
    assert replay(past(20), store, AGAIN).before == 8


@pytest.mark.backends("sqlite")
def test_a_selector_chooses_and_damage_is_told_of(store: Store) -> None:
    told: list[str] = []
    messages = [Message("x", properties={"n": number}) for number in range(10)]
    progress: list[int] = []

    result = replay(
        Past(*messages[:5], CorruptMessage("no message"), *messages[5:]),
        store,
        AGAIN,
        selector=Selector("n BETWEEN 3 AND 6"),
        progress=progress.append,
        on_corrupt=lambda historic, error: told.append(f"{historic.position} {error.reason}"),
    )

    assert (result.messages, result.corrupt, told, sum(progress)) == (4, 1, ["5 no message"], 11)
    assert [message.properties["n"] for message in consumed(store)] == [3, 4, 5, 6]


CHILD = """
import os, signal, sys
import jdbcstore
from jdbcstore.stores.shared.transaction import BufferedTransaction
from jdbcstore.tools import pages
from jdbcstore.tools.replay import replay
from tests.support.tools.replayed import AGAIN, past

when, at, url = sys.argv[1:]
pages.PAGE, commit, calls = 10, BufferedTransaction.commit, []

def dying(self):
    calls.append(self)
    if when == "before" and len(calls) == int(at):
        os.kill(os.getpid(), signal.SIGKILL)
    references = commit(self)
    if len(calls) == int(at):
        os.kill(os.getpid(), signal.SIGKILL)
    return references

BufferedTransaction.commit = dying
replay(past(100), jdbcstore.open(url, cleanup_period=0.0), AGAIN)
"""


@pytest.mark.backends("sqlite", "postgresql")
def test_killed_again_and_again_each_message_is_delivered_once(database: Database) -> None:
    bodies: list[object] = []
    for when, at in (("behind", "3"), ("before", "3")):
        died = run_program(CHILD, when, at, database.url)
        assert died.returncode == -signal.SIGKILL, died.stderr
        if when == "behind":
            with jdbcstore.open(database.url) as store:
                bodies += [message.body for message in consumed(store)]
    with jdbcstore.open(database.url) as store:
        assert replay(past(100), store, AGAIN).before == 50
        bodies += [message.body for message in consumed(store)]
    assert bodies == [str(number) for number in range(100)]
