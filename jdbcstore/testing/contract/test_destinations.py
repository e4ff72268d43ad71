"""Destinations that exist, under names that keep every character."""

from __future__ import annotations

import pytest

from jdbcstore import (
    Destination,
    DestinationKind,
    Message,
    MessageId,
    MessageStore,
    ProducerId,
    Store,
    TopicMessageStore,
)
from jdbcstore.errors import InvalidDestination, SubscriptionNotFound
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.provider import Capabilities, OpenStore
from jdbcstore.testing.tables import RawTables

NAMES = ["Foo", "foo", "FOO", "foo.bar", "foo_bar", "f%", "straße", "strasse", "\N{SNOWMAN}", "É", "E", "e"]

# Of ActiveMQ's text on MariaDB, the collation decides which names are one.
COMPARED_EXACTLY = pytest.mark.variants("renamed", "types", "sqlite-statements", "postgresql-statements")


def test_listed_by_name(store: Store) -> None:
    assert store.destinations() == []

    fill(store.queue("B"), "x")
    fill(store.topic("A"), "x")
    fill(store.queue("A"), "x")
    store.topic("C").subscribe("client", "ticker")
    store.queue("EMPTY")
    fill(store.queue(Destination(DestinationKind.TEMPORARY_QUEUE, "ID:a-1-1:1:1")), "x")

    assert [str(destination) for destination in store.destinations()] == [
        "queue://A",
        "queue://B",
        "temp-queue://ID:a-1-1:1:1",
        "topic://A",
        "topic://C",
    ]


def test_a_drained_queue_is_gone(store: Store) -> None:
    fill(store.queue("A"), "x")
    store.queue("A").acknowledge(*store.queue("A").recover())

    assert store.destinations() == []


@COMPARED_EXACTLY
def test_names_that_differ_a_little_are_different(store: Store) -> None:
    for name in NAMES:
        fill(store.queue(name), name, f"2 {name}")
        fill(store.topic(name), name)

    for name in NAMES:
        assert content(store.queue(name)) == [name, f"2 {name}"]
        assert content(store.topic(name)) == [name]
        assert store.queue(name).message_count() == store.queue(name).statistics().message_count == 2
    assert {destination.name for destination in store.destinations()} == set(NAMES)
    assert len(store.destinations()) == 2 * len(NAMES)
    assert store.queue("foo").remove_all_messages() == 2
    assert store.topic("Foo").remove_expired() == 0
    assert store.queue("Foo").message_count() == 2
    with pytest.raises(InvalidDestination):
        store.queue(" ")


@COMPARED_EXACTLY
def test_subscriptions_of_names_that_differ_a_little(store: Store) -> None:
    upper, lower = store.topic("Foo"), store.topic("foo")
    first, second = upper.subscribe("client", "first"), lower.subscribe("client", "second")
    a, b = fill(upper, "A", "B")
    fill(lower, "c")

    first.acknowledge(b)
    assert store.cleanup() == 1
    first.acknowledge(a)

    assert [info.subscription_name for info in upper.subscriptions()] == ["first"]
    assert [info.subscription_name for info in lower.subscriptions()] == ["second"]
    assert content(second) == ["c"]
    with pytest.raises(SubscriptionNotFound):
        lower.unsubscribe("client", "first")
    assert store.cleanup() == 1
    assert store.delete_destination(upper.destination) == 0
    assert content(second) == ["c"]


def test_producers_whose_ids_differ_by_case(
    store: Store, queue: MessageStore, topic: TopicMessageStore
) -> None:
    reader = topic.subscribe("client", "reader")
    names = [MessageId(ProducerId(connection, 1, 1), 1) for connection in ("ID:Host-1", "ID:host-1")]
    for destination in (queue, topic):
        for name in names:
            destination.add_message(Message(str(name), message_id=name))

    queue.acknowledge(names[0])
    reader.acknowledge(names[0])

    assert content(queue) == content(reader) == [str(names[1])]
    assert queue.get_message(names[1]).body == str(names[1])
    assert store.last_producer_sequence_id(ProducerId("id:HOST-1", 1, 1)) is None


def test_deleting_a_queue(store: Store) -> None:
    queue = store.queue("A")
    fill(queue, *map(str, range(1_500)))
    fill(store.queue("B"), "x")
    reported: list[int] = []

    assert store.delete_destination(queue.destination, reported.append) == 1_500

    assert sum(reported) == 1_500
    assert store.destinations() == [Destination.queue("B")]
    assert store.delete_destination(queue.destination) == 0
    fill(queue, "new")
    assert content(queue) == ["new"]


def test_deleting_a_topic(store: Store) -> None:
    topic, other = store.topic("A"), store.topic("B")
    subscription, kept = topic.subscribe("client", "ticker"), other.subscribe("client", "ticker")
    [_, ahead] = fill(topic, "a", "b")
    fill(other, "x")
    subscription.acknowledge(ahead)

    assert store.delete_destination(Destination.topic("A")) == 2

    assert store.destinations() == [Destination.topic("B")]
    assert content(kept) == ["x"]
    with pytest.raises(SubscriptionNotFound):
        subscription.recover()
    # Nothing is left that a new subscription of the name would inherit.
    again = topic.subscribe("client", "ticker")
    fill(topic, "c", "d")
    assert content(again) == ["c", "d"]


