from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.errors import InvalidMessage, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from tests.support.recordings import RecordedMessage, all_messages

PRODUCER = ProducerId("ID:host-123-456-3:1", 1, 1)
longs = st.integers(-(1 << 63), (1 << 63) - 1)


def test_the_form_of_activemq() -> None:
    message_id = MessageId.parse("ID:host-123-456-3:1:1:1:14")
    assert message_id.producer_id == PRODUCER
    assert message_id.producer_sequence == 14
    assert message_id.text_view is None
    assert str(message_id) == "ID:host-123-456-3:1:1:1:14"
    assert ProducerId.parse("ID:host-123-456-3:1:-1:1") == ProducerId("ID:host-123-456-3:1", -1, 1)


@pytest.mark.parametrize("row", all_messages(), ids=lambda row: f"{row.case}-{row.sequence}")
def test_the_recorded_ids(row: RecordedMessage) -> None:
    producer_id = ProducerId.parse(row.msgid_prod)
    assert str(producer_id) == row.msgid_prod
    text = f"{row.msgid_prod}:{row.msgid_seq}"
    assert MessageId.parse(text) == MessageId(producer_id, row.msgid_seq)
    assert str(MessageId.parse(text)) == text


@given(st.text(), longs, longs, longs)
def test_what_is_printed_is_parsed(connection_id: str, session: int, value: int, sequence: int) -> None:
    producer_id = ProducerId(connection_id, session, value)
    assert ProducerId.parse(str(producer_id)) == producer_id
    message_id = MessageId(producer_id, sequence)
    assert MessageId.parse(str(message_id)) == message_id


@given(st.text(min_size=1) | st.from_regex(r"(ID:)?a(:[-+]?[0-9]{1,20}){0,4}", fullmatch=True))
def test_what_is_parsed_prints_the_same(text: str) -> None:
    printed = str(MessageId.parse(text))
    assert printed in (text, f"ID:{text}")


@pytest.mark.parametrize(
    "text",
    [
        "other-system-1",
        "ID:1:2",
        "ID:a:1:2:03",
        "ID:a:1:2:+3",
        "ID:a:1:-0:3",
        "ID:a:1:2:9223372036854775808",
        "ID:a:1:2:99999999999999999999",
        "ID:a:1:2:٣",
        "ID:a:1:2:3 ",
    ],
)
def test_foreign_ids_are_kept_as_they_are(text: str) -> None:
    message_id = MessageId.parse(text)
    assert message_id.text_view == text
    assert message_id.producer_id is None
    assert MessageId.parse(str(message_id)) in (message_id, MessageId(None, 0, 0, str(message_id)))


def test_foreign_ids_print_as_in_activemq() -> None:
    assert str(MessageId(PRODUCER, 5, 0, "abc")) == "ID:abc"
    assert str(MessageId(PRODUCER, 5, 0, "ID:abc")) == "ID:abc"


def test_equality_is_by_name() -> None:
    assert MessageId(PRODUCER, 1, broker_sequence=5) == MessageId(PRODUCER, 1, broker_sequence=6)
    assert hash(MessageId(PRODUCER, 1, 5)) == hash(MessageId(PRODUCER, 1, 6))
    assert MessageId(PRODUCER, 1) != MessageId(PRODUCER, 2)
    assert MessageId(PRODUCER, 1) != MessageId(ProducerId("x", 1, 1), 1)
    assert MessageId(PRODUCER, 1) != MessageId(PRODUCER, 1, 0, "view")
    assert MessageId(PRODUCER, 1) != str(MessageId(PRODUCER, 1))


def test_ids_are_frozen() -> None:
    message_id = MessageId(PRODUCER, 1)
    with pytest.raises(AttributeError, match="cannot be changed"):
        message_id.producer_sequence = 2
    with pytest.raises(AttributeError):
        message_id.other = 2
    with pytest.raises(AttributeError):
        PRODUCER.value = 2  # type: ignore[misc]
    assert repr(message_id) == "<MessageId ID:host-123-456-3:1:1:1:1>"


@pytest.mark.parametrize("text", ["", "a", "a:1", "a:1:x", "a:1:9223372036854775808"])
def test_what_is_no_producer_id(text: str) -> None:
    with pytest.raises(InvalidMessage, match="not a producer id"):
        ProducerId.parse(text)


def test_an_empty_id() -> None:
    with pytest.raises(InvalidMessage, match="at least one character"):
        MessageId.parse("")


def test_the_other_ids_print_as_in_activemq() -> None:
    assert str(ConnectionId("ID:a")) == "ID:a"
    assert str(BrokerId("ID:b")) == "ID:b"
    assert str(SessionId("ID:a", 2)) == "ID:a:2"
    assert str(ConsumerId("ID:a", 2, 3)) == "ID:a:2:3"
    assert str(LocalTransactionId(ConnectionId("ID:a"), 4)) == "TX:ID:a:4"
    assert str(XATransactionId(61, b"gt", b"\x01")) == "XID:[61,globalId=6774,branchId=01]"


@pytest.mark.parametrize("parse", [ProducerId.parse, XATransactionId.parse, Destination.parse])
def test_an_error_quotes_only_the_beginning(parse: Callable[[str], object]) -> None:
    with pytest.raises(StoreError) as refused:
        parse("x" * 100_000 + "\0")

    assert len(str(refused.value)) < 500
