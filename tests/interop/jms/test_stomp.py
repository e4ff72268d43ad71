"""A JMS client and a STOMP client of one broker, each reading what the other has sent."""

from __future__ import annotations

import time
from typing import Any

import jpype
import pytest

from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.jms import NON_PERSISTENT, Jms, is_left, names_of, take
from tests.support.broker.stomp.serving import Client
from tests.support.interop.activemq import NUMBER

UNICODE = "grüße €"


def subset(headers: Any, expected: dict[str, str | None]) -> dict[str, str | None]:
    return {name: headers.get(name) for name in expected}


# From JMS to STOMP


def test_strings_from_jms(client: Jms, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}")
    message = client.text(UNICODE, k="v", n=7, b=True, d=1.5)
    message.setJMSCorrelationID("c")
    message.setJMSType("t")
    message.setJMSReplyTo(client.session.createQueue("ANSWERS"))
    client.send(queue, message, priority=6)
    frame = stomp.expect("MESSAGE")
    assert frame.body.decode() == UNICODE
    expected: dict[str, str | None] = {
        "message-id": str(message.getJMSMessageID()),
        "timestamp": str(message.getJMSTimestamp()),
        "k": "v",
        "n": "7",
        "b": "true",
        "d": "1.5",
        "correlation-id": "c",
        "type": "t",
        "priority": "6",
        "reply-to": "/queue/ANSWERS",
        "persistent": "true",
        "destination": f"/queue/{queue}",
        "expires": "0",
        "redelivered": None,
        "content-length": None,
    }
    assert subset(frame.headers, expected) == expected


def test_astral_characters_from_jms(client: Jms, broker: RunningBroker, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}")
    client.send(queue, "\U0001f980")
    whole, surrogates = "\U0001f980".encode(), "\U0001f980".encode("utf-16-be")
    # Before ActiveMQ 5.18.6, and in 6.0, each half of the character by itself.
    pair = b"".join(
        chr(int.from_bytes(surrogates[at : at + 2], "big")).encode("utf-8", "surrogatepass") for at in (0, 2)
    )
    apart = NUMBER < (5, 18, 6) or (6,) <= NUMBER < (6, 1)
    body = stomp.expect("MESSAGE").body
    assert body == broker.either(activemq=pair if apart else whole, ours=whole)


def test_bytes_from_jms(client: Jms, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}")
    message = client.session.createBytesMessage()
    message.writeBytes(bytes(range(256)))
    client.send(queue, message)
    frame = stomp.expect("MESSAGE")
    assert frame.body == bytes(range(256))
    assert frame.headers["content-length"] == "256"


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_compressed_bodies_from_jms(connect: Connect, stomp: Client, queue: str, kind: str) -> None:
    client = connect(jms__useCompression="true")
    stomp.subscribe(f"/queue/{queue}")
    message = client.text("z" * 5000)
    if kind == "bytes":
        message = client.session.createBytesMessage()
        message.writeBytes(b"z" * 5000)
    client.send(queue, message)
    assert stomp.expect("MESSAGE").body == b"z" * 5000


@pytest.mark.parametrize("kind", ["Map", "Stream", "Object", ""])
def test_other_bodies_from_jms(client: Jms, stomp: Client, queue: str, kind: str) -> None:
    """A STOMP client that has not asked for a transformation sees none of them."""
    stomp.subscribe(f"/queue/{queue}")
    message = getattr(client.session, f"create{kind}Message")()
    message.setStringProperty("k", "v")
    if kind == "Map":
        message.setInt("n", 1)
    elif kind == "Stream":
        message.writeInt(1)
    elif kind == "Object":
        message.setObject(jpype.JString("x"))
    client.send(queue, message)
    frame = stomp.expect("MESSAGE")
    assert frame.body == b""
    assert frame.headers["k"] == "v"


def test_a_null_string_from_jms(client: Jms, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}")
    client.send(queue, client.text(None), "")
    assert [frame.body for frame in stomp.messages(2)] == [b"", b""]


