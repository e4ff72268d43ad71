"""Messages of every kind, with headers and properties, as they come back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jpype
import pytest

from tests.interop.jms.conftest import Connect
from tests.support.broker.openwire.jms import NON_PERSISTENT, Jms, java, names_of, refused, take
from tests.support.interop.activemq import IS_SIX


def through(client: Jms, queue: str, message: Any, **how: Any) -> Any:
    """Send a message, and receive it."""
    client.send(queue, message, **how)
    consumer = client.consumer(queue)
    received = take(consumer)
    consumer.close()
    return received


def content(message: Any) -> bytes:
    """The bytes of the body, as they are on the wire."""
    data = message.getContent()
    assert data is not None
    return bytes(data.getData())[data.getOffset() : data.getOffset() + data.getLength()]


def is_same_list(received: Any, sent: Any) -> bool:
    # ActiveMQ 6 leaves a string in a list a buffer.
    return bool(str(received) == str(sent) if IS_SIX else received.equals(sent))


def java_bytes(data: bytes) -> Any:
    return jpype.JArray(jpype.JByte)(data)


# Bodies


def test_a_string_with_all_of_unicode(client: Jms, queue: str) -> None:
    text = "å\0\U0001f980" + "x" * 10
    assert str(through(client, queue, client.text(text)).getText()) == text


@pytest.mark.parametrize("text", ["", None, "x" * 200_000], ids=["empty", "null", "long"])
def test_strings_that_are_empty_null_or_long(client: Jms, queue: str, text: str | None) -> None:
    received = through(client, queue, client.text(text)).getText()
    assert received == text if text is None else str(received) == text


@pytest.mark.parametrize("size", [0, 1, 65_535, 5_000_000])
def test_every_byte(client: Jms, queue: str, size: int) -> None:
    data = random.Random(1).randbytes(size)
    message = client.session.createBytesMessage()
    message.writeBytes(data)
    received = through(client, queue, message)
    assert int(received.getBodyLength()) == len(data)
    buffer = jpype.JArray(jpype.JByte)(len(data))
    received.readBytes(buffer)
    assert bytes(buffer) == data


def test_a_map_of_every_type(client: Jms, queue: str) -> None:
    message = client.session.createMapMessage()
    message.setBoolean("boolean", True)
    message.setByte("byte", -7)
    message.setShort("short", -300)
    message.setChar("char", "ß")
    message.setInt("int", -(2**31))
    message.setLong("long", 2**62)
    message.setFloat("float", 1.5)
    message.setDouble("double", -1e300)
    message.setString("string", "a" * 9000)
    message.setBytes("bytes", java_bytes(b"\1\2\3"))
    message.setString("null", None)
    received = through(client, queue, message)
    assert received.getBoolean("boolean")
    assert received.getByte("byte") == -7
    assert received.getShort("short") == -300
    assert str(received.getChar("char")) == "ß"
    assert received.getInt("int") == -(2**31)
    assert received.getLong("long") == 2**62
    assert received.getFloat("float") == 1.5
    assert received.getDouble("double") == -1e300
    assert len(received.getString("string")) == 9000
    assert bytes(received.getBytes("bytes")) == b"\1\2\3"
    assert received.getString("null") is None
    assert received.itemExists("null")
    assert content(received) == content(message)


def test_maps_and_lists_in_a_map(client: Jms, queue: str) -> None:
    message = client.session.createMapMessage()
    inner = jpype.JClass("java.util.HashMap")({"k": "v"})
    message.setObject("list", jpype.JClass("java.util.ArrayList")([1, "two", inner]))
    received = through(client, queue, message).getObject("list")
    assert is_same_list(received, message.getObject("list"))


def test_a_stream_of_every_type(client: Jms, queue: str) -> None:
    message = client.session.createStreamMessage()
    message.writeBoolean(False)
    message.writeByte(-7)
    message.writeShort(-300)
    message.writeChar("ß")
    message.writeInt(1)
    message.writeLong(2**62)
    message.writeFloat(1.5)
    message.writeDouble(3.0)
    message.writeString("two")
    message.writeObject(None)
    message.writeBytes(java_bytes(b"\1\2\3"))
    received = through(client, queue, message)
    assert not received.readBoolean()
    assert received.readByte() == -7
    assert received.readShort() == -300
    assert str(received.readChar()) == "ß"
    assert received.readInt() == 1
    assert received.readLong() == 2**62
    assert received.readFloat() == 1.5
    assert received.readDouble() == 3.0
    assert str(received.readString()) == "two"
    assert received.readObject() is None
    assert bytes(received.readObject()) == b"\1\2\3"
    with refused("MessageEOFException"):
        received.readInt()


def test_an_object(client: Jms, queue: str) -> None:
    message = client.session.createObjectMessage(jpype.JClass("java.util.ArrayList")([1, 2, 3]))
    received = through(client, queue, message)
    assert [*received.getObject()] == [1, 2, 3]
    assert content(received) == content(message)


def test_no_object(client: Jms, queue: str) -> None:
    assert through(client, queue, client.session.createObjectMessage()).getObject() is None


def test_a_message_without_a_body(client: Jms, queue: str) -> None:
    message = client.session.createMessage()
    message.setIntProperty("n", 1)
    received = through(client, queue, message)
    assert received.getIntProperty("n") == 1
    assert received.getClass().getSimpleName() == "ActiveMQMessage"


def test_a_blob_message_has_its_url(client: Jms, queue: str) -> None:
    message = client.session.createBlobMessage(jpype.JClass("java.net.URL")("http://localhost/blob"))
    assert str(through(client, queue, message).getURL()) == "http://localhost/blob"


def _text(session: Any) -> Any:
    return session.createTextMessage("y" * 5000)


def _bytes(session: Any) -> Any:
    message = session.createBytesMessage()
    message.writeBytes(b"b" * 5000)
    return message


def _map(session: Any) -> Any:
    message = session.createMapMessage()
    message.setString("k", "v" * 5000)
    return message


def _stream(session: Any) -> Any:
    message = session.createStreamMessage()
    message.writeString("s" * 5000)
    return message


def _object(session: Any) -> Any:
    return session.createObjectMessage(jpype.JString("z" * 5000))


@pytest.mark.parametrize("create", [_text, _bytes, _map, _stream, _object])
def test_compressed_bodies_are_untouched(connect: Connect, queue: str, create: Callable[[Any], Any]) -> None:
    client = connect(jms__useCompression="true", jms__copyMessageOnSend="false")
    message = create(client.session)
    received = through(client, queue, message)
    assert received.isCompressed()
    assert content(received) == content(message)
    assert len(content(received)) < 1000


# Properties


def test_properties_of_every_type(client: Jms, queue: str) -> None:
    message = client.text("x")
    message.setBooleanProperty("boolean", True)
    message.setByteProperty("byte", -7)
    message.setShortProperty("short", -300)
    message.setIntProperty("int", 2**31 - 1)
    message.setLongProperty("long", -(2**62))
    message.setFloatProperty("float", 0.5)
    message.setDoubleProperty("double", 1e-300)
    message.setStringProperty("string", "ö")
    message.setObjectProperty("null", None)
    received = through(client, queue, message)
    assert {name: received.getObjectProperty(name) for name in names_of(received)} == {
        "boolean": True,
        "byte": -7,
        "short": -300,
        "int": 2**31 - 1,
        "long": -(2**62),
        "float": 0.5,
        "double": 1e-300,
        "string": "ö",
        "null": None,
    }
    assert received.getObjectProperty("short").getClass().getSimpleName() == "Short"


def test_maps_and_lists_as_properties(client: Jms, queue: str) -> None:
    message = client.text("x")
    numbers = jpype.JClass("java.util.ArrayList")([1, 2, "three"])
    message.setObjectProperty("list", numbers)
    assert is_same_list(through(client, queue, message).getObjectProperty("list"), numbers)


def test_properties_convert(client: Jms, queue: str) -> None:
    received = through(client, queue, client.text("x", n=7, s="12"))
    assert str(received.getStringProperty("n")) == "7"
    assert received.getIntProperty("s") == 12
    assert received.getStringProperty("absent") is None
    assert not received.propertyExists("absent")


def test_what_is_received_cannot_be_written(client: Jms, queue: str) -> None:
    received = through(client, queue, client.text("x", k="v"))
    with refused("MessageNotWriteableException"):
        received.setText("y")
    with refused("MessageNotWriteableException"):
        received.setStringProperty("k", "w")


def test_a_message_that_is_sent_on(client: Jms, queue: str) -> None:
    """It has another id, and is otherwise what it was."""
    received = through(client, queue, client.text("x", k="v"))
    first = str(received.getJMSMessageID())
    again = through(client, f"{queue}.NEXT", received)
    assert str(again.getJMSMessageID()) != first
    assert str(again.getText()) == "x"
    assert str(again.getStringProperty("k")) == "v"
    assert str(again.getJMSDestination()) == f"queue://{queue}.NEXT"
    assert not again.getJMSRedelivered()


# Headers


def test_headers(client: Jms, queue: str) -> None:
    message = client.text("x")
    message.setJMSCorrelationID("correlation")
    message.setJMSType("kind")
    message.setJMSReplyTo(client.session.createQueue("ANSWERS"))
    client.send(queue, message, priority=7, ttl=3_600_000)
    received = take(client.consumer(queue))
    assert str(received.getJMSMessageID()) == str(message.getJMSMessageID())
    assert received.getJMSTimestamp() == message.getJMSTimestamp() > 0
    assert received.getJMSExpiration() == message.getJMSExpiration() == message.getJMSTimestamp() + 3_600_000
    assert received.getJMSPriority() == 7
    assert str(received.getJMSCorrelationID()) == "correlation"
    assert str(received.getJMSType()) == "kind"
    assert str(received.getJMSReplyTo()) == "queue://ANSWERS"
    assert str(received.getJMSDestination()) == f"queue://{queue}"
    assert not received.getJMSRedelivered()
    assert received.getIntProperty("JMSXDeliveryCount") == 1
    assert received.getJMSDeliveryMode() == 2


def test_headers_that_are_not_set(client: Jms, queue: str) -> None:
    received = through(client, queue, client.text("x"))
    assert received.getJMSCorrelationID() is None
    assert received.getJMSType() is None
    assert received.getJMSReplyTo() is None
    assert received.getJMSExpiration() == 0
    assert received.getJMSPriority() == 4
    assert received.getStringProperty("JMSXGroupID") is None
    assert received.getStringProperty("JMSXUserID") is None
    assert names_of(received) == []


@pytest.mark.parametrize("kind", ["Queue", "Topic", "TemporaryQueue", "TemporaryTopic"])
def test_where_to_reply(client: Jms, queue: str, kind: str) -> None:
    arguments = () if kind.startswith("Temporary") else (f"{queue}.REPLIES",)
    destination = getattr(client.session, f"create{kind}")(*arguments)
    message = client.text("x")
    message.setJMSReplyTo(destination)
    assert through(client, queue, message).getJMSReplyTo().equals(destination)


def test_a_correlation_of_bytes(client: Jms, queue: str) -> None:
    message = client.text("x")
    message.setJMSCorrelationIDAsBytes(java_bytes("grün".encode()))
    assert bytes(through(client, queue, message).getJMSCorrelationIDAsBytes()).decode() == "grün"


def test_a_group_in_the_headers(client: Jms, queue: str) -> None:
    message = client.text("x", JMSXGroupID="group")
    message.setIntProperty("JMSXGroupSeq", 3)
    received = through(client, queue, message)
    assert str(received.getStringProperty("JMSXGroupID")) == "group"
    assert received.getIntProperty("JMSXGroupSeq") == 3


def test_messages_that_are_not_persistent(client: Jms, queue: str) -> None:
    received = through(client, queue, client.text("x"), mode=NON_PERSISTENT)
    assert received.getJMSDeliveryMode() == NON_PERSISTENT


def test_without_a_timestamp(client: Jms, queue: str) -> None:
    producer = client.session.createProducer(client.destination(queue))
    producer.setDisableMessageTimestamp(True)
    producer.send(client.text("x"))
    assert take(client.consumer(queue)).getJMSTimestamp() == 0


def test_the_login_as_user_id(connect: Connect, queue: str) -> None:
    client = connect(login=("ann", "x"))
    assert str(through(client, queue, client.text("x")).getStringProperty("JMSXUserID")) == "ann"


def test_a_user_id_is_the_brokers(connect: Connect, queue: str) -> None:
    client = connect(login=("ann", "x"))
    received = through(client, queue, client.text("x", JMSXUserID="root"))
    assert str(received.getStringProperty("JMSXUserID")) == "ann"


def test_the_times_at_the_broker(client: Jms, queue: str) -> None:
    message = client.text("x")
    received = through(client, queue, message)
    came, went = (received.getLongProperty(f"JMSActiveMQBroker{way}Time") for way in ("In", "Out"))
    assert message.getJMSTimestamp() <= came <= went


def test_a_message_id_is_told_to_its_sender(client: Jms, queue: str) -> None:
    messages = [client.text(str(number)) for number in range(3)]
    client.send(queue, *messages)
    ids = [str(message.getJMSMessageID()) for message in messages]
    consumer = client.consumer(queue)
    assert [str(take(consumer).getJMSMessageID()) for _ in messages] == ids
    assert len({*ids}) == 3


def test_a_message_that_is_sent_twice_has_two_ids(client: Jms, queue: str) -> None:
    message = client.text("x")
    client.send(queue, message, message)
    consumer = client.consumer(queue)
    assert len({str(take(consumer).getJMSMessageID()) for _ in range(2)}) == 2


def test_the_kind_of_a_message_is_known(client: Jms, queue: str) -> None:
    session = client.session
    for create in (_text, _bytes, _map, _stream, _object):
        client.send(queue, create(session))
    consumer = client.consumer(queue)
    for kind in ("Text", "Bytes", "Map", "Stream", "Object"):
        assert isinstance(take(consumer), java(f"javax.jms.{kind}Message"))
