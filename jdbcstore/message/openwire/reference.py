"""References to message bodies kept in the journal: the MSG column of ``use_quick_journal``.

No OpenWire message begins as a reference does: the size in front would be negative.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import NamedTuple

from jdbcstore.errors import BodyInJournal, CorruptMessage
from jdbcstore.message.openwire.encoder import set_broker_sequence
from jdbcstore.message.openwire.wire_format import BODY_ELSEWHERE, Malformed

REFERENCE_START = BODY_ELSEWHERE + b"REF"
_FORMAT = 1
_LAYOUT = Struct(">12sIQQQIII")
_CHECK = Struct(">qI")
SEQUENCE_AT = _LAYOUT.size
"""The offset of the row's ID, which a message has as its broker sequence."""
REFERENCE_SIZE = _LAYOUT.size + _CHECK.size


class BodyReference(NamedTuple):
    """The place of a row's message in a journal."""

    journal: int
    segment: int
    offset: int
    """Of the message's bytes, in the segment's file."""
    length: int
    slot: int
    """The offset of the broker sequence in these bytes."""
    crc: int
    """The checksum of these bytes, as the journal has them."""

    def complete(self, body: bytes, sequence: int) -> bytes:
        """Return the message with its sequence, from the bytes that the journal has at this place.

        :raises ValueError: these are not the message
        """
        if len(body) != self.length or zlib.crc32(body) != self.crc:
            raise ValueError("the bytes at this place are not the message")
        return set_broker_sequence(body, self.slot, sequence)


def refer(journal: int, segment: int, offset: int, blob: bytes, slot: int) -> bytes:
    """Return the reference for the MSG column of a message in a journal; its sequence is still to be set."""
    reference = BodyReference(journal, segment, offset, len(blob), slot, zlib.crc32(blob))
    data = _LAYOUT.pack(REFERENCE_START, _FORMAT, *reference)
    return data + _CHECK.pack(0, zlib.crc32(data))


def is_reference(blob: bytes | bytearray | memoryview | None) -> bool:
    """Return whether this is a reference, which may be damaged."""
    return blob is not None and bytes(blob[: len(REFERENCE_START)]) == REFERENCE_START


def read_reference(
    blob: bytes | bytearray | memoryview, sequence: int | None = None, container: str | None = None
) -> BodyReference:
    """Return the reference in the MSG column of the row with the ID ``sequence``.

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
    owner, check = _CHECK.unpack_from(data, SEQUENCE_AT)
    if magic != REFERENCE_START or check != zlib.crc32(data[:SEQUENCE_AT]):
        raise Malformed("does not match its checksum")
    if version != _FORMAT:
        raise Malformed(f"is of version {version}, and this release reads {_FORMAT}")
    if sequence is not None and owner != sequence:
        raise Malformed(f"belongs to the row {owner}")
    reference = BodyReference(*fields)
    if reference.slot + 8 > reference.length:
        raise Malformed("has no room for its sequence")
    return reference


def body_in_journal(data: bytes, sequence: int | None, container: str | None) -> BodyInJournal:
    """Return the error for a row that is read without the journal.

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
