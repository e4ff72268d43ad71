"""What stands in the MSG column in place of a message whose body only a journal has.

No message of OpenWire begins as it does: the size in front would be negative.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import NamedTuple

from jdbcstore.errors import BodyInJournal, CorruptMessage
from jdbcstore.message.openwire.encoder import set_broker_sequence
from jdbcstore.message.openwire.types import Malformed

REFERENCE_START = b"\xff\xff\xff\xffjdbcsREF"
_FORMAT = 1
_LAYOUT = Struct(">12sIQQQIII")
_CHECK = Struct(">qI")
SEQUENCE_AT = _LAYOUT.size
"""Where the row's ID stands, as the broker sequence does in a message."""
REFERENCE_SIZE = _LAYOUT.size + _CHECK.size


class BodyReference(NamedTuple):
    """Where the message of a row is."""

    journal: int
    segment: int
    offset: int
    """Of the message's own bytes, in the segment's file."""
    length: int
    slot: int
    """Where in them the broker sequence goes."""
    crc: int
    """Of them, as they are there."""

    def pack(self) -> bytes:
        """As it stands in MSG, with no sequence yet."""
        data = _LAYOUT.pack(REFERENCE_START, _FORMAT, *self)
        return data + _CHECK.pack(0, zlib.crc32(data))

    def complete(self, body: bytes, sequence: int) -> bytes:
        """The message, of what was read where this says.

        :raises ValueError: that is something else
        """
        if len(body) != self.length or zlib.crc32(body) != self.crc:
            raise ValueError("what is there is not the message")
        return set_broker_sequence(body, self.slot, sequence)


def refer(journal: int, segment: int, offset: int, blob: bytes, slot: int) -> bytes:
    """What stands in MSG for a message that a journal has there, with no sequence yet."""
    return BodyReference(journal, segment, offset, len(blob), slot, zlib.crc32(blob)).pack()


def is_reference(blob: bytes | bytearray | memoryview | None) -> bool:
    """Whether it says that it is one; it may be damaged."""
    return blob is not None and bytes(blob[: len(REFERENCE_START)]) == REFERENCE_START


def read_reference(
    blob: bytes | bytearray | memoryview, sequence: int | None = None, container: str | None = None
) -> BodyReference:
    """
    :raises CorruptMessage: it is damaged, or another row's
    """
    data = bytes(blob)
    try:
        return _unpacked(data, sequence)
    except Malformed as error:
        reason = f"it refers to a journal, and {error}"
        raise CorruptMessage(reason, blob=data, sequence=sequence, container=container) from None


def _unpacked(data: bytes, sequence: int | None) -> BodyReference:
    if len(data) != REFERENCE_SIZE:
        raise Malformed(f"has {len(data)} bytes in place of {REFERENCE_SIZE}")
    magic, version, *fields = _LAYOUT.unpack_from(data)
    found, check = _CHECK.unpack_from(data, SEQUENCE_AT)
    if magic != REFERENCE_START or check != zlib.crc32(data[:SEQUENCE_AT]):
        raise Malformed("does not fit to its checksum")
    if version != _FORMAT:
        raise Malformed(f"is of version {version}, and this one reads {_FORMAT}")
    if sequence is not None and found != sequence:
        raise Malformed(f"is of the row {found}")
    reference = BodyReference(*fields)
    if reference.slot + 8 > reference.length:
        raise Malformed("has no place for its sequence")
    return reference


def unread(data: bytes, sequence: int | None, container: str | None) -> BodyInJournal:
    """The error of whoever reads a row without the journal.

    :raises CorruptMessage: the reference is damaged
    """
    journal = read_reference(data, sequence, container).journal
    return BodyInJournal(
        f"its body is only in the journal number {journal}",
        journal=journal,
        blob=data,
        sequence=sequence,
        container=container,
    )
