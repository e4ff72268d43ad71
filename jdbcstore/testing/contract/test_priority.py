"""Destinations that deliver by priority, and those that do not."""

from __future__ import annotations

import pytest

from jdbcstore import Message, MessageStore, Store
from jdbcstore.abc import Reference
from jdbcstore.errors import SchemaError
from jdbcstore.testing.messages import bodies, content, fill
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import TOPICS_ELSEWHERE

MIXED = (4, 0, 9, 4, 7, 9, 0, 4)
DELIVERED = ["2:9", "5:9", "4:7", "0:4", "3:4", "7:4", "1:0", "6:0"]


def fill_mixed(destination: MessageStore) -> None:
    destination.add_messages(
        Message(f"{number}:{priority}", priority=priority) for number, priority in enumerate(MIXED)
    )


@pytest.mark.parametrize("limit", [1, 2, 3, 8, 500])
def test_the_highest_priority_comes_first(store: Store, limit: int) -> None:
    queue = store.queue("ORDERS", prioritized=True)
    fill_mixed(queue)

    assert content(queue, limit) == DELIVERED
    assert queue.prioritized


def test_without_it_priorities_do_not_count(queue: MessageStore) -> None:
    fill_mixed(queue)

    assert content(queue, 3) == [f"{number}:{priority}" for number, priority in enumerate(MIXED)]
    assert not queue.prioritized
    assert [message.priority for message in queue.recover()] == list(MIXED)


def test_a_late_message_of_high_priority_comes_on_the_next_page(store: Store) -> None:
    queue = store.queue("ORDERS", prioritized=True)
    fill_mixed(queue)
    first = queue.recover(limit=4)
    assert bodies(first) == DELIVERED[:4]

    fill(queue, "late", priority=9)
    fill(queue, "later", priority=1)

    assert bodies(queue.recover(limit=3, after=first.cursor)) == ["late", "3:4", "7:4"]
    assert bodies(queue.recover(after=first.cursor)) == ["late", *DELIVERED[4:6], "later", *DELIVERED[6:]]


def test_a_subscription_delivers_by_priority(store: Store) -> None:
    topic = store.topic("PRICES", prioritized=True)
    fill(topic, "before", priority=9)
    subscription = topic.subscribe("client", "ticker")
    early = topic.subscribe("client", "early", retroactive=True)
    fill_mixed(topic)

    assert content(subscription, 3) == content(subscription) == DELIVERED
    assert content(early, 2) == ["before", *DELIVERED]
    assert content(topic, 2) == ["before", *DELIVERED]
    assert (subscription.message_count(), early.message_count()) == (8, 9)


@pytest.mark.parametrize("by", ["message", "sequence", "id"])
def test_acknowledging_in_any_order(store: Store, by: str) -> None:
    topic = store.topic("PRICES", prioritized=True)
    subscription = topic.subscribe("client", "ticker")
    fill_mixed(topic)
    left = list(DELIVERED)
    messages = {str(message.body): message for message in topic.recover()}

    for body in ("7:4", "2:9", "1:0", "3:4", "0:4", "6:0", "5:9"):
        message = messages[body]
        assert message.sequence is not None
        assert message.message_id is not None
        names: dict[str, Reference] = {
            "message": message,
            "sequence": message.sequence,
            "id": message.message_id,
        }
        subscription.acknowledge(names[by])
        left.remove(body)
        assert content(subscription, 2) == left
        assert subscription.message_count() == len(left)

    assert left == ["4:7"]


def test_cleanup_takes_all_priorities_in_one_run(store: Store) -> None:
    topic = store.topic("PRICES", prioritized=True)
    first, second = topic.subscribe("client", "first"), topic.subscribe("client", "second")
    fill_mixed(topic)
    first.acknowledge(*first.recover())
    second.acknowledge(*[message for message in topic.recover() if message.body != "0:4"])

    assert store.cleanup() == 7

    assert content(topic) == content(second) == ["0:4"]
    assert content(first) == []


