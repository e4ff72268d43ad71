"""What Artemis's queues, names and selectors are here, and records that a broker seldom writes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.errors import CorruptMessage
from jdbcstore.tools.importing.artemis import journal, records
from jdbcstore.tools.importing.artemis.amqp_types import read_value
from jdbcstore.tools.importing.artemis.buffer import Buffer
from jdbcstore.tools.importing.artemis.journal import JournalReader
from jdbcstore.tools.importing.artemis.queues import NoCounterpart, jms_selector, subscription_of, target_of
from jdbcstore.tools.importing.artemis.records import ArtemisQueue
from jdbcstore.tools.importing.artemis.state import LiveState


def queue(name: str, address: str, **changes: Any) -> ArtemisQueue:
    return ArtemisQueue(1, name, address, None, False, False, False)._replace(**changes)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("client.name", ("client", "name")),
        (r"a\.b.c\.d", ("a.b", "c.d")),
        (r"a\\.b", ("a\\", "b")),
        ("stomp.a.b", ("stomp", "a.b")),
        ("shared", None),
        (r"shared\.too", None),
        (".name", None),
        ("client.", None),
    ],
)
def test_names_of_subscriptions(name: str, parts: tuple[str, str] | None) -> None:
    assert subscription_of(name) == parts


@pytest.mark.parametrize(
    ("artemis", "jms"),
    [
        (None, None),
        ("  ", None),
        ("AMQPriority > 4 AND note = 'AMQPriority'", "JMSPriority > 4 AND note = 'AMQPriority'"),
        ("AMQDurable = 'NON_DURABLE'", "JMSDeliveryMode = 'NON_PERSISTENT'"),
        ("kind = 'DURABLE'", "kind = 'DURABLE'"),
        ("AMQUserID = 'ID:it''s' OR AMQGroupID = 'g'", "JMSMessageID = 'ID:it''s' OR JMSXGroupID = 'g'"),
    ],
)
def test_selectors(artemis: str | None, jms: str | None) -> None:
    assert jms_selector(artemis) == (jms, "")


@pytest.mark.parametrize(
    ("artemis", "jms"),
    [
        ("__AMQ_CID<>'me'", None),
        ("n > 1 AND __AMQ_CID<>'me'", "n > 1"),
        ("(__AMQ_CID <> 'me' OR __AMQ_CID IS NULL)", None),
    ],
)
def test_no_local_is_noted(artemis: str, jms: str | None) -> None:
    selector, note = jms_selector(artemis)
    assert selector == jms
    assert "noLocal" in note


def test_what_queues_become() -> None:
    orders = target_of(queue("ORDERS", "ORDERS", is_anycast=True))
    assert (str(orders.destination), orders.note) == ("queue://ORDERS", "")
    assert "ORDERS::second" in target_of(queue("second", "ORDERS", is_anycast=True)).note
    wild = target_of(queue("c.s", "a.*.#"))
    assert (str(wild.destination), wild.client_id, wild.name) == ("topic://a.*.>", "c", "s")
    configured = target_of(queue("c.s", "NEWS", is_configured=True))
    assert str(configured.destination) == "queue://c.s"


@pytest.mark.parametrize(
    "unlike",
    [
        queue("$sys.mqtt.sessions", "x"),
        queue("forward", "x", is_internal=True),
        queue("c.s", "a.#.b"),
        queue("a,b", "a,b", is_anycast=True),
    ],
)
def test_queues_without_a_counterpart(unlike: ArtemisQueue) -> None:
    with pytest.raises(NoCounterpart):
        target_of(unlike)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xa1\x05ab",
        b"\x3f",
        b"\x73\xff\xff\xff\xff",
        b"\xc1\x03\x01\x41\x40",
        b"\x00\x40",
        b"\x00" * 200,
    ],
)
def test_damaged_values_of_amqp(damaged: bytes) -> None:
    with pytest.raises(CorruptMessage):
        read_value(Buffer(damaged))


def test_values_of_amqp() -> None:
    assert read_value(
        Buffer(b"\xf0\x00\x00\x00\x0d\x00\x00\x00\x02\x71\x00\x00\x00\x01\xff\xff\xff\xff")
    ) == [1, -1]
    assert read_value(Buffer(b"\xc1\x06\x02\xa1\x01k\x54\xfe")) == {"k": -2}


@pytest.mark.parametrize("length", [0, 8, 9, 4094, 4095])
def test_strings_of_streams_by_their_length(length: int) -> None:
    text = "żółw \U0001d11e" * 1000
    text = text.encode("utf-16-le")[: 2 * length].decode("utf-16-le", "surrogatepass")
    if length < 9:
        raw = text.encode("utf-16-be", "surrogatepass")
    elif length < 4095:
        pairs = text.encode("utf-16-be", "surrogatepass")
        halves = "".join(chr(pair) for (pair,) in struct.iter_unpack(">H", pairs))
        raw = halves.encode("utf-8", "surrogatepass")
        raw = struct.pack(">H", len(raw)) + raw
    else:
        raw = text.encode("utf-16-le", "surrogatepass")
        raw = struct.pack(">i", len(raw)) + raw

    buffer = Buffer(b"\1" + struct.pack(">i", length) + raw)
    assert buffer.nullable_string() == text
    assert not buffer.left


def record(kind: int, *fields: bytes, number: int = 7) -> bytes:
    body = struct.pack(">biB", kind, number, 0) + b"".join(fields)
    return body + struct.pack(">i", len(body) + 4)


def test_records_of_an_earlier_use_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "activemq-data-1.amq"
    header = struct.pack(">iiq", 2, 0, 7)
    now, before = (record(journal.DELETE, struct.pack(">q", n), number=n) for n in (7, 6))
    damages: list[str] = []

    path.write_bytes(header + now + now + before[9:] + before + before[:10])
    reader = JournalReader(path, lambda _at, _size, reason: damages.append(reason))
    assert [found.id for found, _ in reader.records()] == [7, 7]
    assert damages == []

    path.write_bytes(header + now + b"\1" * 40 + now + now[:-1] + b"\0" * 100)
    assert [found.id for found, _ in reader.records()] == [7, 7]
    assert damages == ["no record begins here", "the last record is not complete, or its size is wrong"]


def test_a_transaction_with_missing_records_is_left_out() -> None:
    damages: list[str] = []
    state = LiveState(lambda _file, _at, _size, reason: damages.append(reason))
    head = struct.pack(">bqb", records.CORE, 1, 0)
    add = journal.JournalRecord(journal.ADD_TX, 16, 30, 1, 5, records.MESSAGE, (40, len(head)), -1)
    commit = journal.JournalRecord(journal.COMMIT, 90, 20, 0, 5, 0, (0, 0), 2)
    try:
        state.read(add, 0, lambda *_: head)
        state.read(commit, 0, lambda *_: b"")
        assert [*state.left()] == []
    finally:
        state.close()
    [reason] = damages
    assert "2 of its records are in this file, and there are 1: left out, with 1 messages" in reason
