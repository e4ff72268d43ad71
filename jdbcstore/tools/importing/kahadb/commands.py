"""The commands in KahaDB's records: a byte for the kind, a length, and a message of Protocol Buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import XATransactionId
from jdbcstore.tools.importing.protobuf import FieldReader, MalformedLog, Span, java_int, read_varint

Transaction = XATransactionId | tuple[str, int]
"""A distributed one, or a local one by connection and number."""
_KINDS = (
    DestinationKind.QUEUE,
    DestinationKind.TOPIC,
    DestinationKind.TEMPORARY_QUEUE,
    DestinationKind.TEMPORARY_TOPIC,
)


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


class _Reader(FieldReader):
    """The fields of one command."""

    __slots__ = ()

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
        return XATransactionId(java_int(xa.number(1)), xa.binary(3), xa.binary(2))

    def outcome(self) -> Transaction:
        found = self.transaction(1)
        if found is None:
            raise MalformedLog("the transaction is missing", self._at)
        return found


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

    :raises MalformedLog: it is none
    """
    if start >= end:
        raise MalformedLog("the record is empty", start)
    kind = data[start]
    length, at = read_varint(data, start + 1, end)
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
    repeats = java_int(fields.number(7))
    return AddJob(fields.string(2), fields.string(4), repeats, fields.number(9), fields.needed(8))


_EVER = 2**63 - 1
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
    12: lambda fields: Reschedule(fields.string(2), fields.number(4), java_int(fields.number(5))),
    13: lambda fields: RemoveJob(fields.string(2)),
    14: lambda fields: RemoveJobs(fields.number(2), fields.number(3)),
    15: lambda _: RemoveJobs(-_EVER, _EVER),
    16: lambda fields: Rewritten(fields.number(1)),
}
_WITHOUT_EFFECT = {0, 8, 9}
"""A trace, the audit of duplicates, and which logs acknowledge messages of which."""
