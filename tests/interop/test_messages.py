"""Every kind of message, header and property goes through the tables in both directions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.databases import Database
from tests.support.interop.activemq import Peer
from tests.support.interop.messages import ALL, LONG_TEXT, said, specified, text
from tests.support.interop.typed import Json, describe, from_json, message_from, to_json

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")

QUEUE = "queue://INTEROP"
OBJECT: Json = {"t": "list", "v": [{"t": "string", "v": "Java"}, {"t": "int", "v": 17}]}


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
def test_what_a_jms_client_sends_is_read_as_it_was_sent(
    activemq: StartBroker, open_jdbcstore: OpenStore, peer: Peer, compress: bool
) -> None:
    with activemq() as broker:
        sent = broker.send(QUEUE, ALL.values(), compress=compress)
        broker.send(QUEUE, [{"kind": "object", "body": OBJECT}], compress=compress)
        seen_by_jms = broker.browse(QUEUE)

    with open_jdbcstore() as store:
        page = store.queue(QUEUE).recover(limit=100)

    read = [describe(message) for message in page]
    assert page.corrupt == ()
    assert dict(zip(ALL, map(said, read), strict=False)) == {n: specified(s) for n, s in ALL.items()}
    assert read == seen_by_jms
    assert [message["message_id"] for message in sent] == [m["message_id"] for m in read[:-1]]
    assert read[-1]["body"] == peer.serialize(OBJECT)
    assert any(message["compressed"] for message in read) == compress


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_what_jdbcstore_adds_is_received_by_a_jms_client_as_it_was_added(
    activemq: StartBroker, open_jdbcstore: OpenStore, peer: Peer, database: Database, compressed: bool
) -> None:
    now = int(time.time() * 1000)
    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        for message in ALL.values():
            queue.add_message(message_from(message, compressed=compressed, timestamp_ms=now))
        java = from_json(peer.serialize(OBJECT))
        queue.add_message(Message(java, body_type="object", compressed=compressed, user_id="someone"))
        read = [describe(message) for message in queue.recover(limit=100)]
    assert dict(zip(ALL, map(said, read), strict=False)) == {n: specified(s) for n, s in ALL.items()}

    with activemq() as broker:
        received = broker.receive(QUEUE, len(ALL) + 1)

    assert received == read
    assert received[-1]["body"] == to_json(java)
    assert database.rows("SELECT * FROM ACTIVEMQ_MSGS") == []


def test_every_header_reaches_the_jms_client(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    now = int(time.time() * 1000)
    headers: dict[str, Any] = {
        "message_id": MessageId(ProducerId("ID:python-1:1", 7, 9), 1234, text_view="ID:foreign"),
        "original_destination": Destination.topic("VirtualTopic.A"),
        "timestamp_ms": now - 1000,
        "expiration_ms": now + 3_600_000,
        "correlation_id": "corr",
        "reply_to": Destination.queue("REPLIES"),
        "jms_type": "a.type",
        "priority": 2,
        "group_id": "group",
        "group_sequence": 5,
        "redelivery_counter": 3,
        "user_id": "user",
        "arrival_ms": now - 10,
        "broker_in_time_ms": now - 5,
    }
    with open_jdbcstore() as store:
        store.queue(QUEUE).add_message(Message("all headers", **headers))

    with activemq() as broker:
        [received] = broker.receive(QUEUE, 1)

    assert {name: received[name] for name in received if name not in ("properties", "body", "kind")} == {
        "message_id": "ID:foreign",
        "producer_id": "ID:python-1:1:7:9",
        "producer_sequence": 1234,
        "destination": QUEUE,
        "original_destination": "topic://VirtualTopic.A",
        "transacted": False,
        "persistent": True,
        "priority": 2,
        "timestamp": now - 1000,
        "expiration": now + 3_600_000,
        "correlation_id": "corr",
        "reply_to": "queue://REPLIES",
        "jms_type": "a.type",
        "group_id": "group",
        "group_sequence": 5,
        "redelivered": True,
        "redelivery_counter": 3,
        "user_id": "user",
        "compressed": False,
        "arrival": now - 10,
        "broker_in_time": now - 5,
    }


def test_an_expired_message_is_not_delivered(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        queue.add_message(Message("expired", expiration_ms=int(time.time() * 1000) - 1000))
        queue.add_message(Message("live"))

    with activemq() as broker:
        assert [message["body"]["v"] for message in broker.receive(QUEUE, 1)] == ["live"]


def test_expirations_of_a_jms_client_are_kept(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with activemq() as broker:
        [sent] = broker.send(QUEUE, [text("hour", ttl_ms=3_600_000)])

    with open_jdbcstore() as store:
        [message] = store.queue(QUEUE).recover()
        assert store.queue(QUEUE).recover_expired().messages == ()
    assert message.timestamp_ms == sent["timestamp"]
    assert message.expiration_ms == sent["expiration"] == sent["timestamp"] + 3_600_000


PRIORITIES = [4, 0, 9, 4, 7, 9]
BY_PRIORITY = ["2", "5", "4", "0", "3", "1"]


def test_a_prioritised_queue_of_the_broker_is_one_for_jdbcstore(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq(prioritized=[QUEUE]) as broker:
        broker.send(QUEUE, [text(str(i), priority=p) for i, p in enumerate(PRIORITIES)])

    with open_jdbcstore() as store:
        assert store.queue(QUEUE).prioritized
        assert [message.body for message in store.queue(QUEUE).recover()] == BY_PRIORITY


def test_a_prioritised_queue_of_jdbcstore_is_one_for_the_broker(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with open_jdbcstore() as store:
        queue = store.queue(QUEUE, prioritized=True)
        for i, priority in enumerate(PRIORITIES):
            queue.add_message(Message(str(i), priority=priority))

    with activemq(prioritized=[QUEUE]) as broker:
        received = broker.receive(QUEUE, len(PRIORITIES))

    assert [message["body"]["v"] for message in received] == BY_PRIORITY
    assert [message["priority"] for message in received] == sorted(PRIORITIES, reverse=True)


def test_without_the_policy_priorities_do_not_change_the_order(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.send(QUEUE, [text(str(i), priority=p) for i, p in enumerate(PRIORITIES)])

    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        assert not queue.prioritized
        assert [message.body for message in queue.recover()] == ["0", "1", "2", "3", "4", "5"]
        queue.add_message(Message("6", priority=9))

    with activemq() as broker:
        assert [m["body"]["v"] for m in broker.receive(QUEUE, 7)] == list("0123456")


def test_redeliveries_counted_by_the_broker_are_seen(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq(persist_redelivered=[QUEUE]) as broker:
        broker.send(QUEUE, [text("twice")])
        broker.receive(QUEUE, 1, transaction="rollback")

    with open_jdbcstore() as store:
        [message] = store.queue(QUEUE).recover()
    assert message.redelivery_counter == 1


def test_an_update_by_jdbcstore_is_what_the_broker_delivers(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.send(QUEUE, [text("before", properties={"p": 1}), text("other")])

    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        first, _ = queue.recover()
        queue.update_message(first.replace(body="after", redelivery_counter=2))

    with activemq() as broker:
        changed, other = broker.receive(QUEUE, 2)
    assert (changed["body"]["v"], changed["redelivery_counter"]) == ("after", 2)
    assert changed["properties"] == {"p": {"t": "int", "v": 1}}
    assert other["body"]["v"] == "other"


def test_a_composite_send_is_one_message_in_each_destination(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.send("queue://A,queue://B", [text("both")])

    with open_jdbcstore() as store:
        [a] = store.queue("A").recover()
        [b] = store.queue("B").recover()
        store.queue("A").acknowledge(a)
        assert store.queue("B").message_count() == 1
        assert a.message_id == b.message_id
        assert (a.destination, b.destination) == (Destination.queue("A"), Destination.queue("B"))


def test_the_row_that_marks_a_virtual_topics_queue_is_no_subscription(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    queue = "queue://Consumer.a.VirtualTopic.X"
    with activemq() as broker:
        broker.receive(queue, 1, timeout_ms=1)  # nothing there, but the queue now is
    rows = database.rows("SELECT CONTAINER, PRIORITY FROM ACTIVEMQ_ACKS")
    assert rows == [(queue, 11)]

    with open_jdbcstore() as store:
        assert store.destinations() == [Destination.parse(queue)]
        store.queue(queue).add_message(Message("n"))
        store.cleanup()

    with activemq() as broker:
        broker.send("topic://VirtualTopic.X", [text("v")])
        assert [message["body"]["v"] for message in broker.receive(queue, 2)] == ["n", "v"]


def test_half_of_a_queue_each(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with activemq() as broker:
        broker.send(QUEUE, [text(str(i)) for i in range(20)])
        broker.receive(QUEUE, 5)

    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        assert queue.message_count() == 15
        page = queue.recover(limit=5)
        queue.acknowledge(*page)
        queue.acknowledge(*queue.recover(limit=1, after=page.cursor))

    with activemq() as broker:
        assert [m["body"]["v"] for m in broker.receive(QUEUE, 9)] == [str(i) for i in range(11, 20)]


def test_large_bodies(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    big = LONG_TEXT * 40
    assert len(big.encode()) > 3 * 1024 * 1024
    with activemq() as broker:
        broker.send(QUEUE, [text(big)])

    with open_jdbcstore() as store:
        queue = store.queue(QUEUE)
        [message] = queue.recover()
        assert message.body == big
        queue.acknowledge(message)
        queue.add_message(Message(big.encode()))

    with activemq() as broker:
        [received] = broker.receive(QUEUE, 1)
    assert from_json(received["body"]) == big.encode()