def test_what_is_not_persistent_from_jms(client: Jms, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}")
    client.send(queue, "x", mode=NON_PERSISTENT)
    assert "persistent" not in stomp.expect("MESSAGE").headers


def test_a_time_to_live_from_jms(client: Jms, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}")
    message = client.text("x")
    client.send(queue, message, ttl=60_000)
    assert stomp.expect("MESSAGE").headers["expires"] == str(message.getJMSExpiration())


def test_a_selector_of_stomp_sees_types_of_jms(client: Jms, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}", selector="n > 5 AND b")
    client.send(queue, client.text("no", n=5, b=True), client.text("yes", n=6, b=True))
    assert stomp.expect("MESSAGE").body == b"yes"


def test_a_transaction_of_jms(connect: Connect, stomp: Client, queue: str) -> None:
    other = connect(None)
    stomp.subscribe(f"/queue/{queue}")
    for body, end in (("no", other.session.rollback), ("yes", other.session.commit)):
        other.send(queue, body)
        end()
    assert stomp.expect("MESSAGE").body == b"yes"


def test_a_redelivered_message_from_jms(client: Jms, stomp: Client, queue: str) -> None:
    client.send(queue, "x")
    with Jms(client.url, 2) as other:
        take(other.consumer(queue))
    stomp.subscribe(f"/queue/{queue}")
    assert stomp.expect("MESSAGE").headers["redelivered"] == "true"


# From STOMP to JMS


def test_strings_from_stomp(client: Jms, stomp: Client, queue: str) -> None:
    headers = {"k": "v", "correlation_id": "c", "priority": "6", "type": "t", "reply_to": "/topic/R"}
    stomp.send(f"/queue/{queue}", UNICODE, **headers)
    message = take(client.consumer(queue))
    assert message.getClass().getSimpleName() == "ActiveMQTextMessage"
    assert str(message.getText()) == UNICODE
    assert str(message.getStringProperty("k")) == "v"
    assert str(message.getJMSCorrelationID()) == "c"
    assert message.getJMSPriority() == 6
    assert str(message.getJMSType()) == "t"
    assert str(message.getJMSReplyTo()) == "topic://R"
    assert message.getJMSDeliveryMode() == 2
    assert str(message.getJMSDestination()) == f"queue://{queue}"
    assert str(message.getJMSMessageID()).startswith("ID:")
    assert message.getJMSTimestamp() > 0
    assert names_of(message) == ["k"]


def test_bytes_from_stomp(client: Jms, stomp: Client, queue: str) -> None:
    stomp.send(f"/queue/{queue}", bytes(range(256)))
    message = take(client.consumer(queue))
    assert message.getBodyLength() == 256
    assert [message.readUnsignedByte() for _ in range(256)] == [*range(256)]


def test_an_empty_body_from_stomp(client: Jms, stomp: Client, queue: str) -> None:
    stomp.send(f"/queue/{queue}", "")
    stomp.send(f"/queue/{queue}", b"")
    consumer = client.consumer(queue)
    assert str(take(consumer).getText()) == ""
    assert take(consumer).getBodyLength() == 0


def test_what_is_not_persistent_from_stomp(client: Jms, stomp: Client, queue: str) -> None:
    stomp.request("SEND", {"destination": f"/queue/{queue}"}, b"x")
    assert take(client.consumer(queue)).getJMSDeliveryMode() == NON_PERSISTENT


def test_expiry_from_stomp(client: Jms, stomp: Client, queue: str) -> None:
    expires = str(round(time.time() * 1000) + 60_000)
    stomp.send(f"/queue/{queue}", "old", expires="1")
    stomp.send(f"/queue/{queue}", "new", expires=expires)
    message = take(client.consumer(queue))
    assert str(message.getText()) == "new"
    assert message.getJMSExpiration() == int(expires)


def test_a_selector_of_jms_compares_what_stomp_sends_as_strings(
    client: Jms, stomp: Client, queue: str
) -> None:
    for number in ("5", "6"):
        stomp.send(f"/queue/{queue}", number, n=number)
    assert client.browse(queue, "n > 5") == []
    assert client.texts(client.consumer(queue, "n = '6'"), 1) == ["6"]


