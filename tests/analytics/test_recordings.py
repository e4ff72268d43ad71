"""``messages_decoded`` says of every recorded row what was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import BodyType, Message
from tests.support import recordings
from tests.support.analytics.entries import entry, expected_entry, plain, well_formed
from tests.support.recordings import Sent, check_headers, sent_body, typed

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@pytest.mark.usefixtures("recorded")
def test_what_was_sent_is_what_spark_shows(ask: Callable[[str], list[Row]]) -> None:
    times = "unix_millis(timestamp) AS timestamp_ms, unix_millis(expires) AS expires_ms"
    rows = ask(f"SELECT *, {times} FROM messages_decoded ORDER BY id")

    messages = recordings.postgres().messages
    assert [row.id for row in rows] == [message.sequence for message in messages]
    for row, message in zip(rows, messages, strict=True):
        assert row.error is None
        assert (row.container, row.destination, row.xid) == (
            message.container,
            message.container,
            message.xid,
        )
        assert (row.msgid_prod, row.msgid_seq) == (message.msgid_prod, message.msgid_seq)
        assert row.expiration == message.expiration
        assert row.expires_ms == (message.expiration or None)
        assert row.message_size == len(message.msg)
        check_headers(message_of(row), message.sent)
        check_properties(row, message.sent)
        check_body(row, message.sent)


def message_of(row: Row) -> Message:
    """The headers of a row, as of a message."""
    return Message(
        message_id=MessageId.parse(row.message_id),
        destination=Destination.parse(row.destination),
        original_destination=row.original_destination and Destination.parse(row.original_destination),
        reply_to=row.reply_to and Destination.parse(row.reply_to),
        persistent=row.persistent,
        priority=row.jms_priority,
        timestamp_ms=row.timestamp_ms,
        expiration_ms=row.expiration,
        correlation_id=row.correlation_id,
        jms_type=row.jms_type,
        group_id=row.group_id,
        group_sequence=row.group_sequence,
        redelivery_counter=row.redelivery_counter,
    )


def check_properties(row: Row, sent: Sent) -> None:
    if sent["case"].startswith("stomp-"):
        return  # what STOMP sends is no property of the recording
    expected = {
        name: typed(value)
        for name, value in sent["properties"].items()
        if name not in ("JMSXGroupID", "JMSXGroupSeq")
    }
    assert {name: entry(row.properties[name].asDict()) for name in expected} == {
        name: entry(expected_entry(value)) for name, value in expected.items()
    }, sent["case"]


def check_body(row: Row, sent: Sent) -> None:
    kind = BodyType(sent["kind"])
    assert row.type == kind
    shown = {name: getattr(row, f"body_{name}") for name in ("text", "bytes", "map")}
    if kind is BodyType.OBJECT:
        data = shown.pop("bytes")
        assert (data is None) == (sent["body"] is None or sent["body"]["t"] == "null")
        assert data is None or data.startswith(b"\xac\xed\x00\x05")
        assert set(shown.values()) == {None}
        return
    body: Any = sent_body(sent)
    expected: dict[str, Any] = dict.fromkeys(shown)
    if kind is BodyType.TEXT:
        expected["text"] = body and well_formed(body)
    elif kind is BodyType.BYTES:
        expected["bytes"] = body
    elif kind in (BodyType.MAP, BodyType.STREAM):
        expected["map"] = plain(body)
        shown["map"] = json.loads(shown["map"])
    assert shown == expected, sent["case"]


@pytest.mark.usefixtures("recorded")
def test_columns_and_their_types(spark: SparkSession) -> None:
    value = "struct<type:string,text:string,boolean:boolean,long:bigint,double:double,bytes:binary>"
    number, text, time = "bigint", "string", "timestamp"

    assert dict(spark.table("messages_decoded").dtypes) == {
        "id": number, "container": text, "destination": text, "destination_type": text, "msgid_prod": text,
        "msgid_seq": number, "expiration": number, "expires": time, "priority": number, "xid": text,
        "message_size": number,
        "type": text, "message_id": text, "timestamp": time, "jms_priority": "int", "persistent": "boolean",
        "redelivery_counter": "int", "correlation_id": text, "reply_to": text, "jms_type": text,
        "group_id": text, "group_sequence": "int", "user_id": text, "original_destination": text,
        "producer_id": text, "transaction_id": text, "arrival": time, "broker_in_time": time,
        "broker_out_time": time, "compressed": "boolean", "properties": f"map<string,{value}>",
        "body_text": text, "body_map": text, "body_bytes": "binary", "body_size": number,
        "properties_size": number, "error": text,
    }  # fmt: skip
    assert dict(spark.table("messages").dtypes) == {
        "id": number, "container": text, "destination": text, "destination_type": text, "msgid_prod": text,
        "msgid_seq": number, "expiration": number, "expires": time, "priority": number, "xid": text,
    }  # fmt: skip