def test_statistics_and_purge(store: Store) -> None:
    queue = store.queue("ORDERS", prioritized=True)
    queue.add_messages([Message("a", priority=1, timestamp_ms=5), Message("b", priority=9, timestamp_ms=6)])

    assert queue.statistics().message_count == 2
    assert queue.statistics().oldest_timestamp_ms == 5
    assert queue.remove_all_messages() == 2


def test_an_update_keeps_the_place_in_the_order(store: Store) -> None:
    queue = store.queue("ORDERS", prioritized=True)
    fill_mixed(queue)

    queue.update_message(queue.recover()[3].replace(body="updated"))

    assert content(queue) == [*DELIVERED[:3], "updated", *DELIVERED[4:]]


def test_a_message_that_changed_its_priority_keeps_its_place(store: Store) -> None:
    """An update replaces what is stored of a message, not where it is; acknowledging finds it there."""
    topic = store.topic("PRICES", prioritized=True)
    subscription = topic.subscribe("client", "ticker")
    fill_mixed(topic)
    fill(topic, "last", priority=9)
    changed = topic.recover()[4].replace(priority=7)

    topic.update_message(changed)

    assert content(subscription) == ["2:9", "5:9", "last", *DELIVERED[2:]]
    assert [message.priority for message in subscription.recover() if message.body == changed.body] == [7]
    subscription.acknowledge(*[message for message in subscription.recover() if message.body == changed.body])
    subscription.acknowledge(topic.recover()[0].replace(priority=0))
    assert changed.body not in content(subscription)
    assert content(subscription)[0] == "5:9"
    assert subscription.message_count() == 7


@pytest.mark.ours
def test_it_can_be_said_only_once(store: Store) -> None:
    queue, topic = store.queue("ORDERS", prioritized=True), store.topic("PRICES", prioritized=False)

    assert store.queue("ORDERS").prioritized
    assert store.queue("ORDERS", prioritized=True).prioritized
    with pytest.raises(SchemaError, match="first used"):
        store.queue("ORDERS", prioritized=False)
    with pytest.raises(SchemaError):
        store.topic("PRICES", prioritized=True)
    assert queue.destination != topic.destination


def test_in_transactions(store: Store) -> None:
    topic = store.topic("PRICES", prioritized=True)
    subscription = topic.subscribe("client", "ticker")
    fill_mixed(topic)
    with store.transaction() as transaction:
        transaction.topic("PRICES").add_message(Message("new", priority=8))
        transaction.topic("PRICES").acknowledge_subscription(
            "client", "ticker", *subscription.recover(limit=3)
        )

    assert content(subscription) == ["new", *DELIVERED[3:]]


@TOPICS_ELSEWHERE
@pytest.mark.new_database
def test_rows_of_a_prioritised_topic(store: Store, database: RawTables) -> None:
    topic = store.topic("PRICES", prioritized=True)
    subscription = topic.subscribe("client", "ticker")
    fill_mixed(topic)

    priorities = [row[0] for row in database.rows("SELECT PRIORITY FROM ACTIVEMQ_MSGS ORDER BY ID")]
    assert priorities == list(MIXED)
    marks = "SELECT PRIORITY, LAST_ACKED_ID FROM ACTIVEMQ_ACKS ORDER BY PRIORITY"
    assert database.rows(marks) == [(priority, 0) for priority in range(10)]
    by_body = {str(message.body): message for message in topic.recover()}
    subscription.acknowledge(by_body["2:9"], by_body["3:4"])
    expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 3]
    assert [mark for _, mark in database.rows(marks)] == expected
    assert database.rows("SELECT ID FROM JDBCSTORE_ACKS") == [(4,)]
    subscription.acknowledge(by_body["0:4"])
    expected[4] = 4
    assert [mark for _, mark in database.rows(marks)] == expected
    topic.unsubscribe("client", "ticker")
    assert database.rows(marks) == []


