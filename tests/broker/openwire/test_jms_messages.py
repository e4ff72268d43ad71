"""ActiveMQ's JMS client: messages of every kind, with headers and properties, through broker and store."""

from __future__ import annotations

import random
from typing import Any

import jpype
import pytest

from jdbcstore import Store
from tests.support.broker.openwire.jms import NON_PERSISTENT, Jms, refused, take
from tests.support.broker.openwire.serving import Served

pytestmark = pytest.mark.backends("memory")


@pytest.fixture
def client(broker_url: str) -> Any:
    with Jms(broker_url, jms__copyMessageOnSend="false") as client:
        yield client


def through(client: Jms, message: Any, **how: Any) -> Any:
    """Send a message, and receive it."""
    client.send("Q", message, **how)
    consumer = client.consumer("Q")
    received = take(consumer)
    consumer.close()
    return received


def content(message: Any) -> bytes:
    """The bytes of the body, as they are on the wire."""
    data = message.getContent()
    assert data is not None
    return bytes(data.getData())[data.getOffset() : data.getOffset() + data.getLength()]


def test_a_string_with_all_of_unicode(client: Jms) -> None:
    text = "å\0\U0001f980" + "x" * 10
    assert str(through(client, client.text(text)).getText()) == text


@pytest.mark.parametrize("text", ["", None, "x" * 200_000])
def test_strings_that_are_empty_null_or_long(client: Jms, text: str | None) -> None:
    received = through(client, client.text(text)).getText()
    assert received == text if text is None else str(received) == text


def test_every_byte(client: Jms) -> None:
    data = random.Random(1).randbytes(100_000) + bytes(range(256))
    message = client.session.createBytesMessage()
    message.writeBytes(data)
    received = through(client, message)
    assert int(received.getBodyLength()) == len(data)
    buffer = jpype.JArray(jpype.JByte)(len(data))
    assert received.readBytes(buffer) == len(data)
    assert bytes(buffer) == data


def test_a_map_of_every_type(client: Jms) -> None:
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
    message.setBytes("bytes", jpype.JArray(jpype.JByte)([1, 2, 3]))
    received = through(client, message)
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


def test_a_stream(client: Jms) -> None:
    message = client.session.createStreamMessage()
    message.writeInt(1)
    message.writeString("two")
    message.writeDouble(3.0)
    message.writeBoolean(False)
    received = through(client, message)
    assert received.readInt() == 1
    assert str(received.readString()) == "two"
    assert received.readDouble() == 3.0
    assert not received.readBoolean()
    with refused("MessageEOFException"):
        received.readInt()


def test_an_object_is_passed_on_and_never_deserialised(client: Jms, store: Store) -> None:
    numbers = jpype.JClass("java.util.ArrayList")([1, 2, 3])
    message = client.session.createObjectMessage(numbers)
    client.send("Q", message)
    [stored] = store.queue("Q").recover()
    assert stored.body == content(message)
    assert [*take(client.consumer("Q")).getObject()] == [1, 2, 3]


def test_a_message_without_a_body(client: Jms) -> None:
    message = client.session.createMessage()
    message.setIntProperty("n", 1)
    assert through(client, message).getIntProperty("n") == 1


def test_a_blob_message_has_its_url(client: Jms) -> None:
    message = client.session.createBlobMessage(jpype.JClass("java.net.URL")("http://localhost/blob"))
    assert str(through(client, message).getURL()) == "http://localhost/blob"


@pytest.mark.parametrize("kind", ["text", "bytes", "map", "stream", "object"])
def test_compressed_bodies_are_untouched(served: Served, java_client: None, store: Store, kind: str) -> None:  # noqa: ARG001
    with Jms(served.url, jms__useCompression="true", jms__copyMessageOnSend="false") as client:
        session = client.session
        if kind == "text":
            message = client.text("y" * 5000)
        elif kind == "object":
            message = session.createObjectMessage(jpype.JString("z" * 5000))
        else:
            message = getattr(session, f"create{kind.capitalize()}Message")()
            if kind == "bytes":
                message.writeBytes(b"b" * 5000)
            elif kind == "map":
                message.setString("k", "v" * 5000)
            else:
                message.writeString("s" * 5000)
        client.send("Q", message)
        [stored] = store.queue("Q").recover()
        assert stored.compressed
        received = take(client.consumer("Q"))
        assert received.isCompressed()
        assert content(received) == content(message)


