"""Reads the MSG column: any message that ActiveMQ has stored since 5.4."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class

from jdbcstore.errors import CorruptMessage
from jdbcstore.message.body import NO_PROPERTIES, BodyType
from jdbcstore.message.headers import MessageFields
from jdbcstore.message.message import UNREAD, Message, seal
from jdbcstore.message.openwire.fields import read_headers, read_names, read_tail
from jdbcstore.message.openwire.reader import Reader
from jdbcstore.message.openwire.reference import is_reference, unread
from jdbcstore.message.openwire.source import NOWHERE, StoredBytes
from jdbcstore.message.openwire.types import BODY_TYPES, MAX_MESSAGE_NESTING, OLD_VERSION, VERSION, Malformed
from jdbcstore.message.openwire.usual import usual_headers, usual_names, usual_tail

_i32 = Struct(">i")


def decode(
    blob: bytes | bytearray | memoryview | None,
    *,
    sequence: int | None = None,
    container: str | None = None,
) -> Message:
    """The message in a MSG column, of version 11 or 6.

    Only the headers are decoded now; ``body`` and ``properties`` when they are first asked for.

    :param sequence: the row's ID; it becomes the message's ``sequence``, and the broker sequence of
        its id, as in ActiveMQ
    :param container: the row's CONTAINER, for the error
    :raises CorruptMessage: the headers are damaged; the same error comes from ``body`` and
        ``properties`` if those are
    :raises BodyInJournal: the row only says where in a journal the message is
    """
    if blob is None:
        raise CorruptMessage("the MSG column is NULL", sequence=sequence, container=container)
    data = blob if type(blob) is bytes else bytes(blob)
    try:
        return _decode(data, sequence, container)
    except Malformed as error:
        if is_reference(data):
            raise unread(data, sequence, container) from None
        raise CorruptMessage(str(error), blob=data, sequence=sequence, container=container) from error


def _decode(data: bytes, sequence: int | None, container: str | None) -> Message:
    _check_frame(data)
    try:
        return _decode_version(data, VERSION, sequence, container)
    except Malformed as error:
        try:
            return _decode_version(data, OLD_VERSION, sequence, container)
        except Malformed:
            if _looks_tight(data):
                raise Malformed(
                    "it looks tightly encoded, which is not supported; let ActiveMQ store loose encoding"
                    " (remove tightEncodingEnabled from the persistence adapter's wireFormat)"
                ) from error
            raise error from None


def _check_frame(data: bytes) -> None:
    if len(data) < 5:
        raise Malformed(f"it has {len(data)} bytes")
    (size,) = _i32.unpack_from(data)
    if size != len(data) - 4:
        raise Malformed(f"it should go on for {size} bytes and goes on for {len(data) - 4}")
    if data[4] not in BODY_TYPES:
        raise Malformed(f"{data[4]} is no type of a message")


def _looks_tight(data: bytes) -> bool:
    """Whether a block of packed booleans follows the type; loose encoding has the command id there.

    The block's length takes one byte below 64, or follows a C0 or 80. A command id starts with 0.
    """
    return len(data) > 5 and (4 <= data[5] < 64 or data[5] in (0x80, 0xC0))


def _decode_version(data: bytes, version: int, sequence: int | None, container: str | None) -> Message:
    reader = Reader(data, 5, version)
    try:
        message = _read_message(reader, BODY_TYPES[data[4]], sequence, container, 0)
    except (StructError, IndexError):
        raise Malformed("it ends too early") from None
    if reader.at != len(data):
        raise Malformed(f"{len(data) - reader.at} bytes are left over behind it")
    return message


def _read_message(
    reader: Reader, kind: BodyType, sequence: int | None, container: str | None, nesting: int
) -> Message:
    (
        command_id, response_required, producer_id, destination, transaction_id, original_destination,
        message_id,
    ) = usual_names(reader, sequence) or read_names(reader, sequence)  # fmt: skip
    sequence_offset = NOWHERE if message_id is None else reader.at - 8
    (
        original_transaction_id, group_id, group_sequence, correlation_id, persistent, expiration_ms,
        priority, reply_to, timestamp_ms, jms_type,
    ) = usual_headers(reader) or read_headers(reader)  # fmt: skip
    content_at, content_size = reader.span()
    properties_at, properties_size = reader.span()
    (
        data_structure, target_consumer_id, compressed, redelivery_counter, broker_path, arrival_ms, user_id,
        received_by_df_bridge, droppable, cluster, broker_in_time_ms, broker_out_time_ms, first_for_consumer,
    ) = usual_tail(reader) or read_tail(reader, lambda: _read_nested_message(reader, nesting))  # fmt: skip
    remote_blob_url = mime_type = None
    deleted_by_broker = False
    if kind is _BLOB:
        remote_blob_url, mime_type, deleted_by_broker = reader.string(), reader.string(), reader.byte() != 0
    source = StoredBytes(
        reader.data, 0 if nesting else reader.version, sequence_offset, content_at, content_size,
        properties_at, properties_size, container,
    )  # fmt: skip
    return seal(MessageFields(
        kind, destination, message_id, priority if 0 <= priority <= 9 else min(max(priority, 0), 9),
        timestamp_ms, expiration_ms, correlation_id, reply_to, jms_type, persistent, group_id,
        group_sequence, redelivery_counter, user_id, compressed, original_destination, transaction_id,
        original_transaction_id, producer_id, arrival_ms, broker_in_time_ms, broker_out_time_ms,
        broker_path, cluster, data_structure, target_consumer_id, command_id, response_required,
        received_by_df_bridge, droppable, first_for_consumer, remote_blob_url, mime_type,
        deleted_by_broker, sequence, UNREAD, NO_PROPERTIES if properties_size < 0 else UNREAD, source,
    ))  # fmt: skip


_BLOB = BodyType.BLOB


def _read_nested_message(reader: Reader, nesting: int) -> Message | None:
    """A message as the data structure of another, if that is what comes next."""
    data, at = reader.data, reader.at
    kind = BODY_TYPES.get(data[at + 1]) if data[at] else None
    if kind is None:
        return None
    if nesting >= MAX_MESSAGE_NESTING:
        raise Malformed(f"messages are nested more than {MAX_MESSAGE_NESTING} deep")
    reader.at = at + 2
    return _read_message(reader, kind, None, None, nesting + 1)
