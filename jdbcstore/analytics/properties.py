"""Message properties of a batch as one Arrow column of maps: walked with numpy, the rare types one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.batch import MessageBatch, for_spark
from jdbcstore.analytics.envelope import Spans, Walk, numbers, pieces
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import NO_PROPERTIES
from jdbcstore.message.openwire.content import decode_map, decode_utf
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
    Malformed,
)
from jdbcstore.message.values import Byte, Char, Float, Long, Short, Value, plain

_MOST = 64
"""Properties per message that are walked; messages with more are left to the codec."""

NAMES = {
    NULL: "null", BOOLEAN: "boolean", BYTE: "byte", CHAR: "char", SHORT: "short", INT: "int",
    LONG: "long", DOUBLE: "double", FLOAT: "float", STRING: "string",
}  # fmt: skip
"""The types that are walked, with their names in the field ``type``."""
_TYPES = pa.array([NAMES.get(tag, "") for tag in range(256)])
_WIDTHS = np.full(256, -1, np.int64)
for _tag, _width in ((NULL, 0), (BOOLEAN, 1), (BYTE, 1), (CHAR, 2), (SHORT, 2), (INT, 4), (LONG, 8),
                     (DOUBLE, 8), (FLOAT, 4), (STRING, 2)):  # fmt: skip
    _WIDTHS[_tag] = _width


class Entries:
    """Every entry of the rows in ``walked``, in order.

    ``walked`` is a mask of those ``rows`` whose properties have only the types in ``NAMES``.
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
        """The end of each row's entries, preceded by 0."""
        self._name_at, self._name_size, self.tag, self._at, self._size = self._in_order(steps)
        self.row = np.repeat(np.arange(len(rows)), count)

    def _step(self, active: Any, walk: Walk) -> tuple[Any, ...]:
        """Read one entry of each active row, and drop rows that cannot be walked from ``walked``."""
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
        """Return the entries of all steps, ordered by row and by entry within it."""
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
        """The names, as bytes."""
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
        """Return the code units of chars."""
        return self._numbers(np.int64, {CHAR: "u2"})

    def floats(self) -> pa.Array:
        """Return the floats in single precision, in which their shortest form has fewer digits."""
        return self._numbers(np.float32, {FLOAT: "f4"})

    def named(self, name: bytes) -> Any:
        """Return the positions of the entries with this name."""
        sized = np.flatnonzero(self._name_size == len(name))
        every = np.ones(len(sized), bool)
        names = pieces(self._data, self._name_at[sized], self._name_size[sized], every)
        return sized[pc.equal(names, name).to_numpy(zero_copy_only=False)]

    def values(self, places: Any) -> tuple[Any, list[Value]]:
        """Return the index of the value at each of these positions, and the values as the codec has them.

        Values of two types have two numbers, and so have 0.0 and -0.0. Damaged strings are None.
        """
        codes, values = np.zeros(len(places), np.int64), list[Value]()
        tags = self.tag[places]
        for tag in np.unique(tags).tolist():
            chosen = np.flatnonzero(tags == tag)
            code, read = self._read(tag, places[chosen])
            codes[chosen] = code + len(values)
            values += read
        return codes, values

    def _read(self, tag: int, places: Any) -> tuple[Any, list[Any]]:
        """Return the indexes and values of entries of one type."""
        at = self._at[places]
        if tag == STRING:
            raw = pieces(self._data, at, self._size[places], np.ones(len(places), bool)).dictionary_encode()
            return raw.indices.to_numpy(), [_string(each) for each in raw.dictionary.to_pylist()]
        if tag not in _READ:
            return 0, [None]
        code, kind = _READ[tag]
        bits = numbers(self._data, at, f"u{code[1:]}").astype(f"u{code[1:]}")
        some, codes = np.unique(bits, return_inverse=True)
        read = some.view(code).tolist()
        return codes, read if kind is None else [*map(kind, read)]

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


_READ: dict[int, tuple[str, Callable[[Any], Value] | None]] = {
    BOOLEAN: ("u1", bool),
    BYTE: ("i1", Byte),
    CHAR: ("u2", lambda code: Char(chr(code))),
    SHORT: ("i2", Short),
    INT: ("i4", None),
    LONG: ("i8", Long),
    FLOAT: ("u4", Float.from_bits),
    DOUBLE: ("f8", None),
}


def _string(raw: bytes) -> str | None:
    try:
        return decode_utf(raw)
    except Malformed:
        return None


