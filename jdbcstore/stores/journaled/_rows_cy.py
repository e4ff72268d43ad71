"""The rows in the body of a journal's record, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

from jdbcstore.message.ids import MESSAGE_ID_FIELDS, MessageId, ProducerId
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled
from jdbcstore.util.core.plain import new, new_tuple, places

ADDED = Struct("<BbIIIIqq")
"""Operation, priority, lengths of container, producer and blob, slot, producer's sequence, expiration."""
_added, _add = ADDED.pack, ADDED.unpack_from
_ID_CLASS: Any = cython.declare(object, MessageId)
_ID: Any = cython.declare(object, places(MessageId, MESSAGE_ID_FIELDS))
_ROW: Any = cython.declare(object, EncodedMessage)


@lru_cache(maxsize=4096)
def text_of(data: bytes) -> str:
    """Return the text of bytes that mostly come again."""
    return data.decode()


_producer_id = lru_cache(maxsize=4096)(ProducerId.parse)


def row_chunks(rows: Sequence[Any], operation: int) -> tuple[list[bytes], int]:
    """Return the rows in the body of a record, each blob as a chunk of its own, and the bytes of all."""
    chunks: list[bytes] = []
    size: cython.Py_ssize_t = 0
    of: Any = None
    by: Any = None
    into = b""
    name = b""
    for _, producer, number, container, expiration_ms, priority, blob, slot in rows:
        if container is not of:
            into, of = container.encode(), container
        if producer is not by:
            name, by = producer.encode(), producer
        head = _added(operation, priority, len(into), len(name), len(blob), slot, number, expiration_ms)
        head = b"".join((head, into, name))
        chunks.append(head)
        chunks.append(blob)
        size += len(head) + len(blob)
    return chunks, size


def read_rows(body: bytes, start: int, operation: int, most: int) -> tuple[list[Any], int]:
    """Return the rows of this operation at an offset of a record's body, and where they end.

    :raises ValueError: one of them ends too early
    :raises struct.error: as well
    """
    rows: list[Any] = []
    fixed: cython.Py_ssize_t = ADDED.size
    size: cython.Py_ssize_t = len(body)
    at: cython.Py_ssize_t = start
    middle: cython.Py_ssize_t
    head: cython.Py_ssize_t
    while at < size and body[at] == operation and len(rows) < most:
        _, priority, of_container, of_producer, length, slot, number, expiration_ms = _add(body, at)
        middle = at + fixed + of_container
        head = middle + of_producer
        if head + length > size or slot + 8 > length:
            raise ValueError(f"a message of {length} bytes has its sequence at {slot}, or ends too early")
        container, producer = text_of(body[at + fixed : middle]), text_of(body[middle:head])
        at = head + length
        name = new(_ID_CLASS, _ID, (_producer_id(producer), number, 0, None))
        row = (name, producer, number, container, expiration_ms, priority, body[head:at], slot)
        rows.append(new_tuple(_ROW, row))
    return rows, at


use_compiled(globals())
