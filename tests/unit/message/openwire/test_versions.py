"""Version 6, of ActiveMQ before 5.12, and the tight encoding, which is told apart and refused."""

from __future__ import annotations

import struct

import pytest

from jdbcstore.errors import ConfigurationError, CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message, MessageFields
from jdbcstore.message.openwire import decode, encode, encode_for_store, headers_of
from tests.support.recordings import RecordedMessage, all_messages, check_message

every_row = pytest.mark.parametrize(
    "row", all_messages(), ids=lambda row: f"{row.case}-{row.container}-{row.sequence}"
)


def as_version_6(blob: bytes) -> bytes:
    """The row as an ActiveMQ before 5.12 would have written it: without the two later fields."""
    in_version_11 = b"\1\x6e\0\1\x7b"  # a message id, no text view, a producer id
    assert blob.count(in_version_11) == 1
    assert blob[-1] == 0  # not the first message for its consumer
    rest = blob[4:-1].replace(in_version_11, b"\1\x6e\1\x7b")
    return struct.pack(">i", len(rest)) + rest


@every_row
def test_reads_version_6(row: RecordedMessage) -> None:
    old = as_version_6(row.msg)
    message = decode(old, sequence=row.sequence)
    check_message(message, row.sent)
    assert message == decode(row.msg)
    assert message.sequence == row.sequence


@every_row
def test_headers_are_read_from_the_beginning_of_either_version(row: RecordedMessage) -> None:
    for blob in (row.msg, as_version_6(row.msg)):
        message = decode(blob)
        shortest = next(size for size in range(len(blob) + 1) if (found := headers_or_none(blob[:size])))
        for head in (blob[:shortest], blob[: shortest + 1], blob):
            found = headers_or_none(head)
            assert found is not None
            assert (found.group_id, found.timestamp_ms) == (message.group_id, message.timestamp_ms)
            assert (found.jms_type, found.message_id) == (message.jms_type, message.message_id)


def headers_or_none(head: bytes) -> MessageFields | None:
    try:
        return headers_of(head)
    except CorruptMessage:
        return None


@every_row
def test_writes_version_6(row: RecordedMessage) -> None:
    old = as_version_6(row.msg)
    assert encode(decode(row.msg), version=6) == old
    assert encode(decode(old), version=6) == old


@every_row
def test_stores_version_6_as_version_11(row: RecordedMessage) -> None:
    message = decode(as_version_6(row.msg))
    assert message.destination is not None
    assert message.message_id is not None
    blob, offset = encode_for_store(
        message, destination=message.destination, message_id=message.message_id, timestamp_ms=0
    )
    assert blob == row.msg
    broker_sequence = row.client_decoded["broker_sequence_id"]
    assert blob[offset : offset + 8] == struct.pack(">q", broker_sequence)


@pytest.mark.parametrize("version", [5, 7, 12])
def test_writes_no_other_version(version: int) -> None:
    with pytest.raises(ConfigurationError, match="use 11, or 6"):
        encode(Message("x"), version=version)


class Tight:
    """A hand-made tight encoding: all booleans first, in a block of bits, then the rest."""

    def __init__(self) -> None:
        self.bits: list[bool] = []
        self.rest = b""

    def bit(self, value: bool) -> None:
        self.bits.append(value)

    def string(self, text: str | None) -> None:
        self.bit(text is not None)
        if text is not None:
            self.bit(text.isascii())
            self.rest += struct.pack(">H", len(text)) + text.encode("ascii")

    def long(self, value: int) -> None:
        if value < 1 << 16:
            self.bits += [False, value != 0]
            self.rest += struct.pack(">H", value) if value else b""
        else:
            self.bits += [True, True]
            self.rest += struct.pack(">q", value)

    def raw(self, layout: str, value: int) -> None:
        self.rest += struct.pack(layout, value)

    def producer_id(self, producer_id: ProducerId) -> None:
        self.bit(True)
        self.rest += b"\x7b"
        self.string(producer_id.connection_id)
        self.long(producer_id.value)
        self.long(producer_id.session_id)

    def blob(self, number: int) -> bytes:
        block = bytearray((len(self.bits) + 7) // 8)
        for at, bit in enumerate(self.bits):
            block[at // 8] |= bit << at % 8
        size = bytes([len(block)]) if len(block) < 64 else b"\xc0" + bytes([len(block)])
        rest = bytes([number]) + size + bytes(block) + self.rest
        return struct.pack(">i", len(rest)) + rest


def tight(message_id: MessageId, destination: Destination, content: bytes, brokers: int) -> bytes:
    assert message_id.producer_id is not None
    out = Tight()
    out.raw(">i", 4)
    out.bit(True)
    out.producer_id(message_id.producer_id)
    out.bit(True)
    out.rest += b"\x64"
    out.string(destination.name)
    out.bits += [False, False]
    out.bit(True)
    out.rest += b"\x6e"
    out.string(None)
    out.producer_id(message_id.producer_id)
    out.long(message_id.producer_sequence)
    out.long(message_id.broker_sequence)
    out.bits += [False, False]
    out.raw(">i", 0)
    out.string(None)
    out.bit(True)
    out.long(0)
    out.raw(">b", 4)
    out.bit(False)
    out.long(1795222373822)
    out.string(None)
    out.bit(True)
    out.rest += struct.pack(">i", len(content)) + content
    out.bits += [False, False, False, False]
    out.raw(">i", 0)
    out.bit(brokers > 0)
    if brokers:
        out.raw(">h", brokers)
    for _ in range(brokers):
        out.bit(True)
        out.rest += b"\x7c"
        out.string("ID:a-broker")
    out.long(0)
    out.string(None)
    out.bits += [False, False, False]
    out.long(1795222373825)
    out.long(0)
    out.bit(False)
    return out.blob(28)


@pytest.mark.parametrize("brokers", [0, 2, 150, 250], ids=["small", "path", "C0 block", "longer C0 block"])
@pytest.mark.parametrize("text", ["hello, world", "x" * 5000])
def test_tells_tight_encoding(brokers: int, text: str) -> None:
    content = struct.pack(">i", len(text)) + text.encode()
    message_id = MessageId(ProducerId("ID:peer-45303-1795222373329-3:1", 1, 1), 1, 16)
    blob = tight(message_id, Destination.queue("FX.BODIES"), content, brokers)
    with pytest.raises(CorruptMessage, match="tightly encoded, which is not supported") as caught:
        decode(blob, sequence=1, container="queue://FX.BODIES")
    assert caught.value.blob == blob


def test_damage_is_not_taken_for_tight_encoding() -> None:
    row = all_messages()[0].msg
    rest = row[4:-1] + b"\0garbage"
    with pytest.raises(CorruptMessage, match="it is followed by"):
        decode(struct.pack(">i", len(rest)) + rest)
