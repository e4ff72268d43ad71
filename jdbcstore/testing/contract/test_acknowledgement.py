"""Acknowledgements of a durable subscription in any order, and the mark that ActiveMQ reads."""

from __future__ import annotations

import random

import pytest

from jdbcstore import Store, TopicMessageStore
from jdbcstore.abc import Reference
from jdbcstore.testing.messages import content, fill, sequences
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import TOPICS_ELSEWHERE


def marks(database: RawTables) -> list[int]:
    return [mark for (mark,) in database.rows("SELECT LAST_ACKED_ID FROM ACTIVEMQ_ACKS ORDER BY PRIORITY")]


def ahead(database: RawTables) -> list[int]:
    return [sequence for (sequence,) in database.rows("SELECT ID FROM JDBCSTORE_ACKS ORDER BY ID")]


@pytest.mark.parametrize("order", ["ascending", "descending", "random", "evens first", "one by one"])
def test_any_order(topic: TopicMessageStore, order: str) -> None:
    subscription, witness = topic.subscribe("client", "ticker"), topic.subscribe("client", "witness")
    references = fill(topic, *map(str, range(24)))
    left = dict(zip([reference.sequence for reference in references], map(str, range(24)), strict=True))
    if order == "descending":
        references.reverse()
    elif order == "random":
        random.Random(7).shuffle(references)
    elif order == "evens first":
        references = references[::2] + references[1::2]

    step = 1 if order == "one by one" else 3
    for start in range(0, len(references), step):
        done = references[start : start + step]
        subscription.acknowledge(*done)
        for reference in done:
            del left[reference.sequence]
        assert subscription.message_count() == len(left)
        assert sequences(subscription) == list(left)

    assert content(subscription) == []
    assert witness.message_count() == 24


@pytest.mark.parametrize("by", ["message", "reference", "id", "sequence"])
def test_by_any_name(topic: TopicMessageStore, by: str) -> None:
    subscription = topic.subscribe("client", "ticker")
    references = fill(topic, "a", "b", "c")
    names: dict[str, Reference] = {
        "message": subscription.recover()[1],
        "reference": references[1],
        "id": references[1].message_id,
        "sequence": references[1].sequence,
    }

    subscription.acknowledge(names[by])
    subscription.acknowledge(names[by])

    assert content(subscription) == ["a", "c"]


def test_acknowledging_again_what_is_done_and_what_never_was(topic: TopicMessageStore) -> None:
    subscription = topic.subscribe("client", "ticker")
    a, b, c = fill(topic, "a", "b", "c")
    subscription.acknowledge(a, c)

    subscription.acknowledge()
    subscription.acknowledge(a, c, a)
    subscription.acknowledge(77, -5, 0)

    assert content(subscription) == ["b"]
    fill(topic, "d")
    assert content(subscription) == ["b", "d"]
    subscription.acknowledge(b)
    assert content(subscription) == ["d"]


def test_without_waiting(topic: TopicMessageStore) -> None:
    subscription = topic.subscribe("client", "ticker")
    references = fill(topic, *map(str, range(50)))

    futures = [subscription.acknowledge_async(reference) for reference in reversed(references[1:])]
    for future in futures:
        future.result(180)

    assert content(subscription) == ["0"]


def test_what_comes_later_is_not_acknowledged(topic: TopicMessageStore) -> None:
    subscription = topic.subscribe("client", "ticker")
    for number in range(5):
        [reference] = fill(topic, str(number))
        assert content(subscription) == [str(number)]
        subscription.acknowledge(reference)
        assert content(subscription) == []


def test_other_destinations_between(store: Store, topic: TopicMessageStore) -> None:
    """The gaps that other destinations leave in the sequence are none."""
    subscription, queue = topic.subscribe("client", "ticker"), store.queue("ORDERS")
    references = []
    for number in range(6):
        references += fill(topic, str(number))
        fill(queue, "between")

    subscription.acknowledge(*references[3:], references[0])

    assert content(subscription) == ["1", "2"]
    assert queue.message_count() == 6


@TOPICS_ELSEWHERE
def test_in_order_moves_the_mark_alone(topic: TopicMessageStore, database: RawTables) -> None:
    subscription = topic.subscribe("client", "ticker")
    references = fill(topic, *map(str, range(10)))

    for done, reference in enumerate(references, 1):
        subscription.acknowledge(reference)
        assert marks(database) == [done]

    assert ahead(database) == []


@TOPICS_ELSEWHERE
def test_gaps_are_kept_beside_the_mark_until_they_close(
    topic: TopicMessageStore, database: RawTables
) -> None:
    subscription = topic.subscribe("client", "ticker")
    references = fill(topic, *map(str, range(6)))

    def acknowledge(*numbers: int) -> tuple[list[int], list[int]]:
        subscription.acknowledge(*[references[number - 1] for number in numbers])
        return marks(database), ahead(database)

    assert acknowledge(3) == ([0], [3])
    assert acknowledge(6, 2) == ([0], [2, 3, 6])
    assert acknowledge(1) == ([3], [6])
    assert acknowledge(5) == ([3], [5, 6])
    assert acknowledge(4) == ([6], [])


