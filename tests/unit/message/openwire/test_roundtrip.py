"""What is encoded decodes to the same message; the short ways do what the long ways do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from jdbcstore.errors import CorruptMessage, InvalidMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
)
from jdbcstore.message.message import HEADERS, Message
from jdbcstore.message.openwire import (
    decode,
    decoder,
    encode,
    encode_for_store,
    encoder,
    set_broker_sequence,
    wire_format,
)
from jdbcstore.message.openwire.content import StoredBytes
from jdbcstore.message.openwire.encoder import (
    encode_any_headers,
    encode_any_tail,
    encode_headers,
    encode_structure,
    encode_tail,
)
from jdbcstore.message.openwire.wire_format import OLD_VERSION, VERSION
from tests.support.openwire.rebuilding import rebuilt
from tests.support.openwire.strategies import messages, plain_messages, without_text_view

pytestmark = pytest.mark.slow

ORDERS, REPLIES = Destination.queue("ORDERS"), Destination.queue("REPLIES")
PRODUCER = ProducerId("ID:here-1:1", 2, 3)


def as_decoded(message: Message) -> dict[str, Any]:
    headers: dict[str, Any] = {name: getattr(message, name) for name in HEADERS}
    headers["broker_sequence"] = message.message_id and message.message_id.broker_sequence
    return headers


@given(messages())
def test_decodes_to_what_was_encoded(message: Message) -> None:
    decoded = decode(encode(message))
    assert decoded == message
    assert as_decoded(decoded) == as_decoded(message)
    assert encode(rebuilt(decoded)) == encode(message)


@given(messages())
def test_decodes_version_6_to_what_was_encoded(message: Message) -> None:
    assert message.message_id is not None
    message = message.replace(first_for_consumer=False, message_id=without_text_view(message.message_id))
    if isinstance(message.data_structure, Message | MessageId):
        message = message.replace(data_structure=None)
    blob = encode(message, version=OLD_VERSION)
    decoded = decode(blob)
    assert decoded == message
    assert encode(decoded, version=OLD_VERSION) == blob
    assert encode(decoded) == encode(message)


@given(messages())
def test_short_ways_encode_as_long_ways(message: Message) -> None:
    for version in (OLD_VERSION, VERSION):
        headers = encode_any_headers(message, 7, version)
        assert encode_headers(message, 7, version) == headers
        structure = b"\0"
        if not isinstance(message.data_structure, Message):
            structure = encode_structure(message.data_structure, version)
        assert encode_tail(message, structure, version) == encode_any_tail(message, structure, version)


@given(messages())
def test_short_ways_decode_as_long_ways(message: Message) -> None:
    compare_ways(encode(message), message)


@given(plain_messages(usual=True))
def test_short_ways_are_taken(message: Message) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_read_names", "_read_headers", "_read_tail"):
            patch.setattr(decoder, name, None)
        assert decode(encode(message)) == message


CONSUMER = ConsumerId("ID:here-1:1", 2, 3)
TRANSACTION = LocalTransactionId(ConnectionId("ID:here-1:1"), 4)
EACH_ALONE: list[dict[str, Any]] = [
    {"correlation_id": "c"},
    {"reply_to": ORDERS},
    {"jms_type": "t"},
    {"group_id": "g"},
    {"user_id": "u"},
    {"original_destination": ORDERS},
    {"transaction_id": TRANSACTION},
    {"original_transaction_id": TRANSACTION},
    {"broker_path": (BrokerId("b"),)},
    {"cluster": (BrokerId("b"), BrokerId("c"))},
    {"target_consumer_id": CONSUMER},
    {"data_structure": PRODUCER},
    {"body_type": "blob", "remote_blob_url": "u"},
    {"body_type": "blob", "mime_type": "m"},
    {"body_type": "blob", "deleted_by_broker": True},
]


@pytest.mark.parametrize("header", EACH_ALONE, ids=lambda header: next(reversed(header)))
@pytest.mark.parametrize("version", [OLD_VERSION, VERSION])
def test_each_rare_header_alone(header: dict[str, Any], version: int) -> None:
    """A short way that forgets to ask for one of them would lose it."""
    message = Message(
        destination=ORDERS, message_id=MessageId(PRODUCER, 4), producer_id=PRODUCER, timestamp_ms=5, **header
    )
    blob = encode(message, version=version)
    assert decode(blob) == message
    assert encode(rebuilt(decode(blob)), version=version) == blob


RARE_NUMBERS: list[dict[str, Any]] = [
    {name: True if name in ("compressed", "droppable") else 3}
    for name in (
        *("command_id", "group_sequence", "redelivery_counter", "arrival_ms", "compressed", "droppable"),
        *("broker_in_time_ms", "broker_out_time_ms"),
    )
] + [{name: True} for name in ("response_required", "received_by_df_bridge", "first_for_consumer")]
NEW: list[dict[str, Any]] = [
    {},
    {"body": b""},
    {"body": b"\0" * 300},
    {"body": "zażółć 🚀"},
    {"body": ""},
    {"body": {"a": 1, "b": [1.5, None]}},
    {"body": {}},
    {"body": [1, "two"]},
    {"body_type": "object", "body": b"serialised"},
    {"body": "x", "properties": {"table": 7}},
    {"body": "x", "priority": 9, "expiration_ms": 1 << 40, "persistent": False},
    {"body": "x", "producer_id": PRODUCER},
]


@pytest.mark.parametrize("header", [*NEW, *EACH_ALONE, *RARE_NUMBERS], ids=str)
@pytest.mark.parametrize("version", [OLD_VERSION, VERSION])
def test_a_whole_new_message_is_encoded_as_field_by_field(header: dict[str, Any], version: int) -> None:
    for message_id in (
        MessageId(PRODUCER, 4, 5),
        MessageId(PRODUCER, 4, 0, "text"),
        MessageId(None, 0, 0, "t"),
    ):
        message = Message(destination=ORDERS, message_id=message_id, timestamp_ms=5, **header)
        found = encoder.encode_for_wire(message, version)
        assert found == encoder.encode_fields(message, None, ORDERS, message_id, 5, version)


@pytest.mark.parametrize("header", NEW[:-1], ids=str)
def test_a_new_message_is_encoded_as_a_whole(header: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "encode_fields", None)
    message = Message(**header)
    blob, slot = encode_for_store(
        message, destination=ORDERS, message_id=MessageId(PRODUCER, 4), timestamp_ms=5
    )
    stored = decode(set_broker_sequence(blob, slot, 17), sequence=17)
    assert stored.message_id is not None
    assert stored.message_id.broker_sequence == 17
    assert (stored.body, stored.properties, stored.timestamp_ms) == (message.body, message.properties, 5)


def field_by_field(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decoder, "read_usual", lambda *_: None)


def compare_ways(blob: bytes, message: Message) -> None:
    short = decode(blob, sequence=12)
    with pytest.MonkeyPatch.context() as patch:
        field_by_field(patch)
        long = decode(blob, sequence=12)
    assert short == long == message
    assert as_decoded(short) == as_decoded(long)
    places = ("version", "sequence_offset", "content_at", "content_size", "properties_at", "properties_size")
    for place in places:
        assert getattr(short._source, place) == getattr(long._source, place)


TRANSACTION = LocalTransactionId(ConnectionId("ID:host-1"), 3)


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"transaction_id": TRANSACTION, "user_id": "eva"},
        {"correlation_id": "c", "reply_to": REPLIES, "jms_type": "t", "group_id": "g", "group_sequence": 2},
    ],
    ids=["no header", "transaction and user", "texts"],
)
def test_damaged_messages_are_read_alike(header: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With any byte changed, and cut anywhere, with a size that is right again."""
    header |= {"destination": ORDERS, "message_id": MessageId(PRODUCER, 4), "producer_id": PRODUCER}
    blob = encode(Message("hello", properties={"n": 1}, **header))
    damaged = [
        blob[:at] + bytes([blob[at] ^ mask]) + blob[at + 1 :]
        for at in range(4, len(blob))
        for mask in (1, 2, 255)
    ]
    damaged += [(at - 4).to_bytes(4, "big") + blob[4:at] for at in range(5, len(blob))]
    found = [outcome(one) for one in damaged]
    field_by_field(monkeypatch)
    assert found == [outcome(one) for one in damaged]
    assert {len(one) for one in found} == {1, 3}


