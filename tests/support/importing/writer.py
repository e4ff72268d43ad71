"""Writes KahaDB logs with chosen commands, for what a real broker writes only in a bad moment."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, ProducerId, XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.tools.importing.kahadb.logs import BEGIN, END

PRODUCER = ProducerId("ID:writer-1", 1, 1)
Transaction = XATransactionId | tuple[str, int] | None


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def binary(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def command(kind: int, *fields: bytes) -> bytes:
    body = b"".join(fields)
    return bytes([kind]) + varint(len(body)) + body


def _destination(field: int, name: str) -> bytes:
    destination = Destination.parse(name)
    return binary(field, number(1, [*DestinationKind].index(destination.kind)) + binary(2, destination.name))


def _transaction(transaction: Transaction) -> bytes:
    if transaction is None:
        return b""
    if isinstance(transaction, XATransactionId):
        xa = number(1, transaction.format_id) + binary(2, transaction.branch_qualifier)
        return binary(1, binary(2, xa + binary(3, transaction.global_transaction_id)))
    return binary(1, binary(1, binary(1, transaction[0]) + number(1, transaction[1])))


def body(name: str, n: int, text: str | bytes = "", sent_ms: int = 1) -> bytes:
    """The OpenWire bytes of the n-th message."""
    message = Message(text or f"body {n}", timestamp_ms=1, broker_in_time_ms=sent_ms)
    blob, _ = openwire.encode_for_store(
        message, destination=Destination.parse(name), message_id=MessageId(PRODUCER, n), timestamp_ms=1
    )
    return blob


def add(
    name: str,
    n: int,
    text: str | bytes = "",
    transaction: Transaction = None,
    *,
    blob: bytes | None = None,
    sent_ms: int = 1,
) -> bytes:
    content = body(name, n, text, sent_ms) if blob is None else blob
    fields = _destination(2, name), binary(3, f"{PRODUCER}:{n}"), binary(4, content)
    return command(1, _transaction(transaction), *fields, number(5, 4), number(6, 0))


def update(name: str, n: int, text: str) -> bytes:
    framed = add(name, n, text)
    begin = 2 + next(at for at, byte in enumerate(framed[1:]) if byte < 0x80)
    return command(10, binary(1, framed[begin:]))


def remove(name: str, n: int, key: str | None = None, transaction: Transaction = None) -> bytes:
    topic = b"" if key is None else binary(5, key)
    fields = _destination(2, name), binary(3, f"{PRODUCER}:{n}"), binary(4, b""), topic
    return command(2, _transaction(transaction), *fields)


def outcome(kind: int, transaction: Transaction) -> bytes:
    """3 prepares, 4 commits, 5 rolls back."""
    return command(kind, _transaction(transaction))


def remove_destination(name: str) -> bytes:
    return command(6, _destination(1, name))


def subscription(topic: str, client_id: str, name: str) -> bytes:
    """The OpenWire bytes of a durable subscription."""

    def string(value: str) -> bytes:
        return b"\1" + struct.pack(">H", len(value)) + value.encode()

    nested = b"\1" + bytes([101]) + string(Destination.parse(topic).name)
    info = bytes([55]) + string(client_id) + nested + b"\0" + string(name) + nested + b"\0"
    return struct.pack(">i", len(info)) + info


def subscribe(topic: str, client_id: str, name: str, *, retroactive: bool = False) -> bytes:
    fields = _destination(1, topic), binary(2, f"{client_id}:{name}"), number(3, int(retroactive))
    return command(7, *fields, binary(4, subscription(topic, client_id, name)))


def unsubscribe(topic: str, client_id: str, name: str) -> bytes:
    return command(7, _destination(1, topic), binary(2, f"{client_id}:{name}"))


def rewritten(source: int) -> bytes:
    return command(16, number(1, source), number(2, 1), number(3, 1))


def schedule(job_id: str, n: int, at_ms: int, repeats: int) -> bytes:
    strings = binary(1, "JMS"), binary(2, job_id), number(3, 0), binary(4, "")
    return command(
        11, *strings, number(5, 0), number(6, 1000), number(7, repeats), binary(8, body("queue://S", n)),
        number(9, at_ms),
    )  # fmt: skip


def reschedule(job_id: str, at_ms: int, next_ms: int, times: int) -> bytes:
    fields = binary(1, "JMS"), binary(2, job_id), number(3, at_ms), number(4, next_ms), number(5, times)
    return command(12, *fields)


def remove_job(job_id: str, at_ms: int = -1) -> bytes:
    return command(13, binary(1, "JMS"), binary(2, job_id), number(3, at_ms))


def remove_jobs(from_ms: int, to_ms: int) -> bytes:
    """Remove those that are due between two times, both inclusive."""
    return command(14, binary(1, "JMS"), number(2, from_ms), number(3, to_ms))


def batch(*commands: bytes, checksum: bool = True) -> bytes:
    records = b"".join(struct.pack(">ib", len(one) + 5, 1) + one for one in commands)
    check = zlib.adler32(records) if checksum else 0
    return BEGIN + struct.pack(">iq", len(records), check) + records


def write_log(folder: Path, log: int, commands: Iterable[bytes], *, end: bytes = END) -> Path:
    """Write a log with a batch for each command."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"db-{log}.log"
    path.write_bytes(b"".join(batch(one) for one in commands) + end)
    return path
