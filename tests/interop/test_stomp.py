"""STOMP clients of the real broker and jdbcstore read each other's messages."""

from __future__ import annotations

import time

import pytest

from jdbcstore.message.destination import Destination
from jdbcstore.message.message import BodyType, Message
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.databases import Database
from tests.support.stomp import StompClient

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")

QUEUE = "/queue/STOMP"
BASIC_PLANE = "zażółć 日本語"  # the rest ActiveMQ hands to STOMP clients as two halves, which is not UTF-8
BODY = f"{BASIC_PLANE} \U0001f600"


def test_what_a_stomp_client_sends_is_read(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    expires = int(time.time() * 1000) + 3_600_000
    headers = {
        "persistent": "true",
        "priority": "7",
        "correlation-id": "corr",
        "type": "a.type",
        "reply-to": "/topic/REPLIES",
        "expires": str(expires),
        "JMSXGroupID": "group",
        "custom": "a:b\nc",
    }
    with activemq() as broker, StompClient(broker.stomp_port) as client:
        client.send(QUEUE, BODY.encode(), headers)
        client.send(QUEUE, b"\x00\x01\xff", {"persistent": "true", "content-length": "3"})

    with open_jdbcstore() as store:
        first, second = store.queue("STOMP").recover()
    assert (first.body_type, first.body) == (BodyType.TEXT, BODY)
    assert first.persistent
    assert first.priority == 7
    assert first.correlation_id == "corr"
    assert first.jms_type == "a.type"
    assert first.reply_to == Destination.topic("REPLIES")
    assert first.expiration_ms == expires
    assert first.group_id == "group"
    assert first.properties["custom"] == "a:b\nc"
    assert (second.body_type, second.body) == (BodyType.BYTES, b"\x00\x01\xff")


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_what_jdbcstore_adds_is_received_by_a_stomp_client(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database, compressed: bool
) -> None:
    now = int(time.time() * 1000)
    with open_jdbcstore() as store:
        queue = store.queue("STOMP")
        text = Message(
            BASIC_PLANE,
            compressed=compressed,
            priority=7,
            timestamp_ms=now,
            expiration_ms=now + 3_600_000,
            correlation_id="corr",
            jms_type="a.type",
            reply_to=Destination.topic("REPLIES"),
            redelivery_counter=1,
            properties={"custom": "a:b\nc", "number": 7, "truth": True},
        )
        queue.add_message(text)
        queue.add_message(Message(b"\x00\x01\xff", compressed=compressed))
        message_id = str(queue.recover()[0].message_id)

    with activemq() as broker, StompClient(broker.stomp_port) as client:
        first, second = client.receive(QUEUE, 2)

    assert first.body.decode() == BASIC_PLANE
    expected = {
        "destination": QUEUE,
        "message-id": message_id,
        "priority": "7",
        "timestamp": str(now),
        "expires": str(now + 3_600_000),
        "correlation-id": "corr",
        "type": "a.type",
        "reply-to": "/topic/REPLIES",
        "redelivered": "true",
        "custom": "a:b\nc",
        "number": "7",
        "truth": "true",
    }
    assert {name: first.headers.get(name) for name in expected} == expected
    assert second.body == b"\x00\x01\xff"
    assert second.headers["content-length"] == "3"
    assert database.rows("SELECT * FROM ACTIVEMQ_MSGS") == []
