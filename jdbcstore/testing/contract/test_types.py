"""Names are as long as the configured types allow, and not one character longer; nothing is cut."""

from __future__ import annotations

import pytest

from jdbcstore import Destination, Message, MessageId, ProducerId, Store
from jdbcstore.errors import InvalidDestination, InvalidMessage, InvalidSubscription, SubscriptionNotFound
from jdbcstore.testing.provider import OpenStore

pytestmark = pytest.mark.new_database


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store(
        container_name_data_type="VARCHAR(40)",
        msg_id_data_type="VARCHAR(60)",
        string_id_data_type="VARCHAR(50)",
    )


def message_of(producer: str) -> Message:
    return Message("x", message_id=MessageId(ProducerId(producer, 1, 1), 1))


def test_destinations(store: Store) -> None:
    longest = "\N{SNOWMAN}" * (40 - len("queue://"))
    store.queue(longest).add_message(Message("x"))

    assert store.destinations() == [Destination.queue(longest)]
    for open_one in (store.queue, store.topic):
        with pytest.raises(InvalidDestination, match="has 41 characters, and CONTAINER holds 40"):
            open_one(longest + "x")


def test_message_ids(store: Store) -> None:
    queue = store.queue("Q")
    longest = "x" * (60 - len(":1:1"))
    queue.add_message(message_of(longest))

    assert store.last_producer_sequence_id(ProducerId(longest, 1, 1)) == 1
    with pytest.raises(InvalidMessage, match="61 characters, and MSGID_PROD holds 60 of plain text"):
        queue.add_message(message_of(longest + "x"))
    assert store.last_producer_sequence_id(ProducerId(longest + "x", 1, 1)) is None
    queue.acknowledge(MessageId(ProducerId(longest + "x", 1, 1), 1))
    assert queue.message_count() == 1


def test_messages_without_an_id_get_one_that_fits(store: Store) -> None:
    reference = store.queue("Q").add_message(Message("x"))

    assert len(str(reference.message_id.producer_id)) <= 60


def test_subscriptions(store: Store) -> None:
    topic = store.topic("T")
    longest = "x" * 50
    pattern = Destination.topic("x" * (50 - len("topic://")))
    topic.subscribe(longest, longest, selector=longest, subscribed_destination=pattern)

    [info] = topic.subscriptions()
    assert (info.client_id, info.subscription_name, info.selector) == (longest, longest, longest)
    assert info.subscribed_destination == pattern
    for names in ((longest + "x", "s", None), ("c", longest + "x", None), ("c", "s", longest + "x")):
        client_id, name, selector = names
        with pytest.raises(InvalidSubscription, match="51 characters; the tables hold 50"):
            topic.subscribe(client_id, name, selector=selector)
    with pytest.raises(InvalidDestination, match="51 characters, and SUB_DEST holds 50"):
        topic.subscribe("c", "s", subscribed_destination=Destination.topic(pattern.name + "x"))
    with pytest.raises(SubscriptionNotFound):
        topic.subscription(longest + "x", longest)
