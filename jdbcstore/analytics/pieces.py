"""Pieces of a flat array of bytes as an Arrow column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_SHORT = 48
"""Bytes; up to this average an index of single bytes is faster than one slice for each piece."""
_MAX_NARROW = (1 << 31) - 1


def pieces(data: Any, starts: Any, sizes: Any, rows: Any) -> pa.Array:
    """The bytes from ``starts`` on, ``sizes`` long, in one copy; null where the mask ``rows`` is false."""
    sizes = np.where(rows, sizes, 0)
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    total = int(ends[-1])
    if total <= _SHORT * len(sizes):
        joined = data[np.repeat(starts - ends[:-1], sizes) + np.arange(total)]
    else:
        view = memoryview(data)
        wanted = zip(starts[rows].tolist(), sizes[rows].tolist(), strict=True)
        joined = b"".join([view[start : start + size] for start, size in wanted])
    there = pa.py_buffer(np.packbits(rows, bitorder="little"))
    narrow = total <= _MAX_NARROW
    offsets = pa.py_buffer(ends.astype(np.int32) if narrow else ends)
    kind = pa.binary() if narrow else pa.large_binary()
    return pa.Array.from_buffers(kind, len(sizes), [there, offsets, pa.py_buffer(joined)])


def numbers(data: Any, places: Any, code: str) -> Any:
    """The big-endian numbers that start at these places, in the numpy type ``code``."""
    width = np.dtype(code).itemsize
    each = np.minimum(places[:, None] + np.arange(width), len(data) - 1)
    return data[each].view(f">{code}")[:, 0]
