"""Temporary destinations: each is one connection's own, and ends with it."""

from __future__ import annotations

from collections.abc import Iterable

from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination

MOST = 100_000
"""Of one connection, with which they end."""


class Temporary:
    """Which temporary destinations there are.

    The name says whose it is: a connection's id, a colon, and whatever the connector puts there. It is
    there from when its owner subscribes, sends to it, or asks for replies to it.
    """

    def __init__(self) -> None:
        self._existing: dict[str, set[Destination]] = {}
        """By connection."""

    def use(self, destinations: Iterable[Destination], connection_id: str) -> None:
        """A connection sends there. What is its own is made, if it is not there.

        :raises InvalidDestination: its owner has not made one of them, or is gone, or has too many
        """
        for destination in destinations:
            if not destination.is_temporary:
                continue
            owner = owner_of(destination)
            if owner == connection_id:
                self._make(destination, owner)
            elif destination not in self._existing.get(owner, ()):
                raise InvalidDestination(
                    f"{destination} is not there: a temporary destination ends with its connection"
                )

    def _make(self, destination: Destination, owner: str) -> None:
        own = self._existing.setdefault(owner, set())
        if len(own) >= MOST and destination not in own:
            raise InvalidDestination(
                f"a connection has {MOST} temporary destinations at most; use one for many replies, and"
                " correlation-id to tell them apart"
            )
        own.add(destination)

    def expect_reply(self, destination: Destination, connection_id: str) -> None:
        """A connection wants replies there, and they may come before it subscribes."""
        if destination.is_temporary and owner_of(destination) == connection_id:
            self.use([destination], connection_id)

    def own(self, destinations: Iterable[Destination], connection_id: str) -> None:
        """A connection is going to consume them.

        :raises InvalidDestination: one is another connection's
        """
        for destination in destinations:
            if destination.is_temporary:
                if owner_of(destination) != connection_id:
                    raise InvalidDestination(
                        f"{destination} is another connection's own, and consumed by that one alone"
                    )
                self.use([destination], connection_id)

    def end(self, connection_id: str) -> set[Destination]:
        """A connection is gone; what was its own is so too."""
        return self._existing.pop(connection_id, set())


def owner_of(destination: Destination) -> str:
    """The id of the connection that a temporary destination ends with."""
    return destination.name.rpartition(":")[0]
