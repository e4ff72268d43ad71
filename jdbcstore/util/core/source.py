"""The one source of the core: usual messages as bytes, and back; frames of STOMP; records of the journal.

This file runs as it is, and compiled (:mod:`jdbcstore.util.core.build`), with the same results. It imports
nothing of jdbcstore: classes, and functions for what is unusual, are arguments. Layouts are defined here, and
imported from here by the modules that have the general case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct, pack
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any

from jdbcstore.util.core import plain as cython
from jdbcstore.util.core.plain import copy, new, new_tuple, places, put, read, same, sample

SOURCE = ""
"""In the compiled core, the checksum of the files that it was built from."""

# A usual message in OpenWire: one without optional headers, so that one struct has all of them. Each x is the
# zero of an absent header.

OPENWIRE_HEAD = Struct(">Bi?")
"""Type, command id, whether a response is required."""
OPENWIRE_NUMBERS = Struct(">qq7x?qbxqx")
"""From the message id's two numbers to the type: with persistent, expiration, priority and timestamp."""
OPENWIRE_TAIL = Struct(">xx?ixqx??xqq?")
"""After the properties."""
OPENWIRE_BYTES = Struct(">Bi")
"""In front of bytes that are there: a 1 and their length."""
OPENWIRE_TEXT = Struct(">Bii")
"""In front of the content of a TextMessage, which has a length of its own."""
NO_TAIL = OPENWIRE_TAIL.pack(False, 0, 0, False, False, 0, 0, False)
OPENWIRE_VERSION = 11
OPENWIRE_BLOB = 29
"""The type of the only message that has fields behind the times of its broker and their flag."""
_TIMES = 17
"""Bytes of these two times and the flag. Older versions do not have the flag."""
_MOST = 1 << 30
"""Bytes of a body, from which on the general encoder decides."""
_NAMES = 4096

_size, _long = Struct(">i").pack, Struct(">q").pack
_numbers, _tail = OPENWIRE_NUMBERS.pack, OPENWIRE_TAIL.pack
_bytes_head, _text_head = OPENWIRE_BYTES.pack, OPENWIRE_TEXT.pack


def usual_names(kind: int, producer_id: bytes, destination: bytes) -> bytes:
    """The fields from the type to the message id, without its two numbers."""
    return b"".join(
        (OPENWIRE_HEAD.pack(kind, 0, False), producer_id, destination, b"\0\0\1\x6e\0", producer_id)
    )


def usual_blob(
    names: bytes, numbers: bytes, head: bytes, content: bytes, properties: bytes, tail: bytes
) -> bytes:
    """A message of :func:`usual_names` and so on; ``head`` says that there is content, and its length."""
    size = len(names) + len(numbers) + len(head) + len(content) + len(properties) + len(tail)
    return b"".join((_size(size), names, numbers, head, content, properties, tail))


def usual_tail(broker_in_time_ms: int) -> bytes:
    """The fields after the properties, of a message with no others of them."""
    if not broker_in_time_ms:
        return NO_TAIL
    return _tail(False, 0, 0, False, False, broker_in_time_ms, 0, False)


def broker_sequence_at(names: bytes) -> int:
    """The offset of the broker sequence in the message with these names."""
    return len(names) + 12


@cython.cclass
class Shape:
    """A class with slots, and those of its slots that matter here."""

    cls: Any
    slots: Any

    def __init__(self, cls: type, names: Sequence[str]) -> None:
        self.cls = cls
        self.slots = places(cls, names)

    def made(self, values: tuple[Any, ...]) -> Any:
        """An object with these values in its slots, which are the arguments of its class."""
        return new(self.cls, self.slots, values)


# The same, read back: with the ids of its producer and of a local transaction, and texts and a reply-to.

