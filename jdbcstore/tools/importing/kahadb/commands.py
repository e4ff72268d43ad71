"""The commands in KahaDB's records: a byte for the kind, a length, and a message of Protocol Buffers.

Read by hand: of a dozen messages few fields are needed, a body must not be copied, and one message has two
fields with the same number, which no generator accepts. Nothing else in the project needs that format.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import XATransactionId

Transaction = XATransactionId | tuple[str, int]
"""A distributed one, or a local one by connection and number."""
Span = tuple[int, int]
"""The beginning and the end of bytes in the batch."""

_KINDS = (
    DestinationKind.QUEUE,
    DestinationKind.TOPIC,
    DestinationKind.TEMPORARY_QUEUE,
    DestinationKind.TEMPORARY_TOPIC,
)


class MalformedLog(Exception):
    """The bytes at ``at`` are not what they should be."""

    def __init__(self, reason: str, at: int) -> None:
        self.at = at
        super().__init__(reason)


class AddCommand(NamedTuple):
    """A message is added; or, as an update, its content is replaced."""

    destination: Destination
    name: str
    """Its message id."""
    body: Span
    priority: int | None
    """None if the store does not deliver by priority."""
    transaction: Transaction | None
    is_update: bool = False


class RemoveCommand(NamedTuple):
    """A message is acknowledged, of a topic for one durable subscription."""

    destination: Destination
    name: str
    subscription: str | None
    transaction: Transaction | None


class PrepareCommand(NamedTuple):
    transaction: Transaction


class CommitCommand(NamedTuple):
    transaction: Transaction


class RollbackCommand(NamedTuple):
    transaction: Transaction


class RemoveDestination(NamedTuple):
    destination: Destination


class Subscribe(NamedTuple):
    """A durable subscription is created, or removed if there is no ``info``."""

    destination: Destination
    key: str
    retroactive: bool
    info: Span | None


class AddJob(NamedTuple):
    """A message is scheduled."""

    job_id: str
    cron: str
    repeats: int
    at_ms: int
    body: Span


class Reschedule(NamedTuple):
    job_id: str
    at_ms: int
    times: int
    """Its repetitions until then."""


class RemoveJob(NamedTuple):
    job_id: str


class RemoveJobs(NamedTuple):
    """All jobs that are due between two times, both inclusive."""

    from_ms: int
    to_ms: int


class Rewritten(NamedTuple):
    """Copies of the acknowledgements and commits of an earlier log follow, which may be gone."""

    log: int


Command = (
    AddCommand
    | RemoveCommand
    | PrepareCommand
    | CommitCommand
    | RollbackCommand
    | RemoveDestination
    | Subscribe
    | AddJob
    | Reschedule
    | RemoveJob
    | RemoveJobs
    | Rewritten
)

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EVER = 2**63 - 1

Fields = dict[int, Any]
"""Number and wire type, as in the format's keys -> an unsigned number, or a span."""


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            break
    raise MalformedLog("a number does not end", at)


def _fields(data: bytes, span: Span) -> Fields:
    found: Fields = {}
    at, end = span
    while at < end:
        begin = at
        key, at = _varint(data, at, end)
        kind = key & 7
        if kind == _VARINT:
            found[key], at = _varint(data, at, end)
        elif kind == _BYTES:
            length, at = _varint(data, at, end)
            if length > end - at:
                raise MalformedLog(f"a field of {length} bytes does not fit into {end - at}", begin)
            found[key] = (at, at + length)
            at += length
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise MalformedLog(f"there is no field of type {kind}", begin)
    if at != end:
        raise MalformedLog("a field ends too late", at)
    return found


