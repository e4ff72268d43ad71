"""The commands in KahaDB's records: a byte for the kind, a length, and a message of Protocol Buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import ConnectionId, LocalTransactionId, TransactionId, XATransactionId
from jdbcstore.message.jobs import JOBS
from jdbcstore.tools.importing.kahadb.subscription import read_subscription
from jdbcstore.tools.importing.logged import (
    AckedMessage,
    AddedMessage,
    Command,
    DestinationRemoved,
    DueRemoved,
    Ended,
    Outcome,
    Rescheduled,
    Subscribed,
    Unsubscribed,
)
from jdbcstore.tools.importing.protobuf import FieldReader, MalformedLog, java_int, read_varint
from jdbcstore.tools.importing.replay import BodyPlace

_KINDS = (
    DestinationKind.QUEUE,
    DestinationKind.TOPIC,
    DestinationKind.TEMPORARY_QUEUE,
    DestinationKind.TEMPORARY_TOPIC,
)


class Rewritten(NamedTuple):
    """Copies of the acknowledgements and commits of an earlier log follow, which may be gone."""

    log: int


class _Reader(FieldReader):
    """The fields of one command."""

    __slots__ = ()

    def destination(self, number: int) -> Destination:
        inner = _Reader(self._data, self.needed(number))
        kind = inner.number(1)
        if not 0 <= kind < len(_KINDS):
            raise MalformedLog(f"there is no destination of type {kind}", self._at)
        return _destination(kind, inner.string(2))

    def place(self, number: int) -> BodyPlace:
        """Return where bytes are, in the record."""
        start, end = self.needed(number)
        return BodyPlace(0, start, end - start)

    def transaction(self, number: int) -> TransactionId | None:
        span = self.span(number)
        if span is None:
            return None
        info = _Reader(self._data, span)
        if info.span(1) is not None:
            local = _Reader(self._data, info.needed(1))
            return LocalTransactionId(ConnectionId(local.string(1)), local.number(1))
        xa = _Reader(self._data, info.needed(2))
        return XATransactionId(java_int(xa.number(1)), xa.binary(3), xa.binary(2))

    def ended(self, outcome: Outcome) -> Ended:
        xid = self.transaction(1)
        if xid is None:
            raise MalformedLog("the transaction is missing", self._at)
        return Ended(xid, outcome)


_destinations: dict[tuple[int, str], Destination] = {}
_MOST = 4096


def _destination(kind: int, name: str) -> Destination:
    destination = _destinations.get((kind, name))
    if destination is None:
        if len(_destinations) >= _MOST:
            _destinations.clear()
        destination = _destinations[kind, name] = Destination(_KINDS[kind], name)
    return destination


def read_command(data: bytes) -> Command | Rewritten | None:
    """Return the command in these bytes, with the places of bodies in them; None if it changes no message.

    :raises MalformedLog: it is none
    """
    if not data:
        raise MalformedLog("the record is empty", 0)
    kind, end = data[0], len(data)
    length, at = read_varint(data, 1, end)
    if length != end - at:
        raise MalformedLog(f"a command says that it has {length} bytes, and {end - at} follow", 0)
    read = _READERS.get(kind)
    if read is None:
        if kind in _WITHOUT_EFFECT:
            return None
        raise MalformedLog(f"there is no command of type {kind}", 0)
    command: Command | Rewritten = read(_Reader(data, (at, end)))
    return command


def _add(fields: _Reader) -> AddedMessage:
    priority = fields.number(5, 4) if fields.number(6, 0) else None
    if priority is not None:
        priority = min(max(priority, 0), 9)
    return AddedMessage(
        fields.destination(2), fields.string(3), fields.place(4), fields.transaction(1), priority
    )


def _update(fields: _Reader) -> AddedMessage:
    return _add(_Reader(fields._data, fields.needed(1)))._replace(is_update=True, transaction=None)


def _remove(fields: _Reader) -> AckedMessage:
    key = fields.string(5) if fields.span(5) is not None else None
    return AckedMessage(fields.destination(2), fields.string(3), key, fields.transaction(1))


def _subscribe(fields: _Reader) -> Subscribed | Unsubscribed:
    topic, key, is_retroactive = fields.destination(1), fields.string(2), bool(fields.number(3, 0))
    if fields.span(4) is None:
        return Unsubscribed(topic, key)
    try:
        return Subscribed(key, read_subscription(topic, fields.binary(4)), is_retroactive)
    except MalformedLog as error:
        raise MalformedLog(f"a subscription: {error}", error.at) from error


def _add_job(fields: _Reader) -> AddedMessage:
    due = fields.number(9), java_int(fields.number(7)), bool(fields.string(4))
    return AddedMessage(JOBS, fields.string(2), fields.place(8), due=due)


_EVER = 2**63 - 1
_READERS: dict[int, Any] = {
    1: _add,
    2: _remove,
    3: lambda fields: fields.ended(Outcome.PREPARED),
    4: lambda fields: fields.ended(Outcome.COMMITTED),
    5: lambda fields: fields.ended(Outcome.ROLLED_BACK),
    6: lambda fields: DestinationRemoved(fields.destination(1)),
    7: _subscribe,
    10: _update,
    11: _add_job,
    12: lambda fields: Rescheduled(JOBS, fields.string(2), fields.number(4), java_int(fields.number(5))),
    13: lambda fields: AckedMessage(JOBS, fields.string(2)),
    14: lambda fields: DueRemoved(JOBS, fields.number(2), fields.number(3)),
    15: lambda _: DueRemoved(JOBS, -_EVER, _EVER),
    16: lambda fields: Rewritten(fields.number(1)),
}
_WITHOUT_EFFECT = {0, 8, 9}
"""A trace, the audit of duplicates, and which logs acknowledge messages of which."""
