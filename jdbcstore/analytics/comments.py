"""The views' names, and comments of their columns, which DESCRIBE, notebooks and BI tools show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIEWS = (
    *("messages", "messages_decoded", "subscriptions", "pending"),
    *("destinations", "in_doubt", "history", "lock"),
)
"""The names of the views of a store."""
COMMENTS = {
    "id": "the message's place among all messages of the store",
    "container": "the destination, as in ACTIVEMQ_MSGS",
    "destination": "with its kind: queue://ORDERS, topic://NEWS",
    "destination_type": "queue or topic",
    "msgid_prod": "the producer's id, of the message id",
    "msgid_seq": "the producer's number of the message, of the message id",
    "expiration": "epoch milliseconds; 0 means never",
    "expires": "the expiration as a timestamp; null means never",
    "xid": "the prepared XA transaction that the message belongs to",
    "message_size": "bytes, as stored",
    "type": "text, bytes, map, stream, object, message or blob",
    "message_id": "JMSMessageID",
    "timestamp": "JMSTimestamp: when the producer sent the message",
    "jms_priority": "JMSPriority, 0 to 9",
    "persistent": "JMSDeliveryMode",
    "redelivery_counter": "how often the message was delivered before",
    "correlation_id": "JMSCorrelationID",
    "reply_to": "JMSReplyTo",
    "jms_type": "JMSType",
    "group_id": "JMSXGroupID",
    "group_sequence": "JMSXGroupSeq",
    "user_id": "JMSXUserID: the sender's login, if the broker sets it",
    "original_destination": "of a dead letter: where it was before",
    "producer_id": "ActiveMQ's id of the producer",
    "transaction_id": "the transaction in which the message was sent",
    "arrival": "when the broker received the message; null if it did not set it",
    "broker_in_time": "when the broker received the message; null if it did not set it",
    "broker_out_time": "when the broker sent the message on; null if it did not set it",
    "compressed": "whether the body is stored compressed; it is shown decompressed",
    "properties": "by name; properties['n'].long, .double, .boolean, .bytes, or .text for every type",
    "body_text": "of text messages",
    "body_map": "JSON: an object of map messages, an array of stream messages",
    "body_bytes": "of bytes messages, and the serialised form of object messages",
    "body_size": "bytes, as stored",
    "properties_size": "bytes, as stored",
    "error": "why the message, its properties or its body cannot be decoded",
    "depth": "messages that are not in doubt",
    "bytes": "of their stored form",
    "expired": "messages that have expired and are still stored",
    "in_doubt": "messages of prepared XA transactions",
    "oldest_id": "the id of the oldest message",
    "oldest": "the timestamp of the oldest message",
    "oldest_age": "seconds",
    "lag": "messages that the subscription has not acknowledged; its selector is not applied",
    "last_acked_id": "all messages up to this id are acknowledged",
    "acknowledged_ahead": "messages that were acknowledged out of order",
    "state": "waiting, acknowledged, dead, expired, purged or archived",
    "produced": "when the producer sent the message",
    "removed": "when the message left the store",
    "dwell": "seconds in the store; until now, of a message that waits",
    "size": "bytes, as stored",
    "redeliveries": "how often the message was delivered before",
    "reason": "why the message became a dead letter",
}
"""By the name of the column, which means the same in every view; where it does not, there is none."""


def commented(frame: DataFrame) -> DataFrame:
    """Return the same columns with their comments."""
    return frame.select(
        *(
            # DataFrame.to, which takes a schema at once, would build each map again.
            frame[name].alias(name, metadata={"comment": COMMENTS[name]}) if name in COMMENTS else frame[name]
            for name in frame.columns
        )
    )
