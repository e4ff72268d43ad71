"""Writes the MSG column: a message in OpenWire's loose encoding, with its size before it."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class

from jdbcstore.errors import ConfigurationError, InvalidMessage, MessageTooLarge
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message, MessageId
from jdbcstore.message.openwire.bodies import encode_body
from jdbcstore.message.openwire.headers import encode_headers, encode_tail
from jdbcstore.message.openwire.primitives import encode_map
from jdbcstore.message.openwire.source import NOWHERE, StoredBytes
from jdbcstore.message.openwire.structures import (
    encode_bytes,
    encode_destination,
    encode_message_id_name,
    encode_producer_id,
    encode_structure,
)
from jdbcstore.message.openwire.types import MAX_MESSAGE_NESTING, MESSAGE_TYPES, OLD_VERSION, VERSION

MAX_SIZE = 0x7FFF_FFFF

_pack_size, _pack_i64, _pack_two = Struct(">i").pack, Struct(">q").pack, Struct(">qq").pack
_head = Struct(">Bi?").pack


def encode(
    message: Message,
    *,
    destination: Destination | None = None,
    message_id: MessageId | None = None,
    timestamp_ms: int | None = None,
    version: int = VERSION,
) -> bytes:
    """The message as ActiveMQ stores it. A message as it was decoded gives the same bytes again.

    The arguments fill in what the message itself has not.

    :param version: 11, or 6 for an ActiveMQ before 5.12
    :raises InvalidMessage: a name is too long, a number out of range
    """
    if version not in (VERSION, OLD_VERSION):
        raise ConfigurationError(
            f"OpenWire version {version} cannot be written; use 11, or 6 for ActiveMQ before 5.12"
        )
    return _encode(message, destination, message_id, timestamp_ms, version)[0]


def encode_for_store(
    message: Message,
    *,
    destination: Destination,
    message_id: MessageId,
    timestamp_ms: int,
) -> tuple[bytes, int]:
    """As :func:`encode`, and where in the bytes the message id's broker sequence is.

    The store puts the row's ID there with :func:`set_broker_sequence` once it is known.
    """
    return _encode(message, destination, message_id, timestamp_ms, VERSION)


def set_broker_sequence(blob: bytes, offset: int, sequence: int) -> bytes:
    """The blob with this broker sequence at the offset that :func:`encode_for_store` gave."""
    return blob[:offset] + _pack_i64(sequence) + blob[offset + 8 :]


def _encode(
    message: Message,
    destination: Destination | None,
    message_id: MessageId | None,
    timestamp_ms: int | None,
    version: int,
) -> tuple[bytes, int]:
    message_id = message.message_id or message_id
    destination = message.destination or destination
    source: StoredBytes | None = message._source
    complete = message.message_id is message_id and message.destination is destination
    if source is not None and source.version == version and complete:
        return source.blob, source.sequence_offset
    if message.timestamp_ms is not None:
        timestamp_ms = message.timestamp_ms
    try:
        return _write(message, source, destination, message_id, timestamp_ms or 0, version)
    except StructError as error:
        raise InvalidMessage(f"a number in the message is out of range: {error}") from error


def _write(
    message: Message,
    source: StoredBytes | None,
    destination: Destination | None,
    message_id: MessageId | None,
    timestamp_ms: int,
    version: int,
) -> tuple[bytes, int]:
    """The fields in their order; what is not there is a single 0."""
    producer_id = message.producer_id
    if producer_id is None and message_id is not None:
        producer_id = message_id.producer_id
    transaction_id, original = message.transaction_id, message.original_destination
    names = b"".join((
        _head(MESSAGE_TYPES[message.body_type], message.command_id, message.response_required),
        b"\0" if producer_id is None else encode_producer_id(producer_id),
        b"\0" if destination is None else encode_destination(destination),
        b"\0" if transaction_id is None else encode_structure(transaction_id, version),
        b"\0" if original is None else encode_destination(original),
        b"\0" if message_id is None else encode_message_id_name(message_id, version),
    ))  # fmt: skip
    numbers = b""
    if message_id is not None:
        numbers = _pack_two(message_id.producer_sequence, message_id.broker_sequence)
    content = _content(message, source)
    rest = (
        numbers,
        encode_headers(message, timestamp_ms, version),
        b"\0" if content is None else b"\1" + _pack_size(len(content)),
        b"" if content is None else content,
        encode_bytes(_marshalled_properties(message, source)),
        encode_tail(message, _data_structure(message, version), version),
    )
    size = len(names) + sum(map(len, rest))
    if size > MAX_SIZE:
        raise MessageTooLarge(size, MAX_SIZE, "send it in parts, or compressed")
    return b"".join((_pack_size(size), names, *rest)), 4 + len(names) + 8


def _data_structure(message: Message, version: int) -> bytes:
    """What an advisory is about: an id, a destination, or another message, without its size."""
    structure = message.data_structure
    if not isinstance(structure, Message):
        return encode_structure(structure, version)
    inner, nesting = structure, 1
    while isinstance(inner.data_structure, Message):
        inner, nesting = inner.data_structure, nesting + 1
    if nesting > MAX_MESSAGE_NESTING:
        raise InvalidMessage(f"messages are nested {nesting} deep, and {MAX_MESSAGE_NESTING} is the most")
    return b"\1" + _encode(structure, None, None, None, version)[0][4:]


def _content(message: Message, source: StoredBytes | None) -> bytes | None:
    if source is not None and source.content_at != NOWHERE:
        return source.content
    return encode_body(message.body, message.body_type, message.compressed)


def _marshalled_properties(message: Message, source: StoredBytes | None) -> bytes | None:
    if source is not None and source.properties_at != NOWHERE:
        return source.marshalled_properties
    properties = message.properties
    return encode_map(properties) if properties else None