_read_command, _read_producer = Struct(">i?").unpack_from, Struct(">3sH").unpack_from
_read_two = Struct(">qq").unpack_from
_OPENWIRE_HEADERS = Struct(">BBiB?qbBqB")
"""From the original transaction to the type, if nothing optional is there."""
_read_headers, _headers_size = _OPENWIRE_HEADERS.unpack_from, _OPENWIRE_HEADERS.size
_read_delivery, _read_int, _read_long = (
    Struct(">?qb").unpack_from,
    Struct(">i").unpack_from,
    Struct(">q").unpack_from,
)
_OPENWIRE_END = Struct(">BB?iBqB??Bqq?")
"""After the properties, as long as :data:`OPENWIRE_TAIL`, with the presence of what is optional."""
_read_end, _end_size = _OPENWIRE_END.unpack_from, _OPENWIRE_END.size
_read_times, _times_size = Struct(">??Bqq?").unpack_from, Struct(">??Bqq?").size
_PRODUCER_ID = b"\1\x7b\1"
_SHORTEST = 36


@cython.cclass
class Decoder:
    """Reads messages of OpenWire 11 whose producer has named them, and that no network has forwarded.

    ``fields`` are those of a message, in the order of its constructor, ``stored`` those of its bytes.
    ``kinds`` are the types of messages by their numbers, ``names`` reads the bytes from the producer id to
    the message id, ``text`` decodes, and ``destination`` makes one of its number and name.
    """

    fields: Shape
    message_id: Shape
    stored: Shape
    kinds: Mapping[int, Any]
    names: Any
    text: Any
    destination: Any
    unread: Any
    no_properties: Any

    def __init__(
        self,
        fields: Shape,
        message_id: Shape,
        stored: Shape,
        *,
        kinds: Mapping[int, Any],
        names: Callable[[bytes], Any],
        text: Callable[[bytes], str],
        destination: Callable[[int, str], Any],
        unread: Any,
        no_properties: Any,
    ) -> None:
        self.fields = fields
        self.message_id = message_id
        self.stored = stored
        self.kinds = kinds
        self.names = names
        self.text = text
        self.destination = destination
        self.unread = unread
        self.no_properties = no_properties

    def message(self, data: bytes, sequence: Any, container: Any) -> Any:
        """The fields of a message; None if it has others, or may be damaged.

        :raises struct.error: it may be damaged
        """
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        size: cython.Py_ssize_t = len(data)
        kind = None
        if size > _SHORTEST:
            (at,) = _read_int(data, 0)
            if at == size - 4:
                kind = self.kinds.get(data[4])
        end = 0 if kind is None else self._end_of_names(data)
        if not end:
            return None
        command_id, response_required = _read_command(data, 5)
        producer_id, destination, transaction_id = self.names(data[10:end])
        producer_sequence, broker_sequence = _read_two(data, end)
        headers = self._headers(data, end + 16)
        if headers is None:
            return None
        (
            at, group_id, group_sequence, correlation_id, persistent,
            expiration_ms, priority, reply_to, timestamp_ms, jms_type,
        ) = headers  # fmt: skip
        content_at, content_size, at = self._span(data, at)
        properties_at, properties_size, at = self._span(data, at)
        tail = self._tail(data, at)
        if tail is None:
            return None
        (
            compressed, redelivery_counter, arrival_ms, user_id, from_bridge, droppable,
            in_time_ms, out_time_ms, first,
        ) = tail  # fmt: skip
        if not 0 <= priority <= 9:
            priority = min(max(priority, 0), 9)
        message_id = (producer_id, producer_sequence, broker_sequence if sequence is None else sequence, None)
        stored = (
            data, OPENWIRE_VERSION, end + 8, content_at, content_size, properties_at, properties_size,
            container,
        )  # fmt: skip
        values = (
            kind, destination, new(self.message_id.cls, self.message_id.slots, message_id), priority,
            timestamp_ms, expiration_ms, correlation_id, reply_to, jms_type, persistent, group_id,
            group_sequence, redelivery_counter, user_id, compressed, None, transaction_id, None, producer_id,
            arrival_ms, in_time_ms, out_time_ms, None, None, None, None, command_id, response_required,
            from_bridge, droppable, first, None, None, False, sequence, self.unread,
            self.no_properties if properties_size < 0 else self.unread,
            new(self.stored.cls, self.stored.slots, stored),
        )  # fmt: skip
        return new(self.fields.cls, self.fields.slots, values)

    @cython.cfunc
    def _end_of_names(self, data: bytes) -> cython.Py_ssize_t:
        """The offset of the message id's numbers; 0 if these are not the usual names.

        In front of it are the producer's id, the destination, perhaps a local transaction, and that id again.
        """
        size: cython.Py_ssize_t = len(data)
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        present, of_producer = _read_producer(data, 10)
        at = 34 + of_producer  # the length of the destination's name
        if present != _PRODUCER_ID or at + 2 > size:
            return 0
        at += 2 + (data[at] << 8 | data[at + 1])
        if at + 15 > size:
            return 0
        end = at + 26 + of_producer
        if data[at]:
            end += 14 + (data[at + 13] << 8 | data[at + 14])
        return 0 if end > size else end

    @cython.cfunc
    def _headers(self, data: bytes, offset: int) -> Any:
        """The content's offset, and the headers before it; None with an original transaction."""
        at: cython.Py_ssize_t = offset
        (
            transaction, group, group_sequence, correlation, persistent,
            expiration_ms, priority, reply, timestamp_ms, typed,
        ) = _read_headers(data, at)  # fmt: skip
        if transaction:
            return None
        group_id = correlation_id = reply_to = jms_type = None
        if group or correlation or reply or typed:
            group_id, at = self._text(data, at + 1)
            (group_sequence,) = _read_int(data, at)
            correlation_id, at = self._text(data, at + 4)
            persistent, expiration_ms, priority = _read_delivery(data, at)
            reply_to, at = self._destination(data, at + 10)
            (timestamp_ms,) = _read_long(data, at)
            jms_type, at = self._text(data, at + 8)
        else:
            at += _headers_size
        return (
            at, group_id, group_sequence, correlation_id, persistent, expiration_ms, priority, reply_to,
            timestamp_ms, jms_type,
        )  # fmt: skip

    @cython.cfunc
    def _tail(self, data: bytes, offset: int) -> Any:
        """The fields after the properties; None if there are unusual ones, or more bytes."""
        at: cython.Py_ssize_t = offset
        (
            structure, consumer, compressed, redelivery_counter, path, arrival_ms, user,
            from_bridge, droppable, cluster, in_time_ms, out_time_ms, first,
        ) = _read_end(data, at)  # fmt: skip
        at += _end_size
        user_id = None
        if user:
            user_id, at = self._text(data, at - _times_size - 1)
            from_bridge, droppable, cluster, in_time_ms, out_time_ms, first = _read_times(data, at)
            at += _times_size
        if structure or consumer or path or cluster or at != len(data):
            return None
        return (
            compressed, redelivery_counter, arrival_ms, user_id, from_bridge, droppable, in_time_ms,
            out_time_ms, first,
        )  # fmt: skip

    @cython.cfunc
    def _span(self, data: bytes, offset: int) -> Any:
        """The start and length of optional bytes, -1 without them, and the offset of their end."""
        at: cython.Py_ssize_t = offset
        if at >= len(data):
            raise StructError("it ends too early")
        if not data[at]:
            return 0, -1, at + 1
        (size,) = _read_int(data, at + 1)
        if size < 0:
            raise StructError("a length is negative")
        return at + 5, size, at + 5 + size

    @cython.cfunc
    def _text(self, data: bytes, offset: int) -> Any:
        """An optional string, and the offset of its end."""
        at: cython.Py_ssize_t = offset
        end: cython.Py_ssize_t
        present, high, low = _read_optional(data, at)
        if not present:
            return None, at + 1
        end = at + 3 + (high << 8 | low)
        if end > len(data):
            raise StructError("a string ends too late")
        return self.text(data[at + 3 : end]), end

    @cython.cfunc
    def _destination(self, data: bytes, offset: int) -> Any:
        """An optional destination, and the offset of its end."""
        at: cython.Py_ssize_t = offset
        present, number, _ = _read_optional(data, at)
        if not present:
            return None, at + 1
        name, at = self._text(data, at + 2)
        if name is None:
            raise StructError("a destination has no name")
        return self.destination(number, name), at


