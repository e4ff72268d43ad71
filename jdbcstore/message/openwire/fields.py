"""Reads the three runs of fields that lie around a message's content and properties, one by one."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias

from jdbcstore.message.destination import Destination
from jdbcstore.message.headers import DataStructure
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
from jdbcstore.message.message import Message
from jdbcstore.message.openwire.reader import Reader
from jdbcstore.message.openwire.types import VERSION

_i32, _i64 = Struct(">i"), Struct(">q")
_head, _delivery, _redelivery = Struct(">i?"), Struct(">?qb"), Struct(">?i")
_flags, _broker_times = Struct(">??"), Struct(">qq")

Names: TypeAlias = tuple[
    int,  # command_id
    bool,  # response_required
    ProducerId | None,
    Destination | None,
    TransactionId | None,
    Destination | None,  # original_destination
    MessageId | None,
]


def read_names(reader: Reader, sequence: int | None) -> Names:
    """Up to the message id, whose broker sequence becomes ``sequence`` if that is given."""
    command_id, response_required = reader.fixed(_head)
    producer_id, destination = reader.nested(ProducerId), reader.nested(Destination)
    transaction_id, original_destination = reader.transaction_id(), reader.nested(Destination)
    message_id = reader.nested(MessageId)
    if message_id is not None and sequence is not None:
        message_id = MessageId(
            message_id.producer_id, message_id.producer_sequence, sequence, message_id.text_view
        )
    return (
        command_id, response_required, producer_id, destination, transaction_id, original_destination,
        message_id,
    )  # fmt: skip


Headers: TypeAlias = tuple[
    TransactionId | None,  # original_transaction_id
    str | None,  # group_id
    int,  # group_sequence
    str | None,  # correlation_id
    bool,  # persistent
    int,  # expiration_ms
    int,  # priority
    Destination | None,  # reply_to
    int,  # timestamp_ms
    str | None,  # jms_type
]


def read_headers(reader: Reader) -> Headers:
    """From the message id to the content."""
    original_transaction_id = reader.transaction_id()
    group_id, group_sequence, correlation_id = reader.string(), reader.number(_i32), reader.string()
    persistent, expiration_ms, priority = reader.fixed(_delivery)
    reply_to, timestamp_ms, jms_type = reader.nested(Destination), reader.number(_i64), reader.string()
    return (
        original_transaction_id, group_id, group_sequence, correlation_id, persistent, expiration_ms,
        priority, reply_to, timestamp_ms, jms_type,
    )  # fmt: skip


Tail: TypeAlias = tuple[
    "DataStructure | None",
    ConsumerId | None,  # target_consumer_id
    bool,  # compressed
    int,  # redelivery_counter
    tuple[BrokerId, ...] | None,  # broker_path
    int,  # arrival_ms
    str | None,  # user_id
    bool,  # received_by_df_bridge
    bool,  # droppable
    tuple[BrokerId, ...] | None,  # cluster
    int,  # broker_in_time_ms
    int,  # broker_out_time_ms
    bool,  # first_for_consumer
]


def read_tail(reader: Reader, read_message: Callable[[], Message | None]) -> Tail:
    """From the properties on. ``read_message`` reads a message if one is the data structure."""
    data_structure = read_message() or reader.nested(*_IDS)
    target_consumer_id = reader.nested(ConsumerId)
    compressed, redelivery_counter = reader.fixed(_redelivery)
    broker_path, arrival_ms, user_id = reader.path(), reader.number(_i64), reader.string()
    received_by_df_bridge, droppable = reader.fixed(_flags)
    cluster = reader.path()
    broker_in_time_ms, broker_out_time_ms = reader.fixed(_broker_times)
    first_for_consumer = reader.version >= VERSION and reader.byte() != 0
    return (
        data_structure, target_consumer_id, compressed, redelivery_counter, broker_path, arrival_ms, user_id,
        received_by_df_bridge, droppable, cluster, broker_in_time_ms, broker_out_time_ms, first_for_consumer,
    )  # fmt: skip


_IDS: tuple[type[Any], ...] = (
    Destination, MessageId, ProducerId, ConsumerId, ConnectionId, SessionId, BrokerId,
    LocalTransactionId, XATransactionId,
)  # fmt: skip
