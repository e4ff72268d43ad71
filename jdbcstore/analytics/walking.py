"""Places in many rows of bytes, moved along together."""

from __future__ import annotations

from typing import Any

import numpy as np

WINDOW = 64
"""Bytes that are gathered of each row at once; a flat array of bytes has as many at least."""


class Walk:
    """A place in each row of ``data``. Places only ever grow; behind the end there are some or other bytes.

    Rows mostly have the same fields of the same sizes. As long as they do, their places move as one,
    and a field is a column of a table of the bytes in front of them.
    """

    def __init__(self, data: Any, places: Any) -> None:
        self._data = data
        self._from = places
        self._ahead = 0
        self._table: Any = None

    def __len__(self) -> int:
        return len(self._from)

    @property
    def places(self) -> Any:
        return self._from + self._ahead

    def skip(self, sizes: Any) -> None:
        """Move by a number of bytes, the same in each row or not."""
        if isinstance(sizes, np.ndarray) and len(sizes):
            first = int(sizes[0])
            if not (sizes == first).all():
                self._from = self._from + (sizes + self._ahead)
                self._ahead, self._table = 0, None
                return
            sizes = first
        if not isinstance(sizes, np.ndarray):
            self._ahead += sizes

    def next(self, code: str) -> Any:
        """The big-endian numbers in front, of the numpy type ``code``."""
        kind = np.dtype(f">{code}")
        if self._table is None or self._ahead + kind.itemsize > WINDOW:
            self._look()
        if not len(self):
            return np.zeros(0, code)
        strided = np.ndarray((len(self),), kind, self._table, self._ahead, (WINDOW,))
        return strided.astype(kind.newbyteorder("="))

    def _look(self) -> None:
        self._from, self._ahead = self.places, 0
        data, places = self._data, self._from
        last = len(data) - WINDOW
        self._table = _windows(data)[np.minimum(places, last)]
        over = np.flatnonzero(places > last)
        if over.size:
            tail = np.concatenate([data[last:], np.zeros(WINDOW, np.uint8)])
            self._table[over] = _windows(tail)[np.minimum(places[over] - last, WINDOW)]


def _windows(data: Any) -> Any:
    """What starts at each place of ``data``."""
    return np.ndarray((len(data) - WINDOW + 1,), f"V{WINDOW}", data, strides=(1,))
