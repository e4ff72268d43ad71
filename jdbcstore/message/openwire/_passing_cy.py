"""Messages as they pass through a broker, which changes some numbers in their bytes."""

from __future__ import annotations

from struct import Struct

from jdbcstore.message.message import BodyType
from jdbcstore.message.openwire.wire_format import MESSAGE_TYPES, VERSION
from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled

_TIMES = 17
"""Bytes of the two times of the broker and of the flag behind them, which older versions do not have."""
_BLOB: cython.longlong = cython.declare(cython.longlong, MESSAGE_TYPES[BodyType.BLOB])
"""The type of the only message that has fields behind these."""
_VERSION: cython.longlong = cython.declare(cython.longlong, VERSION)
_size, _long = Struct(">i").pack, Struct(">q").pack


@cython.cfunc
def _times_at(blob: bytes, version: int) -> cython.Py_ssize_t:
    """Return the offset of the two times of the broker; negative if it is too short, or a blob message."""
    at: cython.Py_ssize_t = len(blob) - _TIMES
    if at < 5 or blob[4] == _BLOB:
        return -9
    return at if version >= _VERSION else at + 1


def with_broker_in_time(blob: bytes, now_ms: int, version: int) -> bytes:
    """Return a message, which may be damaged, with the time at which it came; a blob message as it is."""
    at: cython.Py_ssize_t = _times_at(blob, version)
    return blob if at < 0 else b"".join((blob[:at], _long(now_ms), blob[at + 8 :]))


def dispatch_frame(
    head: bytes, blob: bytes, sequence_at: int, number: int, now_ms: int, redeliveries: int, version: int
) -> bytes:
    """Return the frame of a MESSAGE_DISPATCH: after ``head``, a message that leaves the broker now.

    The broker sequence at the offset in the message is replaced by ``number``.
    """
    begin: cython.Py_ssize_t = sequence_at
    begin += 8
    at: cython.Py_ssize_t = _times_at(blob, version) + 8
    # Without its size, but with the count of redeliveries, which has as many bytes.
    front = (_size(len(head) + len(blob)), head, blob[4:sequence_at], _long(number))
    if at < begin:
        return b"".join((*front, blob[begin:], _size(redeliveries)))
    return b"".join((*front, blob[begin:at], _long(now_ms), blob[at + 8 :], _size(redeliveries)))


use_compiled(globals())
