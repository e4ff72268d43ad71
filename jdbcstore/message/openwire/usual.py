"""Short ways to read what nearly every message looks like.

A message is three runs of fields around its content and properties: names, headers, tail. Each has a
short way here, which reads it in one piece or gives ``None`` and leaves the reader where it was, and
a long way in :mod:`jdbcstore.message.openwire.fields`, which reads the same from any message.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class

from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.openwire.fields import Headers, Names, Tail
from jdbcstore.message.openwire.reader import Reader, make_destination
from jdbcstore.message.openwire.types import VERSION, Malformed
from jdbcstore.message.openwire.utf import decode_utf

_head = Struct(">i?3sH").unpack_from
_headers, _tail = Struct(">BBiB?qbBqB"), Struct(">BB?iBqB??Bqq?")
_destination = Struct(">BBBH").unpack_from
_u16, _two = Struct(">H").unpack_from, Struct(">qq").unpack_from

_PRODUCER_ID = b"\1\x7b\1"
_MESSAGE_ID = b"\0\0\1\x6e\0"  # no transaction, no original destination, and an id without text view


def usual_names(reader: Reader, sequence: int | None) -> Names | None:
    """The names of a message outside transactions, sent by the producer that named it."""
    data, at = reader.data, reader.at
    try:
        command_id, response_required, present, length = _head(data, at)
        if present != _PRODUCER_ID or reader.version != VERSION:
            return None
        name_length_at = at + 29 + length
        end = name_length_at + 28 + length + (data[name_length_at] << 8 | data[name_length_at + 1])
        producer_id, destination = _producer_and_destination(data[at + 5 : end])
        producer_sequence, broker_sequence = _two(data, end)
    except (StructError, IndexError, Malformed):
        return None
    reader.at = end + 16
    message_id = MessageId(producer_id, producer_sequence, broker_sequence if sequence is None else sequence)
    return command_id, response_required, producer_id, destination, None, None, message_id


@lru_cache(maxsize=256)
def _producer_and_destination(section: bytes) -> tuple[ProducerId, Destination]:
    """What the messages of one producer begin with, byte for byte: its id, where to, its id again."""
    producer_end = 5 + _u16(section, 3)[0] + 16
    producer = section[:producer_end]
    present, number, named, length = _destination(section, producer_end)
    name_end = producer_end + 5 + length
    if present != 1 or named != 1 or section[name_end:] != _MESSAGE_ID + producer:
        raise Malformed("these are not the usual names")
    value, session_id = _two(producer, producer_end - 16)
    return (
        ProducerId(decode_utf(producer[5:-16]), session_id, value),
        make_destination(number, decode_utf(section[name_end - length : name_end])),
    )


def usual_headers(reader: Reader) -> Headers | None:
    """The headers of a message without correlation id, reply-to, type and group."""
    try:
        (
            no_transaction, no_group, group_sequence, no_correlation_id, persistent, expiration_ms, priority,
            no_reply_to, timestamp_ms, no_type,
        ) = _headers.unpack_from(reader.data, reader.at)  # fmt: skip
    except StructError:
        return None
    if no_transaction or no_group or no_correlation_id or no_reply_to or no_type:
        return None
    reader.at += _headers.size
    return None, None, group_sequence, None, persistent, expiration_ms, priority, None, timestamp_ms, None


def usual_tail(reader: Reader) -> Tail | None:
    """The tail of a message that no broker network, advisory or user name has left its mark on."""
    try:
        (
            no_structure, no_consumer, compressed, redelivery_counter, no_path, arrival_ms, no_user,
            received_by_df_bridge, droppable, no_cluster, broker_in_time_ms, broker_out_time_ms, first,
        ) = _tail.unpack_from(reader.data, reader.at)  # fmt: skip
    except StructError:
        return None
    if no_structure or no_consumer or no_path or no_user or no_cluster or reader.version != VERSION:
        return None
    reader.at += _tail.size
    return (
        None, None, compressed, redelivery_counter, None, arrival_ms, None, received_by_df_bridge, droppable,
        None, broker_in_time_ms, broker_out_time_ms, first,
    )  # fmt: skip