def outcome(blob: bytes) -> tuple[Any, ...]:
    """What a blob is decoded to in version 11, or its error."""
    try:
        found = decode(blob, version=11)
    except CorruptMessage as error:
        return (str(error),)
    return (
        as_decoded(found),
        found.body_type,
        [getattr(found._source, name) for name in StoredBytes.__slots__],
    )


@given(messages())
def test_the_store_finds_the_broker_sequence(message: Message) -> None:
    assert message.destination is not None
    assert message.message_id is not None
    blob, offset = encode_for_store(
        message, destination=message.destination, message_id=message.message_id, timestamp_ms=1
    )
    assert blob == encode(message)
    decoded = decode(set_broker_sequence(blob, offset, 1 << 40))
    assert decoded == message
    assert decoded.message_id is not None
    assert decoded.message_id.broker_sequence == 1 << 40


def test_fills_in_what_the_message_has_not() -> None:
    blob = encode(Message("hello"), destination=ORDERS, message_id=MessageId(PRODUCER, 4), timestamp_ms=5)
    message = decode(blob)
    assert message.destination == ORDERS
    assert message.message_id == MessageId(PRODUCER, 4)
    assert message.producer_id == PRODUCER
    assert message.timestamp_ms == 5


def test_keeps_what_the_message_has() -> None:
    named = {"message_id": MessageId(PRODUCER, 4), "producer_id": PRODUCER}
    own = Message("hello", destination=ORDERS, timestamp_ms=0, **named)  # type: ignore[arg-type]
    other = {"destination": Destination.topic("X"), "message_id": MessageId(PRODUCER, 9), "timestamp_ms": 5}
    assert encode(own, **other) == encode(own)  # type: ignore[arg-type]
    assert decode(encode(own, **other)) == own  # type: ignore[arg-type]