def test_a_property_of_stomp_as_a_number(client: Jms, stomp: Client, queue: str) -> None:
    stomp.send(f"/queue/{queue}", "x", n="5")
    assert take(client.consumer(queue)).getIntProperty("n") == 5


def test_a_transaction_of_stomp(client: Jms, stomp: Client, queue: str) -> None:
    consumer = client.consumer(queue)
    for body, end in (("no", "ABORT"), ("yes", "COMMIT")):
        stomp.request("BEGIN", {"transaction": "t"})
        stomp.send(f"/queue/{queue}", body, transaction="t")
        stomp.request(end, {"transaction": "t"})
    assert client.texts(consumer, 1) == ["yes"]


def test_a_schedule_of_stomp(client: Jms, stomp: Client, queue: str) -> None:
    stomp.request(
        "SEND", {"destination": f"/queue/{queue}", "AMQ_SCHEDULED_DELAY": "100", "persistent": "true"}, b"x"
    )
    message = take(client.consumer(queue))
    assert str(message.getText()) == "x"
    assert message.propertyExists("scheduledJobId")


def test_a_user_id_of_stomp(client: Jms, broker: RunningBroker, queue: str) -> None:
    with Client(broker.stomp_port, login="ann", passcode="x") as stomp:
        stomp.send(f"/queue/{queue}", "x")
    assert str(take(client.consumer(queue)).getStringProperty("JMSXUserID")) == "ann"


# Both at once


def test_a_jms_client_answers_a_request_of_stomp(client: Jms, stomp: Client, queue: str) -> None:
    """It does so only if it knows the temporary queue, of which an advisory informs it."""
    requests = client.consumer(queue)
    stomp.subscribe("/temp-queue/mine", "1")
    stomp.send(f"/queue/{queue}", "?", reply_to="/temp-queue/mine")
    reply_to = take(requests).getJMSReplyTo()
    client.await_temporary(reply_to)
    client.send(reply_to, "!")
    assert stomp.expect("MESSAGE").body == b"!"


def test_a_stomp_client_answers_a_request_of_jms(client: Jms, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}", "1")
    replies = client.session.createTemporaryQueue()
    consumer = client.consumer(replies)
    request = client.text("?")
    request.setJMSReplyTo(replies)
    client.send(queue, request)
    stomp.send(stomp.expect("MESSAGE").headers["reply-to"], "!")
    assert client.texts(consumer, 1) == ["!"]


def test_a_message_that_stomp_rejects_is_dead_for_jms(client: Jms, stomp: Client, queue: str) -> None:
    stomp.subscribe(f"/queue/{queue}", ack="client-individual")
    client.send(queue, client.text("poison", of=queue))
    stomp.request("NACK", {"id": stomp.expect("MESSAGE").headers["ack"]})
    dead = take(client.consumer("ActiveMQ.DLQ", f"of = '{queue}'"))
    assert str(dead.getText()) == "poison"
    assert str(dead.getOriginalDestination()) == f"queue://{queue}"


def test_a_message_that_jms_rejects_is_dead_for_stomp(
    connect: Connect, client: Jms, stomp: Client, queue: str
) -> None:
    stomp.send(f"/queue/{queue}", "poison", of=queue)
    other = connect(None, jms__redeliveryPolicy__maximumRedeliveries=0)
    take(other.consumer(queue))
    other.session.rollback()
    stomp.subscribe("/queue/ActiveMQ.DLQ", selector=f"of = '{queue}'")
    frame = stomp.expect("MESSAGE")
    assert frame.body == b"poison"
    assert frame.headers["original-destination"] == f"/queue/{queue}"
    cause = frame.headers["dlqDeliveryFailureCause"]
    assert cause.startswith("java.lang.Throwable: Delivery[1] exceeds redelivery policy limit:"), cause
    is_left(client, queue)


