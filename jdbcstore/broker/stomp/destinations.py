"""Destinations as STOMP clients write them: /queue/ORDERS, /topic/NEWS, /temp-queue/answers."""

from __future__ import annotations

from functools import lru_cache

from jdbcstore.errors import InvalidDestination, ProtocolError
from jdbcstore.message.destination import Destination, DestinationKind, clean_name

_PREFIXES = {
    "/queue/": DestinationKind.QUEUE,
    "/topic/": DestinationKind.TOPIC,
    "/remote-temp-queue/": DestinationKind.TEMPORARY_QUEUE,
    "/remote-temp-topic/": DestinationKind.TEMPORARY_TOPIC,
}
_PREFIX_OF = {kind: prefix for prefix, kind in _PREFIXES.items()}
_TEMPORARY = {
    "/temp-queue/": DestinationKind.TEMPORARY_QUEUE,
    "/temp-topic/": DestinationKind.TEMPORARY_TOPIC,
}
_MOST_TEMPORARY = 10_000


class DestinationNames:
    """What one connection calls its destinations: ``/temp-queue/x`` is another one for each connection."""

    __slots__ = ("_connection_id", "_names", "_temporary")

    def __init__(self, connection_id: str) -> None:
        self._connection_id = connection_id
        self._temporary: dict[str, Destination] = {}
        self._names: dict[Destination, str] = {}

    def destination(self, text: str, *, strict: bool = False) -> Destination:
        """The destination of a header. A list with commas is a composite.

        As in ActiveMQ, what has no kind is a queue, unless ``strict``.

        :raises ProtocolError: it is none
        """
        if "/temp-" not in text:
            return _parse(text, strict)
        members = [self._temporary_or_other(part, strict) for part in text.strip().split(",")]
        return members[0] if len(members) == 1 else _composite(members)

    def text(self, destination: Destination) -> str:
        """What a client of this connection calls it."""
        return self._names.get(destination) or _text(destination)

    def _temporary_or_other(self, text: str, strict: bool) -> Destination:
        known = self._temporary.get(text)
        if known is not None:
            return known
        for prefix, kind in _TEMPORARY.items():
            if text.startswith(prefix):
                if len(self._temporary) >= _MOST_TEMPORARY:
                    raise ProtocolError(
                        f"the connection has named {_MOST_TEMPORARY} temporary destinations; connect again"
                    )
                destination = Destination(kind, f"{self._connection_id}:{len(self._temporary) + 1}")
                self._temporary[text] = destination
                self._names[destination] = text
                return destination
        return _parse(text, strict)


@lru_cache(maxsize=4096)
def _parse(text: str, strict: bool) -> Destination:
    members = [_parse_one(part, text, strict) for part in text.strip().split(",")]
    return members[0] if len(members) == 1 else _composite(members)


def _parse_one(part: str, text: str, strict: bool) -> Destination:
    kind, name = DestinationKind.QUEUE, part
    for prefix, known in _PREFIXES.items():
        if part.startswith(prefix):
            kind, name, strict = known, part[len(prefix) :], False
    if strict:
        raise ProtocolError(
            f"Illegal destination name: [{text[:80]}]; begin it with /queue/, /topic/ or /temp-queue/"
        )
    try:
        return Destination(kind, clean_name(name))
    except InvalidDestination as error:
        raise ProtocolError(f"Illegal destination name: [{text[:80]}]: {error}") from error


def _composite(members: list[Destination]) -> Destination:
    """All of them, spelt as ActiveMQ does: the first gives the kind, the others name theirs."""
    first, *others = members
    return Destination(first.kind, ",".join((first.name, *(one.qualified_name for one in others))))


@lru_cache(maxsize=4096)
def _text(destination: Destination) -> str:
    return _PREFIX_OF[destination.kind] + destination.name
