"""Random messages, with everything OpenWire can hold in them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.values import Byte, Char, Float, Long, Short


def paired(text: str) -> str:
    """The text as Java has it: two halves of a pair next to each other are one character."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


any_character = st.characters(exclude_categories=()) | st.sampled_from("\0\ud800\udc00\U0001f600é")
texts = st.text(any_character, max_size=12).map(paired)
long_texts = st.sampled_from([4095, 4096, 8189, 8190, 8191, 8192, 40000]).flatmap(
    lambda size: st.sampled_from("aé€\U0001f600").map(lambda character: character * size)
)
names = st.text(any_character, min_size=1, max_size=8).map(paired)
destination_names = st.text(st.characters(exclude_characters="\0?,", codec="utf-8"), max_size=8).map(
    lambda name: f"Q{name}Q"
)

ints = st.integers(-(1 << 31), (1 << 31) - 1)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
times = st.just(0) | st.integers(0, 1 << 42) | longs

scalars = (
    st.none()
    | st.booleans()
    | longs
    | texts
    | long_texts
    | st.binary(max_size=8)
    | st.floats()
    | st.integers(0, 0xFFFF_FFFF).map(Float.from_bits)
    | st.integers(-128, 127).map(Byte)
    | st.integers(-32768, 32767).map(Short)
    | ints.map(Long)
    | st.integers(0, 0xFFFF).map(lambda code: Char(chr(code)))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
maps = st.dictionaries(names, values, max_size=4)

destinations = st.builds(Destination, st.sampled_from(DestinationKind), destination_names) | st.just(
    Destination.queue("A,topic://B")
)
connection_ids = st.builds(ConnectionId, texts)
producer_ids = st.builds(ProducerId, texts, longs, longs)
message_ids = st.builds(MessageId, producer_ids, longs, longs, st.none() | texts)
transaction_ids = st.builds(LocalTransactionId, connection_ids, longs) | st.builds(
    XATransactionId, ints, st.binary(max_size=64), st.binary(max_size=64)
)
consumer_ids = st.builds(ConsumerId, texts, longs, longs)
broker_ids = st.builds(BrokerId, texts)
paths = st.none() | st.lists(broker_ids, max_size=3).map(tuple)

bodies: dict[BodyType, st.SearchStrategy[Any]] = {
    BodyType.MESSAGE: st.none(),
    BodyType.TEXT: st.none() | texts | long_texts,
    BodyType.BYTES: st.binary(),
    BodyType.MAP: maps,
    BodyType.STREAM: st.lists(scalars, max_size=5),
    BodyType.OBJECT: st.none() | st.binary(),
    BodyType.BLOB: st.none(),
}


@st.composite
def plain_messages(draw: st.DrawFn, *, usual: bool = False) -> Message:
    """Messages without a data structure; with ``usual`` such as the short ways read."""
    kind = draw(st.sampled_from([kind for kind in BodyType if not (usual and kind is BodyType.BLOB)]))
    message_id = draw(message_ids)
    rare: dict[str, Any] = {}
    if usual:
        message_id = MessageId(
            message_id.producer_id, message_id.producer_sequence, message_id.broker_sequence
        )
    else:
        rare = draw(rare_headers(kind))
    return Message(
        draw(bodies[kind]),
        body_type=kind,
        destination=draw(destinations),
        message_id=message_id,
        **{"producer_id": message_id.producer_id, **rare},
        priority=draw(st.integers(0, 9)),
        timestamp_ms=draw(times),
        expiration_ms=draw(times),
        properties=draw(st.just({}) | maps),
        persistent=draw(st.booleans()),
        compressed=draw(st.booleans()),
        group_sequence=draw(ints),
        redelivery_counter=draw(ints),
        arrival_ms=draw(times),
        broker_in_time_ms=draw(times),
        broker_out_time_ms=draw(times),
        command_id=draw(ints),
        response_required=draw(st.booleans()),
        received_by_df_bridge=draw(st.booleans()),
        droppable=draw(st.booleans()),
        first_for_consumer=draw(st.booleans()),
    )


def without_text_view(message_id: MessageId) -> MessageId:
    return MessageId(message_id.producer_id, message_id.producer_sequence, message_id.broker_sequence)


@st.composite
def rare_headers(draw: st.DrawFn, kind: BodyType) -> dict[str, Any]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "producer_id": producer_ids,
        "correlation_id": texts,
        "reply_to": destinations,
        "jms_type": texts,
        "group_id": texts,
        "user_id": texts,
        "original_destination": destinations,
        "transaction_id": transaction_ids,
        "original_transaction_id": transaction_ids,
        "broker_path": paths,
        "cluster": paths,
        "target_consumer_id": consumer_ids,
    }
    if kind is BodyType.BLOB:
        optional |= {"remote_blob_url": texts, "mime_type": texts, "deleted_by_broker": st.booleans()}
    return draw(st.fixed_dictionaries({}, optional=optional))


structures = (
    destinations
    | message_ids
    | producer_ids
    | consumer_ids
    | connection_ids
    | st.builds(SessionId, texts, longs)
    | broker_ids
    | transaction_ids
    | plain_messages()
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    message = draw(plain_messages(usual=draw(st.booleans())))
    if draw(st.sampled_from([True, False, False])):
        message = message.replace(data_structure=draw(structures))
    return message
