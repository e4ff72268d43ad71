"""Decoding by columns says what the codec says, whatever is in the blobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from jdbcstore.analytics.batch import Batch, for_spark  # noqa: E402
from jdbcstore.analytics.columns import COLUMNS  # noqa: E402
from jdbcstore.errors import CorruptMessage  # noqa: E402
from jdbcstore.message.message import BodyType, Message  # noqa: E402
from jdbcstore.message.openwire import decode, encode, refer  # noqa: E402
from tests.support.openwire.strategies import messages  # noqa: E402
from tests.support.recordings import all_messages  # noqa: E402

BLOBS = [message.msg for message in all_messages()]


def columns_of(blobs: list[bytes | None]) -> list[dict[str, Any]]:
    batch = Batch(pa.array(blobs, pa.binary()))
    columns = {column.name: batch.column(column.decode) for column in COLUMNS}
    for column in columns.values():
        column.validate(full=True)
    lists = {name: column.to_pylist() for name, column in columns.items()}
    return [{name: values[row] for name, values in lists.items()} for row in range(len(blobs))]


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


def check(blobs: list[bytes | None]) -> None:
    for row, blob in zip(columns_of(blobs), blobs, strict=True):
        try:
            expected = said(decode(blob))
        except CorruptMessage:
            assert row["error"]
            continue
        shown = {name: row[name] for name in expected}
        shown["properties"] = [name for name, _ in row["properties"]]
        shown["body_map"] = row["body_map"] is not None and json.loads(row["body_map"]) is not None
        assert shown == expected


def test_recorded_messages() -> None:
    check([*BLOBS])


def test_nothing_and_no_message() -> None:
    check([])
    check([None, b"", b"\0\0\0\1\x1c", BLOBS[0], None])


@given(st.lists(messages(), max_size=6))
@settings(max_examples=60)
def test_any_messages(several: list[Message]) -> None:
    check([encode(message) for message in several])


@given(st.data())
@settings(max_examples=150)
def test_damaged_messages(data: st.DataObject) -> None:
    blobs = data.draw(
        st.lists(st.sampled_from(BLOBS).filter(lambda blob: len(blob) < 2000), min_size=1, max_size=4)
    )
    damaged = []
    for blob in blobs:
        changed = bytearray(blob)
        for _ in range(data.draw(st.integers(1, 3))):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        damaged.append(
            bytes(changed[: data.draw(st.integers(0, len(changed)))] if data.draw(st.booleans()) else changed)
        )
    check([*damaged])


def test_a_reference_into_a_journal_says_so() -> None:
    batch = Batch(pa.array([refer(7, 3, 512, bytes(300), 8)], pa.binary()))
    assert batch.problems == {0: "its body is only in the journal number 7"}