def test_deleting_a_topic_leaves_no_row(store: Store, database: RawTables) -> None:
    topic = store.topic("A")
    subscription = topic.subscribe("client", "ticker")
    _, second = fill(topic, "a", "b")
    subscription.acknowledge(second)

    store.delete_destination(topic.destination)

    for table in ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "JDBCSTORE_ACKS"):
        assert database.rows(f"SELECT COUNT(*) FROM {table}") == [(0,)]


def test_a_subscription_that_comes_again_knows_nothing_of_the_last(topic: TopicMessageStore) -> None:
    reader = topic.subscribe("client", "reader")
    first, second = fill(topic, "a", "b")
    reader.acknowledge(second)
    topic.unsubscribe("client", "reader")

    again = topic.subscribe("client", "reader", retroactive=True)
    again.acknowledge(first)

    assert content(again) == ["b"]
    reader.acknowledge(second)
    assert content(again) == []


@pytest.mark.ours
def test_a_destination_is_what_it_was_parsed_as(store: Store) -> None:
    fill(store.queue("queue://ORDERS?consumer.prefetchSize=1"), "a")
    fill(store.queue(Destination.queue(" ORDERS ")), "b")
    store.queue("ORDERS").add_message(Message("c", destination=Destination.queue("ORDERS")))

    assert content(store.queue("ORDERS")) == ["a", "b", "c"]
    assert store.queue("ORDERS").destination == Destination.queue("ORDERS")
    assert store.queue("ORDERS").recover()[2].original_destination is None


@pytest.mark.ours
@pytest.mark.parametrize("name", ["A,B", "queue://A,topic://B"])
def test_composites_are_taken_apart_by_the_broker(store: Store, name: str) -> None:
    with pytest.raises(InvalidDestination, match="members"):
        store.queue(name)
    with pytest.raises(InvalidDestination, match="members"):
        store.topic(name)
    with pytest.raises(InvalidDestination, match="members"):
        store.transaction().queue(name)
    with pytest.raises(InvalidDestination, match="members"):
        store.delete_destination(Destination.queue(name))

    assert store.destinations() == []


@pytest.mark.ours
@pytest.mark.parametrize("name", ["topic:NEWS", "QUEUE://ORDERS", "/temp-queue/x"])
def test_what_looks_like_a_kind_makes_no_queue(store: Store, name: str) -> None:
    for named in (store.queue, store.topic, store.transaction().queue):
        with pytest.raises(InvalidDestination, match="queue://"):
            named(name)

    assert store.destinations() == []


@pytest.mark.ours
def test_stomp_names_are_understood(store: Store) -> None:
    assert store.queue("/queue/ORDERS") is store.queue("ORDERS")
    assert store.topic("/topic/NEWS").destination == Destination.topic("NEWS")
    assert store.queue("queue:///queue/ORDERS").destination.name == "/queue/ORDERS"


def test_names_as_long_as_the_column(store: Store) -> None:
    longest = "\N{SNOWMAN}" * (250 - len("queue://"))

    fill(store.queue(longest), "a")

    assert store.destinations() == [Destination.queue(longest)]
    with pytest.raises(InvalidDestination, match="251 characters"):
        store.queue(longest + "x")
    with pytest.raises(InvalidDestination, match="shorter"):
        store.topic("x" * 245)
    with pytest.raises(InvalidDestination):
        store.transaction().topic("x" * 1_000_000)


def test_activemq_s_record_of_an_empty_queue_is_one(store: Store, database: RawTables) -> None:
    """It notes queues of virtual topics in ACTIVEMQ_ACKS, with priority 11."""
    database.execute(
        "INSERT INTO ACTIVEMQ_ACKS (CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, LAST_ACKED_ID, PRIORITY)"
        " VALUES (:c, :c, :c, :c, 0, 11)",
        c="queue://Consumer.A.VirtualTopic.B",
    )

    assert store.destinations() == [Destination.queue("Consumer.A.VirtualTopic.B")]
    assert store.queue("Consumer.A.VirtualTopic.B").message_count() == 0


def test_a_recorded_queue_is_kept_while_it_is_empty(store: Store) -> None:
    queue = Destination.queue("Consumer.A.VirtualTopic.B")
    store.record_queue(queue)
    store.record_queue("Consumer.A.VirtualTopic.B")
    assert store.destinations() == [queue]

    place = store.queue(queue)
    place.acknowledge(*fill(place, "a", "b"))
    assert store.destinations() == [queue]

    fill(place, "c")
    store.drop_record(queue)
    store.drop_record(queue)
    assert store.destinations() == [queue]
    place.acknowledge(*place.recover())
    assert store.destinations() == []

    store.record_queue(queue)
    store.delete_destination(queue)
    assert store.destinations() == []
    with pytest.raises(InvalidDestination):
        store.record_queue(Destination.topic("A"))


def test_a_recorded_queue_is_there_after_a_restart(open_store: OpenStore, capabilities: Capabilities) -> None:
    if not capabilities.durable:
        pytest.skip("in memory nothing outlives the process")
    with open_store() as store:
        store.record_queue("Consumer.A.VirtualTopic.B")
        place = store.queue("Consumer.A.VirtualTopic.B")
        place.acknowledge(*fill(place, "a"))

    assert open_store().destinations() == [Destination.queue("Consumer.A.VirtualTopic.B")]


def test_a_queue_is_recorded_as_activemq_does(store: Store, database: RawTables) -> None:
    store.record_queue("Consumer.A.VirtualTopic.B")

    name = "queue://Consumer.A.VirtualTopic.B"
    columns = "CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY"
    assert database.rows(f"SELECT {columns} FROM ACTIVEMQ_ACKS") == [(name, name, name, name, None, 0, 11)]
