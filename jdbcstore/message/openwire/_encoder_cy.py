"""A usual message, one without optional headers, as bytes.

A store's rows take this way (:mod:`jdbcstore.stores.shared._rows_cy`), and messages without rare headers in
:mod:`jdbcstore.message.openwire.encoder`, which encodes all others field by field.
"""

from __future__ import annotations

from struct import Struct

from jdbcstore.message.openwire.wire_format import HEAD, TAIL
from jdbcstore.util.core import use_compiled

NO_TAIL = TAIL.pack(False, 0, 0, False, False, 0, 0, False)
_size, _tail = Struct(">i").pack, TAIL.pack


def usual_names(kind: int, producer_id: bytes, destination: bytes) -> bytes:
    """Return the fields from the type to the message id, without its two numbers."""
    return b"".join((HEAD.pack(kind, 0, False), producer_id, destination, b"\0\0\1\x6e\0", producer_id))


def usual_blob(
    names: bytes, numbers: bytes, head: bytes, content: bytes, properties: bytes, tail: bytes
) -> bytes:
    """Return a message of :func:`usual_names` and so on; ``head`` is the presence and length of content."""
    size = len(names) + len(numbers) + len(head) + len(content) + len(properties) + len(tail)
    return b"".join((_size(size), names, numbers, head, content, properties, tail))


def usual_tail(broker_in_time_ms: int) -> bytes:
    """Return the fields after the properties, of a message with no others of them."""
    if not broker_in_time_ms:
        return NO_TAIL
    return _tail(False, 0, 0, False, False, broker_in_time_ms, 0, False)


def broker_sequence_at(names: bytes) -> int:
    """Return the offset of the broker sequence in the message with these names."""
    return len(names) + 12


use_compiled(globals())
