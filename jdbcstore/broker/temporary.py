"""Temporary destinations, each owned by one connection and deleted with it."""

from __future__ import annotations

from collections.abc import Iterable

from jdbcstore.broker.directory import Directory
from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard

MOST = 100_000
"""The most temporary destinations of one connection."""


class TemporaryDestinations:
    """The existing temporary destinations.

    A name is the owner's connection id, a colon, and a part chosen by the connector. The destination exists
    once its owner subscribes, sends to it, or requests replies to it.

    :param directory: lists each one before the first message is sent to it
    """

    def __init__(self, directory: Directory) -> None:
        self._existing: dict[str, set[Destination]] = {}
        """By connection."""
        self._directory = directory

    def use(self, destinations: Iterable[Destination], connection_id: str) -> None:
        """Check the destinations of a send, and create the ones that the connection owns.

        :raises InvalidDestination: one does not exist or has wildcards, or the connection has too many
        """
        for destination in destinations:
            if not destination.is_temporary:
                continue
            owner = owner_of(destination)
            if owner == connection_id:
                self._make(destination, owner)
            elif destination not in self._existing.get(owner, ()):
                raise InvalidDestination(
                    f"{destination} does not exist: a temporary destination ends with its connection"
                )

    def _make(self, destination: Destination, owner: str) -> None:
        if is_wildcard(destination):  # a pattern of one connection's names could match another's
            raise InvalidDestination(f"{destination} has wildcards; a temporary destination has none")
        own = self._existing.setdefault(owner, set())
        if len(own) >= MOST and destination not in own:
            raise InvalidDestination(
                f"a connection may have at most {MOST} temporary destinations; use one for many replies, "
                "and correlation-id to distinguish them"
            )
        if destination not in own:
            own.add(destination)
            self._directory.add(destination)

    def expect_reply(self, destination: Destination, connection_id: str) -> None:
        """Create a destination for replies, which may arrive before its owner subscribes."""
        if destination.is_temporary and owner_of(destination) == connection_id:
            self.use([destination], connection_id)

    def own(self, destinations: Iterable[Destination], connection_id: str) -> None:
        """Create the destinations that a connection will consume.

        :raises InvalidDestination: another connection owns one of them, or one has wildcards
        """
        for destination in destinations:
            if destination.is_temporary:
                if owner_of(destination) != connection_id:
                    raise InvalidDestination(
                        f"{destination} belongs to another connection; only that connection may consume it"
                    )
                self.use([destination], connection_id)

    def delete(self, destination: Destination) -> None:
        """Delete one destination."""
        self._existing.get(owner_of(destination), set()).discard(destination)
        self._directory.remove_temporary([destination])

    def end(self, connection_id: str) -> set[Destination]:
        """Delete the destinations of a closed connection, and return them."""
        ended = self._existing.pop(connection_id, set())
        self._directory.remove_temporary(ended)
        return ended


def owner_of(destination: Destination) -> str:
    """Return the id of a temporary destination's connection."""
    return destination.name.rpartition(":")[0]