@TOPICS_ELSEWHERE
def test_rows_say_whose_acknowledgement_they_are(topic: TopicMessageStore, database: RawTables) -> None:
    subscription = topic.subscribe("client", "ticker")
    _, second = fill(topic, "a", "b")

    subscription.acknowledge(second)

    assert database.rows(
        "SELECT CONTAINER, CLIENT_ID, SUB_NAME, ID, MSGID_PROD, MSGID_SEQ FROM JDBCSTORE_ACKS"
    ) == [
        (
            "topic://PRICES",
            "client",
            "ticker",
            second.sequence,
            str(second.message_id.producer_id),
            second.message_id.producer_sequence,
        )
    ]
    topic.unsubscribe("client", "ticker")
    assert ahead(database) == []


@TOPICS_ELSEWHERE
def test_a_message_removed_for_all_closes_the_gap(
    store: Store, topic: TopicMessageStore, database: RawTables
) -> None:
    subscription = topic.subscribe("client", "ticker")
    a, b, c, d = fill(topic, "a", "b", "c", "d")
    subscription.acknowledge(b, d)

    topic.acknowledge(a, d)
    subscription.acknowledge(c)

    assert marks(database) == [3]
    store.cleanup()
    assert ahead(database) == []


@TOPICS_ELSEWHERE
def test_a_removal_in_a_transaction_closes_the_gap(
    store: Store, topic: TopicMessageStore, database: RawTables
) -> None:
    subscription = topic.subscribe("client", "ticker")
    a, b, c, d = fill(topic, "a", "b", "c", "d")
    subscription.acknowledge(b, d)

    with store.transaction() as transaction:
        transaction.topic("PRICES").acknowledge(a, d)
    subscription.acknowledge(c)

    assert marks(database) == [3]
    store.cleanup()
    assert ahead(database) == []


@TOPICS_ELSEWHERE
def test_expired_messages_close_gaps(topic: TopicMessageStore, database: RawTables) -> None:
    subscription = topic.subscribe("client", "ticker")
    [first] = fill(topic, "expired", expiration_ms=1)
    second, third = fill(topic, "b", "c")
    subscription.acknowledge(second)
    assert (marks(database), ahead(database)) == ([0], [second.sequence])

    assert topic.remove_expired() == 1
    subscription.acknowledge(third)

    assert first.sequence == 1
    assert (marks(database), ahead(database)) == ([third.sequence], [])


@TOPICS_ELSEWHERE
def test_gaps_survive_a_restart(open_store: OpenStore, database: RawTables) -> None:
    store = open_store()
    topic = store.topic("PRICES")
    references = []
    subscription = topic.subscribe("client", "ticker")
    references = fill(topic, *map(str, range(10)))
    subscription.acknowledge(references[0], references[4], references[7])
    store.close()

    reopened = open_store().topic("PRICES").subscription("client", "ticker")

    assert content(reopened) == ["1", "2", "3", "5", "6", "8", "9"]
    assert reopened.message_count() == 7
    reopened.acknowledge(*references[1:7])
    assert (marks(database), ahead(database)) == ([8], [])
    assert content(reopened) == ["8", "9"]


@TOPICS_ELSEWHERE
def test_an_activemq_that_took_the_tables_meanwhile(open_store: OpenStore, database: RawTables) -> None:
    """It moves the mark past what is ahead, empties the topic, and starts its IDs again."""
    store = open_store()
    topic = store.topic("PRICES")
    subscription = topic.subscribe("client", "ticker")
    _, second, third = fill(topic, "a", "b", "c")
    subscription.acknowledge(third)
    store.close()
    database.execute("UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID = :second", second=second.sequence)

    subscription = open_store().topic("PRICES").subscription("client", "ticker")

    assert content(subscription) == []
    assert subscription.message_count() == 0
    subscription.acknowledge(third)
    assert (marks(database), ahead(database)) == ([3], [])


@TOPICS_ELSEWHERE
def test_a_new_message_under_an_old_id_is_not_taken_for_acknowledged(
    open_store: OpenStore, database: RawTables
) -> None:
    store = open_store()
    topic = store.topic("PRICES")
    subscription = topic.subscribe("client", "ticker")
    _, second, _ = fill(topic, "a", "b", "c")
    subscription.acknowledge(second)
    store.close()
    # Another producer's message got this ID from a broker that counts again in drained tables.
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSGID_SEQ = 4711 WHERE ID = :second", second=second.sequence)

    subscription = open_store().topic("PRICES").subscription("client", "ticker")

    assert content(subscription) == ["a", "b", "c"]
    subscription.acknowledge(1, 2, 3)
    assert (marks(database), ahead(database)) == ([3], [])


def test_acknowledgements_of_several_subscriptions_in_one_transaction(store: Store) -> None:
    topic, other = store.topic("PRICES"), store.topic("NEWS")
    first, second = topic.subscribe("client", "first"), topic.subscribe("client", "second")
    third = other.subscribe("client", "first")
    a, b = fill(topic, "a", "b")
    [n] = fill(other, "n")

    with store.transaction() as transaction:
        transaction.topic("PRICES").acknowledge_subscription("client", "first", b)
        transaction.topic("PRICES").acknowledge_subscription("client", "first", a)
        transaction.topic("PRICES").acknowledge_subscription("client", "second", b)
        transaction.topic("NEWS").acknowledge_subscription("client", "first", n)
        assert (first.message_count(), second.message_count(), third.message_count()) == (2, 2, 1)

    assert content(first) == []
    assert content(second) == ["a"]
    assert content(third) == []
