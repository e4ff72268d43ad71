"""What is read back from disk: the journal's records and files, refused messages, archives' manifests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from crc32c import crc32c

from jdbcstore import Destination, Message
from jdbcstore.errors import CorruptJournal
from jdbcstore.journal import inspection
from jdbcstore.journal.directory import segment_path
from jdbcstore.journal.layout import BLOCK, CLEAN_END, FIELDS, GAP, Record, SegmentHeader, Stamp
from jdbcstore.journal.recovery import recover
from jdbcstore.message.ids import MessageId, ProducerId, XATransactionId
from jdbcstore.stores.journaled.records import (
    COMMIT,
    PREPARE,
    WRITE,
    RecordedWrites,
    decode_record,
    encode_writes,
    encode_xid,
)
from jdbcstore.stores.journaled.refused import FOLDER, Refused, row_of
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.tools.archive.files import Archive, Manifest
from tests.fuzzing.readers.folder import folder
from tests.support.cores import check_both

# A journal's record


def read_record(data: bytes) -> None:
    """Read a record, whose kind is the first byte; write it again, and read that."""
    kind, body = (data[0] if data else 0), data[1:]
    for operation in (1, 2):
        check_both("jdbcstore.stores.journaled._rows_cy", "read_rows", body, 0, operation, 4)
    xid, writes = decode_record(Record(1, kind, 1, body, 1, BLOCK))
    chunks, size = encode_writes(writes)
    again = b"".join(chunks)
    assert len(again) == size
    front = b"" if xid is None else encode_xid(xid)
    assert decode_record(Record(1, kind, 1, front + again, 1, BLOCK)) == (xid, writes)


def record_bodies() -> Iterator[bytes]:
    """Yield records of each kind, with each operation."""
    row = row_of(
        Message(
            "text", destination=Destination.queue("Q"), message_id=MessageId(ProducerId("ID:a-1", 1, 1), 7)
        )
    )
    key = SubscriptionKey(Destination.topic("T"), "client", "name")
    for writes in (
        RecordedWrites(adds=[row]),
        RecordedWrites(adds=[row, row], updates=[(5, row)]),
        RecordedWrites(removes=[("queue://Q", [1, 2, 3])]),
        RecordedWrites(acknowledgements=[(key, [(1, 4), (2, 9)])]),
        RecordedWrites([row], [(1, row)], [("queue://Q", [9])], [(key, ())]),
    ):
        body = b"".join(encode_writes(writes)[0])
        yield bytes((WRITE,)) + body
        yield bytes((PREPARE,)) + encode_xid(XATransactionId(1, b"global", b"branch")) + body
    yield bytes((COMMIT,)) + encode_xid(XATransactionId(131077, b"g", b"b"))


# A journal's files

_ITEM = Struct(">BBBBbB")
"""What is unusual about a record, its kind, sequences, numbers since the durable one, number more than the
expected one, and length."""
_CRC, _MARKER, _SHIFTED, _ZEROS, _SEGMENT, _GAP, _RAW, _FIRST = (1 << bit for bit in range(8))


def read_journal(data: bytes) -> None:
    """Read and examine a journal of records whose checksums mostly are right, with anything as fields."""
    directory = folder("journal")
    for path in directory.iterdir():
        path.unlink()
    for number, (header, content) in enumerate(_segments(data), 1):
        segment_path(directory, number).write_bytes(header.pack() + content)
        stamp = Stamp.of(header)
        check_both(
            "jdbcstore.journal._records_cy",
            "records",
            content,
            (stamp.seed, stamp.marker),
            header.first_number,
            (1 << 64) - 1,
            (header.number, BLOCK),
            is_read=True,
        )
    found = list(inspection.records(directory))
    damages = [one for one in found if isinstance(one, inspection.Damage)]
    numbers = [one.number for one in found if isinstance(one, Record)]
    assert numbers == sorted(set(numbers)), "a record is read twice, or out of order"
    try:
        recovered = recover(directory)
    except CorruptJournal:
        assert any(not damage.torn for damage in damages), (
            "it is damaged, and the examination does not say so"
        )
        raise
    assert [record.number for record in recovered.records(0, ignore_missing=True)] == numbers


def _segments(data: bytes) -> Iterator[tuple[SegmentHeader, bytes]]:
    """Yield the segments of an input: each item is a record, or what is wrong there."""
    header = SegmentHeader(77, 1, 1, 1, 1)
    content, number, at = bytearray(), 1, 0
    while at + _ITEM.size <= len(data):
        flags, kind, sequences, since, more, length = _ITEM.unpack_from(data, at)
        at += _ITEM.size
        body = data[at : at + length]
        at += length
        if flags & _SEGMENT:
            yield header, bytes(content)
            number = max(number + more, 1) if flags & _FIRST else number
            header = SegmentHeader(77, header.number + 1, number, 1, 1)
            content = bytearray()
        if flags & _RAW:
            content += body
            continue
        if flags & _ZEROS:
            content += bytes(length * 8)
            continue
        if flags & _SHIFTED:
            content += bytes(more & 7)
        number += abs(more)
        content += _record(Stamp.of(header), flags, kind, sequences, since, number, body)
        number += 1
    yield header, bytes(content)


def _record(
    stamp: Stamp, flags: int, kind: int, sequences: int, since: int, number: int, body: bytes
) -> bytes:
    marker = stamp.marker ^ (1 if flags & _MARKER else 0)
    kind = GAP if flags & _GAP else kind
    head = FIELDS.pack(len(body), marker, since, sequences, kind, 0, 0, number, number)
    crc = crc32c(body, crc32c(head, stamp.seed)) ^ (1 if flags & _CRC else 0)
    return crc.to_bytes(4, "little") + head + body + bytes(-len(body) & 7)


def journals() -> Iterator[bytes]:
    """Yield journals: one segment and several, closed and not, with damage of each kind."""
    usual = [_ITEM.pack(0, 1, 1, 1, 0, 5) + b"hello"] * 3
    end = _ITEM.pack(0, CLEAN_END, 0, 1, 0, 0)
    yield b"".join(usual)
    yield b"".join([*usual, end])
    yield b"".join([*usual, _ITEM.pack(_SEGMENT, 1, 1, 1, 0, 1) + b"x", *usual, end])
    back = _ITEM.pack(_SEGMENT | _FIRST, 1, 1, 1, -2, 1) + b"x"
    yield b"".join([*usual, _ITEM.pack(_GAP, 1, 1, 1, 3, 0), back, *usual, end])
    for flags in (_CRC, _MARKER, _SHIFTED, _ZEROS, _GAP, _RAW, _SEGMENT | _FIRST):
        yield b"".join([*usual, _ITEM.pack(flags, 1, 1, 1, 3, 4) + b"\0\1\2\3", *usual, end])


# Messages that a database refused


def read_refused(data: bytes) -> None:
    """Read a refused message, whose checksum is right if the first byte is even."""
    directory = folder("refused")
    (directory / FOLDER).mkdir(exist_ok=True)
    is_right, content = not data[:1] or data[0] % 2 == 0, data[1:]
    line, newline, body = content.partition(b"\n")
    if is_right:
        line = line.replace(b'"crc32": 0', b'"crc32": %d' % crc32(body))
    (directory / FOLDER / "5.message").write_bytes(line + newline + body)
    refused = Refused(directory)
    message = refused.find(5)
    assert refused.every() == [message]
    assert message.size == len(message.encoded.blob)


def refused_messages() -> Iterator[bytes]:
    """Yield files of refused messages, without their checksums."""
    row = row_of(
        Message(
            "text", destination=Destination.queue("Q"), message_id=MessageId(ProducerId("ID:a-1", 1, 1), 7)
        )
    )
    body = b"".join(encode_writes(RecordedWrites(updates=[(5, row)]))[0])
    facts = {"sequence": 5, "is_update": False, "refused_ms": 1, "reason": "too long", "crc32": 0}
    for first in (0, 1):
        yield bytes((first,)) + json.dumps(facts).encode() + b"\n" + body


# An archive's manifests


def read_manifest(data: bytes) -> None:
    """Read a manifest, with the right checksum if the first byte is even, and the next part of one if it is
    not a whole one."""
    directory = folder("archive")
    manifests = directory / "_manifest"
    manifests.mkdir(exist_ok=True)
    is_sealed, text = not data[:1] or data[0] % 2 == 0, data[1:]
    seal = hashlib.sha256(text).hexdigest().encode()
    (manifests / "000001.json").write_bytes(text + b"\n" + seal + b"\n" if is_sealed else text)
    assert all(isinstance(manifest, Manifest) for manifest in Archive(directory).manifests())


def manifests() -> Iterator[bytes]:
    """Yield manifests of each format."""
    file = {
        "path": "batch=000001-ab/date=2026-11-21/part.parquet",
        "messages": 3,
        "bytes": 100,
        "first_id": 1,
        "last_id": 3,
        "first_container": "queue://A",
        "last_container": "queue://B",
        "sha256": "00",
    }
    facts = {"format": 2, "number": 1, "folder": "batch=000001-ab", "written_ms": 5, "files": [file, file]}
    yield b"\0" + json.dumps(facts, indent=1).encode()
    yield b"\0" + json.dumps({**facts, "files": []}).encode()
    yield b"\1" + json.dumps({**facts, "format": 1}).encode()
    yield b"\1" + json.dumps({**facts, "format": 3}).encode()
