"""The directory of a broker: its connections, producers, consumers and destinations, and their watchers.

Advisories are based on it. An ended connection leaves no state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jdbcstore.broker.api import ConnectionInfo, Known, ProducerInfo, SubscriptionRequest, Watcher
from jdbcstore.broker.events import MessageEvents
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.patterns import DestinationPattern, is_wildcard

_AT_ONCE = 1000
"""Notifications of ended temporary destinations per iteration of the event loop."""


class Directory:
    """Connections, producers, consumers and destinations that clients can see; used on the loop only.

    :param events: notifies watchers of message events
    """

    def __init__(self, loop: BrokerLoop, events: MessageEvents) -> None:
        self._loop = loop
        self._events = events
        self._connections: dict[str, ConnectionInfo] = {}
        self._destinations: dict[Destination, Destination] = {}
        """The existing destinations, except temporary ones."""
        self._temporary: dict[Destination, Destination] = {}
        self._producers: dict[str, dict[ProducerId, ProducerInfo]] = {}
        """By connection."""
        self._consumers: dict[int, SubscriptionRequest] = {}
        """By identity, because a client may make the same request twice."""
        self._watchers: dict[Watcher, None] = {}
        """Watchers of temporary destinations: nearly every JMS client."""
        self._watching_all: dict[Watcher, None] = {}
        self._ended: dict[Destination, None] = {}
        """Ended temporary destinations whose watchers are not notified yet."""

    def add(self, what: Known) -> None:
        """List a connection, producer, consumer or destination, and notify the watchers."""
        match what:
            case Destination():
                if what in self._ended:
                    del self._ended[what]
                    self._notify_removed(what)
                (self._temporary if what.is_temporary else self._destinations)[what] = what
            case ConnectionInfo():
                self._connections[what.connection_id] = what
            case ProducerInfo():
                self._producers.setdefault(what.connection_id, {})[what.producer_id] = what
            case SubscriptionRequest():
                self._consumers[id(what)] = what
        for watcher in self._interested(what):
            watcher.added(what)

    def remove(self, what: Known) -> None:
        """Remove an object that :meth:`add` listed, and notify the watchers; do nothing if it was not listed.

        For a durable subscription, only the removal is announced.
        """
        known: object = what
        match what:
            case Destination():
                known = self._destinations.pop(what, None)
            case ConnectionInfo():
                known = self._connections.pop(what.connection_id, None)
            case ProducerInfo():
                known = self._producers.get(what.connection_id, {}).pop(what.producer_id, None)
            case SubscriptionRequest():
                known = self._consumers.pop(id(what), None)
        if known is not None:
            self._notify_removed(what)

    def _notify_removed(self, what: Known) -> None:
        for watcher in self._interested(what):
            watcher.removed(what)

    def remove_temporary(self, ended: Collection[Destination]) -> None:
        """Remove temporary destinations; watchers are notified of a few per iteration of the event loop.

        A connection may have many, and nearly every client watches them.
        """
        for destination in ended:
            self._temporary.pop(destination, None)
        self._ended.update(dict.fromkeys(ended))
        self.turn()

    def turn(self) -> None:
        """Notify the watchers of more ended temporary destinations."""
        for _ in range(max(_AT_ONCE // max(len(self._watchers), 1), 1)):
            if not self._ended:
                return
            self._notify_removed(self._ended.popitem()[0])
        self._loop.schedule(self)

    def _interested(self, what: Known) -> list[Watcher]:
        is_temporary = isinstance(what, Destination) and what.is_temporary
        return [*(self._watchers if is_temporary else self._watching_all)]

    def disconnected(self, connection_id: str) -> None:
        """Remove an ended connection and its producers."""
        for producer in [*self._producers.get(connection_id, {}).values()]:
            self.remove(producer)
        self._producers.pop(connection_id, None)
        connection = self._connections.get(connection_id)
        if connection is not None:
            self.remove(connection)

    def remove_producer(self, connection_id: str, producer_id: ProducerId) -> None:
        """Remove an ended producer; do nothing if it was not listed."""
        producer = self._producers.get(connection_id, {}).get(producer_id)
        if producer is not None:
            self.remove(producer)

    def all_known(self, *, only_temporary: bool) -> list[Known]:
        """Return all current objects: connections and destinations first, then producers and consumers.

        :param only_temporary: only temporary destinations
        """
        if only_temporary:
            return [*self._temporary]
        return [
            *self._connections.values(),
            *self._destinations,
            *self._temporary,
            *self._all_producers(),
            *self._consumers.values(),
        ]

    def _all_producers(self) -> Iterator[ProducerInfo]:
        for producers in self._producers.values():
            yield from producers.values()

    @property
    def producer_count(self) -> int:
        """The number of producers for any destination."""
        return sum(map(len, self._producers.values()))

    def count_consumers(self, destination: Destination) -> int:
        """Return the number of consumers of a destination, which may have wildcards."""
        return sum(_meets(destination, request.destination) for request in self._consumers.values())

    def count_producers(self, destination: Destination) -> int:
        """Return the number of producers for a destination."""
        return sum(_meets(destination, producer.destination) for producer in self._all_producers())

    def watch(self, watcher: Watcher, *, only_temporary: bool) -> None:
        """Notify a watcher of every change from now on, or only of temporary destinations."""
        self._watchers[watcher] = None
        if not only_temporary:
            self._watching_all[watcher] = None
            self._events.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop notifying a watcher."""
        self._watchers.pop(watcher, None)
        self._watching_all.pop(watcher, None)
        self._events.unwatch(watcher)


def _meets(first: Destination, second: Destination) -> bool:
    """Return whether two destinations, which may have wildcards, have a member in common."""
    return any(_matches(member, wanted) for member in first.members for wanted in second.members)


def _matches(first: Destination, second: Destination) -> bool:
    if first == second:
        return True
    if is_wildcard(second) and DestinationPattern(second).matches(first):
        return True
    return is_wildcard(first) and DestinationPattern(first).matches(second)