class _Reader:
    """The fields of one message."""

    __slots__ = ("_at", "_data", "_fields")

    def __init__(self, data: bytes, span: Span) -> None:
        self._data = data
        self._fields = _fields(data, span)
        self._at = span[0]

    def span(self, number: int) -> Span | None:
        return self._fields.get(number << 3 | _BYTES)

    def needed(self, number: int) -> Span:
        found = self.span(number)
        if found is None:
            raise MalformedLog(f"the field {number} is missing", self._at)
        return found

    def string(self, number: int) -> str:
        start, end = self.needed(number)
        raw = self._data[start:end]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return self._java(raw)

    def _java(self, raw: bytes) -> str:
        # Java code encodes each half of a surrogate pair.
        try:
            halves = raw.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
            return halves.decode("utf-16-le")
        except UnicodeError:
            raise MalformedLog("a string is not UTF-8", self._at) from None

    def number(self, number: int, default: int | None = None) -> int:
        """Return a signed number."""
        value: int | None = self._fields.get(number << 3, default)
        if value is None:
            raise MalformedLog(f"the field {number} is missing", self._at)
        value &= 2**64 - 1
        return value - 2**64 if value >= 2**63 else value

    def destination(self, number: int) -> Destination:
        inner = _Reader(self._data, self.needed(number))
        kind = inner.number(1)
        if not 0 <= kind < len(_KINDS):
            raise MalformedLog(f"there is no destination of type {kind}", self._at)
        return _destination(kind, inner.string(2))

    def transaction(self, number: int) -> Transaction | None:
        span = self.span(number)
        if span is None:
            return None
        info = _Reader(self._data, span)
        if info.span(1) is not None:
            local = _Reader(self._data, info.needed(1))
            return local.string(1), local.number(1)
        xa = _Reader(self._data, info.needed(2))
        return XATransactionId(_java_int(xa.number(1)), xa.binary(3), xa.binary(2))

    def outcome(self) -> Transaction:
        found = self.transaction(1)
        if found is None:
            raise MalformedLog("the transaction is missing", self._at)
        return found

    def binary(self, number: int) -> bytes:
        start, end = self.needed(number)
        return self._data[start:end]


def _java_int(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


_destinations: dict[tuple[int, str], Destination] = {}
_MOST = 4096


def _destination(kind: int, name: str) -> Destination:
    found = _destinations.get((kind, name))
    if found is None:
        if len(_destinations) >= _MOST:
            _destinations.clear()
        found = _destinations[kind, name] = Destination(_KINDS[kind], name)
    return found


def read_command(data: bytes, start: int, end: int) -> Command | None:
    """Return the command between two positions of a batch; None if it changes no message.

    :raises Malformed: it is none
    """
    if start >= end:
        raise MalformedLog("the record is empty", start)
    kind = data[start]
    length, at = _varint(data, start + 1, end)
    if length != end - at:
        raise MalformedLog(f"a command says that it has {length} bytes, and {end - at} follow", start)
    read = _READERS.get(kind)
    if read is None:
        if kind in _WITHOUT_EFFECT:
            return None
        raise MalformedLog(f"there is no command of type {kind}", start)
    command: Command = read(_Reader(data, (at, end)))
    return command


def _add(fields: _Reader) -> AddCommand:
    priority = fields.number(5, 4) if fields.number(6, 0) else None
    if priority is not None:
        priority = min(max(priority, 0), 9)
    return AddCommand(
        fields.destination(2), fields.string(3), fields.needed(4), priority, fields.transaction(1)
    )


def _update(fields: _Reader) -> AddCommand:
    return _add(_Reader(fields._data, fields.needed(1)))._replace(is_update=True, transaction=None)


def _remove(fields: _Reader) -> RemoveCommand:
    key = fields.string(5) if fields.span(5) is not None else None
    return RemoveCommand(fields.destination(2), fields.string(3), key, fields.transaction(1))


def _subscribe(fields: _Reader) -> Subscribe:
    return Subscribe(fields.destination(1), fields.string(2), bool(fields.number(3, 0)), fields.span(4))


def _add_job(fields: _Reader) -> AddJob:
    repeats = _java_int(fields.number(7))
    return AddJob(fields.string(2), fields.string(4), repeats, fields.number(9), fields.needed(8))


_READERS: dict[int, Any] = {
    1: _add,
    2: _remove,
    3: lambda fields: PrepareCommand(fields.outcome()),
    4: lambda fields: CommitCommand(fields.outcome()),
    5: lambda fields: RollbackCommand(fields.outcome()),
    6: lambda fields: RemoveDestination(fields.destination(1)),
    7: _subscribe,
    10: _update,
    11: _add_job,
    12: lambda fields: Reschedule(fields.string(2), fields.number(4), _java_int(fields.number(5))),
    13: lambda fields: RemoveJob(fields.string(2)),
    14: lambda fields: RemoveJobs(fields.number(2), fields.number(3)),
    15: lambda _: RemoveJobs(-_EVER, _EVER),
    16: lambda fields: Rewritten(fields.number(1)),
}
_WITHOUT_EFFECT = {0, 8, 9}
"""A trace, the audit of duplicates, and which logs acknowledge messages of which."""