@pytest.mark.needs("durable")
def test_stored_rows_show_it(open_store: OpenStore) -> None:
    """Whoever opens the store next need not say it again."""
    store = open_store()
    fill_mixed(store.queue("ORDERS", prioritized=True))
    fill_mixed(store.queue("PLAIN"))
    store.close()

    store = open_store()

    assert content(store.queue("ORDERS"), 3) == DELIVERED
    assert store.queue("ORDERS").prioritized
    assert not store.queue("PLAIN").prioritized


@TOPICS_ELSEWHERE
@pytest.mark.new_database
def test_a_subscription_shows_it(open_store: OpenStore, database: RawTables) -> None:
    """Its ten rows are there before the first message is."""
    store = open_store()
    store.topic("PRICES", prioritized=True).subscribe("client", "ticker")
    store.close()

    topic = open_store().topic("PRICES")
    fill_mixed(topic)
    subscription = topic.subscription("client", "ticker")

    assert topic.prioritized
    assert content(subscription) == DELIVERED
    subscription.acknowledge(*subscription.recover(limit=5))
    assert content(subscription) == DELIVERED[5:]
    assert database.rows("SELECT COUNT(*) FROM JDBCSTORE_ACKS") == [(0,)]


@TOPICS_ELSEWHERE
@pytest.mark.variants("renamed", "sqlite-journaled")
@pytest.mark.new_database
def test_messages_of_the_time_before_priorities(open_store: OpenStore, database: RawTables) -> None:
    """An ActiveMQ before 5.4 wrote no PRIORITY, and nothing migrated its rows: they have the lowest."""
    store = open_store()
    fill(store.queue("ORDERS"), "a", "b")
    store.topic("PRICES", prioritized=True).subscribe("client", "ticker")
    store.topic("PRICES").subscribe("client", "witness")
    fill(store.topic("PRICES"), "c", "d", priority=0)
    store.close()
    database.execute("UPDATE ACTIVEMQ_MSGS SET PRIORITY = NULL")

    store = open_store()
    queue, topic = store.queue("ORDERS", prioritized=True), store.topic("PRICES", prioritized=True)
    ticker, witness = (topic.subscription("client", name) for name in ("ticker", "witness"))
    fill(queue, "high", priority=9)
    assert content(queue, 1) == content(queue) == ["high", "a", "b"]
    assert queue.message_count() == 3
    assert content(topic) == content(ticker) == content(witness) == ["c", "d"]
    assert ticker.message_count() == 2
    ticker.acknowledge(ticker.recover()[1])
    assert store.cleanup() == 0
    assert (content(ticker), content(witness)) == (["c"], ["c", "d"])
    witness.acknowledge(*witness.recover())
    ticker.acknowledge(*ticker.recover())
    assert store.cleanup() == 2
    queue.acknowledge(*queue.recover())
    assert content(queue) == content(topic) == []


@TOPICS_ELSEWHERE
@pytest.mark.variants("renamed", "statements", "sqlite-journaled")
@pytest.mark.new_database
def test_a_subscription_of_the_time_before_priorities(open_store: OpenStore, database: RawTables) -> None:
    """ActiveMQ breaks when prioritizedMessages is switched on under a subscription; we do not."""
    store = open_store()
    topic = store.topic("PRICES", prioritized=False)
    subscription = topic.subscribe("client", "ticker")
    a, _ = fill(topic, "a", "b", priority=9)
    subscription.acknowledge(a)
    store.close()

    store = open_store()
    topic = store.topic("PRICES", prioritized=True)
    subscription = topic.subscription("client", "ticker")
    fill_mixed(topic)

    assert sorted(map(str, content(subscription))) == sorted(["b", *DELIVERED])
    subscription.acknowledge(*subscription.recover())
    assert content(subscription) == []
    assert store.cleanup() == 10
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]
