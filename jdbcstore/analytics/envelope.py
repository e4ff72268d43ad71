"""Where the fields of many messages are: a batch of MSG columns walked at once, with numpy.

The walk knows version 11 as ActiveMQ stores nearly every message. What it does not know for certain
(transactions, advisories, networks of brokers, version 6, damage) it leaves to the codec, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from jdbcstore.analytics.walking import WINDOW, Walk
from jdbcstore.message.message import BodyType
from jdbcstore.message.openwire.wire_format import DESTINATION_KINDS, MESSAGE_ID, MESSAGE_TYPES, PRODUCER_ID

_FIRST_DESTINATION, _LAST_DESTINATION = min(DESTINATION_KINDS), max(DESTINATION_KINDS)
_BLOB = MESSAGE_TYPES[BodyType.BLOB]


@dataclass(frozen=True, slots=True)
class Spans:
    """One piece of each message: where it starts in the batch, how long it is, whether it is there."""

    start: Any
    size: Any
    present: Any


@dataclass(frozen=True, slots=True)
class Names:
    """A destination of each message: its type's number, and its name."""

    number: Any
    name: Spans


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer of each message."""

    connection: Spans
    value: Any
    session: Any


class Envelopes:
    """The fields of a batch; ``known`` says of each row whether what stands here is right.

    Of a row that is not known every other number here is meaningless, but every span is within
    ``data``.
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
        walk.skip(8)  # the broker's sequence, which is the row's ID
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
    """The bytes of a whole batch, and where each row starts and ends in them."""
    _, offsets, data = blobs.buffers()
    width = np.int64 if pa.types.is_large_binary(blobs.type) else np.int32
    bounds = np.frombuffer(offsets, width)[blobs.offset : blobs.offset + len(blobs) + 1].astype(np.int64)
    flat = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    if len(flat) < WINDOW:
        flat = np.concatenate([flat, np.zeros(WINDOW, np.uint8)])
    return flat, bounds[:-1], bounds[1:]


class _Walk:
    """A place in each row, moved along by every field that is read.

    Places only ever grow. A row that ends exactly where it should has therefore never left its
    bytes; of the others reading behind the end gives some byte or other.
    """

    def __init__(self, data: Any, starts: Any, ends: Any) -> None:
        self._walk = Walk(data, starts)
        self._size = len(data)
        self._ends = ends
        self._right = np.ones(len(starts), bool)

    def require(self, condition: Any) -> None:
        self._right &= condition

    def ended(self) -> Any:
        return self._right & (self._walk.places == self._ends)

    def skip(self, size: int) -> None:
        self._walk.skip(size)

    def byte(self) -> Any:
        return self._field("u1")

    def number(self, size: int) -> Any:
        """A signed number of so many bytes."""
        return self._field(f"i{size}").astype(np.int64, copy=False)

    def present(self) -> Any:
        """Whether an optional field follows; one is the only way in which Java says so."""
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
        """A number; where it is not present it is none, and the place stays."""
        everywhere = present is True or (present | ~self._right).all()
        if not everywhere and not (present & self._right).any():
            return np.zeros(len(self._right), code)
        value = self._walk.next(code)
        self._walk.skip(value.itemsize if everywhere else present * value.itemsize)
        return value

    def _span(self, code: str, present: Any) -> Spans:
        """What has its size, a number, in front."""
        size = self._field(code, present).astype(np.int64)
        self.require(~present | (size >= 0))
        # What does not fit into its row moves the place behind the end, and never back.
        size = np.where(present, np.clip(size, 0, self._size), 0)
        start = self._walk.places
        self._walk.skip(size)
        return Spans(np.minimum(start, self._size - size), size, present)

    def nested(self, number: int, *, always: bool = False) -> Any:
        """Whether a nested object of this type follows."""
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
        """The name that an object has if it is there."""
        self.require(~present | (self._field("u1", present) == 1))
        return self._span("u2", present)
