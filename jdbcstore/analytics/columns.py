"""The decoded columns of ``messages_decoded``: name, Spark type, and decoder of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.batch import Batch, for_spark, text_of
from jdbcstore.analytics.envelope import Spans, numbers
from jdbcstore.analytics.properties import as_json, properties
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.wire_format import BODY_TYPES, MESSAGE_TYPES

_KIND_NAMES = pa.array([str(BODY_TYPES.get(number, "")) for number in range(256)])
_TEXT, _MAP, _STREAM = BodyType.TEXT, BodyType.MAP, BodyType.STREAM
_BYTES, _OBJECT = BodyType.BYTES, BodyType.OBJECT


class Column(NamedTuple):
    """A decoded column: its name, its Spark type, and its decoder."""

    name: str
    type: str
    decode: Callable[[Batch], pa.Array]


def _number(name: str, kind: pa.DataType = pa.int64()) -> Callable[[Batch], pa.Array]:  # noqa: B008
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


def _where_known(batch: Batch, values: Any) -> pa.Array:
    return pa.array(values, mask=None if batch.known.all() else ~batch.known)


def _text(name: str) -> Callable[[Batch], pa.Array]:
    return lambda batch: batch.optional_text(
        getattr(batch.envelopes, name), lambda message: getattr(message, name)
    )


def _destination(name: str) -> Callable[[Batch], pa.Array]:
    return lambda batch: batch.names(getattr(batch.envelopes, name), lambda message: getattr(message, name))


def _type(batch: Batch) -> pa.Array:
    kinds = _KIND_NAMES.take(_where_known(batch, batch.envelopes.kind))
    return batch.patched(kinds, lambda message: str(message.body_type))


def _producer_id(batch: Batch) -> pa.Array:
    return batch.producers(batch.envelopes.producer, lambda message: message.producer_id)


def _message_id(batch: Batch) -> pa.Array:
    envelopes = batch.envelopes
    producers = batch.producers(envelopes.message_producer, lambda _: None)
    sequences = pa.array(envelopes.message_sequence).cast(pa.string())
    column = pc.binary_join_element_wise(producers, sequences, ":")
    if (batch.known & envelopes.text_view.present).any():
        views = batch.optional_text(envelopes.text_view, lambda _: None)
        named = pc.if_else(pc.starts_with(views, "ID:"), views, pc.binary_join_element_wise("ID:", views, ""))
        column = pc.coalesce(named, column)
    return batch.patched(column, lambda message: text_of(message.message_id))


def _transaction_id(batch: Batch) -> pa.Array:
    nothing = pa.nulls(len(batch), pa.string())
    return batch.patched(nothing, lambda message: text_of(message.transaction_id))


def _size(name: str) -> Callable[[Batch], pa.Array]:
    """Make a decoder of the stored size in bytes of the content, or of the properties."""

    def of_message(message: Message) -> int:
        return max(0, int(getattr(message._source, f"{name}_size")))

    return lambda batch: batch.patched(_where_known(batch, getattr(batch.envelopes, name).size), of_message)


def _is(batch: Batch, *kinds: BodyType) -> Any:
    return batch.known & np.isin(batch.envelopes.kind, [MESSAGE_TYPES[kind] for kind in kinds])


def _body_text(batch: Batch) -> pa.Array:
    """Return the text of text messages: uncompressed text by column, other text row by row."""
    envelopes, content = batch.envelopes, batch.envelopes.content
    size = numbers(envelopes.data, content.start, "i4")
    texts = _is(batch, _TEXT) & content.present
    plainly = texts & ~envelopes.compressed & (content.size >= 4) & (size == content.size - 4)
    inner = Spans(content.start + 4, np.where(plainly, content.size - 4, 0), plainly)
    rest = (texts & ~plainly) | ~batch.known
    found = {row: for_spark(body) for row, body in batch.bodies({_TEXT}, rest)}  # type: ignore[arg-type]
    return _filled(batch.texts(inner, plainly), rest, found)


def _body_bytes(batch: Batch) -> pa.Array:
    """Return the bodies of bytes messages, and the serialised form of object messages."""
    envelopes, content = batch.envelopes, batch.envelopes.content
    kinds = _is(batch, _BYTES, _OBJECT)
    plainly = kinds & content.present & ~envelopes.compressed
    rest = (kinds & ~plainly) | ~batch.known
    found = dict(batch.bodies({_BYTES, _OBJECT}, rest))
    return _filled(batch.pieces(content, plainly), rest, found)


def _filled(column: pa.Array, rows: Any, found: dict[int, Any]) -> pa.Array:
    """Fill these rows of a column with the decoded values."""
    if not rows.any():
        return column
    values = [found.get(row) for row in np.flatnonzero(rows).tolist()]
    return pc.replace_with_mask(column, pa.array(rows), pa.array(values, column.type))


def _body_map(batch: Batch) -> pa.Array:
    """Return the values of maps, as a JSON object, and of streams, as a JSON array."""
    rows = _is(batch, _MAP, _STREAM) | ~batch.known
    found = {row: as_json(body) for row, body in batch.bodies({_MAP, _STREAM}, rows)}
    return _filled(pa.nulls(len(batch), pa.string()), rows, found)


def _error(batch: Batch) -> pa.Array:
    """Return the reason why any part of a message does not decode."""
    for column in COLUMNS[:-1]:
        batch.column(column.decode)
    batch.names(batch.envelopes.destination, lambda _: None)
    if not batch.problems:
        return pa.nulls(len(batch), pa.string())
    return pa.array([batch.problems.get(row) for row in range(len(batch))], pa.string())


_VALUE = "struct<type:string,text:string,boolean:boolean,long:bigint,double:double,bytes:binary>"

COLUMNS = (
    Column("type", "string", _type),
    Column("message_id", "string", _message_id),
    Column("timestamp", "bigint", _number("timestamp")),
    Column("jms_priority", "int", _number("priority", pa.int32())),
    Column("persistent", "boolean", _number("persistent", pa.bool_())),
    Column("redelivery_counter", "int", _number("redelivery_counter", pa.int32())),
    Column("correlation_id", "string", _text("correlation_id")),
    Column("reply_to", "string", _destination("reply_to")),
    Column("jms_type", "string", _text("jms_type")),
    Column("group_id", "string", _text("group_id")),
    Column("group_sequence", "int", _number("group_sequence", pa.int32())),
    Column("user_id", "string", _text("user_id")),
    Column("original_destination", "string", _destination("original_destination")),
    Column("producer_id", "string", _producer_id),
    Column("transaction_id", "string", _transaction_id),
    Column("arrival", "bigint", _number("arrival")),
    Column("broker_in_time", "bigint", _number("broker_in_time")),
    Column("broker_out_time", "bigint", _number("broker_out_time")),
    Column("compressed", "boolean", _number("compressed", pa.bool_())),
    Column("properties", f"map<string,{_VALUE}>", properties),
    Column("body_text", "string", _body_text),
    Column("body_map", "string", _body_map),
    Column("body_bytes", "binary", _body_bytes),
    Column("body_size", "bigint", _size("content")),
    Column("properties_size", "bigint", _size("properties")),
    Column("error", "string", _error),
)
TIMES = frozenset({"timestamp", "arrival", "broker_in_time", "broker_out_time"})
"""Columns of epoch milliseconds that become timestamps in Spark; 0 becomes null."""
YEAR_1_MS, YEAR_10000_MS = -62_135_596_800_000, 253_402_300_800_000
"""A producer may set any 64 bits; outside this range neither Spark nor Python has a timestamp."""
CAUSE = "dlqDeliveryFailureCause"
"""The property of dead letters in which a broker says why."""
