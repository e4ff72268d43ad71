"""The headers of a message: what each may be, and what it may not."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from jdbcstore.body import BodyType
from jdbcstore.destination import Destination
from jdbcstore.errors import InvalidMessage
from jdbcstore.ids import (
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
    from jdbcstore.message import Message

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
    tuple: ("broker_path", "cluster"),
}
_BITS = {
    32: ("group_sequence", "redelivery_counter", "command_id"),
    64: ("timestamp_ms", "expiration_ms", "arrival_ms", "broker_in_time_ms", "broker_out_time_ms"),
}
_get_rare = attrgetter(*_IS[Destination][1:], *_IS[ProducerId], *_IS[ConsumerId], *_IS[str], *_IS[tuple],
                       *_BITS[32], *_BITS[64][2:])  # fmt: skip
_NOTHING_RARE = (None,) * 12 + (0,) * 6


def _is_plain(message: MessageFields) -> bool:
    """Whether everything but the headers that every message has is at its default, and those are right."""
    return (
        _get_rare(message) == _NOTHING_RARE
        and type(message.destination) in (Destination, type(None))
        and type(message.message_id) in (MessageId, type(None))
        and 0 <= message.expiration_ms < 1 << 63
        and (message.timestamp_ms is None or 0 <= message.timestamp_ms < 1 << 63)
    )


def check(message: MessageFields) -> None:
    """Raise :class:`InvalidMessage` if a header is not what a message can have."""
    if type(message.priority) is not int or not 0 <= message.priority <= 9:
        raise InvalidMessage(f"the priority is {message.priority!r}, and should be 0 (lowest) to 9")
    try:
        if _is_plain(message):
            return
    except TypeError:
        pass  # a time is no number: found and named below
    _check_types(message)
    _check_numbers(message)


def _check_types(message: MessageFields) -> None:
    for expected, names in _IS.items():
        for name in names:
            value = getattr(message, name)
            if value is not None and not isinstance(value, expected):
                is_a = type(value).__name__
                raise InvalidMessage(f"{name} is a {is_a}, and should be a {expected.__name__}")


def _check_numbers(message: MessageFields) -> None:
    for bits, names in _BITS.items():
        for name in names:
            value = getattr(message, name)
            if value is None and name == "timestamp_ms":
                continue
            if not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise InvalidMessage(f"{name} is {value!r}, and should be a whole number of {bits} bits")