VALUE = pa.struct(
    [
        ("type", pa.string()),
        ("text", pa.string()),
        ("boolean", pa.bool_()),
        ("long", pa.int64()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
    ]
)
MAP = pa.map_(pa.string(), VALUE)

TYPES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    Byte: "byte",
    Short: "short",
    int: "int",
    Long: "long",
    Float: "float",
    float: "double",
    Char: "char",
    str: "string",
    bytes: "bytes",
    dict: "map",
    list: "list",
}
"""The name of each Java type in the field ``type``."""


def properties(batch: MessageBatch) -> pa.Array:
    """Return a map per row: empty without properties, null where they do not decode."""
    return _properties(batch, {field.name for field in VALUE})


@cache
def properties_with(field: int) -> Callable[[MessageBatch], pa.Array]:
    """Make a decoder of the maps that guarantees only this field of the values."""
    return lambda batch: _properties(batch, {VALUE[field].name})


def _properties(batch: MessageBatch, fields: set[str]) -> pa.Array:
    walked, column = _walk(batch, fields)
    if walked.all():
        return column
    rest = np.flatnonzero(~walked)
    others = _Column()
    for row in rest.tolist():
        others.add(properties_of(batch, row))
    places = np.arange(len(walked))
    places[rest] = len(walked) + np.arange(len(rest))
    return pa.concat_arrays([column, others.array()]).take(pa.array(places))


def looked_up(maps: pa.Array, name: str, field: int) -> pa.Array:
    """Return this field of each map's value under this name; null where the map does not have the name."""
    offsets = np.frombuffer(maps.buffers()[1], np.int32)[maps.offset : maps.offset + len(maps) + 1]
    entries = np.flatnonzero(pc.equal(maps.keys, name).to_numpy(zero_copy_only=False))
    places = np.full(len(maps), -1)
    rows = np.searchsorted(offsets, entries, side="right") - 1
    places[rows[::-1]] = entries[::-1]  # the first of several, as in Spark
    return maps.items.field(field).take(pa.array(places, mask=places < 0))


def _walk(batch: MessageBatch, fields: set[str]) -> tuple[Any, pa.Array]:
    """Return the mask of rows that could be walked, and their maps with these fields."""
    data, spans, rows = batch.envelopes.data, batch.envelopes.properties, batch.known
    entries = Entries(data, spans, rows)
    try:
        names, strings = entries.names.cast(pa.string()), entries.strings.cast(pa.string())
    except pa.ArrowInvalid:  # NUL and astral characters, which Java encodes differently; or damage
        wrong = entries.row[~(_is_text(entries.names) & _is_text(entries.strings))]
        rows = rows.copy()
        rows[wrong] = False
        entries = Entries(data, spans, rows)
        names, strings = entries.names.cast(pa.string()), entries.strings.cast(pa.string())
    made = {
        "type": lambda: entries.types,
        "text": lambda: _texts(entries, strings),
        "boolean": entries.booleans,
        "long": entries.longs,
        "double": entries.doubles,
    }
    values = [
        made[field.name]() if field.name in fields & made.keys() else pa.nulls(len(names), field.type)
        for field in VALUE
    ]
    return entries.walked, _map(entries.ends, np.ones(len(rows), bool), names, values)


def _is_text(column: pa.Array) -> Any:
    def is_text(raw: bytes | None) -> bool:
        try:
            return raw is None or raw.decode() is not None
        except UnicodeDecodeError:
            return False

    return np.array([is_text(raw) for raw in column.to_pylist()], bool)


def _texts(entries: Entries, strings: pa.Array) -> pa.Array:
    longs, booleans = entries.longs().cast(pa.string()), entries.booleans().cast(pa.string())
    return pc.coalesce(strings, longs, booleans, _texts_of_rarer(entries, entries.doubles()))


def _texts_of_rarer(entries: Entries, doubles: pa.Array) -> pa.Array:
    """Return the string forms of doubles, floats and chars, computed one by one."""
    rarer = np.flatnonzero(np.isin(entries.tag, (DOUBLE, FLOAT, CHAR)))
    if not rarer.size:
        return pa.nulls(len(doubles), pa.string())
    places = pa.array(rarer)
    columns = (entries.chars(), entries.floats(), doubles)
    texts: list[str | None] = []
    for code, single, double in zip(*(column.take(places).to_pylist() for column in columns), strict=True):
        if code is not None:
            texts.append(for_spark(chr(code)))
        elif single is not None:
            texts.append(_text_of_float(single))
        else:
            texts.append(None if double is None else _text_of_double(double))
    found = np.full(len(doubles), -1)
    found[rarer] = np.arange(len(rarer))
    return pa.array(texts, pa.string()).take(pa.array(found, mask=found < 0))


