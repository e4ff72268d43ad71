"""The layout of a journal's log in a stream: units of records, each in one message or in several.

A unit is written as a whole. Where it is larger than the servers take, it is split into pieces, and is
read only if all of them are there: a unit whose writer failed in between is followed by another unit with the
same numbers. The records of a unit are laid out as in a file, with the stream's sequence of its first piece
in place of the number of a segment.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from jdbcstore.errors import CorruptJournal
from jdbcstore.journal._records_cy import records
from jdbcstore.journal.layout import Record, Stamp

log = logging.getLogger(__name__)

RECORDS, OPENING, CLEAN_END = 1, 2, 3
"""Kinds of units. Two have no records: they mark the beginning and the clean end of a process's writing."""

_MAGIC = b"jdbcsSTR"
_VERSION = 1
_HEAD = struct.Struct("<8sII8QIII")
_CRC = struct.Struct("<I")
HEAD = _HEAD.size + _CRC.size
"""Bytes of a piece's header."""


class PieceHead(NamedTuple):
    """The header of a piece."""

    kind: int
    journal: int
    store: int
    """The identity of the backing store; 0 if it was never set."""
    writer: int
    """A random number of the process that wrote it, or at least of its opening of the journal."""
    first_number: int
    """Of the unit's first record; of the next one if it has none."""
    first_sequence: int
    """The first sequence that it may have given out."""
    last_number: int
    """Of its last record; of the last one before if it has none."""
    last_sequence: int
    """The last sequence given out until its end."""
    created: int
    """Epoch milliseconds."""
    piece: int
    """Its place in its unit, from 0."""
    pieces: int
    """Of the unit's pieces."""
    size: int
    """Bytes of the unit's records, in all pieces."""

    def pack(self) -> bytes:
        data = _HEAD.pack(_MAGIC, _VERSION, *self)
        return data + _CRC.pack(crc32c(data))

    @classmethod
    def unpack(cls, message: bytes) -> PieceHead:
        """Parse the header of a message.

        :raises ValueError: it is not a piece of a journal
        """
        if len(message) < HEAD or not message.startswith(_MAGIC):
            raise ValueError("it is not a piece of a journal")
        if _CRC.unpack_from(message, _HEAD.size)[0] != crc32c(message[: _HEAD.size]):
            raise ValueError("the checksum of its header is wrong")
        _, version, *rest = _HEAD.unpack_from(message)
        if version != _VERSION:
            raise ValueError(f"it is of version {version}, and this one reads {_VERSION}")
        return cls(*rest)

    @property
    def is_last(self) -> bool:
        """Whether the unit ends with this piece."""
        return self.piece == self.pieces - 1


class Unit(NamedTuple):
    """A unit that is complete."""

    at: int
    """The stream's sequence of its first piece."""
    head: PieceHead
    data: bytes

    def records(self, after: int) -> Iterator[Record]:
        """Yield the records after a number.

        :raises CorruptJournal: one is damaged
        """
        head = self.head
        stamp, place = Stamp.at(head.journal, self.at), (self.at, 0)
        records_of_unit, size, number, _, _ = records(
            self.data, (stamp.seed, stamp.marker), head.first_number, head.last_number, place, is_read=True
        )
        if number != head.last_number + 1 or size != len(self.data):
            raise damaged(f"record {number} is damaged", self.at, size)
        yield from (
            records_of_unit
            if after < head.first_number
            else (record for record in records_of_unit if record.number > after)
        )


def damaged(reason: str, at: int, offset: int = 0) -> CorruptJournal:
    """Return the error for a message of a stream that is damaged or missing."""
    return CorruptJournal(reason, segment=at, offset=offset, in_stream=True)


def is_foreign(message: bytes) -> bool:
    """Return whether another program has published a message.

    It is not an acknowledged record: an append behind it names the sequence of the message before it.
    """
    return not message.startswith(_MAGIC)


def head_at(at: int, message: bytes) -> PieceHead | None:
    """Return the header of the message with a sequence; None if it :func:`is_foreign`.

    :raises CorruptJournal: the header is damaged, or of a later version
    """
    if is_foreign(message):
        return None
    try:
        return PieceHead.unpack(message)
    except ValueError as error:
        raise damaged(str(error), at) from error


def units(messages: Iterable[tuple[int, bytes]]) -> Iterator[Unit]:
    """Yield the complete units of messages of a stream, each with its sequence, in their order.

    A message that is missing shows in the numbers of the records, unless it had none.

    :raises CorruptJournal: a message is damaged
    """
    first: tuple[int, PieceHead] | None = None
    parts: list[bytes] = []
    for at, message in messages:
        head = head_at(at, message)
        if head is None:
            log.error("message %d of the stream is not a journal's, and is left out", at)
        elif head.piece == 0:
            first, parts = (at, head), []
        if head is None or first is None or at != first[0] + len(parts):
            first = None  # a piece of the unit is released or missing, or its writer began again
            continue
        if head != first[1]._replace(piece=at - first[0]):
            raise damaged(f"message {at} of the stream does not continue the one before", at)
        parts.append(message[HEAD:])
        if head.is_last:
            data = b"".join(parts)
            if len(data) != head.size:
                raise damaged("its size is wrong", first[0])
            yield Unit(first[0], first[1], data)
            first = None
