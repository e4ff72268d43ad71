"""Every row that ActiveMQ wrote decodes to what was sent, and encodes to the same bytes again."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import pytest

from jdbcstore.message.ids import TransactionId, XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.message.openwire import decode, encode, encode_for_store, set_broker_sequence
from jdbcstore.message.openwire.wire_format import MESSAGE_TYPES
from tests.support.openwire.rebuilding import rebuilt
from tests.support.recordings import RecordedMessage, all_messages, check_message, postgres, prioritised_topic

# Compressed bytes messages: ActiveMQ's client deflates the whole of its write buffer, zeros behind
# the body included, and we deflate what the body has. Both inflate to the same body.
DEFLATED_WITH_ITS_BUFFER = {"compressed-bytes-256", "compressed-bytes-typed"}

every_row = pytest.mark.parametrize(
    "row", all_messages(), ids=lambda row: f"{row.case}-{row.container}-{row.sequence}"
)


def text_of(value: object) -> str | None:
    return None if value is None else str(value)


def as_java_prints(transaction_id: TransactionId | None) -> str | None:
    """ActiveMQ prints each byte of an Xid as a signed int, without leading zeros."""
    if not isinstance(transaction_id, XATransactionId):
        return text_of(transaction_id)
    parts = transaction_id.global_transaction_id, transaction_id.branch_qualifier
    gtrid, bqual = ("".join(f"{b if b < 128 else b + 0xFFFFFF00:x}" for b in part) for part in parts)
    return f"XID:[{transaction_id.format_id},globalId={gtrid},branchId={bqual}]"


def test_the_recordings_are_complete() -> None:
    assert len(postgres().messages) == 93
    assert len(prioritised_topic().messages) == 4
    assert len(postgres().acks) == 6
    assert postgres().locks == ({"ID": 1, "TIME": None, "BROKER_NAME": None},)
    assert len(prioritised_topic().acks) == 10
    assert {sent["case"] for sent in postgres().unstored} == {
        "non-persistent",
        "topic-no-subscriber",
        "tx-rollback",
    }


@every_row
def test_says_what_was_sent(row: RecordedMessage) -> None:
    message = decode(row.msg, sequence=row.sequence, container=row.container)
    check_message(message, row.sent)


@every_row
def test_agrees_with_the_columns(row: RecordedMessage) -> None:
    message = decode(row.msg, sequence=row.sequence, container=row.container)
    assert message.sequence == row.sequence
    assert message.message_id is not None
    assert message.message_id.broker_sequence == row.sequence
    assert str(message.message_id.producer_id) == row.msgid_prod
    assert message.message_id.producer_sequence == row.msgid_seq
    assert str(message.destination) == row.container
    assert message.expiration_ms == row.expiration


@every_row
def test_reads_every_header_as_activemq_does(row: RecordedMessage) -> None:
    message = decode(row.msg)
    assert message.message_id is not None
    ours = {
        "data_structure_type": MESSAGE_TYPES[message.body_type],
        "command_id": message.command_id,
        "response_required": message.response_required,
        "producer_id": text_of(message.producer_id),
        "destination": text_of(message.destination),
        "transaction_id": as_java_prints(message.transaction_id),
        "original_destination": text_of(message.original_destination),
        "message_id": str(message.message_id),
        "broker_sequence_id": message.message_id.broker_sequence,
        "message_id_text_view": message.message_id.text_view,
        "original_transaction_id": text_of(message.original_transaction_id),
        "group_id": message.group_id,
        "group_sequence": message.group_sequence,
        "correlation_id": message.correlation_id,
        "persistent": message.persistent,
        "expiration": message.expiration_ms,
        "priority": message.priority,
        "reply_to": text_of(message.reply_to),
        "timestamp": message.timestamp_ms,
        "type": message.jms_type,
        "data_structure": message.data_structure,
        "target_consumer_id": message.target_consumer_id,
        "compressed": message.compressed,
        "redelivery_counter": message.redelivery_counter,
        "broker_path": message.broker_path,
        "arrival": message.arrival_ms,
        "user_id": message.user_id,
        "received_by_df_bridge": message.received_by_df_bridge,
        "droppable": message.droppable,
        "cluster": message.cluster,
        "broker_in_time": message.broker_in_time_ms,
        "broker_out_time": message.broker_out_time_ms,
        "jmsx_group_first_for_consumer": message.first_for_consumer,
    }
    theirs = dict(row.client_decoded)
    assert theirs.pop("class") == f"ActiveMQ{message.body_type.title().replace('Message', '')}Message"
    check_raw_parts(message, theirs)
    assert ours == theirs


def check_raw_parts(message: Message, theirs: dict[str, Any]) -> None:
    source = message._source
    for name, ours in (
        ("content", source.content),
        ("marshalled_properties", source.marshalled_properties),
    ):
        encoded = theirs.pop(f"{name}_b64", "left out")
        if encoded != "left out":
            assert ours == (None if encoded is None else b64decode(encoded))
        size = theirs.pop(f"{name}_len", None)
        assert size is None or ours is not None


@every_row
def test_encodes_to_the_same_bytes(row: RecordedMessage) -> None:
    message = decode(row.msg, sequence=row.sequence)
    assert encode(message) == row.msg
    _ = message.body, message.properties
    assert encode(message) == row.msg


@every_row
def test_encodes_changed_headers_around_the_same_content(row: RecordedMessage) -> None:
    changed = decode(row.msg).replace(redelivery_counter=77)
    assert encode(changed) != row.msg
    before = decode(row.msg).redelivery_counter
    assert encode(changed.replace(redelivery_counter=before)) == row.msg


@every_row
def test_encodes_to_the_same_bytes_from_its_values(row: RecordedMessage) -> None:
    message = rebuilt(decode(row.msg))
    assert message == decode(row.msg)
    if row.case in DEFLATED_WITH_ITS_BUFFER:
        assert encode(message) != row.msg
        assert decode(encode(message)) == message
    else:
        assert encode(message) == row.msg


@every_row
def test_tells_where_the_broker_sequence_is(row: RecordedMessage) -> None:
    message = decode(row.msg)
    assert message.destination is not None
    assert message.message_id is not None
    for variant in (message, rebuilt(message)):
        blob, offset = encode_for_store(
            variant, destination=message.destination, message_id=message.message_id, timestamp_ms=0
        )
        stored = decode(set_broker_sequence(blob, offset, 4711))
        assert stored == message
        assert stored.message_id is not None
        assert stored.message_id.broker_sequence == 4711


def test_nothing_but_the_deflated_buffer_differs() -> None:
    differing = {row.case for row in all_messages() if encode(rebuilt(decode(row.msg))) != row.msg}
    assert differing == DEFLATED_WITH_ITS_BUFFER


def test_every_kind_and_header_occurs() -> None:
    """The recordings would prove less if a case were lost from them."""
    messages = [decode(row.msg) for row in all_messages()]
    assert {message.body_type for message in messages} == {
        "message",
        "text",
        "bytes",
        "map",
        "stream",
        "object",
    }
    used: Mapping[str, object] = {
        "reply_to": True, "correlation_id": True, "jms_type": True, "group_id": True, "transaction_id": True,
        "original_destination": True, "compressed": True, "properties": True, "redelivery_counter": True,
    }  # fmt: skip
    assert {name: any(getattr(message, name) for message in messages) for name in used} == used