_read_optional = Struct(">BBB").unpack_from


# The same as they pass through a broker, which changes some numbers in their bytes.


@cython.cfunc
def _times_at(blob: bytes, version: int) -> cython.Py_ssize_t:
    """The offset of the two times of the broker; negative if the message is too short, or a blob message."""
    at: cython.Py_ssize_t = len(blob) - _TIMES
    if at < 5 or blob[4] == OPENWIRE_BLOB:
        return -9
    return at if version >= OPENWIRE_VERSION else at + 1


def with_broker_in_time(blob: bytes, now_ms: int, version: int) -> bytes:
    """A message, which may be damaged, with the time at which it came; a blob message as it is."""
    at: cython.Py_ssize_t = _times_at(blob, version)
    return blob if at < 0 else b"".join((blob[:at], _long(now_ms), blob[at + 8 :]))


def dispatch(
    head: bytes, blob: bytes, sequence_at: int, number: int, now_ms: int, redeliveries: int, version: int
) -> bytes:
    """The frame of a MESSAGE_DISPATCH: after ``head``, a message that leaves the broker now.

    The broker sequence at the offset in the message is replaced by ``number``.
    """
    begin: cython.Py_ssize_t = sequence_at
    begin += 8
    at: cython.Py_ssize_t = _times_at(blob, version) + 8
    # Without its size, but with the count of redeliveries, which has as many bytes.
    front = (_size(len(head) + len(blob)), head, blob[4:sequence_at], _long(number))
    if at < begin:
        return b"".join((*front, blob[begin:], _size(redeliveries)))
    return b"".join((*front, blob[begin:at], _long(now_ms), blob[at + 8 :], _size(redeliveries)))


