from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from jdbcstore.errors import CorruptMessage, InvalidMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, MessageId, ProducerId
from jdbcstore.message.message import HEADERS, BodyType, Message
from jdbcstore.message.openwire import decode, encode
from jdbcstore.message.values import Byte, Char, Long

ORDERS = Destination.queue("ORDERS")
NAMED = MessageId.parse("ID:host-123-456-3:1:1:1:14")


@pytest.mark.parametrize(
    ("body", "kind", "read"),
    [
        ("text", BodyType.TEXT, "text"),
        ("", BodyType.TEXT, ""),
        (b"bytes", BodyType.BYTES, b"bytes"),
        (bytearray(b"bytes"), BodyType.BYTES, b"bytes"),
        (memoryview(b"bytes"), BodyType.BYTES, b"bytes"),
        ({"a": 1}, BodyType.MAP, {"a": 1}),
        (MappingProxyType({"a": 1}), BodyType.MAP, {"a": 1}),
        ([1, "a"], BodyType.STREAM, (1, "a")),
        ((1, "a"), BodyType.STREAM, (1, "a")),
        (None, BodyType.MESSAGE, None),
    ],
)
def test_the_body_says_what_it_is(body: Any, kind: BodyType, read: object) -> None:
    message = Message(body)
    assert message.body_type is kind
    assert message.body == read


@pytest.mark.parametrize(
    ("body", "kind", "read"),
    [
        (None, "text", None),
        (None, "bytes", b""),
        (None, "map", {}),
        (None, "stream", ()),
        (None, "object", None),
        (b"\xac\xed\0\5t\0\1x", "object", b"\xac\xed\0\5t\0\1x"),
        (None, "blob", None),
        (None, "message", None),
    ],
)
def test_the_type_may_be_said(body: Any, kind: str, read: object) -> None:
    message = Message(body, body_type=kind)
    assert message.body_type == kind
    assert message.body == read


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("a", "bytes"),
        (b"a", "text"),
        ("a", "message"),
        ({}, "stream"),
        ([], "map"),
        ("a", "object"),
        ("a", "blob"),
    ],
)
def test_a_body_of_another_type(body: Any, kind: str) -> None:
    with pytest.raises(InvalidMessage, match=f"cannot be the body of a {kind} message"):
        Message(body, body_type=kind)


@pytest.mark.parametrize("body", [5, 1.5, True, object(), {1, 2}])
def test_what_is_no_body(body: Any) -> None:
    with pytest.raises(InvalidMessage, match="cannot be a body"):
        Message(body)


@pytest.mark.parametrize("body", [[[1]], [{"a": 1}], {"a": object()}, {1: "a"}, [1 << 70]])
def test_bodies_with_what_java_has_not(body: Any) -> None:
    with pytest.raises(InvalidMessage):
        Message(body)


def test_a_type_that_is_none() -> None:
    with pytest.raises(ValueError, match="letter"):
        Message("x", body_type="letter")


def test_the_usual_message() -> None:
    message = Message("hello")
    assert message.priority == 4
    assert message.persistent
    assert message.timestamp_ms is None
    assert message.expiration_ms == 0
    assert message.sequence is None
    assert message.properties == {}


def test_properties_are_a_typed_read_only_copy() -> None:
    given = {"byte": Byte(1), "big": 1 << 40, "list": [1, {"a": Char("x")}]}
    message = Message("x", properties=given)
    given["more"] = 1
    assert message.properties == {"byte": 1, "big": 1 << 40, "list": [1, {"a": "x"}]}
    assert isinstance(message.properties["byte"], Byte)
    assert isinstance(message.properties["big"], Long)
    with pytest.raises(TypeError):
        message.properties["more"] = 1  # type: ignore[index]
    body = Message({"a": 1}).body
    assert isinstance(body, Mapping)
    with pytest.raises(TypeError):
        body["b"] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": -1},
        {"priority": 10},
        {"priority": "4"},
        {"priority": True},
        {"timestamp_ms": "now"},
        {"timestamp_ms": 1 << 63},
        {"timestamp_ms": 1.5},
        {"expiration_ms": None},
        {"expiration_ms": -(1 << 63) - 1},
        {"group_sequence": 1 << 31},
        {"redelivery_counter": -(1 << 31) - 1},
        {"command_id": "1"},
        {"broker_in_time_ms": None},
        {"destination": "queue://ORDERS"},
        {"reply_to": "ORDERS"},
        {"original_destination": "ORDERS"},
        {"message_id": "ID:a:1:1:1"},
        {"producer_id": "ID:a:1:1"},
        {"target_consumer_id": ProducerId("a", 1, 1)},
        {"correlation_id": b"bytes"},
        {"jms_type": 5},
        {"group_id": 5},
        {"user_id": 5},
        {"broker_path": ["a"]},
        {"broker_path": ("a",)},
        {"cluster": (None, ConsumerId("a", 1, 1))},
        {"transaction_id": "TX:1"},
        {"original_transaction_id": ProducerId("a", 1, 1)},
        {"properties": {"": 1}},
        {"properties": {5: 1}},
        {"properties": {"a": 1j}},
        {"properties": ["a"]},
    ],
    ids=str,
)
def test_wrong_headers_are_named(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidMessage, match=f"{name}|name|cannot be stored"):
        Message("x", **wrong)
    with pytest.raises(InvalidMessage):
        Message("x").replace(**wrong)


