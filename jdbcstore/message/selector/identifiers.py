"""What an identifier of a selector stands for: a header of JMS or ActiveMQ, or a property."""

from __future__ import annotations

from collections.abc import Callable

from jdbcstore.message.message import Message
from jdbcstore.message.values import Value

Getter = Callable[[Message], Value]


def getter(name: str) -> Getter:
    """What gives the value of this identifier; None where the message has none."""
    return _HEADERS.get(name) or (lambda message: message.properties.get(name))


def _text(thing: object) -> str | None:
    return None if thing is None else str(thing)


def _user(message: Message) -> Value:
    return message.properties.get("JMSXUserID") if message.user_id is None else message.user_id


_HEADERS: dict[str, Getter] = {
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSPriority": lambda message: message.priority,
    "JMSMessageID": lambda message: _text(message.message_id),
    "JMSTimestamp": lambda message: message.timestamp_ms,
    "JMSCorrelationID": lambda message: message.correlation_id,
    "JMSType": lambda message: message.jms_type,
    "JMSDestination": lambda message: _text(message.original_destination or message.destination),
    "JMSReplyTo": lambda message: _text(message.reply_to),
    "JMSExpiration": lambda message: message.expiration_ms,
    "JMSRedelivered": lambda message: message.redelivery_counter > 0,
    "JMSXDeliveryCount": lambda message: message.redelivery_counter + 1,
    "JMSXGroupID": lambda message: message.group_id,
    "JMSXGroupSeq": lambda message: message.group_sequence,
    "JMSXGroupFirstForConsumer": lambda message: message.first_for_consumer,
    "JMSXUserID": _user,
    "JMSXProducerTXID": lambda message: _text(message.original_transaction_id or message.transaction_id),
    "JMSActiveMQBrokerInTime": lambda message: message.broker_in_time_ms,
    "JMSActiveMQBrokerOutTime": lambda message: message.broker_out_time_ms,
}
