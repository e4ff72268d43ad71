"""JMS messages: body, headers, properties, and the fields that ActiveMQ adds to them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from sys import getsizeof
from types import MappingProxyType
from typing import Any, TypeAlias, final

from jdbcstore.errors import InvalidMessage
from jdbcstore.message._constructor_cy import constructor
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
from jdbcstore.message.values import Value, checked, checked_map, identical


class BodyType(StrEnum):
    """The kinds of JMS messages.

    ``TEXT`` is a TextMessage, and likewise ``BYTES``, ``MAP``, ``STREAM`` and ``OBJECT``; ``MESSAGE`` has no
    body. ``BLOB`` is ActiveMQ's BlobMessage.
    """

    MESSAGE = "message"
    TEXT = "text"
    BYTES = "bytes"
    MAP = "map"
    STREAM = "stream"
    OBJECT = "object"
    BLOB = "blob"


Body: TypeAlias = str | bytes | Mapping[str, Value] | tuple[Value, ...] | None
"""A message's body as it is read."""

AnyBody: TypeAlias = Body | bytearray | memoryview | Mapping[str, Any] | list[Any] | tuple[Any, ...]
"""A message's body as the constructor accepts it."""

DataStructure: TypeAlias = (
    "Destination | MessageId | ProducerId | ConsumerId | ConnectionId | SessionId | BrokerId"
    " | LocalTransactionId | XATransactionId | Message"
)
"""The subject of an advisory message."""

NO_PROPERTIES: Mapping[str, Value] = MappingProxyType({})
EMPTY_BODIES: Mapping[BodyType, Body] = {
    BodyType.BYTES: b"",
    BodyType.MAP: NO_PROPERTIES,
    BodyType.STREAM: (),
}
"""The bodies of messages without content, where that is not None."""

UNREAD: Any = object()
"""Placeholder for a body, or properties, not yet decoded from the message's source."""

_set = object.__setattr__


@dataclass(slots=True, eq=False, repr=False)
class MessageFields:
    """The attributes of a message, still open to change; :func:`seal` makes a message of them."""

    body_type: BodyType
    destination: Destination | None
    message_id: MessageId | None
    priority: int
    timestamp_ms: int | None
    expiration_ms: int
    correlation_id: str | None
    reply_to: Destination | None
    jms_type: str | None
    persistent: bool
    group_id: str | None
    group_sequence: int
    redelivery_counter: int
    user_id: str | None
    compressed: bool
    original_destination: Destination | None
    transaction_id: TransactionId | None
    original_transaction_id: TransactionId | None
    producer_id: ProducerId | None
    arrival_ms: int
    broker_in_time_ms: int
    broker_out_time_ms: int
    broker_path: tuple[BrokerId, ...] | None
    cluster: tuple[BrokerId, ...] | None
    data_structure: DataStructure | None
    target_consumer_id: ConsumerId | None
    command_id: int
    response_required: bool
    received_by_df_bridge: bool
    droppable: bool
    first_for_consumer: bool
    remote_blob_url: str | None
    mime_type: str | None
    deleted_by_broker: bool
    sequence: int | None
    _body: Any
    _properties: Any
    _source: Any


HEADERS = tuple(field.name for field in fields(MessageFields))[:-3]
_COMMON = (
    *("body_type", "destination", "message_id", "priority", "timestamp_ms", "expiration_ms", "persistent"),
    *("broker_in_time_ms", "sequence"),
)
RARE = (*(name for name in HEADERS if name not in _COMMON), "_source")
"""The attributes that most new messages do not have."""