def acknowledged(
    data: bytes, offset: int, frame: bytes, first_at: int, last_at: int, producer_id: Any, pending: Any
) -> tuple[dict[int, Any], int]:
    """What the acknowledgements from an offset on cover, and the offset of their end.

    They are those like ``frame``, which covers one message: only their command ids, and the two numbers of
    their message at ``last_at``, which is one of ``producer_id``, are others. The numbers are at ``first_at``
    as well. ``pending`` has by the second number what each covers, and the id of the message; the
    acknowledgements end where it does not have that message.
    """
    found: dict[int, Any] = {}
    at: cython.Py_ssize_t = offset
    first: cython.Py_ssize_t = first_at
    last: cython.Py_ssize_t = last_at
    size: cython.Py_ssize_t = len(frame)
    is_twice: cython.bint = first != last
    begin, names, between, rest = frame[:5], frame[9:first], frame[first + 16 : last], frame[last + 16 :]
    while data.startswith(begin, at) and data.startswith(names, at + 9):
        if not data.startswith(rest, at + last + 16):
            break
        if is_twice and not (
            data.startswith(between, at + first + 16)
            and data.startswith(data[at + last : at + last + 16], at + first)
        ):
            break
        sequence, number = _read_two(data, at + last)
        dispatched = pending.get(number)
        if dispatched is None:
            break
        delivery, message_id, _ = dispatched
        if (
            message_id.producer_sequence != sequence
            or message_id.text_view is not None
            or not (message_id.producer_id is producer_id or message_id.producer_id == producer_id)
        ):
            break
        found[number] = delivery
        at += size
    return found, at


_READ = (
    *("destination", "message_id", "body_type", "_body", "_properties"),
    *("persistent", "expiration_ms", "priority", "timestamp_ms", "broker_in_time_ms"),
)
"""The other attributes of a message."""


@cython.cclass
class Usual:
    """Recognises messages without optional headers, by one that has none: ``rare`` are those headers."""

    cls: Any
    rare: Any
    without: Any
    read: Any

    def __init__(self, template: Any, rare: Sequence[str]) -> None:
        self.cls = type(template)
        self.rare = places(type(template), rare)
        self.without = sample(template, self.rare)
        self.read = places(type(template), _READ)


