"""Entries and records, and the layout of records and segments in files, with little-endian numbers.

A segment is a header in a block of its own, followed by records, each at a multiple of eight bytes. After the
last one there may be anything: zeros, or the old content of a reused file.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crc32c import crc32c

BLOCK = 512
"""Offset of the first record: a torn write of it leaves the header's sector alone."""
FIELDS = struct.Struct("<IIIIBBHQQ")
"""Of a record's header, after the checksum: length, marker, number less the durable one, sequences, kind, two
of nothing, number, sequence."""
HEAD = struct.Struct("<I" + FIELDS.format[1:])
"""The checksum and the fields of a record's header."""
RECORD = HEAD.size
"""Bytes of a record's header."""
CLEAN_END = 255
GAP = 254
"""Record that a repair puts in place of lost ones: its number is the last of theirs, its body their remaining
bytes."""
OWN = (GAP, CLEAN_END)
"""Kinds of records for the journal's internal use."""
LARGEST = 2**32 - 1

_MAGIC = b"jdbcsJRN"
_VERSION = 2
_SEGMENT = struct.Struct("<8sII6Q")
_BEFORE = {1: struct.Struct("<8sII5Q")}
"""Headers of earlier versions, without the fields added later."""
_BEGIN = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_STAMP = struct.Struct("<QQ")
_SEEDS = struct.Struct("<II")


class Record(NamedTuple):
    """A record as it is read back."""

    number: int
    """The log sequence number, rising from 1; numbers of the journal's own records, and of records lost in a
    repair, are left out."""
    kind: int
    """Set by the writer, 1 to 253."""
    sequence: int
    """The first of the store's sequences that it was given; if it has none, the next one to be given."""
    body: bytes
    segment: int
    offset: int


class JournalEntry(Protocol):
    """Something to be written as one record: after a crash all of it is there, or nothing."""

    taken: bool
    """Set by the journal when it accepts the entry: from then on a callback follows unless it is withdrawn,
    even if a signal handler raised within ``append``."""

    @property
    def kind(self) -> int:
        """1 to 253."""

    @property
    def sequences(self) -> int:
        """Number of the store's sequences that it takes."""

    @property
    def size(self) -> int:
        """The bytes of all chunks."""

    @property
    def chunks(self) -> Sequence[bytes]:
        """The body, in pieces that are written one after the other."""


class WrittenEntry(NamedTuple):
    """An entry that was written."""

    entry: JournalEntry
    number: int
    sequence: int
    """The first of its sequences."""
    segment: int
    offset: int
    """Offset of the body in the segment's file."""


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
    """The identity of the backing store; 0 if it was never set."""

    def pack(self) -> bytes:
        data = _SEGMENT.pack(_MAGIC, _VERSION, 0, *self)
        return (data + _CRC.pack(crc32c(data))).ljust(BLOCK, b"\0")

    @classmethod
    def unpack(cls, block: bytes) -> SegmentHeader:
        """Parse a header.

        :raises ValueError: it is not a header
        """
        if len(block) < BLOCK:
            raise ValueError("the file ends within its header")
        magic, version, zero = _BEGIN.unpack_from(block)
        if magic != _MAGIC:
            raise ValueError("it does not begin like a segment")
        layout = _BEFORE.get(version, _SEGMENT)
        if _CRC.unpack_from(block, layout.size)[0] != crc32c(block[: layout.size]):
            raise ValueError("the checksum of the segment's header is wrong")
        if (version != _VERSION and version not in _BEFORE) or zero:
            raise ValueError(f"it is of version {version}, and this one reads {_VERSION}")
        return cls(*layout.unpack_from(block)[3:])


class Stamp(NamedTuple):
    """Mark of a record as this segment's: earlier contents of a reused file never validate."""

    seed: int
    marker: int

    @classmethod
    def of(cls, header: SegmentHeader) -> Stamp:
        return cls.at(header.journal, header.number)

    @classmethod
    def at(cls, journal: int, segment: int) -> Stamp:
        name = _STAMP.pack(journal, segment)
        return cls(*_SEEDS.unpack(hashlib.blake2b(name, digest_size=_SEEDS.size).digest()))

    @property
    def found_as(self) -> bytes:
        """The marker's bytes, found :data:`MARKER_AT` bytes after the beginning of a record."""
        return _CRC.pack(self.marker)


MARKER_AT = 8


class Head(NamedTuple):
    """The header of a record."""

    crc: int
    length: int
    marker: int
    since_durable: int
    """The record's number minus the last number that was durable when it was written."""
    sequences: int
    kind: int
    flags: int
    spare: int
    number: int
    sequence: int

    @property
    def durable(self) -> int:
        return self.number - self.since_durable

    @property
    def space(self) -> int:
        return space(self.length)

    def is_plausible(self, stamp: Stamp) -> bool:
        """Return whether this may be a record's header; only the checksum proves it."""
        return self.marker == stamp.marker and bool(self.kind) and not self.flags and not self.spare


def space(length: int) -> int:
    """Return the bytes that a record with a body of this length takes in a file."""
    return RECORD + length + (-length & 7)


def gap(stamp: Stamp, last_lost: int, body: bytes) -> bytes:
    """Encode a record in place of lost ones, with their remaining bytes."""
    head = FIELDS.pack(len(body), stamp.marker, 0, 0, GAP, 0, 0, last_lost, 0)
    return _CRC.pack(crc32c(body, crc32c(head, stamp.seed))) + head + body
