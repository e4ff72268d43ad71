"""The directory of a broker: its connections, producers, consumers, destinations; and who watches these.

Advisories are made of this. Nothing is kept of a connection that has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from jdbcstore.broker.api import ConnectionInfo, Known, ProducerInfo, SubscriptionRequest, Watcher
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.patterns import DestinationPattern, is_wildcard

_AT_ONCE = 1000
"""Notifications in one turn of the loop that some temporary destinations have ended."""


class Directory:
    """Connections, producers and consumers, beside the destinations that their owners have.

    :param destinations: those that exist now, except temporary ones
    :param temporary: the temporary ones
    """

    def __init__(
        self,
        loop: BrokerLoop,
        destinations: Callable[[], Collection[Destination]],
        temporary: Callable[[], Collection[Destination]],
    ) -> None:
        self._loop = loop
        self._destinations = destinations
        self._temporary = temporary
        self._connections: dict[str, ConnectionInfo] = {}
        self._producers: dict[str, dict[ProducerId, ProducerInfo]] = {}
        """By connection."""
        self._consumers: dict[int, SubscriptionRequest] = {}
        """By identity: a client may make the same request twice."""
        self._watchers: dict[Watcher, None] = {}
        """Nearly every JMS client, for temporary destinations."""
        self._watching_all: dict[Watcher, None] = {}
        self._ended: dict[Destination, None] = {}
        """Temporary destinations that have ended, of which the watchers are not notified yet."""

    def add(self, what: Known) -> None:
        """It is there now, and the watchers are notified."""
        match what:
            case Destination() if what in self._ended:
                del self._ended[what]
                self.remove(what)
            case ConnectionInfo():
                self._connections[what.connection_id] = what
            case ProducerInfo():
                self._producers.setdefault(what.connection_id, {})[what.producer_id] = what
            case SubscriptionRequest():
                self._consumers[id(what)] = what
        for watcher in self._interested(what):
            watcher.added(what)

    def remove(self, what: Known) -> None:
        """It is there no more, and the watchers are notified; nothing happens if it was not known."""
        known: object = what
        match what:
            case ConnectionInfo():
                known = self._connections.pop(what.connection_id, None)
            case ProducerInfo():
                known = self._producers.get(what.connection_id, {}).pop(what.producer_id, None)
            case SubscriptionRequest():
                known = self._consumers.pop(id(what), None)
        if known is not None:
            for watcher in self._interested(what):
                watcher.removed(what)

    def ended(self, temporary: Collection[Destination]) -> None:
        """Temporary destinations are there no more, and the watchers are notified of some in each turn of the
        loop: a connection may have many, and nearly every client watches them."""
        self._ended.update(dict.fromkeys(temporary))
        self.turn()

    def turn(self) -> None:
        """Notify the watchers of some more temporary destinations that have ended."""
        for _ in range(max(_AT_ONCE // max(len(self._watchers), 1), 1)):
            if not self._ended:
                return
            self.remove(self._ended.popitem()[0])
        self._loop.schedule(self)

    def _interested(self, what: Known) -> list[Watcher]:
        is_temporary = isinstance(what, Destination) and what.is_temporary
        return [*(self._watchers if is_temporary else self._watching_all)]

    def disconnected(self, connection_id: str) -> None:
        """A connection has ended, and its producers with it."""
        for producer in [*self._producers.get(connection_id, {}).values()]:
            self.remove(producer)
        self._producers.pop(connection_id, None)
        connection = self._connections.get(connection_id)
        if connection is not None:
            self.remove(connection)

    def producer(self, connection_id: str, producer_id: ProducerId) -> ProducerInfo | None:
        """A producer of a connection; None if it is not known."""
        return self._producers.get(connection_id, {}).get(producer_id)

    def __iter__(self) -> Iterator[Known]:
        yield from self._connections.values()
        yield from self._destinations()
        yield from self._temporary()
        for producers in self._producers.values():
            yield from producers.values()
        yield from self._consumers.values()

    def consumers_of(self, destination: Destination) -> int:
        """The number of consumers of a destination, which may have wildcards."""
        return sum(_meets(destination, one.destination) for one in self._consumers.values())

    def producers_of(self, destination: Destination) -> int:
        """The number of producers that were made for a destination."""
        every = (one for producers in self._producers.values() for one in producers.values())
        return sum(_meets(destination, one.destination) for one in every)

    def watch(self, watcher: Watcher, *, only_temporary: bool) -> None:
        """Notify a watcher of changes from now on."""
        self._watchers[watcher] = None
        if not only_temporary:
            self._watching_all[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)
        self._watching_all.pop(watcher, None)


def _meets(one: Destination, other: Destination) -> bool:
    """Whether two destinations have any in common, for one without or with wildcards."""
    return any(_matches(mine, theirs) for mine in one.members for theirs in other.members)


def _matches(one: Destination, other: Destination) -> bool:
    if one == other:
        return True
    if is_wildcard(other) and DestinationPattern(other).matches(one):
        return True
    return is_wildcard(one) and DestinationPattern(one).matches(other)
