"""Rows as PostgreSQL's binary arrays of one dimension, whose elements are counted from 1."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack
from typing import Any

from jdbcstore.util.core import use_compiled

_size = Struct(">i").pack
_number = Struct(">q").pack
_array_head = Struct(">iiIii").pack
_one_number = Struct(">iiIiiiq").pack
_one_element = Struct(">iiIiii").pack
_NULL = _size(-1)


def arrays(rows: Sequence[Sequence[Any]], types: Sequence[int], numbers: int) -> list[bytes]:
    """Return the columns of rows as binary arrays of these types; ``numbers`` is the type of 64-bit integers.

    All others are of strings and bytes, and may have nulls.
    """
    made: list[bytes] = []
    if len(rows) == 1:
        for value, of in zip(rows[0], types, strict=True):
            if of == numbers:
                made.append(_one_number(1, 0, of, 1, 1, 8, value))
            elif value is None:
                made.append(_one_element(1, 1, of, 1, 1, -1))
            else:
                element = value.encode() if isinstance(value, str) else value
                made.append(_one_element(1, 0, of, 1, 1, len(element)) + element)
        return made
    for column, of in zip(zip(*rows, strict=True), types, strict=True):
        made.append(_numbers_array(column, of) if of == numbers else _bytes_array(column, of))
    return made


def scalars(row: Sequence[Any], types: Sequence[int], numbers: int) -> list[Any]:
    """Return the values of one row, of the types as in :func:`arrays`."""
    made: list[Any] = []
    for value, of in zip(row, types, strict=True):
        if of == numbers:
            made.append(_number(value))
        else:
            made.append(value.encode() if isinstance(value, str) else value)
    return made


def _numbers_array(column: Sequence[int], of: int) -> bytes:
    count = len(column)
    pairs = [8] * (2 * count)
    pairs[1::2] = list(column)
    return _array_head(1, 0, of, count, 1) + pack(f">{'iq' * count}", *pairs)


def _bytes_array(column: Sequence[Any], of: int) -> bytes:
    parts = [b""]
    nulls = 0
    last: Any = None
    element = b""
    for value in column:
        if value is None:
            parts.append(_NULL)
            nulls = 1
            continue
        if value is not last:
            last = value
            element = value.encode() if isinstance(value, str) else value
        parts.append(_size(len(element)))
        parts.append(element)
    parts[0] = _array_head(1, nulls, of, len(column), 1)
    return b"".join(parts)


use_compiled(globals())
