"""Vectorised decoding of message envelopes: the position of each field in a batch of MSG columns.

Only version 11, in the form in which ActiveMQ stores nearly every message, is decoded here. Rows in any other
form (transactions, advisories, networks of brokers, version 6, damage) are left to the codec, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from jdbcstore.message.message import BodyType
from jdbcstore.message.openwire.wire_format import DESTINATION_KINDS, MESSAGE_ID, MESSAGE_TYPES, PRODUCER_ID

MOST = 8
"""Bytes of the widest number; an array to read numbers from has at least as many."""
_MAX_NARROW = (1 << 31) - 1


def pieces(data: Any, starts: Any, sizes: Any, rows: Any) -> pa.Array:
    """Return the bytes at ``starts``, ``sizes`` long, in one copy; null where the mask ``rows`` is false.

    The spans of the rows that are not null must be ascending and must not overlap.
    """
    count = len(starts)
    # Each piece and the gap after it: together they are an Arrow array over ``data``, without a copy.
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
    """Return the big-endian numbers of the numpy type ``code`` at these positions; arbitrary past the end."""
    kind = np.dtype(f">{code}")
    # A strided view: every position of ``data``, aligned or not, starts a number.
    all_ = np.ndarray((len(data) - kind.itemsize + 1,), kind, buffer=data, strides=(1,))
    return all_[np.minimum(places, len(all_) - 1)]


WINDOW = 64
"""Bytes gathered per row at once; a flat array of bytes has at least as many."""


class Walk:
    """A position in each row of ``data``. Positions only grow; bytes beyond the end are arbitrary.

    Rows mostly have the same fields of the same sizes. As long as they do, all positions move together, and a
    field is a column of a table of the next bytes of each row.
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
        """Advance by a number of bytes, the same for all rows or one per row."""
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
        """Read the big-endian numbers at the positions, of the numpy type ``code``."""
        kind = np.dtype(f">{code}")
        if self._table is None or self._ahead + kind.itemsize > WINDOW:
            self._scan()
        if not len(self):
            return np.zeros(0, code)
        strided = np.ndarray((len(self),), kind, self._table, self._ahead, (WINDOW,))
        return strided.astype(kind.newbyteorder("="))

    def _scan(self) -> None:
        self._from, self._ahead = self.places, 0
        data, places = self._data, self._from
        last = len(data) - WINDOW
        self._table = _windows(data)[np.minimum(places, last)]
        over = np.flatnonzero(places > last)
        if over.size:
            tail = np.concatenate([data[last:], np.zeros(WINDOW, np.uint8)])
            self._table[over] = _windows(tail)[np.minimum(places[over] - last, WINDOW)]


def _windows(data: Any) -> Any:
    """Return the window of bytes at each position of ``data``."""
    return np.ndarray((len(data) - WINDOW + 1,), f"V{WINDOW}", data, strides=(1,))


_FIRST_DESTINATION, _LAST_DESTINATION = min(DESTINATION_KINDS), max(DESTINATION_KINDS)
_BLOB = MESSAGE_TYPES[BodyType.BLOB]


@dataclass(frozen=True, slots=True)
class Spans:
    """One field of each message: its start in the batch, its size, and whether it is present."""

    start: Any
    size: Any
    present: Any


