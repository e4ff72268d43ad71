"""A JMS client and a STOMP client of one broker, each reading what the other has sent."""

from __future__ import annotations

import pytest

from tests.support.broker.openwire.jms import Jms, take
from tests.support.broker.openwire.serving import Served
from tests.support.broker.stomp.serving import Client

pytestmark = [pytest.mark.backends("memory"), pytest.mark.usefixtures("java_client")]


def test_strings_from_jms_to_stomp(served: Served) -> None:
    with Jms(served.url) as jms, Client(served.port) as stomp:
        stomp.subscribe("/queue/Q")
        message = jms.text("grüße \U0001f980", k="v")
        message.setIntProperty("n", 7)
        message.setJMSCorrelationID("c")
        message.setJMSType("t")
        message.setJMSReplyTo(jms.session.createQueue("ANSWERS"))
        jms.send("Q", message, priority=6)
        frame = stomp.expect("MESSAGE")
        assert frame.body.decode() == "grüße \U0001f980"
        assert frame.headers["message-id"] == str(message.getJMSMessageID())
        expected = {
            "k": "v",
            "n": "7",
            "correlation-id": "c",
            "type": "t",
            "priority": "6",
            "reply-to": "/queue/ANSWERS",
            "persistent": "true",
            "destination": "/queue/Q",
        }
        assert {name: frame.headers[name] for name in expected} == expected
        assert "content-length" not in frame.headers


def test_bytes_from_jms_to_stomp(served: Served) -> None:
    with Jms(served.url) as jms, Client(served.port) as stomp:
        stomp.subscribe("/queue/Q")
        message = jms.session.createBytesMessage()
        message.writeBytes(bytes(range(256)))
        jms.send("Q", message)
        frame = stomp.expect("MESSAGE")
        assert frame.body == bytes(range(256))
        assert frame.headers["content-length"] == "256"


def test_strings_from_stomp_to_jms(served: Served) -> None:
    with Jms(served.url) as jms, Client(served.port) as stomp:
        headers = {"k": "v", "correlation_id": "c", "priority": "6", "JMSXGroupID": "g", "type": "t"}
        stomp.send("/queue/Q", "grüße \U0001f980", **headers)
        message = take(jms.consumer("Q"))
        assert str(message.getText()) == "grüße \U0001f980"
        assert str(message.getStringProperty("k")) == "v"
        assert str(message.getJMSCorrelationID()) == "c"
        assert message.getJMSPriority() == 6
        assert str(message.getStringProperty("JMSXGroupID")) == "g"
        assert str(message.getJMSType()) == "t"
        assert message.getJMSDeliveryMode() == 2


def test_bytes_from_stomp_to_jms(served: Served) -> None:
    with Jms(served.url) as jms, Client(served.port) as stomp:
        stomp.send("/queue/Q", bytes(range(256)))
        message = take(jms.consumer("Q"))
        assert message.getBodyLength() == 256
        assert [message.readUnsignedByte() for _ in range(256)] == [*range(256)]


def test_a_jms_client_answers_a_request_of_stomp(served: Served) -> None:
    """It does so only if it knows the temporary queue, of which an advisory informs it."""
    with Jms(served.url) as jms, Client(served.port) as stomp:
        requests = jms.consumer("REQUESTS")
        stomp.subscribe("/temp-queue/mine", "1")
        stomp.send("/queue/REQUESTS", "?", reply_to="/temp-queue/mine")
        request = take(requests)
        jms.send(request.getJMSReplyTo(), "!")
        assert stomp.expect("MESSAGE").body == b"!"


def test_a_stomp_client_answers_a_request_of_jms(served: Served) -> None:
    with Jms(served.url) as jms, Client(served.port) as stomp:
        stomp.subscribe("/queue/REQUESTS", "1")
        replies = jms.session.createTemporaryQueue()
        consumer = jms.consumer(replies)
        request = jms.text("?")
        request.setJMSReplyTo(replies)
        jms.send("REQUESTS", request)
        stomp.send(stomp.expect("MESSAGE").headers["reply-to"], "!")
        assert jms.texts(consumer, 1) == ["!"]


def test_a_message_that_stomp_rejects_is_dead_for_jms(served: Served) -> None:
    with Jms(served.url) as jms, Client(served.port) as stomp:
        stomp.subscribe("/queue/Q", ack="client-individual")
        jms.send("Q", "poison")
        stomp.request("NACK", {"id": stomp.expect("MESSAGE").headers["ack"]})
        assert jms.texts(jms.consumer("ActiveMQ.DLQ"), 1) == ["poison"]


def test_a_durable_subscription_of_jms_keeps_what_stomp_sends(served: Served) -> None:
    def subscribe(client: Jms) -> object:
        return client.session.createDurableSubscriber(client.session.createTopic("T"), "s")

    with Jms(served.url, client_id="c") as jms:
        subscribe(jms)
    with Client(served.port) as stomp:
        stomp.send("/topic/T", "kept")
    with Jms(served.url, client_id="c") as jms:
        assert jms.texts(subscribe(jms), 1) == ["kept"]
