"""The entries of many messages' properties, walked at once with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from jdbcstore.analytics.envelope import Spans
from jdbcstore.analytics.pieces import numbers, pieces
from jdbcstore.openwire.primitives import (
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NULL,
    SHORT,
    STRING,
)  # fmt: skip

_MOST = 64
"""Properties of one message that are walked; one with more is left to the codec."""

NAMES = {
    NULL: "null", BOOLEAN: "boolean", BYTE: "byte", CHAR: "char", SHORT: "short", INT: "int",
    LONG: "long", DOUBLE: "double", FLOAT: "float", STRING: "string",
}  # fmt: skip
"""The types that are walked, and what the field ``type`` calls them."""
_TYPES = pa.array([NAMES.get(tag, "") for tag in range(256)])
_WIDTHS = np.full(256, -1, np.int64)
for _tag, _width in ((NULL, 0), (BOOLEAN, 1), (BYTE, 1), (CHAR, 2), (SHORT, 2), (INT, 4), (LONG, 8),
                     (DOUBLE, 8), (FLOAT, 4), (STRING, 2)):  # fmt: skip
    _WIDTHS[_tag] = _width


class Entries:
    """Every entry of the rows in ``walked``, in the order of rows and of entries in them.

    ``walked`` is a mask: of ``rows``, those whose properties hold nothing but the types in ``NAMES``.
    """

    def __init__(self, data: Any, spans: Spans, rows: Any) -> None:
        self._data = data
        at = np.where(spans.present, spans.start + 4, spans.start)
        count = np.where(spans.present, numbers(data, spans.start, "i4"), 0)
        self.walked = rows & (~spans.present | ((spans.size >= 4) & (count >= 0) & (count <= _MOST)))
        steps = []
        for step in range(int(count[self.walked].max(initial=0))):
            active = np.flatnonzero(self.walked & (count > step))
            steps.append((active, *self._step(active, at)))
        self.walked &= at == spans.start + spans.size
        nothing = [np.zeros(0, np.int64)] * 6
        parts = [np.concatenate(part) for part in zip(*steps, strict=True)] if steps else nothing
        kept = np.flatnonzero(self.walked[parts[0]])
        order = kept[np.argsort(parts[0][kept], kind="stable")]
        self.row, self._name_at, self._name_size, self.tag, self._at, self._size = (p[order] for p in parts)

    def _step(self, active: Any, at: Any) -> tuple[Any, ...]:
        """One entry of each active row; moves ``at`` behind it, and drops rows it cannot walk."""
        data, last = self._data, len(self._data) - 1
        name_size = numbers(data, at[active], "u2").astype(np.int64)
        name_at = at[active] + 2
        tag = data[np.minimum(name_at + name_size, last)]
        value_at, size = name_at + name_size + 1, _WIDTHS[tag]
        self.walked[active[size < 0]] = False
        is_text = tag == STRING
        length = np.where(is_text, numbers(data, value_at, "u2").astype(np.int64), 0)
        at[active] = value_at + np.maximum(size, 0) + length
        return name_at, name_size, tag, value_at + np.where(is_text, 2, 0), np.where(is_text, length, size)

    @property
    def names(self) -> pa.Array:
        """As bytes."""
        return pieces(self._data, self._name_at, self._name_size, np.ones(len(self.row), bool))

    @property
    def types(self) -> pa.Array:
        return _TYPES.take(pa.array(self.tag))

    @property
    def strings(self) -> pa.Array:
        """The values that are strings, as bytes."""
        return pieces(self._data, self._at, self._size, self.tag == STRING)

    def longs(self) -> pa.Array:
        return self._numbers(np.int64, {BYTE: "i1", SHORT: "i2", INT: "i4", LONG: "i8"})

    def doubles(self) -> pa.Array:
        return self._numbers(np.float64, {FLOAT: "f4", DOUBLE: "f8"})

    def booleans(self) -> pa.Array:
        return self._numbers(np.int64, {BOOLEAN: "u1"}).cast(pa.bool_())

    def chars(self) -> pa.Array:
        """The code units of chars."""
        return self._numbers(np.int64, {CHAR: "u2"})

    def floats(self) -> pa.Array:
        """Those of the doubles that are floats, as such: their shortest text has fewer digits."""
        return self._numbers(np.float32, {FLOAT: "f4"})

    def _numbers(self, kind: Any, codes: dict[int, str]) -> pa.Array:
        values, missing = np.zeros(len(self.tag), kind), np.ones(len(self.tag), bool)
        for tag, code in codes.items():
            chosen = np.flatnonzero(self.tag == tag)
            if chosen.size:
                values[chosen] = numbers(self._data, self._at[chosen], code)
                missing[chosen] = False
        if missing.all():
            return pa.nulls(len(values), pa.from_numpy_dtype(kind))
        return pa.array(values, mask=missing)
