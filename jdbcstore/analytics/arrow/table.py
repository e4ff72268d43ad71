"""The columns of ``messages_decoded`` in Arrow: their types, and how each is made of stored rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.batch import MessageBatch
from jdbcstore.analytics.columns import COLUMNS, TIMES, YEAR_1_MS, YEAR_10000_MS
from jdbcstore.analytics.properties import MAP
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import DestinationKind

PAGE_BYTES, PAGE_ROWS = 16 * 1024 * 1024, 20_000
"""Most stored bytes, and most messages, that are decoded at once; one larger message is, too."""
SIZE = "size"
"""The length of MSG, as the database computes it where MSG itself is not read."""
STORED = {
    "id": pa.int64(),
    "msgid_seq": pa.int64(),
    "expiration": pa.int64(),
    "priority": pa.int64(),
    SIZE: pa.int64(),
    "container": pa.string(),
    "msgid_prod": pa.string(),
    "xid": pa.string(),
    "msg": pa.binary(),
}
"""Columns that are read of a row: those of ACTIVEMQ_MSGS, MSG last, and :data:`SIZE`."""

TIME = pa.timestamp("us", "UTC")
_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}


class ViewColumn(NamedTuple):
    """Column of the view: its type, its source, and how it is made."""

    type: pa.DataType
    stored: str
    make: Callable[[ViewRows], pa.Array]


class ViewRows:
    """Some rows of messages, of which each column is made when it is first asked for."""

    def __init__(self, stored: dict[str, pa.Array], made: dict[str, pa.Array] | None = None) -> None:
        self.stored = stored
        self._made = made or {}

    def __len__(self) -> int:
        return len(next(iter(self.stored.values())))

    @cached_property
    def batch(self) -> MessageBatch:
        """The messages themselves."""
        return MessageBatch(self.stored["msg"])

    def column(self, name: str) -> pa.Array:
        """Return a column of the view."""
        if name not in self._made:
            self._made[name] = ALL[name].make(self)
        return self._made[name]

    def filter(self, mask: pa.Array, needed: Iterable[str]) -> ViewRows:
        """Return the rows where the mask is true, with the columns ``needed`` that were made already."""
        stored = {name: column.filter(mask) for name, column in self.stored.items()}
        made = {name: self._made[name].filter(mask) for name in {*needed} & self._made.keys()}
        return ViewRows(stored, made)

    def record_batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns of the schema, cast to its types."""
        columns = [self.column(field.name).cast(field.type) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of(stored: Sequence[Any]) -> ViewRows:
    """Convert rows of ACTIVEMQ_MSGS to rows of the view."""
    kinds = {name: kind for name, kind in STORED.items() if name != SIZE}
    return ViewRows({n: pa.array([getattr(row, n) for row in stored], k) for n, k in kinds.items()})


def _as_stored(name: str) -> ViewColumn:
    return ViewColumn(STORED[name], name, lambda rows: rows.stored[name])


def _kinds(rows: ViewRows) -> pa.Array:
    """Return the kind of each destination; few destinations have many messages."""
    names = rows.stored["container"].dictionary_encode()
    kinds = [_kind(name) for name in names.dictionary.to_pylist()]
    return pa.array(kinds, pa.string()).take(names.indices)


def _kind(container: str | None) -> str | None:
    kind, there, _ = (container or "").partition("://")
    return kind if there and kind in _KINDS else None


_KINDS = frozenset(map(str, DestinationKind))


def _size(rows: ViewRows) -> pa.Array:
    if SIZE in rows.stored:
        return rows.stored[SIZE]
    return pc.binary_length(rows.stored["msg"]).cast(pa.int64())


def _decoded(name: str, kind: str, decode: Callable[[MessageBatch], pa.Array]) -> ViewColumn:
    if name in TIMES:
        return ViewColumn(TIME, "msg", lambda rows: time_of(rows.batch.column(decode)))
    return ViewColumn(_TYPES.get(kind, MAP), "msg", lambda rows: rows.batch.column(decode))


def time_of(milliseconds: pa.Array) -> pa.Array:
    """Convert epoch milliseconds to timestamps; null for 0, which means unset, and outside the calendar."""
    calendar = pc.and_(pc.greater_equal(milliseconds, YEAR_1_MS), pc.less(milliseconds, YEAR_10000_MS))
    known = pc.if_else(pc.and_(calendar, pc.not_equal(milliseconds, 0)), milliseconds, None)
    return known.cast(pa.timestamp("ms", "UTC")).cast(TIME)


PLAIN = ("id", "container", "destination", "destination_type", "msgid_prod", "msgid_seq", "expiration",
         "expires", "priority", "xid")  # fmt: skip
"""The columns of the view ``messages``, which never reads MSG."""

VIEW: dict[str, ViewColumn] = {
    **{name: _as_stored(name) for name in PLAIN if name in STORED},
    "destination": ViewColumn(pa.string(), "container", lambda rows: rows.stored["container"]),
    "destination_type": ViewColumn(pa.string(), "container", _kinds),
    "expires": ViewColumn(TIME, "expiration", lambda rows: time_of(rows.stored["expiration"])),
    "message_size": ViewColumn(pa.int64(), SIZE, _size),
    **{column.name: _decoded(column.name, column.type, column.decode) for column in COLUMNS},
}
VIEW = {name: VIEW[name] for name in (*PLAIN, *(name for name in VIEW if name not in PLAIN))}
"""The columns of ``messages_decoded``, in its order."""
ALL = {**VIEW, "msg": _as_stored("msg")}
"""The same, and the message as it is stored."""
RAW = (*PLAIN, "message_size", "msg")
"""The columns of a row as it is stored."""


def schema_of(names: Sequence[str] | None) -> pa.Schema:
    """Return the schema of these columns; None for all.

    :raises ConfigurationError: there is no such column, or one is named twice
    """
    chosen = [*VIEW] if names is None else [*names]
    for name in chosen:
        check_name(name)
    if not chosen or len({*chosen}) < len(chosen):
        raise ConfigurationError(
            f"the columns are {', '.join(chosen) or 'none'}; name at least one, and each once",
            option="columns",
        )
    return pa.schema([(name, VIEW[name].type) for name in chosen])


def check_name(name: Any, option: str = "columns") -> None:
    """Check that there is a column of this name.

    :raises ConfigurationError: there is not
    """
    if name not in VIEW:
        raise ConfigurationError(f"there is no column {name!r}; choose from {', '.join(VIEW)}", option=option)


def stored_for(names: Iterable[str]) -> list[str]:
    """Return the columns to read to make these columns, in the order of :data:`STORED`."""
    wanted = {ALL[name].stored for name in names} or {"id"}
    if "msg" in wanted:
        wanted.discard(SIZE)
    return [name for name in STORED if name in wanted]
