"""The decoder of the MSG column: any message that ActiveMQ has stored since 5.4.

Most fields are absent in nearly every message. Such a message is read in few steps by
:func:`~jdbcstore.message.openwire._decoder_cy.read_usual`; any other is read here, field by field.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any, TypeVar

from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
    XATransactionId,
)
from jdbcstore.message.message import (
    NO_PROPERTIES,
    UNREAD,
    BodyType,
    Message,
    MessageFields,
    seal,
)
from jdbcstore.message.openwire import wire_format as wire
from jdbcstore.message.openwire._decoder_cy import make_destination, read_usual
from jdbcstore.message.openwire.content import NOWHERE, StoredBytes, decode_utf
from jdbcstore.message.openwire.pieces import (
    HEAD_SIZE,
    has_body_in_pieces,
    read_head,
    with_body_in_pieces,
)
from jdbcstore.message.openwire.reference import body_in_journal, is_reference
from jdbcstore.message.openwire.wire_format import BODY_TYPES, OLD_VERSION, VERSION, Malformed

T = TypeVar("T")

_i16, _i32, _i64, _two_i64 = Struct(">h"), Struct(">i"), Struct(">q"), Struct(">qq")
_presence_and_size = Struct(">Bi")
_head, _delivery, _redelivery, _flags = Struct(">i?"), Struct(">?qb"), Struct(">?i"), Struct(">??")


def decode(
    blob: bytes | bytearray | memoryview | None,
    *,
    sequence: int | None = None,
    container: str | None = None,
    version: int | None = None,
) -> Message:
    """Return the message in a MSG column, of OpenWire version 11 or 6.

    Only the headers are decoded now; ``body`` and ``properties`` when they are first asked for.

    :param sequence: the row's ID; it becomes the message's ``sequence``, and the broker sequence of
        its id, as in ActiveMQ
    :param container: the row's CONTAINER, for the error
    :param version: the version, where it is known; otherwise both are tried
    :raises CorruptMessage: the headers are damaged; ``body`` and ``properties`` raise it if those are
    :raises BodyInJournal: the row only refers to the message in a journal
    """
    if blob is None:
        raise CorruptMessage("the MSG column is NULL", sequence=sequence, container=container)
    data = blob if type(blob) is bytes else bytes(blob)
    if version != OLD_VERSION:
        try:
            usual = read_usual(data, sequence, container)
        except (StructError, Malformed):
            usual = None
        if usual is not None:
            return seal(usual)
    try:
        return _decode(data, sequence, container, version)
    except Malformed as error:
        if is_reference(data):
            raise body_in_journal(data, sequence, container) from None
        if has_body_in_pieces(data):
            return _decode_in_pieces(data, sequence, container)
        raise CorruptMessage(str(error), blob=data, sequence=sequence, container=container) from error


def find_content(data: bytes, version: int) -> tuple[int, int] | None:
    """Return where the content of a message begins, at the flag of its presence, and its size; -1 without.

    :param data: a message, or the beginning of one, with its size in front
    :returns: None if that is too short, or damaged
    """
    reader, fields = Reader(data, 5, version), MessageFields.__new__(MessageFields)
    fields.sequence = None
    try:
        _read_names(reader, fields)
        _read_headers(reader, fields)
        at = reader.at
        return at, _i32.unpack_from(data, at + 1)[0] if data[at] else -1
    except (StructError, IndexError, Malformed):
        return None


def destination_of(data: bytes, version: int) -> Destination | None:
    """Return where the beginning of a message, whose content :func:`find_content` finds, is sent to."""
    reader, fields = Reader(data, 5, version), MessageFields.__new__(MessageFields)
    fields.sequence = None
    _read_names(reader, fields)
    return fields.destination


def headers_of(head: bytes) -> MessageFields:
    """Return the fields in front of the content of a stored message, of which this is the beginning.

    :raises CorruptMessage: it is too short for them, or damaged
    """
    at = 5 + (HEAD_SIZE if has_body_in_pieces(head) else 0)
    for version in (VERSION, OLD_VERSION):
        reader, fields = Reader(head, at, version), MessageFields.__new__(MessageFields)
        fields.sequence = None
        try:
            _read_names(reader, fields)
            _read_headers(reader, fields)
        except (StructError, IndexError, Malformed):
            continue
        return fields
    raise CorruptMessage("its headers are damaged, or longer than the bytes read", blob=head)


def _decode_in_pieces(data: bytes, sequence: int | None, container: str | None) -> Message:
    try:
        body = read_head(data)
    except Malformed as error:
        raise CorruptMessage(str(error), blob=data, sequence=sequence, container=container) from None
    message = decode(data[HEAD_SIZE:], sequence=sequence, container=container)
    return with_body_in_pieces(message, message.body_type, body)


def _decode(data: bytes, sequence: int | None, container: str | None, version: int | None) -> Message:
    _check_frame(data)
    if version is not None:
        return _decode_version(data, version, sequence, container)
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
        raise Malformed(f"its size field says {size} bytes, and {len(data) - 4} follow")
    if data[4] not in BODY_TYPES:
        raise Malformed(f"{data[4]} is not the type of a message")


def _looks_tight(data: bytes) -> bool:
    """Return whether a block of packed booleans follows the type; loose encoding has the command id there.

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
        raise Malformed(f"it is followed by {len(data) - reader.at} more bytes")
    return message


