"""The commands of OpenWire, versions 9 to 12, in loose encoding: one table of fields for reading and writing.

Messages are not in the table, because the MSG column holds the frame of a message unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any, NamedTuple

from jdbcstore.errors import InvalidMessage, ProtocolError
from jdbcstore.message.destination import Destination
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
from jdbcstore.message.openwire.decoder import Reader
from jdbcstore.message.openwire.encoder import encode_structure, encode_utf
from jdbcstore.message.openwire.wire_format import BODY_TYPES, OLD_VERSION, VERSION, Malformed

NEWEST, OLDEST = 12, 9
"""The versions that clients may speak. Commands and messages are the same in 10, 11 and 12."""
FIRST_MESSAGE, LAST_MESSAGE = min(BODY_TYPES), max(BODY_TYPES)
_i16, _i32, _i64 = Struct(">h"), Struct(">i"), Struct(">q")
_MOST_IN_ARRAY = 1000
_LONGEST_STRING = 0xFFFF


class Type(IntEnum):
    """The numbers of the commands."""

    WIRE_FORMAT_INFO = 1
    BROKER_INFO = 2
    CONNECTION_INFO = 3
    SESSION_INFO = 4
    CONSUMER_INFO = 5
    PRODUCER_INFO = 6
    TRANSACTION_INFO = 7
    DESTINATION_INFO = 8
    REMOVE_SUBSCRIPTION_INFO = 9
    KEEP_ALIVE_INFO = 10
    SHUTDOWN_INFO = 11
    REMOVE_INFO = 12
    CONTROL_COMMAND = 14
    FLUSH_COMMAND = 15
    CONNECTION_ERROR = 16
    CONSUMER_CONTROL = 17
    CONNECTION_CONTROL = 18
    PRODUCER_ACK = 19
    MESSAGE_PULL = 20
    MESSAGE_DISPATCH = 21
    MESSAGE_ACK = 22
    MESSAGE = 23
    RESPONSE = 30
    EXCEPTION_RESPONSE = 31
    DATA_ARRAY_RESPONSE = 33
    INTEGER_RESPONSE = 34


# One line for each field: its name and kind. ``!``: it may not be null. ``@10``: since that version.
_FIELDS: Mapping[Type, str] = {
    Type.BROKER_INFO: """
        broker_id:BrokerId broker_url:string peers:array broker_name:string is_slave:bool is_master:bool
        fault_tolerant:bool duplex:bool network:bool connection:long upload_url:string
        network_properties:string""",
    Type.CONNECTION_INFO: """
        connection_id:ConnectionId! client_id:string password:string user:string broker_path:array
        master_connector:bool manageable:bool client_master:bool fault_tolerant:bool failover_reconnect:bool
        client_ip:string""",
    Type.SESSION_INFO: "session_id:SessionId!",
    Type.CONSUMER_INFO: """
        consumer_id:ConsumerId! browser:bool destination:Destination! prefetch:int max_pending:int
        dispatch_async:bool selector:string client_id:string@10 subscription_name:string no_local:bool
        exclusive:bool retroactive:bool priority:byte broker_path:array predicate:null network:bool
        optimized_acknowledge:bool no_range_acks:bool network_path:array""",
    Type.PRODUCER_INFO: """
        producer_id:ProducerId! destination:Destination broker_path:array dispatch_async:bool window:int""",
    Type.TRANSACTION_INFO: "connection_id:ConnectionId transaction_id:TransactionId operation:byte",
    Type.DESTINATION_INFO: """
        connection_id:ConnectionId destination:Destination! operation:byte timeout:long broker_path:array""",
    Type.REMOVE_SUBSCRIPTION_INFO: "connection_id:ConnectionId subscription_name:string! client_id:string",
    Type.KEEP_ALIVE_INFO: "",
    Type.SHUTDOWN_INFO: "",
    Type.REMOVE_INFO: "object_id:AnyId! last_delivered:long",
    Type.CONTROL_COMMAND: "command:string",
    Type.FLUSH_COMMAND: "",
    Type.CONNECTION_ERROR: "error:throwable connection_id:ConnectionId",
    Type.CONSUMER_CONTROL: """
        destination:Destination close:bool consumer_id:ConsumerId! prefetch:int flush:bool start:bool
        stop:bool""",
    Type.CONNECTION_CONTROL: """
        close:bool exit:bool fault_tolerant:bool resume:bool suspend:bool connected_brokers:string
        reconnect_to:string rebalance:bool token:bytes""",
    Type.PRODUCER_ACK: "producer_id:ProducerId! size:int",
    Type.MESSAGE_PULL: """
        consumer_id:ConsumerId! destination:Destination timeout:long correlation_id:string
        message_id:MessageId""",
    Type.MESSAGE_DISPATCH: """
        consumer_id:ConsumerId! destination:Destination message:command redeliveries:int""",
    Type.MESSAGE_ACK: """
        destination:Destination transaction_id:TransactionId consumer_id:ConsumerId! ack_type:byte
        first:MessageId last:MessageId count:int cause:throwable""",
    # Fields of ActiveMQ's message, for advisories; nearly all are absent.
    Type.MESSAGE: """
        producer_id:ProducerId destination:Destination transaction_id:TransactionId original:Destination
        message_id:MessageId original_transaction:TransactionId group_id:string group_sequence:int
        correlation_id:string persistent:bool expiration:long priority:byte reply_to:Destination
        timestamp:long type:string content:bytes properties:bytes data:command target:ConsumerId
        compressed:bool redelivery_counter:int broker_path:array arrival:long user_id:string
        by_bridge:bool droppable:bool cluster:array in_time:long out_time:long first_for_consumer:bool@10""",
    Type.RESPONSE: "correlation_id:int",
    Type.EXCEPTION_RESPONSE: "correlation_id:int error:throwable",
    Type.DATA_ARRAY_RESPONSE: "correlation_id:int data:array",
    Type.INTEGER_RESPONSE: "correlation_id:int result:int",
}

_IDS: Mapping[str, tuple[type[Any], ...]] = {
    "BrokerId": (BrokerId,),
    "ConnectionId": (ConnectionId,),
    "SessionId": (SessionId,),
    "ConsumerId": (ConsumerId,),
    "ProducerId": (ProducerId,),
    "MessageId": (MessageId,),
    "Destination": (Destination,),
    "TransactionId": (LocalTransactionId, XATransactionId),
    "AnyId": (ConnectionId, SessionId, ConsumerId, ProducerId),
}


class Throwable(NamedTuple):
    """A Java exception: its class, and its message."""

    name: str
    text: str | None


class Command:
    """A command with the values of its fields, by name."""

    __slots__ = ("_values", "command_id", "response_required", "type")

    def __init__(self, kind: Type, command_id: int, response_required: bool, values: dict[str, Any]) -> None:
        self.type = kind
        self.command_id = command_id
        self.response_required = response_required
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __repr__(self) -> str:
        shown = {name: "..." if name == "password" else value for name, value in self._values.items()}
        return f"<{self.type.name} {self.command_id} {shown}>"


class _Field(NamedTuple):
    name: str
    kind: str
    required: bool


def codec_version(version: int) -> int:
    """Return the codec version for the messages and ids of a wire version."""
    return VERSION if version > OLDEST else OLD_VERSION


@lru_cache(maxsize=256)
def _fields(kind: Type, version: int) -> tuple[_Field, ...]:
    def parsed() -> Iterator[_Field]:
        for text in _FIELDS[kind].split():
            name, _, rest = text.partition(":")
            how, _, since = rest.partition("@")
            if not since or version >= int(since):
                yield _Field(name, how.rstrip("!"), how.endswith("!"))

    return tuple(parsed())


# Reading.


def read_command(frame: bytes, version: int) -> Command:
    """Return the command in a frame, which includes its size.

    :raises ProtocolError: it is not a command of clients, or it is damaged; the rest of the input is ignored
    """
    kind = frame[4] if len(frame) > 4 else 0
    try:
        known = Type(kind)
        fields = _fields(known, version)
    except (ValueError, KeyError):
        raise ProtocolError(f"Unknown data type: {kind}", fatal=True) from None
    reader = Reader(frame, 5, codec_version(version))
    try:
        command_id, response_required = reader.number(_i32), reader.byte() != 0
        values = {field.name: _read(reader, field) for field in fields}
        if reader.at != len(frame):
            raise Malformed(f"it is followed by {len(frame) - reader.at} more bytes")
    except (StructError, IndexError):
        raise ProtocolError(f"{known.name} ends too early", fatal=True) from None
    except Malformed as error:
        raise ProtocolError(f"{known.name} is damaged: {error}", fatal=True) from None
    if version == OLDEST and known is Type.CONSUMER_INFO:
        values["client_id"] = None
    return Command(known, command_id, response_required, values)


def _read(reader: Reader, field: _Field) -> Any:
    read = _READERS.get(field.kind)
    value = reader.nested(*_IDS[field.kind]) if read is None else read(reader)
    if value is None and field.required:
        raise Malformed(f"{field.name} is missing")
    return value


def _read_bytes(reader: Reader) -> bytes | None:
    start, size = reader.span()
    return None if size < 0 else reader.data[start : start + size]


def _read_array(reader: Reader) -> tuple[Any, ...] | None:
    if not reader.byte():
        return None
    count = reader.number(_i16)
    if not 0 <= count <= min(_MOST_IN_ARRAY, len(reader.data) - reader.at):
        raise Malformed(f"an array of {count} elements does not fit")
    return tuple(reader.nested(object) for _ in range(count))


def _read_throwable(reader: Reader) -> Throwable | None:
    """Read an exception without a stack trace, because the broker has switched these off."""
    return Throwable(reader.string() or "", reader.string()) if reader.byte() else None


def _read_null(reader: Reader) -> None:
    if reader.byte():
        raise Malformed("it contains an object that only brokers send")


_READERS: dict[str, Callable[[Reader], Any]] = {
    "bool": lambda reader: reader.byte() != 0,
    "byte": lambda reader: (reader.byte() ^ 0x80) - 0x80,
    "int": lambda reader: reader.number(_i32),
    "long": lambda reader: reader.number(_i64),
    "string": Reader.string,
    "bytes": _read_bytes,
    "array": _read_array,
    "throwable": _read_throwable,
    "null": _read_null,
    "command": _read_null,
}


# Writing.


def write_command(kind: Type, version: int = NEWEST, **values: Any) -> bytes:
    """Return a frame with its size; omitted fields are absent, false or 0.

    :raises InvalidMessage: a name or a number is too long for its field
    """
    return framed(write_body(kind, version, **values))


def framed(body: bytes) -> bytes:
    """Return the body with its size in front."""
    return _i32.pack(len(body)) + body


def write_body(kind: Type, version: int = NEWEST, **values: Any) -> bytes:
    """Write a command without the size, as an object in another command, after its 1."""
    parts = [bytes((kind,))]
    command_id, response = values.pop("command_id", 0), values.pop("response_required", False)
    try:
        parts.append(_i32.pack(command_id) + bytes((bool(response),)))
        for field in _fields(kind, version):
            parts.append(_write(field.kind, values.pop(field.name, None), version))
    except StructError as error:
        raise InvalidMessage(f"a number of {kind.name} is out of range: {error}") from error
    if values:
        raise TypeError(f"{kind.name} does not have {', '.join(values)}")
    return b"".join(parts)


def _write(kind: str, value: Any, version: int) -> bytes:
    write = _WRITERS.get(kind)
    if write is not None:
        return write(value)
    if kind != "array":
        return write_id(value, version)
    if value is None:
        return b"\0"
    return b"\1" + _i16.pack(len(value)) + b"".join(write_id(part, version) for part in value)


def _or_null(write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda value: b"\0" if value is None else b"\1" + write(value)


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "bool": lambda value: b"\1" if value else b"\0",
    "byte": lambda value: bytes(((value or 0) & 0xFF,)),
    "int": lambda value: _i32.pack(value or 0),
    "long": lambda value: _i64.pack(value or 0),
    "string": lambda value: write_string(value),
    "bytes": _or_null(lambda value: _i32.pack(len(value)) + value),
    "throwable": _or_null(lambda value: write_string(value.name) + write_string(value.text)),
    "null": lambda _: b"\0",
    "command": _or_null(lambda value: value),
}
"""Encoders that do not depend on the version. A command is the result of :func:`write_body`."""


def write_string(text: str | None) -> bytes:
    """Encode a string or null; a string that is too long is truncated."""
    if text is None:
        return b"\0"
    raw = encode_utf(text)
    if len(raw) > _LONGEST_STRING:
        raw = encode_utf(text[: _LONGEST_STRING // 6])
    return b"\1" + len(raw).to_bytes(2, "big") + raw


def write_id(value: Any, version: int) -> bytes:
    """Encode an id or a destination as a nested object, or null."""
    return encode_structure(value, codec_version(version))


Receipt = int | None
"""The id of a command that requests a response."""
_RESPONSE = write_command(Type.RESPONSE)[:-4]
"""A response without the id of its command at the end."""


def response(receipt: Receipt) -> bytes | None:
    """Return the response to a completed command; None if the client did not request one."""
    return None if receipt is None else _RESPONSE + _i32.pack(receipt)
