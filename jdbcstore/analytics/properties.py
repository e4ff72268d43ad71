"""The properties of many messages as one column of maps."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.batch import Batch, for_spark
from jdbcstore.analytics.entries import Entries
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import NO_PROPERTIES
from jdbcstore.message.openwire.content import decode_map
from jdbcstore.message.openwire.wire_format import CHAR, Malformed
from jdbcstore.message.values import Byte, Char, Float, Long, Short, Value

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
"""What each Java type is called in the field ``type``."""


def properties(batch: Batch) -> pa.Array:
    """A map for each row: empty without properties, null where they cannot be read."""
    return _properties(batch, {field.name for field in VALUE})


@cache
def properties_with(field: int) -> Callable[[Batch], pa.Array]:
    """The same; of values, no more than this field is sure to be there."""
    return lambda batch: _properties(batch, {VALUE[field].name})


def _properties(batch: Batch, fields: set[str]) -> pa.Array:
    walked, column = _walk(batch, fields)
    if walked.all():
        return column
    rest = np.flatnonzero(~walked)
    others = _Column()
    for row in rest.tolist():
        others.add(_decoded(batch, row))
    places = np.arange(len(walked))
    places[rest] = len(walked) + np.arange(len(rest))
    return pa.concat_arrays([column, others.array()]).take(pa.array(places))


def looked_up(maps: pa.Array, name: str, field: int) -> pa.Array:
    """A field of the value that each map has under this name; null where it has none."""
    offsets = np.frombuffer(maps.buffers()[1], np.int32)[maps.offset : maps.offset + len(maps) + 1]
    found = np.flatnonzero(pc.equal(maps.keys, name).to_numpy(zero_copy_only=False))
    places = np.full(len(maps), -1)
    rows = np.searchsorted(offsets, found, side="right") - 1
    places[rows[::-1]] = found[::-1]  # of several the first, as Spark does
    return maps.items.field(field).take(pa.array(places, mask=places < 0))


def _walk(batch: Batch, fields: set[str]) -> tuple[Any, pa.Array]:
    """Which rows could be walked, and their maps with these fields; those of the others are empty."""
    data, spans, rows = batch.envelopes.data, batch.envelopes.properties, batch.known
    entries = Entries(data, spans, rows)
    try:
        names, strings = entries.names.cast(pa.string()), entries.strings.cast(pa.string())
    except pa.ArrowInvalid:  # NUL and astral characters, which Java writes in its own way; or damage
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
    """The texts of doubles, floats and chars, one by one."""
    if doubles.null_count == len(doubles) and not (entries.tag == CHAR).any():
        return pa.nulls(len(doubles), pa.string())
    columns = (entries.chars(), entries.floats(), doubles)
    texts: list[str | None] = []
    for code, single, double in zip(*(column.to_pylist() for column in columns), strict=True):
        if code is not None:
            texts.append(for_spark(chr(code)))
        elif single is not None:
            texts.append(_text_of_float(single))
        else:
            texts.append(None if double is None else str(plain(double)))
    return pa.array(texts, pa.string())


def _text_of_float(value: float) -> str:
    return str(np.float32(value)) if math.isfinite(value) else str(plain(float(value)))


def _decoded(batch: Batch, row: int) -> Mapping[str, Value] | None:
    """The properties of a row as the codec reads them."""
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
        """One row."""
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
        """Keep a value of a rarer type, and give its text."""
        match value:
            case None:
                return None
            case bool():
                self._booleans[entry] = value
                return "true" if value else "false"
            case float():
                self._doubles[entry] = float(value)
                return _text_of_float(value) if isinstance(value, Float) else str(plain(value))
            case bytes():
                self._bytes[entry] = value
                return base64.b64encode(value).decode("ascii")
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
    """JSON of a map, list or stream; as ``jdbcstore browse --json`` prints it."""
    return json.dumps(plain(value), allow_nan=False)


def plain(value: object) -> object:
    """The value as JSON has it: bytes become base64, floats that are no number their name."""
    match value:
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value