class Reader:
    """A position in a blob, and the reading of fields from there on.

    Reading past the end raises IndexError or struct.error, which only ``_decode_version`` catches: asking
    each time whether there is more would cost more than reading.
    """

    __slots__ = ("at", "data", "version")

    def __init__(self, data: bytes, at: int, version: int) -> None:
        self.data = data
        self.at = at
        self.version = version

    def fixed(self, layout: Struct) -> tuple[Any, ...]:
        """Return the numbers of a struct."""
        at = self.at
        self.at = at + layout.size
        return layout.unpack_from(self.data, at)

    def number(self, layout: Struct) -> int:
        return self.fixed(layout)[0]  # type: ignore[no-any-return]

    def byte(self) -> int:
        at = self.at
        self.at = at + 1
        return self.data[at]

    def skip(self, size: int) -> int:
        """Skip ``size`` bytes, and return where they start."""
        start = self.at
        end = start + size
        if size < 0 or end > len(self.data):
            raise Malformed(f"a field of {size} bytes does not fit into the {len(self.data) - start} left")
        self.at = end
        return start

    def string(self) -> str | None:
        data, at = self.data, self.at
        self.at = at + 3
        if not data[at]:
            self.at = at + 1
            return None
        start = self.skip(data[at + 1] << 8 | data[at + 2])
        return decode_utf(data[start : self.at])

    def name(self) -> str:
        """Return a string that must be present."""
        text = self.string()
        if text is None:
            raise Malformed("a name is missing")
        return text

    def span(self) -> tuple[int, int]:
        """Return the start and length of a byte array; the length is -1 if it is absent."""
        at = self.at
        if not self.data[at]:
            self.at = at + 1
            return 0, -1
        _, size = self.fixed(_presence_and_size)
        return self.skip(size), size

    def binary(self) -> bytes:
        start, size = self.span()
        if size < 0:
            raise Malformed("a part of a transaction id is missing")
        return self.data[start : start + size]

    def nested(self, *expected: type[T]) -> T | None:
        """Return a nested object of one of these types, or None if it is absent."""
        at = self.at
        if not self.data[at]:
            self.at = at + 1
            return None
        number = self.data[at + 1]
        self.at = at + 2
        read = _READERS.get(number)
        if read is None:
            raise Malformed(f"{number} is not the type of an object that a message can hold")
        structure = read(self)
        if not isinstance(structure, expected):
            raise Malformed(f"there is an object of type {number} instead of a {expected[0].__name__}")
        return structure

    def transaction_id(self) -> TransactionId | None:
        transaction_id: TransactionId | None = self.nested(*_TRANSACTION_IDS)
        return transaction_id

    def path(self) -> tuple[BrokerId, ...] | None:
        if not self.byte():
            return None
        count = self.number(_i16)
        if not 0 <= count <= len(self.data) - self.at:
            raise Malformed(f"a path of {count} brokers does not fit")
        return tuple(self._step() for _ in range(count))

    def _step(self) -> BrokerId:
        broker_id = self.nested(BrokerId)
        if broker_id is None:
            raise Malformed("a broker on the path is missing")
        return broker_id


def _read_message_id(reader: Reader) -> MessageId:
    text_view = reader.string() if reader.version >= VERSION else None
    producer_id = reader.nested(ProducerId)
    return MessageId(producer_id, reader.number(_i64), reader.number(_i64), text_view)


def _read_producer_id(reader: Reader) -> ProducerId:
    connection_id, value = reader.name(), reader.number(_i64)
    return ProducerId(connection_id, reader.number(_i64), value)


def _read_local_transaction(reader: Reader) -> LocalTransactionId:
    value, connection_id = reader.number(_i64), reader.nested(ConnectionId)
    if connection_id is None:
        raise Malformed("a transaction has no connection")
    return LocalTransactionId(connection_id, value)


def _read_xa_transaction(reader: Reader) -> XATransactionId:
    return XATransactionId(reader.number(_i32), reader.binary(), reader.binary())


def _read_destination(number: int) -> Callable[[Reader], Destination]:
    return lambda reader: make_destination(number, reader.name())