def _text_of_float(value: float) -> str:
    return str(np.float32(value)) if math.isfinite(value) else str(plain(float(value)))


def _text_of_double(value: float) -> str:
    return float.__repr__(value) if math.isfinite(value) else str(plain(value))


def properties_of(batch: MessageBatch, row: int) -> Mapping[str, Value] | None:
    """Return the properties of a row, decoded by the codec; None where they do not decode."""
    try:
        if not batch.known[row]:
            return batch.others[row].properties if row in batch.others else None
        marshalled = batch.piece(batch.envelopes.properties, row)
        return NO_PROPERTIES if marshalled is None else decode_map(marshalled)
    except (Malformed, CorruptMessage) as error:
        batch.problem(row, error)
        return None


def _map(ends: Any, there: Any, names: pa.Array, values: list[pa.Array]) -> pa.Array:
    entries = pa.StructArray.from_arrays(
        [names, pa.StructArray.from_arrays(values, fields=[*VALUE])], fields=[MAP.key_field, MAP.item_field]
    )
    mask = pa.py_buffer(np.packbits(there, bitorder="little"))
    offsets = pa.py_buffer(np.asarray(ends, np.int32))
    return pa.Array.from_buffers(MAP, len(there), [mask, offsets], children=[entries])


class _Column:
    """Entries of maps, field by field."""

    def __init__(self) -> None:
        self._ends = [0]
        self._there: list[bool] = []
        self._names: list[str | None] = []
        self._types: list[str] = []
        self._texts: list[str | None] = []
        self._booleans: dict[int, bool] = {}
        self._longs: dict[int, int] = {}
        self._doubles: dict[int, float] = {}
        self._bytes: dict[int, bytes] = {}

    def add(self, values: Mapping[str, Value] | None) -> None:
        """Append one row."""
        for name, value in (values or NO_PROPERTIES).items():
            kind = type(value)
            entry = len(self._names)
            self._names.append(for_spark(name))
            self._types.append(TYPES[kind])
            if kind is str:
                self._texts.append(for_spark(value))  # type: ignore[arg-type]
            elif kind is int or kind is Long or kind is Short or kind is Byte:
                self._longs[entry] = value  # type: ignore[assignment]
                self._texts.append(int.__repr__(value))
            else:
                self._texts.append(self._other(entry, value))
        self._ends.append(len(self._names))
        self._there.append(values is not None)

    def _other(self, entry: int, value: Value) -> str | None:
        """Store a value of a rarer type, and return its string form."""
        match value:
            case None:
                return None
            case bool():
                self._booleans[entry] = value
                return "true" if value else "false"
            case float():
                self._doubles[entry] = float(value)
                return _text_of_float(value) if isinstance(value, Float) else _text_of_double(value)
            case bytes():
                self._bytes[entry] = value
                return str(plain(value))
            case dict() | list():
                return as_json(value)
        return for_spark(str.__str__(value))

    def array(self) -> pa.Array:
        count = len(self._names)
        values = [
            pa.array(self._types, pa.string()),
            pa.array(self._texts, pa.string()),
            _sparse(self._booleans, count, pa.bool_()),
            _sparse(self._longs, count, pa.int64()),
            _sparse(self._doubles, count, pa.float64()),
            _sparse(self._bytes, count, pa.binary()),
        ]
        return _map(self._ends, np.array(self._there, bool), pa.array(self._names, pa.string()), values)


def _sparse(values: dict[int, Any], count: int, kind: pa.DataType) -> pa.Array:
    if not values:
        return pa.nulls(count, kind)
    column: list[Any] = [None] * count
    for entry, value in values.items():
        column[entry] = value
    return pa.array(column, kind)


def as_json(value: object) -> str:
    """Encode a map, list or stream as JSON, as ``jdbcstore browse --json`` prints it."""
    try:
        return _encode(value)
    except ValueError:  # NaN or an infinity
        return _encode(plain(value))


_encode = json.JSONEncoder(
    allow_nan=False, default=lambda value: {**value} if isinstance(value, Mapping) else plain(value)
).encode