@cython.cclass
class Rows:
    """Rows of one destination, for usual new messages and decoded ones; for any other message there is none.

    ``kinds`` are the numbers of the types of messages, and ``contents`` encodes bodies other than bytes and
    ASCII, and ``maps`` properties. ``producer`` names messages without an id, by ``numbers``; ``named``
    returns the OpenWire bytes of the producer id of a message with one, or None if no row can hold it.
    ``sent_size`` is what counts of a blob, if not its length.
    """

    usual: Usual
    message_id: Shape
    row_class: Any
    destination: Any
    openwire: bytes
    container: str
    kinds: Mapping[Any, int]
    producer: Any
    numbers: Any
    named: Any
    contents: Any
    maps: Any
    sent_size: Any
    largest: int
    names_of_bytes: dict[str, bytes]
    names_of_text: dict[str, bytes]
    fitting: dict[str, bool]
    bytes_kind: Any
    text_kind: Any

    def __init__(
        self,
        usual: Usual,
        message_id: Shape,
        row_class: type,
        *,
        destination: Any,
        openwire: bytes,
        container: str,
        kinds: Mapping[Any, int],
        bytes_kind: Any,
        text_kind: Any,
        producer: Any,
        numbers: Iterator[int],
        named: Callable[[Any], bytes | None],
        contents: Callable[[Any, Any], bytes | None],
        maps: Callable[[Any], bytes],
        sent_size: Callable[[bytes], int],
        largest: int,
    ) -> None:
        self.usual = usual
        self.message_id = message_id
        self.row_class = row_class
        self.destination = destination
        self.openwire = openwire
        self.container = container
        self.kinds = kinds
        self.bytes_kind = bytes_kind
        self.text_kind = text_kind
        self.producer = producer
        self.numbers = numbers
        self.named = named
        self.contents = contents
        self.maps = maps
        self.sent_size = None if sent_size is len else sent_size
        self.largest = largest
        self.names_of_bytes, self.names_of_text, self.fitting = {}, {}, {}

    @cython.ccall
    def row(self, message: Any, now_ms: int, prioritized: bool) -> Any:
        """The row of a message; None if this is not a usual one, or its values are not valid."""
        if not same(message, self.usual.without, self.usual.rare):
            return self._stored(message, prioritized)
        (
            destination, message_id, kind, body, properties,
            persistent, expiration_ms, priority, timestamp_ms, broker_in_time_ms,
        ) = read(message, self.usual.read)  # fmt: skip
        if (
            destination is not self.destination
            and destination is not None
            and destination != self.destination
        ):
            return None
        if message_id is None:
            message_id = new(
                self.message_id.cls, self.message_id.slots, (self.producer, next(self.numbers), 0, None)
            )
        producer, number, before, text_view = read(message_id, self.message_id.slots)
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
            self.row_class,
            (message_id, producer._text, number, self.container, expiration_ms, lane, blob, at),
        )

    @cython.cfunc
    def _stored(self, message: Any, prioritized: bool) -> Any:
        """The row of a message that is still as it was decoded: it has its bytes already."""
        if type(message) is not self.usual.cls:
            return None
        stored = message._source
        if stored is None or stored.version != OPENWIRE_VERSION:
            return None
        (
            destination, message_id, _, _, _, _, expiration_ms, priority, _, _,
        ) = read(message, self.usual.read)  # fmt: skip
        if message_id is None or (
            destination is not self.destination and (destination is None or destination != self.destination)
        ):
            return None
        producer, number, _, _ = read(message_id, self.message_id.slots)
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
        return new_tuple(self.row_class, values)

    @cython.cfunc
    def _fits(self, producer: Any) -> Any:
        """Whether the column holds the id of a producer."""
        fits = self.fitting.get(producer._text)
        if fits is None:
            fits = self.named(producer) is not None
            if len(self.fitting) >= _NAMES:
                self.fitting.clear()
            self.fitting[producer._text] = fits
        return fits

    @cython.cfunc
    def _blob(self, names: Any, numbers: Any, kind: Any, body: Any, properties: Any, tail: Any) -> Any:
        if kind is self.bytes_kind:
            content = body
            head = _bytes_head(1, len(content)) if content else b"\0"
        elif kind is self.text_kind and body is not None and body.isascii() and "\0" not in body:
            content = body.encode()
            head = _text_head(1, len(content) + 4, len(content))
        else:
            content = self.contents(body, kind)
            head = b"\0" if content is None else _bytes_head(1, len(content))
            content = content or b""
        if len(content) > _MOST:
            return None
        marshalled = b"\0"
        if properties:
            marshalled = self.maps(properties)
            marshalled = _bytes_head(1, len(marshalled)) + marshalled
        blob = usual_blob(names, numbers, head, content, marshalled, tail)
        size = len(blob) if self.sent_size is None else self.sent_size(blob)
        return None if size > self.largest else blob

    @cython.cfunc
    def _names(self, kind: Any, producer: Any) -> Any:
        """The fields of a message of this kind before its numbers; None if there is no such message."""
        memo = self.names_of_bytes if kind is self.bytes_kind else self.names_of_text
        if kind is self.bytes_kind or kind is self.text_kind:
            names = memo.get(producer._text)
            if names is not None:
                return names
        number, producer_id = self.kinds.get(kind), self.named(producer)
        if number is None or producer_id is None:
            return None
        names = usual_names(number, producer_id, self.openwire)
        if kind is self.bytes_kind or kind is self.text_kind:
            if len(memo) >= _NAMES:
                memo.clear()
            memo[producer._text] = names
        return names

    def rows(
        self, messages: Iterable[Any], now_ms: int, prioritized: bool, other: Callable[[Any], Any]
    ) -> list[Any]:
        """The rows of all messages; ``other`` makes those that :meth:`row` does not."""
        made = []
        for message in messages:
            row = self.row(message, now_ms, prioritized)
            made.append(other(message) if row is None else row)
        return made


