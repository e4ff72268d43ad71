"""Facts of a message: its headers, properties and body as JSON values, for people and other programs."""

from __future__ import annotations

from typing import Any

from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.pieces import body_in_pieces
from jdbcstore.message.values import plain

Facts = dict[str, Any]
"""Headers, properties and body of a message as JSON values, under the keys listed in docs/cli.md."""


def facts_of(message: Message) -> Facts:
    """Convert a message for printing.

    :raises CorruptMessage: the properties or the body cannot be decoded
    """
    return {
        "id": message.sequence,
        "destination": None if message.destination is None else str(message.destination),
        "message_id": None if message.message_id is None else str(message.message_id),
        "type": str(message.body_type),
        "timestamp": message.timestamp_ms,
        "expiration": message.expiration_ms,
        "priority": message.priority,
        "correlation_id": message.correlation_id,
        "reply_to": None if message.reply_to is None else str(message.reply_to),
        "jms_type": message.jms_type,
        "redelivery_counter": message.redelivery_counter,
        "properties": plain(_properties(message)),
        **_body(message),
    }


def _body(message: Message) -> dict[str, object]:
    """Return the body, or the size of a body in pieces, which is not loaded."""
    if body_in_pieces(message) is not None:
        return {"body": None, "bytes_in_pieces": message.body_size}
    return {"body": plain(message.remote_blob_url if message.body_type is BodyType.BLOB else message.body)}


def _properties(message: Message) -> dict[str, object]:
    """Return the properties, including the headers that JMS exposes as properties."""
    properties: dict[str, object] = dict(message.properties)
    if message.group_id is not None:
        properties["JMSXGroupID"] = message.group_id
        properties["JMSXGroupSeq"] = message.group_sequence
    if message.user_id is not None:
        properties["JMSXUserID"] = message.user_id
    return properties
