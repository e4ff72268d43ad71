"""The journal's records: entries in the bytes of a segment, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from jdbcstore.journal.abc import WriteBatch
from jdbcstore.journal.layout import FIELDS, HEAD, RECORD, JournalEntry, Record, WrittenEntry
from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled
from jdbcstore.util.core.plain import new_tuple

_PADDING = [bytes(size) for size in range(8)]
_crc32c: Any = cython.declare(object, crc32c)
_RECORD: Any = cython.declare(object, Record)
_WRITTEN: Any = cython.declare(object, WrittenEntry)
_fields, _head = FIELDS.pack, HEAD.unpack_from


def frame(
    entries: Sequence[JournalEntry],
    stamp: Any,
    number: int,
    sequence: int,
    durable: int,
    room: int,
    place: tuple[int, int],
) -> WriteBatch:
    """Return the records of as many entries as fit into ``room`` bytes.

    The first gets this number and sequence, and is written to this place, a segment and an offset.
    """
    parts: list[bytes] = []
    written: list[WrittenEntry] = []
    seed, marker = stamp
    segment, start = place
    total: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    padding: cython.Py_ssize_t
    for entry in entries:
        size = entry.size
        padding = -size & 7
        if total + RECORD + size + padding > room:
            break
        body = start + RECORD + total
        total += RECORD + size + padding
        count = entry.sequences
        head = _fields(size, marker, number - durable, count, entry.kind, 0, 0, number, sequence)
        crc = _crc32c(head, seed)
        chunks = entry.chunks
        for chunk in chunks:
            crc = _crc32c(chunk, crc)
        parts.append(crc.to_bytes(4, "little"))
        parts.append(head)
        parts.extend(chunks)
        if padding:
            parts.append(_PADDING[padding])
        written.append(new_tuple(_WRITTEN, (entry, number, sequence, segment, body)))
        number += 1
        sequence += count
    data = b"".join(parts)
    if len(data) != total:
        raise ValueError("an entry's size is not that of its chunks")
    return WriteBatch(data, written, sequence - 1)


def records(
    window: bytes,
    stamp: Any,
    number: int,
    last: int,
    place: tuple[int, int],
    *,
    is_read: bool,
) -> tuple[list[Record], int, int, int, int]:
    """Return the complete records at the beginning of a window, from ``number`` to ``last``.

    ``place`` is the window's segment, and its offset in that. Unless ``is_read``, they are only verified.
    With them, return the bytes of all, the next number, the kind of the last one, and the lowest sequence
    that the next one can have; kind and sequence are 0 if there is none.
    """
    found: list[Record] = []
    seed, marker = stamp
    segment, start = place
    view = memoryview(window)
    size: cython.Py_ssize_t = len(window)
    header: cython.Py_ssize_t = RECORD
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    length: cython.Py_ssize_t
    last_kind = lowest = 0
    while at + header <= size and number <= last:
        crc, length, its_marker, _, sequences, kind, flags, spare, its_number, sequence = _head(window, at)
        end = at + header + length
        if its_marker != marker or its_number != number or not kind or flags or spare or end > size:
            break  # invalid, or larger than the window
        if _crc32c(view[at + 4 : end], seed) != crc:
            break
        if is_read:
            body = window[at + header : end]
            found.append(new_tuple(_RECORD, (number, kind, sequence, body, segment, start + at)))
        at = end + (-length & 7)
        number += 1
        last_kind = kind
        sequence += sequences
        if sequence > lowest:
            lowest = sequence
    return found, at, number, last_kind, lowest


use_compiled(globals())
