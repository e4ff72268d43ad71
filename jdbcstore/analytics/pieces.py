"""Pieces of a flat array of bytes as an Arrow column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

MOST = 8
"""Bytes of the widest number; as many must be there to be read from."""
_MAX_NARROW = (1 << 31) - 1


def pieces(data: Any, starts: Any, sizes: Any, rows: Any) -> pa.Array:
    """The bytes from ``starts`` on, ``sizes`` long, in one copy; null where the mask ``rows`` is false.

    Those that are not null lie in the order of rows, and none in another.
    """
    count = len(starts)
    # Each piece, and the gap behind it: together they are an array over ``data`` as it lies there.
    bounds = np.zeros(2 * count + 1, np.int64)
    np.multiply(starts, rows, out=bounds[:-1:2])
    np.multiply(starts + sizes, rows, out=bounds[1::2])
    np.maximum.accumulate(bounds, out=bounds)
    wide = bounds[-1] > _MAX_NARROW
    offsets = pa.py_buffer(bounds if wide else bounds.astype(np.int32))
    kind = pa.large_binary() if wide else pa.binary()
    both = pa.Array.from_buffers(kind, 2 * count, [None, offsets, pa.py_buffer(data)])
    column = both.take(pa.array(np.arange(0, 2 * count, 2))).cast(pa.binary())
    if rows.all():
        return column
    there = pa.py_buffer(np.packbits(rows, bitorder="little"))
    return pa.Array.from_buffers(column.type, count, [there, *column.buffers()[1:]])


def numbers(data: Any, places: Any, code: str) -> Any:
    """The big-endian numbers that start at these places, in the numpy type ``code``.

    Behind the end there are some or other.
    """
    kind = np.dtype(f">{code}")
    # Every place of ``data``, aligned or not, is the start of a number.
    all_ = np.ndarray((len(data) - kind.itemsize + 1,), kind, buffer=data, strides=(1,))
    return all_[np.minimum(places, len(all_) - 1)]