@final
class Message(MessageFields):
    """An immutable JMS message.

    The type of ``body`` sets the kind of message: ``str`` makes a TextMessage, ``bytes`` a BytesMessage, a
    mapping a MapMessage, a list or tuple a StreamMessage, and ``None`` a Message without a body.
    ``body_type`` sets it where that is not enough: a TextMessage whose text is null, an ObjectMessage
    (``body`` is then Java's serialised bytes, which are never deserialised), a BlobMessage (its body is at
    ``remote_blob_url``).

    A message read from a store decodes ``body`` and ``properties`` when they are first asked for,
    and raises :class:`~jdbcstore.errors.CorruptMessage` then if they are damaged.

    The headers of JMS are ``destination``, ``message_id``, ``timestamp_ms`` and ``expiration_ms`` (epoch
    milliseconds; a timestamp of None is set by the store, an expiration of 0 means never), ``priority``
    (0 to 9), ``persistent`` (JMSDeliveryMode), ``correlation_id``, ``reply_to`` and ``jms_type``.
    ``group_id``, ``group_sequence`` and ``user_id`` are JMSXGroupID, JMSXGroupSeq and JMSXUserID;
    ``redelivery_counter`` is JMSXDeliveryCount less 1. ``sequence`` is the ID column, None before the message
    is stored.

    The others are ActiveMQ's, in snake case: ``compressed`` (of the stored body), ``original_destination``,
    ``transaction_id``, ``original_transaction_id``, ``producer_id``, ``arrival_ms``, ``broker_in_time_ms``,
    ``broker_out_time_ms``, ``broker_path``, ``cluster``, ``data_structure`` (of an advisory message),
    ``target_consumer_id``, ``command_id``, ``response_required``, ``received_by_df_bridge``, ``droppable``,
    ``first_for_consumer``, and of a BlobMessage ``remote_blob_url``, ``mime_type`` and ``deleted_by_broker``.

    Messages are equal when all but ``sequence`` is equal, in the same Java types. They may be shared between
    threads.

    :raises InvalidMessage: a value has the wrong type or is out of range
    """

    __slots__ = ()

    def __init__(
        self,
        body: AnyBody = None,
        *,
        body_type: BodyType | str | None = None,
        destination: Destination | None = None,
        message_id: MessageId | None = None,
        priority: int = 4,
        timestamp_ms: int | None = None,
        expiration_ms: int = 0,
        correlation_id: str | None = None,
        reply_to: Destination | None = None,
        jms_type: str | None = None,
        properties: Mapping[str, Any] | None = None,
        persistent: bool = True,
        group_id: str | None = None,
        group_sequence: int = 0,
        redelivery_counter: int = 0,
        user_id: str | None = None,
        compressed: bool = False,
        original_destination: Destination | None = None,
        transaction_id: TransactionId | None = None,
        original_transaction_id: TransactionId | None = None,
        producer_id: ProducerId | None = None,
        arrival_ms: int = 0,
        broker_in_time_ms: int = 0,
        broker_out_time_ms: int = 0,
        broker_path: tuple[BrokerId, ...] | None = None,
        cluster: tuple[BrokerId, ...] | None = None,
        data_structure: DataStructure | None = None,
        target_consumer_id: ConsumerId | None = None,
        command_id: int = 0,
        response_required: bool = False,
        received_by_df_bridge: bool = False,
        droppable: bool = False,
        first_for_consumer: bool = False,
        remote_blob_url: str | None = None,
        mime_type: str | None = None,
        deleted_by_broker: bool = False,
        sequence: int | None = None,
    ) -> None:
        kind = _type_of(body) if body_type is None else BodyType(body_type)
        # Not sealed yet: setting 38 slots of an immutable object one by one costs microseconds.
        _set(self, "__class__", MessageFields)
        MessageFields.__init__(
            self, kind, destination, message_id, priority, timestamp_ms, expiration_ms, correlation_id,
            reply_to, jms_type, persistent, group_id, group_sequence, redelivery_counter, user_id,
            compressed, original_destination, transaction_id, original_transaction_id, producer_id,
            arrival_ms, broker_in_time_ms, broker_out_time_ms, broker_path, cluster, data_structure,
            target_consumer_id, command_id, response_required, received_by_df_bridge, droppable,
            first_for_consumer, remote_blob_url, mime_type, deleted_by_broker, sequence,
            _checked_body(body, kind), _checked_properties(properties), None,
        )  # fmt: skip
        _set(self, "__class__", Message)
        _check(self)

    @property
    def body(self) -> Body:
        """The text, the bytes, the map (read-only) or the elements of the stream."""
        body: Body = self._body
        if body is UNREAD:
            body = self._source.read_body(self)
            _set(self, "_body", body)
        return body

    @property
    def properties(self) -> Mapping[str, Value]:
        """The properties, read-only, in the order in which they were set."""
        properties: Mapping[str, Value] = self._properties
        if properties is UNREAD:
            properties = self._source.read_properties(self)
            _set(self, "_properties", properties)
        return properties

    @property
    def stored_size(self) -> int:
        """Bytes of the stored form that it keeps, 0 if it has none."""
        return 0 if self._source is None else len(self._source.blob)

    @property
    def has_unread_properties(self) -> bool:
        """Whether the properties are still to be decoded."""
        return self._properties is UNREAD

    def forget_properties(self) -> None:
        """Decode the properties again when they are next asked for, if the stored form has them."""
        if self._source is not None and self._source.has_properties:
            _set(self, "_properties", UNREAD)

    @property
    def body_size(self) -> int:
        """Bytes of a stored body, which is not decoded for it; else its characters, bytes or elements."""
        if self._body is UNREAD:
            return self._source.body_size if self._source else 0
        return len(self._body or ())

    @property
    def memory_size(self) -> int:
        """The approximate bytes of body, properties and headers in memory, decoded or not."""
        source = self._source
        if source is not None:
            content: int = source.content_size
            return len(source.blob) + (content if content > 0 else 0)
        body = self._body
        size: int = getsizeof(body) if type(body) in _FLAT else _deep_size(body)
        if self._properties:
            for name, value in self._properties.items():
                size += _ITEM + len(name) + (getsizeof(value) if type(value) is str else _deep_size(value))
        if self.correlation_id is not None or self.jms_type is not None or self.group_id is not None:
            size += sum(map(len, filter(None, (self.correlation_id, self.jms_type, self.group_id))))
        return size

    def replace(self, **changes: Any) -> Message:
        """Return a copy with some of the constructor's arguments changed.

        A new ``body`` without a ``body_type`` sets the type, as in the constructor.

        :raises TypeError: the constructor has no such argument
        :raises InvalidMessage: a value has the wrong type or is out of range
        """
        unknown = changes.keys() - _ARGUMENTS
        if unknown:
            raise TypeError(f"a message does not have {', '.join(sorted(unknown))}")
        body, properties, source = self._body, self._properties, self._source
        new_body = not _BODY_ARGUMENTS.isdisjoint(changes)
        if source is not None and changes.keys() != {"sequence"}:
            source = source.part(body=not new_body, properties="properties" not in changes)
        if new_body:
            new = changes.get("body", UNREAD)
            kind = BodyType(changes.get("body_type") or (self.body_type if new is UNREAD else _type_of(new)))
            body = _checked_body(self.body if new is UNREAD else new, kind)
            changes["body_type"] = kind
        if "properties" in changes:
            properties = _checked_properties(changes["properties"])
        headers = [changes.get(name, value) for name, value in zip(HEADERS, _get_headers(self), strict=True)]
        fields = MessageFields(*[*headers, body, properties, source])
        _check(fields)
        return seal(fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (
            _get_compared(self) == _get_compared(other)
            and identical(self.properties, other.properties)
            and (_in_pieces(self) is _in_pieces(other))
            and (_in_pieces(self) is not None or identical(self.body, other.body))
        )

    def __hash__(self) -> int:
        return hash((self.message_id, self.destination, self.body_type, self.timestamp_ms))

    def __repr__(self) -> str:
        stored = "" if self.sequence is None else f" sequence={self.sequence}"
        return (
            f"<Message {self.message_id or 'without id'} to {self.destination or 'nowhere'}"
            f" {self.body_type} of {self.body_size}{stored}>"
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a message cannot be changed; use message.replace({name}=...)")


def seal(fields: MessageFields) -> Message:
    """Return the message of these attributes, which the caller has checked; ``fields`` becomes it."""
    fields.__class__ = Message
    return fields  # type: ignore[return-value]


_ARGUMENTS = frozenset(HEADERS) | {"body", "properties"}
_BODY_ARGUMENTS = frozenset({"body", "body_type", "compressed"})
_get_headers = attrgetter(*HEADERS)
_get_compared = attrgetter(*(name for name in HEADERS if name != "sequence"))


def _in_pieces(message: Message) -> object:
    """Return the body that is kept in pieces, of which there is one in a process; else None."""
    return getattr(message._source, "large", None)


_FLAT = (str, bytes)
_ITEM = 128
"""Bytes of an entry of a dict or list, without its string."""


def _deep_size(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_ITEM + len(name) + _deep_size(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return sum(_ITEM + _deep_size(item) for item in value)
    return getsizeof(value)


# The body and the properties, checked and copied.

_KINDS: dict[type, BodyType] = {
    type(None): BodyType.MESSAGE,
    str: BodyType.TEXT,
    bytes: BodyType.BYTES,
    bytearray: BodyType.BYTES,
    memoryview: BodyType.BYTES,
    dict: BodyType.MAP,
    list: BodyType.STREAM,
    tuple: BodyType.STREAM,
}
_IMMUTABLE: dict[type, BodyType] = {str: BodyType.TEXT, bytes: BodyType.BYTES}
"""Types of bodies that are kept without a copy."""


def _type_of(body: object) -> BodyType:
    """Return the kind of message that this body makes."""
    kind = _KINDS.get(type(body))
    if kind is not None:
        return kind
    if isinstance(body, Mapping):
        return BodyType.MAP
    for base, kind in _KINDS.items():
        if isinstance(body, base):
            return kind
    raise InvalidMessage(
        f"a {type(body).__name__} cannot be a body; use a str, bytes, a mapping, a list, or None"
    )


def _checked_body(body: object, kind: BodyType) -> Body:
    """Return the body, copied where it could change, as a message of this kind keeps it.

    :raises InvalidMessage: it is not a body of this kind, or holds a value that cannot be stored
    """
    cls = type(body)
    if _IMMUTABLE.get(cls) is kind:
        return body  # type: ignore[return-value]
    if body is None:
        return EMPTY_BODIES.get(kind)
    fits = _type_of(body)
    if fits is BodyType.BYTES and kind is BodyType.OBJECT:
        fits = kind
    if fits is not kind:
        raise InvalidMessage(f"a {cls.__name__} cannot be the body of a {kind} message; change body_type")
    if isinstance(body, str):
        return str.__str__(body)
    if isinstance(body, Mapping):
        return MappingProxyType(checked_map(body))
    if isinstance(body, list | tuple):
        return tuple(_checked_element(element) for element in body)
    return bytes(body)  # type: ignore[call-overload, no-any-return]


def _checked_element(element: object) -> Value:
    value = checked(element)
    if isinstance(value, dict | list):
        raise InvalidMessage("a stream cannot hold maps and lists; use a map message")
    return value


def _checked_properties(properties: Mapping[str, object] | None) -> Mapping[str, Value]:
    """Return a read-only copy of the properties; raise :class:`InvalidMessage` if they cannot be stored."""
    if not properties:
        return NO_PROPERTIES
    if not isinstance(properties, Mapping):
        raise InvalidMessage(f"properties must be a mapping, not a {type(properties).__name__}")
    return MappingProxyType(checked_map(properties))


# The headers, checked.

_IS: dict[type, tuple[str, ...]] = {
    Destination: ("destination", "reply_to", "original_destination"),
    MessageId: ("message_id",),
    ProducerId: ("producer_id",),
    ConsumerId: ("target_consumer_id",),
    str: ("correlation_id", "jms_type", "group_id", "user_id", "remote_blob_url", "mime_type"),
}
_TRANSACTIONS = ("transaction_id", "original_transaction_id")
_PATHS = ("broker_path", "cluster")
_BITS = {
    32: ("group_sequence", "redelivery_counter", "command_id"),
    64: ("timestamp_ms", "expiration_ms", "arrival_ms", "broker_in_time_ms", "broker_out_time_ms"),
}
_OPTIONAL = (*_IS[Destination][1:], *_IS[ProducerId], *_IS[ConsumerId], *_IS[str], *_TRANSACTIONS, *_PATHS)
_COUNTED = (*_BITS[32], "arrival_ms", "broker_out_time_ms")
_get_rare = attrgetter(*_OPTIONAL, *_COUNTED)
_NOTHING_RARE = (None,) * len(_OPTIONAL) + (0,) * len(_COUNTED)
_NONE = type(None)


def _is_plain(message: MessageFields) -> bool:
    """Return whether only the headers that every message has are set, and are valid."""
    timestamp_ms, expiration_ms = message.timestamp_ms, message.expiration_ms
    broker_in_time_ms = message.broker_in_time_ms
    return (
        _get_rare(message) == _NOTHING_RARE
        and type(message.destination) in (Destination, _NONE)
        and type(message.message_id) in (MessageId, _NONE)
        and type(expiration_ms) is int
        and 0 <= expiration_ms < 1 << 63
        and (timestamp_ms is None or (type(timestamp_ms) is int and 0 <= timestamp_ms < 1 << 63))
        and type(broker_in_time_ms) is int
        and 0 <= broker_in_time_ms < 1 << 63
    )


def _check(message: MessageFields) -> None:
    """Raise :class:`InvalidMessage` if a header has the wrong type or is out of range."""
    if type(message.priority) is not int or not 0 <= message.priority <= 9:
        raise InvalidMessage(f"the priority is {message.priority!r}, and must be 0 (lowest) to 9")
    if _is_plain(message):
        return
    for expected, names in _IS.items():
        for name in names:
            _check_type(name, getattr(message, name), expected)
    for name in _TRANSACTIONS:
        _check_type(name, getattr(message, name), LocalTransactionId, XATransactionId)
    for name in _PATHS:
        path = getattr(message, name)
        _check_type(name, path, tuple)
        for step in path or ():
            _check_type(f"an element of {name}", step, BrokerId)
    for bits, names in _BITS.items():
        for name in names:
            _check_number(name, getattr(message, name), bits)


def _check_type(name: str, value: object, *expected: type) -> None:
    if value is not None and not isinstance(value, expected):
        wanted = " or ".join(kind.__name__ for kind in expected)
        raise InvalidMessage(f"{name} is of type {type(value).__name__}, and must be a {wanted}")


def _check_number(name: str, value: object, bits: int) -> None:
    if value is None and name == "timestamp_ms":
        return
    if not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise InvalidMessage(f"{name} is {value!r}, and must be an integer of {bits} bits")


if not constructor.__module__.endswith("_cy"):  # as Python it is slower than the original
    Message.__init__ = functools.wraps(Message.__init__)(  # type: ignore[method-assign]
        constructor(
            Message.__init__,
            ("_body", "_properties", *HEADERS, "_source"),
            {bytes: Message(b""), str: Message("")},
            {
                "destination": (Destination, True, 0),
                "message_id": (MessageId, True, 0),
                "priority": (int, False, 9),
                **dict.fromkeys(("timestamp_ms", "sequence"), (int, True, (1 << 63) - 1)),
                "redelivery_counter": (int, False, (1 << 31) - 1),
                **dict.fromkeys(("expiration_ms", "broker_in_time_ms"), (int, False, (1 << 63) - 1)),
                "persistent": (bool, False, 0),
                **dict.fromkeys(("correlation_id", "jms_type", "group_id", "user_id"), (str, True, 0)),
            },
            _checked_properties,
        )
    )