def test_rare_headers_are_taken() -> None:
    message = Message("x", timestamp_ms=-5, target_consumer_id=ConsumerId("a", 1, 2), group_sequence=-1)
    assert message.timestamp_ms == -5
    assert message.group_sequence == -1


def test_is_frozen() -> None:
    message = Message("x")
    with pytest.raises(AttributeError, match=r"message.replace\(priority=...\)"):
        message.priority = 5
    with pytest.raises(AttributeError):
        message.other = 5
    with pytest.raises(AttributeError):
        message.body = "y"  # type: ignore[misc]


def test_replace() -> None:
    message = Message("x", destination=ORDERS, properties={"a": 1}, priority=7)
    changed = message.replace(priority=3, correlation_id="c", sequence=9)
    assert (changed.priority, changed.correlation_id, changed.sequence) == (3, "c", 9)
    assert (changed.destination, changed.body, changed.properties) == (ORDERS, "x", {"a": 1})
    assert (message.priority, message.correlation_id, message.sequence) == (7, None, None)
    assert message.replace() == message


def test_replace_takes_what_the_constructor_takes() -> None:
    message = Message("x")
    for name in (*HEADERS, "properties", "body"):
        assert message.replace(**{name: getattr(message, name)}) == message
    with pytest.raises(TypeError, match="a message does not have colour, size"):
        message.replace(size=1, colour=2)


def test_replace_the_body() -> None:
    message = Message("x", compressed=True)
    assert message.replace(body=b"y").body_type is BodyType.BYTES
    assert message.replace(body=None).body_type is BodyType.MESSAGE
    assert message.replace(body=None, body_type="text").body is None
    assert message.replace(body=b"y", body_type=BodyType.OBJECT).body_type is BodyType.OBJECT
    assert message.replace(body={"a": 1}).body == {"a": 1}
    with pytest.raises(InvalidMessage):
        message.replace(body_type="map")


def test_replace_in_a_stored_message() -> None:
    stored = decode(encode(Message({"k": [1]}, destination=ORDERS, message_id=NAMED, properties={"a": 1})))
    for changed in (
        stored.replace(priority=9),
        stored.replace(priority=9).replace(jms_type=None),
        stored.replace(priority=9, properties={"a": 1}),
        stored.replace(priority=9, body={"k": [1]}),
        stored.replace(priority=9, compressed=True).replace(compressed=False),
    ):
        assert (changed.body, changed.properties, changed.priority) == ({"k": [1]}, {"a": 1}, 9)
        assert decode(encode(changed)) == changed
    assert stored.replace(properties={}).properties == {}
    assert decode(encode(stored.replace(properties=None))).properties == {}
    assert decode(encode(stored.replace(body="new"))).body == "new"


def test_a_stored_message_can_be_compressed() -> None:
    stored = decode(encode(Message("text" * 1000, destination=ORDERS)))
    compressed = encode(stored.replace(compressed=True))
    assert len(compressed) < 500
    assert decode(compressed).compressed
    assert decode(compressed).body == "text" * 1000
    assert encode(decode(compressed).replace(compressed=False)) == encode(stored)


def test_a_stored_message_is_read_when_asked() -> None:
    blob = encode(Message("text", destination=ORDERS, properties={"name": "value"}))
    damaged = decode(blob.replace(b"\0\0\0\4text", b"\0\0\0\5text"))
    assert damaged.properties == {"name": "value"}
    assert repr(damaged) == "<Message without id to queue://ORDERS text of 8>"
    for _ in range(2):
        with pytest.raises(CorruptMessage):
            _ = damaged.body
    # What is forwarded is not looked into, and what is changed keeps the bytes of the rest.
    assert encode(damaged.replace(priority=5)).count(b"\0\0\0\5text") == 1
    assert damaged.replace(body="mended").body == "mended"


def test_a_body_is_read_once() -> None:
    message = decode(encode(Message({"a": 1}, properties={"b": 2})))
    assert message.body is message.body
    assert message.properties is message.properties


def test_equality() -> None:
    def make(**headers: Any) -> Message:
        return Message("x", destination=ORDERS, message_id=NAMED, producer_id=NAMED.producer_id, **headers)

    assert make() == make()
    assert hash(make()) == hash(make())
    assert make(sequence=1) == make(sequence=2)
    assert make(priority=1) != make(priority=2)
    assert make(properties={"a": 1}) != make(properties={"a": Byte(1)})
    assert make(timestamp_ms=0) == decode(encode(make()))
    assert make() != make().replace(body="y")
    assert make() != make().replace(body=b"x")
    assert make() != "x"
    assert len({make(), make(), make(priority=1)}) == 2


def test_repr_is_short_and_keeps_the_body_to_itself() -> None:
    message = Message("secret" * 100_000, destination=ORDERS, message_id=NAMED, sequence=5)
    assert repr(message) == (
        "<Message ID:host-123-456-3:1:1:1:14 to queue://ORDERS text of 600000 sequence=5>"
    )
    assert repr(Message()) == "<Message without id to nowhere message of 0>"
