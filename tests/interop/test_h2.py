"""ActiveMQ on H2, for which it has an adapter of its own since 6.3, and the generic one before."""

from __future__ import annotations

import pytest

from jdbcstore import Message
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.interop.messages import text

pytestmark = pytest.mark.backends("h2")

QUEUE, SUBSCRIPTION = "queue://Q", ("topic://T", "client", "name")
LARGE = "x" * 100_000


def test_messages_both_ways(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with activemq() as broker:
        broker.subscribe(*SUBSCRIPTION)
        broker.send(QUEUE, [text("one", priority=7), text(LARGE)])
        broker.send("topic://T", [text("news")])
    with open_jdbcstore() as store:
        queue, subscription = store.queue("Q"), store.topic("T").subscription("client", "name")
        assert [(one.body, one.priority) for one in queue.recover()] == [("one", 7), (LARGE, 4)]
        assert [one.body for one in subscription.recover()] == ["news"]
        queue.add_messages([Message("two", priority=2), Message(LARGE)])
        store.topic("T").add_message(Message("more news"))
    with activemq() as broker:
        received = broker.receive(QUEUE, 4)
        assert [(one["body"]["v"], one["priority"]) for one in received] == [
            *(("one", 7), (LARGE, 4), ("two", 2), (LARGE, 4)),
        ]
        pending = broker.durable_receive(*SUBSCRIPTION, 2)
        assert [one["body"]["v"] for one in pending] == ["news", "more news"]


def test_activemq_runs_on_the_tables_of_jdbcstore(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with open_jdbcstore() as store:
        store.queue("Q").add_message(Message(LARGE))
    with activemq() as broker:
        broker.send(QUEUE, [text("hello")])
        assert [one["body"]["v"] for one in broker.receive(QUEUE, 2)] == [LARGE, "hello"]
