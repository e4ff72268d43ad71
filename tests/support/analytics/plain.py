"""What a message says in the columns of ``messages_decoded``, by the codec alone."""

from __future__ import annotations

from typing import Any

from jdbcstore.analytics.batch import for_spark
from jdbcstore.message.message import BodyType, Message


def said(message: Message) -> dict[str, Any]:
    """Of what the codec read, what a row should say; without what needs a representation of its own."""
    body = message.body
    return {
        "type": str(message.body_type),
        "message_id": message.message_id and for_spark(str(message.message_id)),
        "timestamp": message.timestamp_ms,
        "jms_priority": message.priority,
        "persistent": message.persistent,
        "redelivery_counter": message.redelivery_counter,
        "correlation_id": for_spark(message.correlation_id),
        "reply_to": message.reply_to and str(message.reply_to),
        "jms_type": for_spark(message.jms_type),
        "group_id": for_spark(message.group_id),
        "group_sequence": message.group_sequence,
        "user_id": for_spark(message.user_id),
        "original_destination": message.original_destination and str(message.original_destination),
        "producer_id": message.producer_id and for_spark(str(message.producer_id)),
        "transaction_id": message.transaction_id and for_spark(str(message.transaction_id)),
        "arrival": message.arrival_ms,
        "broker_in_time": message.broker_in_time_ms,
        "broker_out_time": message.broker_out_time_ms,
        "compressed": message.compressed,
        "properties": [for_spark(name) for name in message.properties],
        "body_text": for_spark(body) if isinstance(body, str) else None,
        "body_bytes": body if message.body_type in (BodyType.BYTES, BodyType.OBJECT) else None,
        "body_map": message.body_type in (BodyType.MAP, BodyType.STREAM),
        "error": None,
    }
