"""Destinations as STOMP clients write them: /queue/ORDERS, /topic/NEWS, /temp-queue/answers."""

from __future__ import annotations

from functools import lru_cache

from jdbcstore.destination import Destination, DestinationKind
from jdbcstore.errors import InvalidDestination, ProtocolError

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

    def destination(self, text: str) -> Destination:
        """The destination of a header. A list with commas is a composite.

        :raises ProtocolError: it begins with nothing that ActiveMQ knows
        """
        if "/temp-" not in text:
            return _parse(text)
        members = [self._temporary_or_other(part) for part in text.strip().split(",")]
        return members[0] if len(members) == 1 else _composite(members)

    def text(self, destination: Destination) -> str:
        """What a client of this connection calls it."""
        return self._names.get(destination) or _text(destination)

    def _temporary_or_other(self, text: str) -> Destination:
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
        return _parse(text)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Destination:
    members = [_parse_one(part, text) for part in text.strip().split(",")]
    return members[0] if len(members) == 1 else _composite(members)


def _parse_one(part: str, text: str) -> Destination:
    for prefix, kind in _PREFIXES.items():
        if part.startswith(prefix):
            try:
                return Destination.parse(f"{kind.value}://{part[len(prefix) :]}")
            except InvalidDestination as error:
                raise ProtocolError(str(error)) from error
    raise ProtocolError(
        f"the destination {text[:80]!r} is none; begin it with /queue/, /topic/, /temp-queue/ or /temp-topic/"
    )


def _composite(members: list[Destination]) -> Destination:
    """All of them; as in ActiveMQ, those of the first one's kind go by their bare names."""
    kind = members[0].kind
    names = [one.name if one.kind is kind else one.qualified_name for one in members]
    return Destination(kind, ",".join(names))


@lru_cache(maxsize=4096)
def _text(destination: Destination) -> str:
    return _PREFIX_OF[destination.kind] + destination.name