def constructor(
    init: Callable[..., None],
    slots: Sequence[str],
    templates: Mapping[type, Any],
    rules: Mapping[str, tuple[type, bool, int]],
    properties: Callable[[Any], Any],
) -> Callable[..., None]:
    """A constructor as ``init``, and faster for usual arguments when compiled.

    ``templates`` are objects with nothing but a body, by the type of a body that is kept as it is. ``slots``
    begin with those of the body and the properties. ``rules`` are the type of a header, whether it may be
    None, and the largest of numbers from 0; arguments of other names, or other values, and bodies of other
    types, are for ``init``. ``properties`` checks a dict.
    """
    cls = type(next(iter(templates.values())))
    every = places(cls, slots)
    rule_of: dict[str, Any] = {name: (slots.index(name), *rule) for name, rule in rules.items()}

    def __init__(self: Any, *args: Any, **fields: Any) -> None:  # noqa: N807
        template = templates.get(type(args[0])) if len(args) == 1 else None
        if template is None or type(self) is not cls:
            init(self, *args, **fields)
            return
        copy(self, template, every)
        put(self, every, 0, args[0])
        given = None
        for name, value in fields.items():
            rule = rule_of.get(name)
            if rule is not None:
                at, kind, optional, most = rule
                is_usual = optional and value is None
                if type(value) is kind:
                    is_usual = kind is not int or 0 <= value <= most
                if is_usual:
                    put(self, every, at, value)
                    continue
            elif name == "properties" and (not value or type(value) is dict):
                given = value
                continue
            init(self, *args, **fields)
            return
        if given:
            put(self, every, 1, properties(given))

    return __init__


def references(cls: type, rows: Sequence[Any], first: int) -> list[Any]:
    """The references of stored rows: their sequences, from the first one on, and their message ids."""
    made: list[Any] = []
    for row in rows:
        made.append(new_tuple(cls, (first, row[0])))
        first += 1
    return made


def numbered_rows(rows: Sequence[Any], first: int) -> list[Any]:
    """The rows of the table: with their IDs, from the first one on, which their blobs get as well."""
    made: list[Any] = []
    for _, producer, number, container, expiration_ms, priority, blob, slot in rows:
        blob = b"".join((blob[:slot], _long(first), blob[slot + 8 :]))
        made.append((first, container, producer, number, expiration_ms, blob, priority, None))
        first += 1
    return made


