"""Usual messages as rows: new ones without rare headers, and those that are still as they were decoded.

For any other message there is no row here: :mod:`jdbcstore.stores.shared.encoding` makes it, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any

from jdbcstore.abc import MessageReference
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MESSAGE_ID_FIELDS, MessageId
from jdbcstore.message.message import RARE, BodyType, Message
from jdbcstore.message.openwire._encoder_cy import broker_sequence_at, usual_blob, usual_names, usual_tail
from jdbcstore.message.openwire.encoder import encode_body, encode_destination, encode_map, encode_producer_id
from jdbcstore.message.openwire.pieces import PIECES_START
from jdbcstore.message.openwire.wire_format import MESSAGE_TYPES, NUMBERS, PRESENT, PRESENT_TEXT, VERSION
from jdbcstore.stores.shared.rows import EncodedMessage, MessageNamer, RowLimits
from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled
from jdbcstore.util.core.plain import new, new_tuple, places, read, same, sample

_LARGEST_BODY = 1 << 30
"""Bytes of a body, from which on the general encoder decides."""
_NAMES = 4096
_numbers, _long = NUMBERS.pack, Struct(">q").pack
_bytes_head, _text_head = PRESENT.pack, PRESENT_TEXT.pack

_MESSAGE: Any = cython.declare(object, Message)
_RARE: Any = cython.declare(object, places(Message, RARE))
_WITHOUT: Any = cython.declare(object, sample(Message(b""), places(Message, RARE)))
_READ: Any = cython.declare(
    object,
    places(
        Message,
        (
            *("destination", "message_id", "body_type", "_body", "_properties"),
            *("persistent", "expiration_ms", "priority", "timestamp_ms", "broker_in_time_ms"),
        ),
    ),
)
"""The other attributes of a message."""
_ID_CLASS: Any = cython.declare(object, MessageId)
_ID: Any = cython.declare(object, places(MessageId, MESSAGE_ID_FIELDS))
_ROW: Any = cython.declare(object, EncodedMessage)
_REFERENCE: Any = cython.declare(object, MessageReference)
_BYTES: Any = cython.declare(object, BodyType.BYTES)
_TEXT: Any = cython.declare(object, BodyType.TEXT)
_KINDS: dict[BodyType, int] = cython.declare(
    dict, {kind: number for kind, number in MESSAGE_TYPES.items() if kind is not BodyType.BLOB}
)


@cython.cclass
class Rows:
    """The rows of one destination; ``namer`` names the messages that come without an id."""

    destination: Any
    openwire: bytes
    container: str
    producer: Any
    numbers: Any
    holds: Any
    sent_size: Any
    largest: int
    names_of_bytes: dict[str, bytes]
    names_of_text: dict[str, bytes]
    fitting: dict[str, bool]

    def __init__(self, destination: Destination, namer: MessageNamer, limits: RowLimits) -> None:
        self.destination = destination
        self.openwire = encode_destination(destination)
        self.container = destination.qualified_name
        self.producer, self.numbers = namer.producer, namer.sequences
        self.holds = limits.holds
        self.sent_size = None if limits.sent_size is len else limits.sent_size
        self.largest = limits.max_message_size
        self.names_of_bytes, self.names_of_text, self.fitting = {}, {}, {}

    @cython.ccall
    def row(self, message: Any, now_ms: int, prioritized: bool) -> Any:
        """Return the row of a message; None if this is not a usual one, or its values are not valid."""
        if not same(message, _WITHOUT, _RARE):
            return self._stored(message, prioritized)
        (
            destination, message_id, kind, body, properties,
            persistent, expiration_ms, priority, timestamp_ms, broker_in_time_ms,
        ) = read(message, _READ)  # fmt: skip
        if (
            destination is not self.destination
            and destination is not None
            and destination != self.destination
        ):
            return None
        if message_id is None:
            message_id = new(_ID_CLASS, _ID, (self.producer, next(self.numbers), 0, None))
        producer, number, before, text_view = read(message_id, _ID)
        names = None if producer is None or text_view is not None else self._names(kind, producer)
        if names is None:
            return None
        try:
            numbers = _numbers(
                number, before, persistent, expiration_ms, priority,
                now_ms if timestamp_ms is None else timestamp_ms,
            )  # fmt: skip
            tail = usual_tail(broker_in_time_ms)
        except StructError:
            return None
        blob = self._blob(names, numbers, kind, body, properties, tail)
        if blob is None:
            return None
        lane = priority if prioritized else 0
        at = broker_sequence_at(names)
        return new_tuple(
            _ROW,
            (message_id, producer._text, number, self.container, expiration_ms, lane, blob, at),
        )

    @cython.cfunc
    def _stored(self, message: Any, prioritized: bool) -> Any:
        """Return the row of a message that is still as it was decoded: it has its bytes already."""
        if type(message) is not _MESSAGE:
            return None
        stored = message._source
        if stored is None or stored.version != VERSION:
            return None
        (
            destination, message_id, _, _, _, _, expiration_ms, priority, _, _,
        ) = read(message, _READ)  # fmt: skip
        if message_id is None or (
            destination is not self.destination and (destination is None or destination != self.destination)
        ):
            return None
        producer, number, _, _ = read(message_id, _ID)
        if producer is None or not self._fits(producer):
            return None
        blob = stored.blob
        if (len(blob) if self.sent_size is None else self.sent_size(blob)) > self.largest:
            return None
        lane = priority if prioritized else 0
        values = (
            message_id, producer._text, number, self.container, expiration_ms, lane, blob,
            stored.sequence_offset,
        )  # fmt: skip
        return new_tuple(_ROW, values)

    @cython.cfunc
    def _fits(self, producer: Any) -> Any:
        """Return whether the column holds the id of a producer."""
        fits = self.fitting.get(producer._text)
        if fits is None:
            fits = self.holds(producer)
            if len(self.fitting) >= _NAMES:
                self.fitting.clear()
            self.fitting[producer._text] = fits
        return fits

    @cython.cfunc
    def _blob(self, names: Any, numbers: Any, kind: Any, body: Any, properties: Any, tail: Any) -> Any:
        if kind is _BYTES:
            content = body
            head = _bytes_head(1, len(content)) if content else b"\0"
        elif kind is _TEXT and body is not None and body.isascii() and "\0" not in body:
            content = body.encode()
            head = _text_head(1, len(content) + 4, len(content))
        else:
            content = encode_body(body, kind, False)
            head = b"\0" if content is None else _bytes_head(1, len(content))
            content = content or b""
        if len(content) > _LARGEST_BODY:
            return None
        marshalled = b"\0"
        if properties:
            marshalled = encode_map(properties)
            marshalled = _bytes_head(1, len(marshalled)) + marshalled
        blob = usual_blob(names, numbers, head, content, marshalled, tail)
        size = len(blob) if self.sent_size is None else self.sent_size(blob)
        return None if size > self.largest else blob

    @cython.cfunc
    def _names(self, kind: Any, producer: Any) -> Any:
        """Return a message's fields before its numbers; None if there is no such message."""
        memo = self.names_of_bytes if kind is _BYTES else self.names_of_text
        if kind is _BYTES or kind is _TEXT:
            names = memo.get(producer._text)
            if names is not None:
                return names
        number = _KINDS.get(kind)
        if number is None or not self.holds(producer):
            return None
        names = usual_names(number, encode_producer_id(producer), self.openwire)
        if kind is _BYTES or kind is _TEXT:
            if len(memo) >= _NAMES:
                memo.clear()
            memo[producer._text] = names
        return names

    def rows(
        self,
        messages: Iterable[Any],
        now_ms: Callable[[], int],
        prioritized: bool,
        other: Callable[[Any], Any],
    ) -> list[Any]:
        """Return the rows of all messages; ``other`` makes those that :meth:`row` does not.

        Messages without a timestamp share the same one.
        """
        made = []
        now: Any = 0
        for message in messages:
            if not now and message.timestamp_ms is None:
                now = now_ms()
            row = self.row(message, now, prioritized)
            made.append(other(message) if row is None else row)
        return made


def references(rows: Sequence[Any], first: int) -> list[Any]:
    """Return the references of stored rows: their sequences, from the first one on, and their message ids."""
    made: list[Any] = []
    for row in rows:
        made.append(new_tuple(_REFERENCE, (first, row[0])))
        first += 1
    return made


def numbered_rows(rows: Sequence[Any], first: int) -> list[Any]:
    """Return the rows of the table: with their IDs, from the first one on, which their blobs get as well."""
    made: list[Any] = []
    for _, producer, number, container, expiration_ms, priority, blob, slot in rows:
        blob = b"".join((blob[:slot], _long(first), blob[slot + 8 :]))
        made.append((first, container, producer, number, expiration_ms, blob, priority, None))
        first += 1
    return made


def have_bodies(rows: Sequence[Any]) -> bool:
    """Return whether one of these messages has a large body."""
    for _, _, _, _, _, _, blob, _ in rows:  # noqa: SIM110 - a generator would be two more calls
        if blob.startswith(PIECES_START):
            return True
    return False


use_compiled(globals())