def test_the_time_at_the_broker(client: Jms, stomp: Client, queue: str) -> None:
    """A selector sees it; dead letters, and scheduled messages that are due, came to the broker again."""
    stomp.send(f"/queue/{queue}", "first")
    first = take(client.consumer(queue, "JMSActiveMQBrokerInTime > 0"))
    assert first.getBrokerInTime() >= first.getJMSTimestamp()
    stomp.subscribe(f"/queue/{queue}.poison", ack="client-individual")
    stomp.send(f"/queue/{queue}.poison", "poison", of=queue)
    stomp.request("NACK", {"id": stomp.expect("MESSAGE").headers["ack"]})
    dead = take(client.consumer("ActiveMQ.DLQ", f"of = '{queue}'"))
    assert dead.getBrokerInTime() > first.getBrokerInTime()
    stomp.request("SEND", {"destination": f"/queue/{queue}.late", "AMQ_SCHEDULED_DELAY": "500"}, b"late")
    late = take(client.consumer(f"{queue}.late"))
    assert late.getBrokerInTime() >= late.getJMSTimestamp() + 500


def test_a_group_of_both(client: Jms, stomp: Client, queue: str) -> None:
    """The one that owns the group gets what either sends."""
    consumer = client.consumer(queue)
    group = {"destination": f"/queue/{queue}", "JMSXGroupID": "g", "persistent": "true"}
    stomp.request("SEND", group, b"1")
    first = take(consumer)
    assert str(first.getText()) == "1"
    assert str(first.getStringProperty("JMSXGroupID")) == "g"
    stomp.subscribe(f"/queue/{queue}")
    client.send(queue, client.text("2", JMSXGroupID="g"))
    stomp.request("SEND", group, b"3")
    assert client.texts(consumer, 2) == ["2", "3"]
    consumer.close()
    client.send(queue, client.text("4", JMSXGroupID="g"))
    assert stomp.expect("MESSAGE").body == b"4"


def test_a_topic_of_both(client: Jms, stomp: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    stomp.subscribe(f"/topic/{topic.removeprefix('topic://')}")
    client.send(topic, "from JMS")
    assert stomp.expect("MESSAGE").body == b"from JMS"
    # A STOMP client gets what it sends, too, before or after its receipt.
    stomp.write("SEND", {"destination": f"/topic/{topic.removeprefix('topic://')}"}, b"from STOMP")
    assert client.texts(consumer, 2) == ["from JMS", "from STOMP"]


def test_a_durable_subscription_of_jms_keeps_what_stomp_sends(
    connect: Connect, broker: RunningBroker, stomp: Client, name: str
) -> None:
    def subscribe(client: Jms) -> Any:
        return client.session.createDurableSubscriber(client.session.createTopic(name), "s")

    with Jms(broker.url, client_id=name) as client:
        subscribe(client)
    stomp.send(f"/topic/{name}", "kept")
    client = connect(client_id=name)
    assert client.texts(subscribe(client), 1) == ["kept"]


def test_a_virtual_topic_of_both(client: Jms, stomp: Client, name: str) -> None:
    stomp.subscribe(f"/queue/Consumer.S.VirtualTopic.{name}")
    consumer = client.consumer(f"Consumer.J.VirtualTopic.{name}")
    client.send(f"topic://VirtualTopic.{name}", "x")
    frame = stomp.expect("MESSAGE")
    assert frame.body == b"x"
    assert frame.headers["original-destination"] == f"/topic/VirtualTopic.{name}"
    assert client.texts(consumer, 1) == ["x"]


def test_a_jms_browser_sees_what_stomp_sends(client: Jms, stomp: Client, queue: str) -> None:
    stomp.send(f"/queue/{queue}", "1")
    stomp.send(f"/queue/{queue}", "2")
    assert client.browse(queue) == ["1", "2"]


def test_a_stomp_browser_sees_what_jms_sends(client: Jms, stomp: Client, queue: str) -> None:
    client.send(queue, "1", "2")
    stomp.subscribe(f"/queue/{queue}", browser="true")
    assert [frame.body for frame in stomp.messages(3)] == [b"1", b"2", b""]
    assert client.texts(client.consumer(queue), 2) == ["1", "2"]