def test_a_stored_message_can_be_completed() -> None:
    """A row without names, which no ActiveMQ writes, is not given back as it was."""
    bare = decode(encode(Message("hello")))
    assert bare.message_id is None
    message = decode(encode(bare, destination=ORDERS, message_id=MessageId(PRODUCER, 4)))
    assert (message.destination, message.message_id) == (ORDERS, MessageId(PRODUCER, 4))


@settings(max_examples=20)
@given(plain_messages())
def test_the_sequence_is_the_rows(message: Message) -> None:
    blob = encode(message)
    stored = decode(blob, sequence=77)
    assert stored.sequence == 77
    assert stored.message_id is not None
    assert stored.message_id.broker_sequence == 77
    assert stored == message
    assert encode(stored) == blob
    assert encode(stored.replace(sequence=78)) == blob


@pytest.mark.parametrize("blob_type", [bytearray, memoryview])
def test_takes_what_drivers_give(blob_type: Any) -> None:
    blob = encode(Message("hello", destination=ORDERS))
    assert decode(blob_type(blob)) == decode(blob)


@pytest.mark.parametrize(
    "message",
    [
        Message("x", correlation_id="c" * 65536),
        Message("x", jms_type="\U0001f600" * 11000),
        Message("x", properties={"n" * 65536: 1}),
        Message("x", destination=Destination.queue("q" * 70000)),
        Message("x", producer_id=ProducerId("c" * 65536, 1, 1)),
        Message("x", producer_id=ProducerId("c", 1 << 63, 1)),
        Message("x", broker_path=(BrokerId("b"),) * 32768),
        Message("x", data_structure="text"),  # type: ignore[arg-type]
    ],
    ids=["correlation id", "type", "property", "destination", "producer", "number", "path", "structure"],
)
def test_refuses_what_openwire_has_no_room_for(message: Message) -> None:
    with pytest.raises(InvalidMessage):
        encode(message)


def test_messages_nest_only_so_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message("core", timestamp_ms=0)
    for _ in range(8):
        message = Message("around", timestamp_ms=0, data_structure=message)
    assert decode(encode(message)) == message
    deeper = Message("around", data_structure=message)
    with pytest.raises(InvalidMessage, match="nested 9 deep"):
        encode(deeper)
    with monkeypatch.context() as patch:
        patch.setattr(wire_format, "MAX_MESSAGE_NESTING", 9)
        blob = encode(deeper)
    with pytest.raises(CorruptMessage, match="nested more than 8 deep"):
        decode(blob)