def test_a_large_message(client: Jms) -> None:
    data = random.Random(2).randbytes(20_000_000)
    message = client.session.createBytesMessage()
    message.writeBytes(data)
    received = through(client, message)
    assert content(received) == data


def test_properties_of_every_type(client: Jms) -> None:
    message = client.text("x")
    message.setBooleanProperty("boolean", True)
    message.setByteProperty("byte", -7)
    message.setShortProperty("short", -300)
    message.setIntProperty("int", 2**31 - 1)
    message.setLongProperty("long", -(2**62))
    message.setFloatProperty("float", 0.5)
    message.setDoubleProperty("double", 1e-300)
    message.setStringProperty("string", "ö")
    received = through(client, message)
    assert {str(name): received.getObjectProperty(name) for name in _names(received)} == {
        "boolean": True,
        "byte": -7,
        "short": -300,
        "int": 2**31 - 1,
        "long": -(2**62),
        "float": 0.5,
        "double": 1e-300,
        "string": "ö",
    }


def _names(message: Any) -> list[str]:
    names = message.getPropertyNames()
    found = []
    while names.hasMoreElements():
        found.append(str(names.nextElement()))
    return found


def test_headers(client: Jms, store: Store) -> None:
    message = client.text("x")
    message.setJMSCorrelationID("correlation")
    message.setJMSType("kind")
    message.setJMSReplyTo(client.session.createQueue("ANSWERS"))
    message.setStringProperty("JMSXGroupID", "group")
    message.setIntProperty("JMSXGroupSeq", 3)
    client.send("Q", message, priority=7, ttl=3_600_000)
    [stored] = store.queue("Q").recover()
    received = take(client.consumer("Q"))
    assert str(received.getJMSMessageID()) == str(message.getJMSMessageID()) == str(stored.message_id)
    assert received.getJMSTimestamp() == message.getJMSTimestamp() == stored.timestamp_ms
    assert received.getJMSExpiration() == message.getJMSExpiration() == stored.expiration_ms
    assert received.getJMSPriority() == stored.priority == 7
    assert str(received.getJMSCorrelationID()) == stored.correlation_id == "correlation"
    assert str(received.getJMSType()) == stored.jms_type == "kind"
    assert str(received.getJMSReplyTo()) == str(stored.reply_to) == "queue://ANSWERS"
    assert str(received.getStringProperty("JMSXGroupID")) == stored.group_id == "group"
    assert received.getIntProperty("JMSXGroupSeq") == stored.group_sequence == 3
    assert str(received.getJMSDestination()) == "queue://Q"
    assert not received.getJMSRedelivered()
    assert received.getJMSDeliveryMode() == 2


def test_messages_that_are_not_persistent(client: Jms, store: Store) -> None:
    received = through(client, client.text("x"), mode=NON_PERSISTENT)
    assert received.getJMSDeliveryMode() == NON_PERSISTENT
    assert store.destinations() == []


def test_the_login_as_user_id(store: Store, java_client: None) -> None:  # noqa: ARG001
    with Served(store, populate_user_id=True) as served, Jms(served.url, login=("ann", "x")) as client:
        assert str(through(client, client.text("x")).getStringProperty("JMSXUserID")) == "ann"


def test_the_stored_bytes_are_those_that_were_sent(client: Jms, store: Store) -> None:
    message = client.text("body", k="v")
    client.send("Q", message)
    [stored] = store.queue("Q").recover()
    assert stored._source.content == content(message)
    assert stored.body == "body"
    assert stored.properties == {"k": "v"}