@dataclass(frozen=True, slots=True)
class Names:
    """A destination of each message: the number of its type, and its name."""

    number: Any
    name: Spans


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer of each message."""

    connection: Spans
    value: Any
    session: Any


class Envelopes:
    """The fields of a batch; ``known`` is a mask of the rows for which they are valid.

    The numbers of any other row are meaningless, but its spans are still within ``data``.
    """

    def __init__(self, blobs: pa.BinaryArray) -> None:
        self.data, starts, ends = _bytes_of(blobs)
        walk = _Walk(self.data, starts, ends)
        size, self.kind = walk.number(4), walk.byte()
        walk.require(size == ends - starts - 4)
        walk.require((self.kind >= MESSAGE_TYPES[BodyType.MESSAGE]) & (self.kind < _BLOB))
        walk.skip(5)  # command id, response required
        self.producer = walk.producer()
        self.destination = walk.destination()
        walk.absent()  # transaction
        self.original_destination = walk.destination()
        walk.nested(MESSAGE_ID, always=True)
        self.text_view, self.message_producer = walk.string(), walk.producer()
        self.message_sequence = walk.number(8)
        walk.skip(8)  # the broker's sequence, which is column ID
        walk.absent()  # original transaction
        self.group_id, self.group_sequence = walk.string(), walk.number(4)
        self.correlation_id, self.persistent = walk.string(), walk.byte() != 0
        walk.skip(8)  # expiration, which is a column
        self.priority = np.clip(walk.number(1), 0, 9)
        self.reply_to, self.timestamp, self.jms_type = walk.destination(), walk.number(8), walk.string()
        self.content, self.properties = walk.binary(), walk.binary()
        walk.absent()  # data structure
        walk.absent()  # target consumer
        self.compressed, self.redelivery_counter = walk.byte() != 0, walk.number(4)
        walk.absent()  # the brokers on its way
        self.arrival, self.user_id = walk.number(8), walk.string()
        walk.skip(2)  # received by a bridge, droppable
        walk.absent()  # cluster
        self.broker_in_time, self.broker_out_time = walk.number(8), walk.number(8)
        walk.skip(1)  # first for its consumer
        self.known = walk.ended()


def _bytes_of(blobs: pa.BinaryArray) -> tuple[Any, Any, Any]:
    """Return the bytes of a whole batch, and the start and end of each row in them."""
    _, offsets, data = blobs.buffers()
    width = np.int64 if pa.types.is_large_binary(blobs.type) else np.int32
    bounds = np.frombuffer(offsets, width)[blobs.offset : blobs.offset + len(blobs) + 1].astype(np.int64)
    flat = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    if len(flat) < WINDOW:
        flat = np.concatenate([flat, np.zeros(WINDOW, np.uint8)])
    return flat, bounds[:-1], bounds[1:]


class _Walk(Walk):
    """A position in each row that every read field advances.

    A row that ends exactly at its end has never left its bytes, because positions only grow; reads of other
    rows beyond the end return arbitrary bytes."""

    def __init__(self, data: Any, starts: Any, ends: Any) -> None:
        super().__init__(data, starts)
        self._size = len(data)
        self._ends = ends
        self._right = np.ones(len(starts), bool)

    def require(self, condition: Any) -> None:
        self._right &= condition

    def ended(self) -> Any:
        return self._right & (self.places == self._ends)

    def byte(self) -> Any:
        return self._field("u1")

    def number(self, size: int) -> Any:
        """Read a signed number of this many bytes."""
        return self._field(f"i{size}").astype(np.int64, copy=False)

    def present(self) -> Any:
        """Read whether an optional field follows; Java writes nothing but 1 for that."""
        value = self.byte()
        self.require(value <= 1)
        return value == 1

    def absent(self) -> None:
        self.require(self.byte() == 0)

    def string(self) -> Spans:
        return self._span("u2", self.present())

    def binary(self) -> Spans:
        return self._span("i4", self.present())

    def _field(self, code: str, present: Any = True) -> Any:
        """Read a number; where it is absent it is 0, and the position does not move."""
        everywhere = present is True or (present | ~self._right).all()
        if not everywhere and not (present & self._right).any():
            return np.zeros(len(self._right), code)
        value = self.next(code)
        self.skip(value.itemsize if everywhere else present * value.itemsize)
        return value

    def _span(self, code: str, present: Any) -> Spans:
        """Read a field after its size, which is a number."""
        size = self._field(code, present).astype(np.int64)
        self.require(~present | (size >= 0))
        # A size beyond the row moves the position beyond the end, and never back.
        size = np.where(present, np.clip(size, 0, self._size), 0)
        start = self.places
        self.skip(size)
        return Spans(np.minimum(start, self._size - size), size, present)

    def nested(self, number: int, *, always: bool = False) -> Any:
        """Read whether a nested object of this type follows."""
        present = self.present()
        if always:
            self.require(present)
        self.require(~present | (self._field("u1", present) == number))
        return present

    def destination(self) -> Names:
        present = self.present()
        number = self._field("u1", present)
        self.require(~present | ((number >= _FIRST_DESTINATION) & (number <= _LAST_DESTINATION)))
        return Names(number, self._name_of(present))

    def producer(self) -> Producer:
        present = self.nested(PRODUCER_ID)
        connection = self._name_of(present)
        return Producer(connection, self._field("i8", present), self._field("i8", present))

    def _name_of(self, present: Any) -> Spans:
        """Read the name of an object that may be absent."""
        self.require(~present | (self._field("u1", present) == 1))
        return self._span("u2", present)
