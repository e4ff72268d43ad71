"""The headers of a message: what each may be, and what it may not."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from jdbcstore.errors import InvalidMessage
from jdbcstore.message.body import BodyType
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

if TYPE_CHECKING:
    from jdbcstore.message.message import Message

DataStructure: TypeAlias = (
    "Destination | MessageId | ProducerId | ConsumerId | ConnectionId | SessionId | BrokerId"
    " | LocalTransactionId | XATransactionId | Message"
)
"""What an advisory message is about."""


@dataclass(slots=True, eq=False, repr=False)
class MessageFields:
    """The attributes of a message; the codec fills them in one call and then seals the message."""

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
_COUNTED = (*_BITS[32], *_BITS[64][2:])
_get_rare = attrgetter(*_OPTIONAL, *_COUNTED)
_NOTHING_RARE = (None,) * len(_OPTIONAL) + (0,) * len(_COUNTED)
_NONE = type(None)


def _is_plain(message: MessageFields) -> bool:
    """Whether only the headers that every message has are set, and those are right."""
    timestamp_ms, expiration_ms = message.timestamp_ms, message.expiration_ms
    return (
        _get_rare(message) == _NOTHING_RARE
        and type(message.destination) in (Destination, _NONE)
        and type(message.message_id) in (MessageId, _NONE)
        and type(expiration_ms) is int
        and 0 <= expiration_ms < 1 << 63
        and (timestamp_ms is None or (type(timestamp_ms) is int and 0 <= timestamp_ms < 1 << 63))
    )


def check(message: MessageFields) -> None:
    """Raise :class:`InvalidMessage` if a header is not what a message can have."""
    if type(message.priority) is not int or not 0 <= message.priority <= 9:
        raise InvalidMessage(f"the priority is {message.priority!r}, and should be 0 (lowest) to 9")
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
            _check_type(f"a step of {name}", step, BrokerId)
    _check_numbers(message)


def _check_type(name: str, value: object, *expected: type) -> None:
    if value is not None and not isinstance(value, expected):
        should = " or ".join(kind.__name__ for kind in expected)
        raise InvalidMessage(f"{name} is of type {type(value).__name__}, and should be a {should}")


def _check_numbers(message: MessageFields) -> None:
    for bits, names in _BITS.items():
        for name in names:
            value = getattr(message, name)
            if value is None and name == "timestamp_ms":
                continue
            if not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise InvalidMessage(f"{name} is {value!r}, and should be a whole number of {bits} bits")