# PostgreSQL's arrays of one dimension, whose elements are counted from 1.

_array_head = Struct(">iiIii").pack
_one_number = Struct(">iiIiiiq").pack
_one_element = Struct(">iiIiii").pack
_NULL = _size(-1)


def arrays(rows: Sequence[Sequence[Any]], types: Sequence[int], numbers: int) -> list[bytes]:
    """The columns of rows as binary arrays of these types, of which ``numbers`` is that of 64-bit integers.

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


# Frames of STOMP.


def usual_frame(frame: Shape, data: bytes, offset: int, limits: Any, sized: Any) -> Any:
    """A frame of STOMP 1.1 or 1.2, which may begin with line feeds, and the offset of its end.

    None if it is not complete, or not valid, or there is anything about it that needs a decision: escapes,
    carriage returns, repeated headers. See :class:`jdbcstore.broker.stomp.frames.FrameReader`, which decides.
    ``frame`` has a command, headers and a body; ``sized`` are the commands whose content-length counts.
    """
    at: cython.Py_ssize_t = offset
    size: cython.Py_ssize_t = len(data)
    end: cython.Py_ssize_t
    most: cython.Py_ssize_t = min(limits.head, limits.line)
    while at < size and data[at] == 10:
        at += 1
    end = data.find(b"\n\n", at, at + most + 2)
    if end < 0:
        return None
    try:
        text = data[at:end].decode()
    except UnicodeDecodeError:
        return None
    if "\\" in text or "\r" in text or "\0" in text:
        return None
    lines = text.split("\n")
    command = lines.pop(0)
    try:
        headers = dict([line.split(":", 1) for line in lines])
    except ValueError:
        return None
    if len(headers) != len(lines) or len(headers) > limits.headers or "" in headers:
        return None
    at = end + 2
    length = headers.get("content-length") if command in sized else None
    if length is None:
        end = data.find(b"\0", at)
    elif length.isascii() and length.isdigit() and len(length) <= 18:
        end = at + int(length)
    else:
        return None
    if end < at or end >= size or end - at > limits.body or data[end] != 0:
        return None
    return new(frame.cls, frame.slots, (command, headers, data[at:end])), end + 1


# The journal's records.

RECORD_FIELDS = Struct("<IIIIBBHQQ")
"""Length, marker, number less the durable one, sequences, kind, two of nothing, number, sequence."""
RECORD = 4 + RECORD_FIELDS.size
"""Bytes of a record's header: the checksum, and these fields."""
ADDED = Struct("<BbIIIIqq")
"""Operation, priority, lengths of container, producer and blob, slot, producer's sequence, expiration."""
_fields, _added = RECORD_FIELDS.pack, ADDED.pack
RECORD_HEAD = Struct("<I" + RECORD_FIELDS.format[1:])
"""The checksum and the fields of a record's header."""
_head, _add = RECORD_HEAD.unpack_from, ADDED.unpack_from
_PADDING = [bytes(size) for size in range(8)]


def row_chunks(rows: Sequence[Any], operation: int) -> tuple[list[bytes], int]:
    """The rows in the body of a record, each with its blob as a chunk of its own, and the bytes of all."""
    chunks: list[bytes] = []
    size: cython.Py_ssize_t = 0
    of: Any = None
    by: Any = None
    into = b""
    name = b""
    for _, producer, number, container, expiration_ms, priority, blob, slot in rows:
        if container is not of:
            into, of = container.encode(), container
        if producer is not by:
            name, by = producer.encode(), producer
        head = _added(operation, priority, len(into), len(name), len(blob), slot, number, expiration_ms)
        head = b"".join((head, into, name))
        chunks.append(head)
        chunks.append(blob)
        size += len(head) + len(blob)
    return chunks, size


