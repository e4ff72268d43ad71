"""A message: its body, its JMS headers, its properties, and what ActiveMQ keeps beside them."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from sys import getsizeof
from typing import Any, Protocol, cast, final

from jdbcstore.message.body import AnyBody, Body, BodyType, checked_body, checked_properties, type_of
from jdbcstore.message.destination import Destination
from jdbcstore.message.headers import HEADERS, DataStructure, MessageFields, check
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
from jdbcstore.message.values import Value, identical

__all__ = [
    "Body",
    "BodyType",
    "BrokerId",
    "ConnectionId",
    "ConsumerId",
    "DataStructure",
    "LocalTransactionId",
    "Message",
    "MessageId",
    "ProducerId",
    "SessionId",
    "TransactionId",
    "XATransactionId",
]


UNREAD: Any = object()
"""Stands for a body, or properties, still to be read from the message's source."""

_set = object.__setattr__


class Source(Protocol):
    """The stored bytes a message came from; they are read when someone asks for what is in them."""

    @property
    def body_size(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes that it takes, all of it."""
        ...

    def read_body(self, message: Message) -> Body: ...

    def read_properties(self, message: Message) -> Mapping[str, Value]: ...

    def part(self, *, body: bool, properties: bool) -> Source | None:
        """What is left for a changed message: the bytes of the body, of the properties, or none."""
        ...


@final
class Message(MessageFields):
    """An immutable message.

    The type of ``body`` says what kind of JMS message it is: a ``str`` a text message, ``bytes`` a
    bytes message, a mapping a map message, a list or tuple a stream message, and none a message
    without a body. ``body_type`` says it where that is not enough: a text message without a text,
    an object message (``body`` is then Java's serialised bytes, which are never looked into), a
    blob message (``remote_blob_url`` says where its body is).

    A message read from a store decodes ``body`` and ``properties`` when they are first asked for,
    and raises :class:`~jdbcstore.errors.CorruptMessage` then if they are damaged.

    Times are in epoch milliseconds; an ``expiration_ms`` of 0 means never, a ``timestamp_ms`` of
    ``None`` that the store sets it. ``sequence`` is the ID column, ``None`` before the message is
    stored. The rest is what ActiveMQ keeps of a message, under its own names.

    Messages are equal when they say the same, in the same Java types; where they are stored does not
    count.

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
        kind = type_of(body) if body_type is None else BodyType(body_type)
        # Thawed meanwhile: setting 38 slots of a frozen object one by one costs microseconds.
        _set(self, "__class__", MessageFields)
        MessageFields.__init__(
            self, kind, destination, message_id, priority, timestamp_ms, expiration_ms, correlation_id,
            reply_to, jms_type, persistent, group_id, group_sequence, redelivery_counter, user_id,
            compressed, original_destination, transaction_id, original_transaction_id, producer_id,
            arrival_ms, broker_in_time_ms, broker_out_time_ms, broker_path, cluster, data_structure,
            target_consumer_id, command_id, response_required, received_by_df_bridge, droppable,
            first_for_consumer, remote_blob_url, mime_type, deleted_by_broker, sequence,
            checked_body(body, kind), checked_properties(properties), None,
        )  # fmt: skip
        _set(self, "__class__", Message)
        check(self)

    @property
    def body(self) -> Body:
        """The text, the bytes, the map (read-only) or the stream's elements."""
        body: Body = self._body
        if body is UNREAD:
            body = self._source.read_body(self)
            _set(self, "_body", body)
        return body

    @property
    def properties(self) -> Mapping[str, Value]:
        """The properties, read-only, in the order they are stored in."""
        properties: Mapping[str, Value] = self._properties
        if properties is UNREAD:
            properties = self._source.read_properties(self)
            _set(self, "_properties", properties)
        return properties

    @property
    def body_size(self) -> int:
        """Bytes of a stored body, characters or elements of another; the body is not read for it."""
        if self._body is UNREAD:
            return self._source.body_size if self._source else 0
        return len(self._body or ())

    @property
    def memory_size(self) -> int:
        """Roughly the bytes that it takes in memory: body, properties and headers, decoded or not."""
        if self._source is not None:
            stored: int = self._source.size + self._source.body_size
            return stored
        body = self._body
        size: int = getsizeof(body) if type(body) in _FLAT else _deep_size(body)
        if self._properties:
            for name, value in self._properties.items():
                size += _ITEM + len(name) + (getsizeof(value) if type(value) is str else _deep_size(value))
        if self.correlation_id is not None or self.jms_type is not None or self.group_id is not None:
            size += sum(map(len, filter(None, (self.correlation_id, self.jms_type, self.group_id))))
        return size

    def replace(self, **changes: Any) -> Message:
        """This message with some of the constructor's arguments changed.

        A new ``body`` without a ``body_type`` sets the type, as in the constructor.
        """
        unknown = changes.keys() - _ARGUMENTS
        if unknown:
            raise TypeError(f"a message has no {', '.join(sorted(unknown))}")
        body, properties, source = self._body, self._properties, self._source
        new_body = not _BODY_ARGUMENTS.isdisjoint(changes)
        if source is not None and changes.keys() != {"sequence"}:
            source = source.part(body=not new_body, properties="properties" not in changes)
        if new_body:
            new = changes.get("body", UNREAD)
            kind = BodyType(changes.get("body_type") or (self.body_type if new is UNREAD else type_of(new)))
            body = checked_body(self.body if new is UNREAD else new, kind)
            changes["body_type"] = kind
        if "properties" in changes:
            properties = checked_properties(changes["properties"])
        headers = [changes.get(name, value) for name, value in zip(HEADERS, _get_headers(self), strict=True)]
        fields = MessageFields(*[*headers, body, properties, source])
        check(fields)
        return seal(fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (
            _get_said(self) == _get_said(other)
            and identical(self.properties, other.properties)
            and identical(self.body, other.body)
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


_FLAT = (str, bytes)
_ITEM = 128
"""Bytes of a place in a dict or list, and of what is in it beside its text."""


def _deep_size(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_ITEM + len(name) + _deep_size(one) for name, one in value.items())
    if isinstance(value, list | tuple):
        return sum(_ITEM + _deep_size(one) for one in value)
    return getsizeof(value)


_ARGUMENTS = frozenset(HEADERS) | {"body", "properties"}
_get_headers = attrgetter(*HEADERS)
_BODY_ARGUMENTS = frozenset({"body", "body_type", "compressed"})
_get_said = attrgetter(*(name for name in HEADERS if name != "sequence"))


def seal(fields: MessageFields) -> Message:
    """The message of these attributes, which the caller has checked; ``fields`` becomes it."""
    fields.__class__ = Message
    return cast(Message, fields)
