"""Store sequences (the ID column) go on without a collision when the brokers take turns."""

from __future__ import annotations

import pytest

from jdbcstore.message.message import Message
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.databases import Database
from tests.support.interop.activemq import Broker
from tests.support.interop.messages import text

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")

QUEUE, TOPIC = "queue://SEQUENCES", "topic://SEQUENCES"


def receive(broker: Broker, count: int) -> str:
    return "".join(message["body"]["v"] for message in broker.receive(QUEUE, count))


def send(broker: Broker, texts: str) -> None:
    broker.send(QUEUE, [text(body) for body in texts])


def ids(database: Database) -> list[int]:
    return [row[0] for row in database.rows("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")]


def test_turns_on_a_filled_queue_keep_the_order(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    for turn in ("ab", "ef", "ij"):
        with activemq() as broker:
            send(broker, turn)
        before = ids(database)
        with open_jdbcstore() as store:
            assert store.last_sequence() >= before[-1]
            added = store.queue(QUEUE).add_messages(Message(chr(ord(body) + 2)) for body in turn)
            assert all(reference.sequence > before[-1] for reference in added)

    assert len(set(ids(database))) == 12
    assert caplog.messages == []  # no ID was found to be taken, and given anew
    with open_jdbcstore() as store:
        assert [message.body for message in store.queue(QUEUE).recover()] == list("abcdefghijkl")
    with activemq() as broker:
        assert receive(broker, 12) == "abcdefghijkl"


def test_activemq_starts_again_at_one_on_tables_that_jdbcstore_drained(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        queue.add_messages(map(Message, "abcde"))
        queue.acknowledge(*queue.recover())
        last = store.last_sequence()
    assert ids(database) == []

    with activemq() as broker:
        send(broker, "fg")
    assert ids(database) == [1, 2]

    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        assert [message.body for message in queue.recover()] == ["f", "g"]
        assert queue.add_message(Message("h")).sequence > last
        queue.acknowledge(queue.recover()[0])

    with activemq() as broker:
        send(broker, "i")
        assert receive(broker, 3) == "ghi"


def test_jdbcstore_goes_on_behind_tables_that_activemq_drained(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    with open_jdbcstore() as store:
        first = store.queue(QUEUE).add_messages(map(Message, "abc"))
    with activemq() as broker:
        assert receive(broker, 3) == "abc"
    assert ids(database) == []

    with open_jdbcstore() as store:
        assert store.last_sequence() >= first[-1].sequence
        again = store.queue(QUEUE).add_message(Message("d"))
        assert again.sequence > first[-1].sequence

    with activemq() as broker:
        send(broker, "e")
        assert receive(broker, 2) == "de"


def test_a_drained_topic_does_not_hide_messages_from_its_subscription(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    with open_jdbcstore() as store:
        topic = store.topic(TOPIC)
        subscribed = topic.subscribe("c", "s")
        topic.add_messages(map(Message, "abc"))
        subscribed.acknowledge(*subscribed.recover())
        assert store.cleanup() == 3
    assert ids(database) == []

    with activemq() as broker:
        broker.send(TOPIC, [text("d")])
        assert [m["body"]["v"] for m in broker.durable_receive(TOPIC, "c", "s", 1)] == ["d"]
        broker.cleanup()
        broker.send(TOPIC, [text("e")])

    with open_jdbcstore() as store:
        subscribed = store.topic(TOPIC).subscription("c", "s")
        assert [message.body for message in subscribed.recover()] == ["e"]
        store.topic(TOPIC).add_message(Message("f"))
        assert [message.body for message in subscribed.recover()] == ["e", "f"]


def test_producer_sequences_of_a_jms_client_are_known(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        send(broker, "ab")
        *_, last = broker.browse(QUEUE)

    with open_jdbcstore() as store:
        *_, message = store.queue(QUEUE).recover()
        assert message.message_id is not None
        producer = message.message_id.producer_id
        assert producer is not None
        assert str(producer) == last["producer_id"]
        assert store.last_producer_sequence_id(producer) == last["producer_sequence"]
