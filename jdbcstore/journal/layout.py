"""How segments and records look in files. All numbers are little-endian.

A segment is a header in a block of its own, and records, each at a multiple of eight bytes. Behind the last
one is anything at all: zeros, or what a file held when it was a segment before.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from jdbcstore.journal.api import Entry, Written

BLOCK = 512
"""Where records begin: a torn write of the first one leaves the header's sector alone."""
RECORD = 40
"""Bytes of a record's header."""
CLEAN_END = 255
GAP = 254
"""What a repair puts where records were lost. Its number is the last of theirs, its body what was there."""
OWN = (GAP, CLEAN_END)
"""Kinds of records that are the journal's own business."""
LARGEST = 2**32 - 1

_MAGIC = b"jdbcsJRN"
_VERSION = 2
_SEGMENT = struct.Struct("<8sII6Q")
_BEFORE = {1: struct.Struct("<8sII5Q")}
"""How headers of earlier versions look, without the fields that came later."""
_BEGIN = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
# Length, marker, number less the durable one, sequences, kind, two of nothing, number, sequence.
_FIELDS = struct.Struct("<IIIIBBHQQ")
_PADDING = [bytes(size) for size in range(8)]
_STAMP = struct.Struct("<QQ")
_SEEDS = struct.Struct("<II")


class SegmentHeader(NamedTuple):
    journal: int
    number: int
    """Of the segment, from 1."""
    first_number: int
    """Of its first record."""
    first_sequence: int
    created: int
    """Epoch milliseconds."""
    store: int = 0
    """The identity of the store that the journal is in front of; 0 if it was never told."""

    def pack(self) -> bytes:
        data = _SEGMENT.pack(_MAGIC, _VERSION, 0, *self)
        return (data + _CRC.pack(crc32c(data))).ljust(BLOCK, b"\0")

    @classmethod
    def unpack(cls, block: bytes) -> SegmentHeader:
        """
        :raises ValueError: it is none
        """
        if len(block) < BLOCK:
            raise ValueError("the file ends within its header")
        magic, version, zero = _BEGIN.unpack_from(block)
        if magic != _MAGIC:
            raise ValueError("it does not begin as a segment does")
        layout = _BEFORE.get(version, _SEGMENT)
        if _CRC.unpack_from(block, layout.size)[0] != crc32c(block[: layout.size]):
            raise ValueError("the segment's header does not fit to its checksum")
        if (version != _VERSION and version not in _BEFORE) or zero:
            raise ValueError(f"it is of version {version}, and this one reads {_VERSION}")
        return cls(*layout.unpack_from(block)[3:])


class Stamp(NamedTuple):
    """What makes a record one of this segment: what a file held before never validates."""

    seed: int
    marker: int

    @classmethod
    def of(cls, header: SegmentHeader) -> Stamp:
        name = _STAMP.pack(header.journal, header.number)
        return cls(*_SEEDS.unpack(hashlib.blake2b(name, digest_size=_SEEDS.size).digest()))

    @property
    def found_as(self) -> bytes:
        """The marker as it is in a file, :data:`MARKER_AT` bytes behind the beginning of a record."""
        return _CRC.pack(self.marker)


MARKER_AT = 8


class Head(NamedTuple):
    """A record's header."""

    crc: int
    length: int
    marker: int
    behind: int
    """Its number less the last that was durable when it was written."""
    sequences: int
    kind: int
    flags: int
    spare: int
    number: int
    sequence: int

    @property
    def durable(self) -> int:
        return self.number - self.behind

    @property
    def space(self) -> int:
        return space(self.length)

    def is_plausible(self, stamp: Stamp) -> bool:
        """Before its checksum is asked."""
        return self.marker == stamp.marker and bool(self.kind) and not self.flags and not self.spare


HEAD = struct.Struct("<I" + _FIELDS.format[1:])


def space(length: int) -> int:
    """What a record with such a body takes in a file."""
    return RECORD + length + (-length & 7)


def gap(stamp: Stamp, last_lost: int, body: bytes) -> bytes:
    """A record in place of lost ones, with what is left of them."""
    head = _FIELDS.pack(len(body), stamp.marker, 0, 0, GAP, 0, 0, last_lost, 0)
    return _CRC.pack(crc32c(body, crc32c(head, stamp.seed))) + head + body


def frame(
    entries: Sequence[Entry],
    stamp: Stamp,
    number: int,
    sequence: int,
    durable: int,
    room: int,
    place: tuple[int, int],
) -> tuple[list[bytes], list[Written], int]:
    """The records of as many entries as there is room for, in pieces, and their bytes. The first has this
    number and sequence, and goes to this place, a segment and an offset."""
    parts: list[bytes] = []
    written: list[Written] = []
    seed, marker = stamp
    segment, start = place
    start += RECORD
    total = 0
    for entry in entries:
        size = entry.size
        padding = -size & 7
        if total + RECORD + size + padding > room:
            break
        body = start + total
        total += RECORD + size + padding
        count = entry.sequences
        head = _FIELDS.pack(size, marker, number - durable, count, entry.kind, 0, 0, number, sequence)
        crc = crc32c(head, seed)
        chunks = entry.chunks
        for chunk in chunks:
            crc = crc32c(chunk, crc)
        parts += (crc.to_bytes(4, "little"), head, *chunks)
        if padding:
            parts.append(_PADDING[padding])
        written.append(Written(entry, number, sequence, segment, body))
        number += 1
        sequence += count
    return parts, written, total
