"""Bodies of records: what was written comes back; anything else is found to be damaged, in bounded memory."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jdbcstore import Destination, MessageId, ProducerId, XATransactionId
from jdbcstore.errors import CorruptJournal
from jdbcstore.journal.layout import Record
from jdbcstore.stores.journaled.records import (
    COMMIT,
    PREPARE,
    WRITE,
    RecordedWrites,
    decode_record,
    encode_writes,
    encode_xid,
)
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.stores.shared.rows import EncodedMessage

longs = st.integers(-(1 << 63), (1 << 63) - 1)
sequences = st.lists(longs, max_size=4)
texts = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters=",?"), min_size=1)
keys = st.builds(SubscriptionKey, st.just(Destination.topic("T")), texts, texts)


@st.composite
def encoded(draw: st.DrawFn) -> EncodedMessage:
    producer, number = ProducerId(draw(st.text(max_size=9)), 1, draw(longs)), draw(longs)
    blob = draw(st.binary(min_size=8, max_size=60))
    name = str(producer)
    try:
        name.encode()
    except UnicodeEncodeError:
        producer, name = ProducerId("p", 1, 1), "p:1:1"
    return EncodedMessage(
        MessageId(producer, number),
        name,
        number,
        f"queue://{draw(texts)}",
        draw(longs),
        draw(st.integers(0, 9)),
        blob,
        draw(st.integers(0, len(blob) - 8)),
    )


writes = st.builds(
    RecordedWrites,
    st.lists(encoded(), max_size=3),
    st.lists(st.tuples(longs, encoded()), max_size=2),
    st.lists(st.tuples(texts, sequences.map(tuple)), max_size=2),
    st.lists(st.tuples(keys, st.lists(st.tuples(longs, st.integers(0, 9)), max_size=3)), max_size=2),
)


def record(kind: int, body: bytes) -> Record:
    return Record(17, kind, 1, body, segment=3, offset=99)


@settings(max_examples=50)
@given(writes)
def test_there_and_back(written: RecordedWrites) -> None:
    assert decode_record(record(WRITE, b"".join(encode_writes(written)[0]))) == (None, written)
    xid = XATransactionId(-3, b"g" * 64, b"")
    body = encode_xid(xid) + b"".join(encode_writes(written)[0])
    assert decode_record(record(PREPARE, body)) == (xid, written)


@settings(max_examples=100)
@given(writes, st.data())
def test_what_is_cut_or_changed_is_found_or_says_something_else(
    written: RecordedWrites, data: st.DataObject
) -> None:
    body = bytearray(b"".join(encode_writes(written)[0]))
    if body:
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] ^= data.draw(st.integers(1, 255))
        del body[data.draw(st.integers(at, len(body))) :]
    kind = data.draw(st.sampled_from([WRITE, COMMIT]))
    with contextlib.suppress(CorruptJournal):
        decode_record(record(kind, bytes(body)))


@pytest.mark.parametrize("kind", [7, 77, 254])
def test_a_kind_that_there_is_not(kind: int) -> None:
    with pytest.raises(CorruptJournal, match="kind") as damage:
        decode_record(record(kind, b""))
    assert (damage.value.segment, damage.value.offset) == (3, 99)


def test_a_count_of_billions_takes_no_memory() -> None:
    with pytest.raises(CorruptJournal, match="ends before"):
        decode_record(record(WRITE, b"\3" + b"\0\0\0\0" + b"\xff\xff\xff\xff"))
