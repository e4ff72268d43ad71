"""The entries of many messages' properties, walked at once with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from jdbcstore.analytics.envelope import Spans
from jdbcstore.analytics.pieces import numbers, pieces
from jdbcstore.analytics.walking import Walk
from jdbcstore.message.openwire.wire_format import (  # fmt: skip
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
)

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
        walk = Walk(data, spans.start)
        count = np.where(spans.present, walk.next("i4"), 0)
        self.walked = rows & (~spans.present | ((spans.size >= 4) & (count >= 0) & (count <= _MOST)))
        count[~self.walked] = 0
        at = np.where(spans.present, spans.start + 4, spans.start)
        active, walk = np.arange(len(rows)), Walk(data, at)
        steps = []
        for step in range(int(count.max(initial=0))):
            more = self.walked[active] & (count[active] > step)
            if not more.all():
                at[active] = walk.places
                active = active[more]
                walk = Walk(data, at[active])
            steps.append((active, *self._step(active, walk)))
        at[active] = walk.places
        self.walked &= at == spans.start + spans.size
        count[~self.walked] = 0
        self.ends = np.concatenate([[0], np.cumsum(count)])
        """Where each row's entries end, and before them all."""
        self._name_at, self._name_size, self.tag, self._at, self._size = self._in_order(steps)
        self.row = np.repeat(np.arange(len(rows)), count)

    def _step(self, active: Any, walk: Walk) -> tuple[Any, ...]:
        """One entry of each active row; moves behind it, and drops rows that cannot be walked."""
        name_size = walk.next("u2").astype(np.int64)
        walk.skip(2)
        name_at = walk.places
        walk.skip(name_size)
        tag = walk.next("u1")
        walk.skip(1)
        size = _WIDTHS[tag]
        self.walked[active[size < 0]] = False
        is_text = tag == STRING
        length = size
        if is_text.any():
            length = np.where(is_text, walk.next("u2").astype(np.int64), size)
            walk.skip(is_text * 2)
        value_at = walk.places
        walk.skip(np.maximum(length, 0))
        return name_at, name_size, tag, value_at, length

    def _in_order(self, steps: list[tuple[Any, ...]]) -> list[Any]:
        """What the steps found, by rows and by entries in them, of the rows that are walked."""
        columns = [np.zeros(self.ends[-1], kind) for kind in ("i8", "i8", "u1", "i8", "i8")]
        for number, (active, *parts) in enumerate(steps):
            kept = self.walked[active]
            every = kept.all()
            places = self.ends[active if every else active[kept]] + number
            for column, part in zip(columns, parts, strict=True):
                column[places] = part if every else part[kept]
        return columns

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