_READERS: dict[int, Callable[[Reader], object]] = {
    **{number: _read_destination(number) for number in wire.DESTINATION_KINDS},
    wire.MESSAGE_ID: _read_message_id,
    wire.LOCAL_TRANSACTION_ID: _read_local_transaction,
    wire.XA_TRANSACTION_ID: _read_xa_transaction,
    wire.CONNECTION_ID: lambda reader: ConnectionId(reader.name()),
    wire.BROKER_ID: lambda reader: BrokerId(reader.name()),
    wire.SESSION_ID: lambda reader: SessionId(reader.name(), reader.number(_i64)),
    wire.CONSUMER_ID: lambda reader: ConsumerId(reader.name(), reader.number(_i64), reader.number(_i64)),
    wire.PRODUCER_ID: _read_producer_id,
}
_TRANSACTION_IDS: tuple[type[Any], ...] = (LocalTransactionId, XATransactionId)
_IDS: tuple[type[Any], ...] = (
    Destination, MessageId, ProducerId, ConsumerId, ConnectionId, SessionId, BrokerId, *_TRANSACTION_IDS,
)  # fmt: skip


def _read_message(
    reader: Reader, kind: BodyType, sequence: int | None, container: str | None, nesting: int
) -> Message:
    fields = MessageFields.__new__(MessageFields)
    fields.body_type, fields.sequence = kind, sequence
    _read_names(reader, fields)
    sequence_offset = NOWHERE if fields.message_id is None else reader.at - 8
    _read_headers(reader, fields)
    if not 0 <= fields.priority <= 9:
        fields.priority = min(max(fields.priority, 0), 9)
    content_at, content_size = reader.span()
    properties_at, properties_size = reader.span()
    _read_tail(reader, fields, nesting)
    fields.remote_blob_url = fields.mime_type = None
    fields.deleted_by_broker = False
    if kind is _BLOB:
        fields.remote_blob_url, fields.mime_type = reader.string(), reader.string()
        fields.deleted_by_broker = reader.byte() != 0
    fields._body = UNREAD
    fields._properties = NO_PROPERTIES if properties_size < 0 else UNREAD
    fields._source = StoredBytes(
        reader.data, 0 if nesting else reader.version, sequence_offset, content_at, content_size,
        properties_at, properties_size, container,
    )  # fmt: skip
    return seal(fields)


_BLOB = BodyType.BLOB


def _read_names(reader: Reader, fields: MessageFields) -> None:
    """Read the fields up to the message id, whose broker sequence is the row's, if there is a row."""
    fields.command_id, fields.response_required = reader.fixed(_head)
    fields.producer_id, fields.destination = reader.nested(ProducerId), reader.nested(Destination)
    fields.transaction_id, fields.original_destination = reader.transaction_id(), reader.nested(Destination)
    fields.message_id = named = reader.nested(MessageId)
    if named is not None and fields.sequence is not None:
        fields.message_id = MessageId(
            named.producer_id, named.producer_sequence, fields.sequence, named.text_view
        )


def _read_headers(reader: Reader, fields: MessageFields) -> None:
    """Read the fields between message id and content."""
    fields.original_transaction_id = reader.transaction_id()
    fields.group_id, fields.group_sequence = reader.string(), reader.number(_i32)
    fields.correlation_id = reader.string()
    fields.persistent, fields.expiration_ms, fields.priority = reader.fixed(_delivery)
    fields.reply_to, fields.timestamp_ms = reader.nested(Destination), reader.number(_i64)
    fields.jms_type = reader.string()


def _read_tail(reader: Reader, fields: MessageFields, nesting: int) -> None:
    """Read the fields after the properties, of a message that is nested so deep in others."""
    fields.data_structure = _read_nested_message(reader, nesting) or reader.nested(*_IDS)
    fields.target_consumer_id = reader.nested(ConsumerId)
    fields.compressed, fields.redelivery_counter = reader.fixed(_redelivery)
    fields.broker_path, fields.arrival_ms, fields.user_id = (
        reader.path(),
        reader.number(_i64),
        reader.string(),
    )
    fields.received_by_df_bridge, fields.droppable = reader.fixed(_flags)
    fields.cluster = reader.path()
    fields.broker_in_time_ms, fields.broker_out_time_ms = reader.fixed(_two_i64)
    fields.first_for_consumer = reader.version >= VERSION and reader.byte() != 0


def _read_nested_message(reader: Reader, nesting: int) -> Message | None:
    """Return the message that is the data structure of another; None if something else is."""
    data, at = reader.data, reader.at
    kind = BODY_TYPES.get(data[at + 1]) if data[at] else None
    if kind is None:
        return None
    if nesting >= wire.MAX_MESSAGE_NESTING:
        raise Malformed(f"messages are nested more than {wire.MAX_MESSAGE_NESTING} deep")
    reader.at = at + 2
    return _read_message(reader, kind, None, None, nesting + 1)