def frame(
    written_class: type,
    checksum: Callable[[bytes, int], int],
    entries: Sequence[Any],
    stamp: Any,
    number: int,
    sequence: int,
    durable: int,
    room: int,
    place: Any,
) -> tuple[list[bytes], list[Any], int]:
    """See :func:`jdbcstore.journal.layout.frame`; ``stamp`` and ``place`` are pairs of numbers."""
    parts: list[bytes] = []
    written: list[Any] = []
    seed, marker = stamp
    segment, start = place
    total: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    padding: cython.Py_ssize_t
    for entry in entries:
        size = entry.size
        padding = -size & 7
        if total + RECORD + size + padding > room:
            break
        body = start + RECORD + total
        total += RECORD + size + padding
        count = entry.sequences
        head = _fields(size, marker, number - durable, count, entry.kind, 0, 0, number, sequence)
        crc = checksum(head, seed)
        chunks = entry.chunks
        for chunk in chunks:
            crc = checksum(chunk, crc)
        parts.append(crc.to_bytes(4, "little"))
        parts.append(head)
        parts.extend(chunks)
        if padding:
            parts.append(_PADDING[padding])
        written.append(new_tuple(written_class, (entry, number, sequence, segment, body)))
        number += 1
        sequence += count
    return parts, written, total


def records(
    record_class: type | None,
    checksum: Callable[[Any, int], int],
    window: bytes,
    stamp: Any,
    number: int,
    last: int,
    place: Any,
) -> tuple[list[Any], int, int, int, int]:
    """The complete records at the beginning of a window, from ``number`` to ``last``.

    ``place`` is the window's segment, and its offset in that. Without a class they are only verified. Returns
    them, the bytes of all, the next number, the kind of the last one, and the lowest sequence that the next
    one can have; kind and sequence are 0 if there is none.
    """
    found: list[Any] = []
    seed, marker = stamp
    segment, start = place
    view = memoryview(window)
    size: cython.Py_ssize_t = len(window)
    header: cython.Py_ssize_t = RECORD
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    length: cython.Py_ssize_t
    last_kind = lowest = 0
    while at + header <= size and number <= last:
        crc, length, its_marker, _, sequences, kind, flags, spare, its_number, sequence = _head(window, at)
        end = at + header + length
        if its_marker != marker or its_number != number or not kind or flags or spare or end > size:
            break  # invalid, or larger than the window
        if checksum(view[at + 4 : end], seed) != crc:
            break
        if record_class is not None:
            body = window[at + header : end]
            found.append(new_tuple(record_class, (number, kind, sequence, body, segment, start + at)))
        at = end + (-length & 7)
        number += 1
        last_kind = kind
        sequence += sequences
        if sequence > lowest:
            lowest = sequence
    return found, at, number, last_kind, lowest


def read_rows(
    row_class: type,
    message_id: Shape,
    text: Callable[[bytes], str],
    producer_id: Callable[[str], Any],
    body: bytes,
    start: int,
    operation: int,
    most: int,
) -> tuple[list[Any], int]:
    """The rows of this operation at an offset of a record's body, and where they end.

    ``text`` decodes, and ``producer_id`` parses, what mostly comes again.

    :raises ValueError: one of them ends too early
    :raises struct.error: as well
    """
    rows: list[Any] = []
    fixed: cython.Py_ssize_t = ADDED.size
    size: cython.Py_ssize_t = len(body)
    at: cython.Py_ssize_t = start
    middle: cython.Py_ssize_t
    head: cython.Py_ssize_t
    while at < size and body[at] == operation and len(rows) < most:
        _, priority, of_container, of_producer, length, slot, number, expiration_ms = _add(body, at)
        middle = at + fixed + of_container
        head = middle + of_producer
        if head + length > size or slot + 8 > length:
            raise ValueError(f"a message of {length} bytes has its sequence at {slot}, or ends too early")
        container, producer = text(body[at + fixed : middle]), text(body[middle:head])
        at = head + length
        name = new(message_id.cls, message_id.slots, (producer_id(producer), number, 0, None))
        row = (name, producer, number, container, expiration_ms, priority, body[head:at], slot)
        rows.append(new_tuple(row_class, row))
    return rows, at
