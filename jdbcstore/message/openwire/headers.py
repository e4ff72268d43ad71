"""Encodes the headers of a message that lie around its body."""

from __future__ import annotations

from struct import Struct

from jdbcstore.message.body import BodyType
from jdbcstore.message.message import Message
from jdbcstore.message.openwire.structures import (
    encode_destination,
    encode_path,
    encode_string,
    encode_structure,
)
from jdbcstore.message.openwire.types import VERSION

_BLOB = BodyType.BLOB

_i32, _i64 = Struct(">i").pack, Struct(">q").pack
_delivery, _redelivery = Struct(">?qb").pack, Struct(">?i").pack
_flags, _broker_times = Struct(">??").pack, Struct(">qq").pack

# Most messages have none of the headers that may be missing, so that all of them are one struct.
# The x are the zeros that say so.
_usual_headers = Struct(">xxix?qbxqx").pack
_usual_tail = Struct(">xx?ixqx??xqq?").pack


def encode_headers(message: Message, timestamp_ms: int, version: int) -> bytes:
    """From the original transaction id to the type: what lies between message id and content."""
    if (
        message.correlation_id is None
        and message.reply_to is None
        and message.jms_type is None
        and message.group_id is None
        and message.original_transaction_id is None
    ):
        return _usual_headers(
            message.group_sequence, message.persistent, message.expiration_ms, message.priority, timestamp_ms
        )
    return encode_any_headers(message, timestamp_ms, version)


def encode_any_headers(message: Message, timestamp_ms: int, version: int) -> bytes:
    reply_to, correlation_id = message.reply_to, message.correlation_id
    return b"".join((
        encode_structure(message.original_transaction_id, version),
        encode_string(message.group_id, "group_id"),
        _i32(message.group_sequence),
        encode_string(correlation_id, "correlation_id"),
        _delivery(message.persistent, message.expiration_ms, message.priority),
        b"\0" if reply_to is None else encode_destination(reply_to),
        _i64(timestamp_ms),
        encode_string(message.jms_type, "jms_type"),
    ))  # fmt: skip


def encode_tail(message: Message, data_structure: bytes, version: int) -> bytes:
    """Everything behind the properties, from the data structure on, which is encoded already."""
    if (
        message.data_structure is None
        and message.target_consumer_id is None
        and message.broker_path is None
        and message.user_id is None
        and message.cluster is None
        and version == VERSION
        and message.body_type is not _BLOB
    ):
        return _usual_tail(
            message.compressed,
            message.redelivery_counter,
            message.arrival_ms,
            message.received_by_df_bridge,
            message.droppable,
            message.broker_in_time_ms,
            message.broker_out_time_ms,
            message.first_for_consumer,
        )
    return encode_any_tail(message, data_structure, version)


def encode_any_tail(message: Message, data_structure: bytes, version: int) -> bytes:
    tail = [
        data_structure,
        encode_structure(message.target_consumer_id, version),
        _redelivery(message.compressed, message.redelivery_counter),
        encode_path(message.broker_path),
        _i64(message.arrival_ms),
        encode_string(message.user_id, "user_id"),
        _flags(message.received_by_df_bridge, message.droppable),
        encode_path(message.cluster),
        _broker_times(message.broker_in_time_ms, message.broker_out_time_ms),
    ]
    if version >= VERSION:
        tail.append(b"\1" if message.first_for_consumer else b"\0")
    if message.body_type is _BLOB:
        tail.append(encode_string(message.remote_blob_url, "remote_blob_url"))
        tail.append(encode_string(message.mime_type, "mime_type"))
        tail.append(b"\1" if message.deleted_by_broker else b"\0")
    return b"".join(tail)
