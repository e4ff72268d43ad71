"""The line to the database breaks at each statement and each answer of a checkpoint's transaction."""

from __future__ import annotations

import itertools

import pytest

import jdbcstore
from jdbcstore import Destination, Message, Store
from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark, SubscriptionKey
from jdbcstore.testing.messages import content, fill
from tests.support.faults.line import Line
from tests.support.faults.proxy import ProxyLine

NEWS = Destination.topic("NEWS")
BEFORE, AFTER = "before", "after"


def state(store: Store) -> str:
    """Which of two, and nothing between them."""
    queue, subscription = store.queue("Q"), store.topic(NEWS).subscription("client", "reader")
    found = (content(queue), content(store.topic(NEWS)), content(subscription))
    states = {
        BEFORE: (["a", "b"], ["x", "y"], ["x", "y"]),
        AFTER: (["A", "c", "d"], ["x", "y", "z"], ["x"]),
    }
    [name] = [name for name, expected in states.items() if found == expected] or [str(found)]
    return name


def begin(store: CheckpointedStore) -> Changes:
    """Four messages, and a subscription that has not read them; what is to be applied to them."""
    queue, topic = store.queue("Q"), store.topic(NEWS)
    for destination in (queue, topic):
        destination.remove_all_messages()
    topic.subscribe("client", "reader")
    topic.unsubscribe("client", "reader")
    fill(queue, "a", "b")
    topic.subscribe("client", "reader")
    fill(topic, "x", "y")
    assert state(store) == BEFORE
    [a, b] = queue.recover()
    first = store.last_sequence() + 1
    return Changes(
        JournalMark(86, first, first + 2),
        adds=[
            (first, queue.encode(Message("c"))),
            (first + 1, topic.encode(Message("z"))),
            (first + 2, queue.encode(Message("d"))),
        ],
        updates=[(a.sequence or 0, queue.encode(a.replace(body="A")))],
        removes=[(queue.destination.qualified_name, b.sequence or 0)],
        acknowledgements={
            SubscriptionKey(NEWS, "client", "reader"): [(topic.recover()[1].sequence or 0, 0), (first + 1, 0)]
        },
    )


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_a_line_that_breaks_once_is_not_noticed(line: Line) -> None:
    config = jdbcstore.StoreConfig(cleanup_period=0, reconnect_timeout=180.0)
    with JdbcStore(line.url, config, journaled=True) as store:
        for how in line.breaks:
            for number in itertools.count(1):
                changes = begin(store)
                line.arm(how, number)
                store.apply(changes)
                line.mend()
                assert state(store) == AFTER, f"at {how} {number}"
                assert store.journal_mark() == changes.mark
                assert store.last_sequence() >= changes.mark.written
                if not line.broke:
                    break
            assert number > 5


@pytest.mark.backends("sqlite", "postgresql")
def test_a_line_that_stays_broken_leaves_all_or_nothing(line: Line, url: str) -> None:
    config = jdbcstore.StoreConfig(cleanup_period=0, reconnect_timeout=0.02)
    for how in line.breaks:
        told = set()
        for number in itertools.count(1, 9 if isinstance(line, ProxyLine) else 4):
            with JdbcStore(line.url, config, journaled=True) as store:
                changes = begin(store)
                line.arm(how, number, lasting=True)
                expected = AFTER
                try:
                    store.apply(changes)
                except OutcomeUnknown:
                    expected = f"{BEFORE} or {AFTER}"
                except StoreUnavailable:
                    expected = BEFORE
                line.mend()
            told.add(expected)
            with JdbcStore(url, config, journaled=True) as again:
                found = state(again)
                assert found in expected, f"at {how} {number}"
                # What is not known is given again.
                again.apply(changes)
                assert state(again) == AFTER, f"at {how} {number}"
                assert again.queue("Q").add_message(Message("new")).sequence > changes.mark.written
            if not line.broke:
                break
        assert {BEFORE, AFTER} <= told
