"""The decoded columns of ``messages_decoded``: name, Spark type, and decoder of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.batch import MessageBatch, for_spark, text_of
from jdbcstore.analytics.envelope import Spans, numbers
from jdbcstore.analytics.properties import as_json, properties
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.wire_format import BODY_TYPES, MESSAGE_TYPES

_KIND_NAMES = pa.array([str(BODY_TYPES.get(number, "")) for number in range(256)])
_TEXT, _MAP, _STREAM = BodyType.TEXT, BodyType.MAP, BodyType.STREAM
_BYTES, _OBJECT = BodyType.BYTES, BodyType.OBJECT


class DecodedColumn(NamedTuple):
    """A decoded column: its name, its Spark type, and its decoder."""

    name: str
    type: str
    decode: Callable[[MessageBatch], pa.Array]


def _number(name: str, kind: pa.DataType = pa.int64()) -> Callable[[MessageBatch], pa.Array]:  # noqa: B008
    """Make a decoder of a number or flag that has the same name in the envelope and in the message."""
    return lambda batch: batch.patched(
        _where_known(batch, getattr(batch.envelopes, name)).cast(kind),
        lambda message: getattr(message, _ATTRIBUTES.get(name, name)),
    )


_ATTRIBUTES = {
    "timestamp": "timestamp_ms",
    "arrival": "arrival_ms",
    "broker_in_time": "broker_in_time_ms",
    "broker_out_time": "broker_out_time_ms",
}


def _where_known(batch: MessageBatch, values: Any) -> pa.Array:
    return pa.array(values, mask=None if batch.known.all() else ~batch.known)


def _text(name: str) -> Callable[[MessageBatch], pa.Array]:
    return lambda batch: batch.optional_text(
        getattr(batch.envelopes, name), lambda message: getattr(message, name)
    )


def _destination(name: str) -> Callable[[MessageBatch], pa.Array]:
    return lambda batch: batch.names(getattr(batch.envelopes, name), lambda message: getattr(message, name))


def _type(batch: MessageBatch) -> pa.Array:
    kinds = _KIND_NAMES.take(_where_known(batch, batch.envelopes.kind))
    return batch.patched(kinds, lambda message: str(message.body_type))


def _producer_id(batch: MessageBatch) -> pa.Array:
    return batch.producers(batch.envelopes.producer, lambda message: message.producer_id)


def _message_id(batch: MessageBatch) -> pa.Array:
    envelopes = batch.envelopes
    producers = batch.producers(envelopes.message_producer, lambda _: None)
    sequences = pa.array(envelopes.message_sequence).cast(pa.string())
    column = pc.binary_join_element_wise(producers, sequences, ":")
    if (batch.known & envelopes.text_view.present).any():
        views = batch.optional_text(envelopes.text_view, lambda _: None)
        named = pc.if_else(pc.starts_with(views, "ID:"), views, pc.binary_join_element_wise("ID:", views, ""))
        column = pc.coalesce(named, column)
    return batch.patched(column, lambda message: text_of(message.message_id))


def _transaction_id(batch: MessageBatch) -> pa.Array:
    nothing = pa.nulls(len(batch), pa.string())
    return batch.patched(nothing, lambda message: text_of(message.transaction_id))


def _size(name: str) -> Callable[[MessageBatch], pa.Array]:
    """Make a decoder of the stored size in bytes of the content, or of the properties."""

    def of_message(message: Message) -> int:
        return max(0, int(getattr(message._source, f"{name}_size")))

    return lambda batch: batch.patched(_where_known(batch, getattr(batch.envelopes, name).size), of_message)


def _is(batch: MessageBatch, *kinds: BodyType) -> Any:
    return batch.known & np.isin(batch.envelopes.kind, [MESSAGE_TYPES[kind] for kind in kinds])


def _body_text(batch: MessageBatch) -> pa.Array:
    """Return the text of text messages: uncompressed text by column, other text row by row."""
    envelopes, content = batch.envelopes, batch.envelopes.content
    size = numbers(envelopes.data, content.start, "i4")
    texts = _is(batch, _TEXT) & content.present
    plainly = texts & ~envelopes.compressed & (content.size >= 4) & (size == content.size - 4)
    inner = Spans(content.start + 4, np.where(plainly, content.size - 4, 0), plainly)
    rest = (texts & ~plainly) | ~batch.known
    bodies = {row: for_spark(body) for row, body in batch.bodies({_TEXT}, rest)}  # type: ignore[arg-type]
    return _filled(batch.texts(inner, plainly), rest, bodies)


def _body_bytes(batch: MessageBatch) -> pa.Array:
    """Return the bodies of bytes messages, and the serialised form of object messages."""
    envelopes, content = batch.envelopes, batch.envelopes.content
    kinds = _is(batch, _BYTES, _OBJECT)
    plainly = kinds & content.present & ~envelopes.compressed
    rest = (kinds & ~plainly) | ~batch.known
    bodies = dict(batch.bodies({_BYTES, _OBJECT}, rest))
    return _filled(batch.pieces(content, plainly), rest, bodies)


def _filled(column: pa.Array, rows: Any, bodies: dict[int, Any]) -> pa.Array:
    """Fill these rows of a column with the decoded values."""
    if not rows.any():
        return column
    values = [bodies.get(row) for row in np.flatnonzero(rows).tolist()]
    return pc.replace_with_mask(column, pa.array(rows), pa.array(values, column.type))


def _body_map(batch: MessageBatch) -> pa.Array:
    """Return the values of maps, as a JSON object, and of streams, as a JSON array."""
    rows = _is(batch, _MAP, _STREAM) | ~batch.known
    bodies = {row: as_json(body) for row, body in batch.bodies({_MAP, _STREAM}, rows)}
    return _filled(pa.nulls(len(batch), pa.string()), rows, bodies)


def _error(batch: MessageBatch) -> pa.Array:
    """Return the reason why any part of a message does not decode."""
    for column in COLUMNS[:-1]:
        batch.column(column.decode)
    batch.names(batch.envelopes.destination, lambda _: None)
    if not batch.problems:
        return pa.nulls(len(batch), pa.string())
    return pa.array([batch.problems.get(row) for row in range(len(batch))], pa.string())


_VALUE = "struct<type:string,text:string,boolean:boolean,long:bigint,double:double,bytes:binary>"

COLUMNS = (
    DecodedColumn("type", "string", _type),
    DecodedColumn("message_id", "string", _message_id),
    DecodedColumn("timestamp", "bigint", _number("timestamp")),
    DecodedColumn("jms_priority", "int", _number("priority", pa.int32())),
    DecodedColumn("persistent", "boolean", _number("persistent", pa.bool_())),
    DecodedColumn("redelivery_counter", "int", _number("redelivery_counter", pa.int32())),
    DecodedColumn("correlation_id", "string", _text("correlation_id")),
    DecodedColumn("reply_to", "string", _destination("reply_to")),
    DecodedColumn("jms_type", "string", _text("jms_type")),
    DecodedColumn("group_id", "string", _text("group_id")),
    DecodedColumn("group_sequence", "int", _number("group_sequence", pa.int32())),
    DecodedColumn("user_id", "string", _text("user_id")),
    DecodedColumn("original_destination", "string", _destination("original_destination")),
    DecodedColumn("producer_id", "string", _producer_id),
    DecodedColumn("transaction_id", "string", _transaction_id),
    DecodedColumn("arrival", "bigint", _number("arrival")),
    DecodedColumn("broker_in_time", "bigint", _number("broker_in_time")),
    DecodedColumn("broker_out_time", "bigint", _number("broker_out_time")),
    DecodedColumn("compressed", "boolean", _number("compressed", pa.bool_())),
    DecodedColumn("properties", f"map<string,{_VALUE}>", properties),
    DecodedColumn("body_text", "string", _body_text),
    DecodedColumn("body_map", "string", _body_map),
    DecodedColumn("body_bytes", "binary", _body_bytes),
    DecodedColumn("body_size", "bigint", _size("content")),
    DecodedColumn("properties_size", "bigint", _size("properties")),
    DecodedColumn("error", "string", _error),
)
TIMES = frozenset({"timestamp", "arrival", "broker_in_time", "broker_out_time"})
"""Columns of epoch milliseconds that become timestamps in Spark; 0 becomes null."""
YEAR_1_MS, YEAR_10000_MS = -62_135_596_800_000, 253_402_300_800_000
"""A producer may set any 64 bits; outside this range neither Spark nor Python has a timestamp."""
