"""Local transactions of either broker are whole for the other; what XA left in doubt is hidden."""

from __future__ import annotations

import pytest

from jdbcstore.message.ids import LocalTransactionId
from jdbcstore.message.message import Message
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.databases import Database
from tests.support.interop.messages import text

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")

QUEUE, OTHER, TOPIC = "queue://TX", "queue://OTHER", "topic://TX"


def test_only_what_the_broker_committed_is_read(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with activemq() as broker:
        broker.send(QUEUE, [text("kept"), text("too")], transaction="commit")
        broker.send(QUEUE, [text("dropped")], transaction="rollback")

    with open_jdbcstore() as store:
        messages = store.queue(QUEUE).recover()
    assert [message.body for message in messages] == ["kept", "too"]
    assert all(isinstance(message.transaction_id, LocalTransactionId) for message in messages)


def test_a_transaction_of_jdbcstore_is_received_whole_or_not_at_all(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, "c", "s")
        broker.send(QUEUE, [text("taken"), text("left")])
        broker.send(TOPIC, [text("read")])

    with open_jdbcstore() as store:
        taken = store.queue(QUEUE).recover()[0]
        read = store.topic(TOPIC).subscription("c", "s").recover()[0]
        with store.transaction() as transaction:
            transaction.queue(QUEUE).acknowledge(taken)
            transaction.queue(OTHER).add_message(Message("committed"))
            transaction.topic(TOPIC).add_message(Message("news"))
            transaction.topic(TOPIC).acknowledge_subscription("c", "s", read)
        undone = store.transaction()
        undone.queue(OTHER).add_message(Message("rolled back"))
        undone.queue(QUEUE).acknowledge(store.queue(QUEUE).recover()[0])
        undone.rollback()

    with activemq() as broker:
        broker.send(OTHER, [text("end")])
        assert [m["body"]["v"] for m in broker.receive(QUEUE, 1)] == ["left"]
        assert [m["body"]["v"] for m in broker.receive(OTHER, 2)] == ["committed", "end"]
        assert [m["body"]["v"] for m in broker.durable_receive(TOPIC, "c", "s", 1)] == ["news"]


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_a_prepared_send_is_hidden_until_its_outcome(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database, outcome: str
) -> None:
    with activemq() as broker:
        broker.send(QUEUE, [text("a")])
        broker.xa_prepare("send", QUEUE, messages=[text("in doubt")])
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE XID IS NOT NULL") == [(1,)]

    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        assert [message.body for message in queue.recover()] == ["a"]
        assert queue.message_count() == 1
        assert queue.statistics().message_count == 1
        queue.add_message(Message("b"))
        store.cleanup()

    with activemq() as broker:
        broker.xa_finish("send", outcome)

    with open_jdbcstore() as store:
        bodies = [message.body for message in store.queue(QUEUE).recover()]
        assert bodies == ["a", "b", *(["in doubt"] if outcome == "commit" else [])]


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_a_prepared_acknowledgement_is_hidden_until_its_outcome(
    activemq: StartBroker, open_jdbcstore: OpenStore, outcome: str
) -> None:
    with activemq() as broker:
        broker.send(QUEUE, [text("in doubt"), text("b")])
        broker.xa_prepare("acknowledge", QUEUE, count=1)

    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        assert [message.body for message in queue.recover()] == ["b"]
        assert queue.message_count() == 1

    with activemq() as broker:
        broker.xa_finish("acknowledge", outcome)

    with open_jdbcstore() as store:
        bodies = [message.body for message in store.queue(QUEUE).recover()]
        assert bodies == [*(["in doubt"] if outcome == "rollback" else []), "b"]


def test_a_prepared_send_to_a_topic_is_hidden_and_kept(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, "c", "s")
        broker.send(TOPIC, [text("a")])
        broker.xa_prepare("topic", TOPIC, messages=[text("in doubt")])

    with open_jdbcstore() as store:
        subscribed = store.topic(TOPIC).subscription("c", "s")
        assert [message.body for message in subscribed.recover()] == ["a"]
        assert subscribed.message_count() == 1
        store.topic(TOPIC).add_message(Message("b"))
        subscribed.acknowledge(*subscribed.recover())
        store.cleanup()

    with activemq() as broker:
        broker.xa_finish("topic", "commit")
        assert [m["body"]["v"] for m in broker.durable_receive(TOPIC, "c", "s", 1)] == ["in doubt"]


def test_a_prepared_durable_acknowledgement_ends_well(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, "c", "s")
        broker.send(TOPIC, [text("in doubt"), text("b")])
        broker.xa_prepare("durable", TOPIC, count=1, client_id="c", name="s")

    with open_jdbcstore() as store:
        subscribed = store.topic(TOPIC).subscription("c", "s")
        assert [message.body for message in subscribed.recover()] == ["b"]
        store.topic(TOPIC).add_message(Message("c"))

    with activemq() as broker:
        broker.xa_finish("durable", "commit")

    with open_jdbcstore() as store:
        subscribed = store.topic(TOPIC).subscription("c", "s")
        assert [message.body for message in subscribed.recover()] == ["b", "c"]


def test_a_purge_leaves_what_is_in_doubt_and_the_subscriptions(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, "c", "s")
        for number, destination in enumerate([QUEUE, TOPIC]):
            broker.send(destination, [text("a"), text("b")])
            broker.xa_prepare(f"purge-{number}", destination, messages=[text("in doubt")])

    with open_jdbcstore() as store:
        assert store.queue(QUEUE).remove_all_messages() == 2
        assert store.topic(TOPIC).remove_all_messages() == 2

    with activemq() as broker:
        broker.xa_finish("purge-0", "commit")
        broker.xa_finish("purge-1", "commit")
        assert [m["body"]["v"] for m in broker.receive(QUEUE, 1)] == ["in doubt"]
        assert [m["body"]["v"] for m in broker.durable_receive(TOPIC, "c", "s", 1)] == ["in doubt"]
