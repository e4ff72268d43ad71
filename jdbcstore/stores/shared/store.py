"""The base of the stores that open destinations themselves: on tables, in memory, and behind a journal."""

from __future__ import annotations

import threading
from abc import abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import MutableMapping
from typing import Generic, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

from jdbcstore.abc import MessageStore, Progress, TopicMessageStore
from jdbcstore.config.store import NameLengths
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.stores.shared.checks import agreed, destination_named
from jdbcstore.util.closing import Closing


class DeletableTopic(TopicMessageStore, Protocol):
    def remove_all_subscriptions(self) -> None:
        """Delete every durable subscription of this topic for which nothing is in doubt."""


Q = TypeVar("Q", bound=MessageStore)
T = TypeVar("T", bound=DeletableTopic)


class DestinationsStore(Closing, Generic[Q, T]):
    """A store that opens each queue and topic once. Thread-safe.

    A deleted destination is kept as long as a caller keeps it, so no destination has two objects. With
    ``behind``, all are kept so: the store in front of this one keeps destinations in use.
    """

    commits_in_order = True
    _most_queues: int | None = None
    """Beyond so many destinations, a queue that no caller keeps is opened again; None keeps all."""

    def __init__(self, lengths: NameLengths, *, behind: bool = False) -> None:
        self._lengths = lengths
        self._lock = threading.Lock()
        """Protects the two maps; never held while a destination is opened."""
        self._places: MutableMapping[Destination, Q | T] = {}
        if behind:
            self._places, self._most_queues = WeakValueDictionary(), None
        self._deleted: WeakValueDictionary[Destination, Q | T] = WeakValueDictionary()
        """Destinations that were deleted, or were opened long ago."""

    def use_loop(self, loop: AbstractEventLoop | None) -> None:
        """Nothing, where a store can only write on threads."""

    @abstractmethod
    def _new_place(self, destination: Destination, prioritized: bool | None) -> Q | T:
        """Open a queue or a topic."""

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> Q:
        place = self._opened(destination_named(name, DestinationKind.QUEUE, self._lengths), prioritized)
        return agreed(cast(Q, place), prioritized)

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> T:
        place = self._opened(destination_named(name, DestinationKind.TOPIC, self._lengths), prioritized)
        return agreed(cast(T, place), prioritized)

    def _place(self, destination: Destination) -> Q | T:
        """Return the queue or topic of a destination."""
        place = self._places.get(destination)
        if place is None:
            place = self.topic(destination) if destination.is_topic else self.queue(destination)
        return place

    def _opened(self, destination: Destination, prioritized: bool | None) -> Q | T:
        with self._lock:
            place = self._places.get(destination)
            if place is None and (place := self._deleted.pop(destination, None)) is not None:
                self._places[destination] = place
                self._set_aside()
        if place is None:
            made = self._new_place(destination, prioritized)
            with self._lock:
                place = self._places.setdefault(destination, made)
                self._set_aside()
        return place

    def _set_aside(self) -> None:
        """Leave queues of long ago to their callers, if there are too many; the lock is held."""
        for _ in range(2):  # some stay: topics have state, and priorities may have been asked for
            if self._most_queues is not None and len(self._places) > self._most_queues:
                oldest = next(iter(self._places))
                place = self._places.pop(oldest)
                stays = oldest.is_topic or place.prioritized
                (self._places if stays else self._deleted)[oldest] = place

    def delete_destination(self, destination: Destination, progress: Progress | None = None) -> int:
        place = self._place(destination)
        if destination.is_topic:
            cast(T, place).remove_all_subscriptions()
        else:
            self.drop_record(destination)
        removed = place.remove_all_messages(progress)
        with self._lock:
            if not self._is_used(place) and self._places.pop(destination, None) is not None:
                self._deleted[destination] = place
        return removed

    @abstractmethod
    def drop_record(self, queue: Destination) -> None:
        """Undo ``record_queue``, if that was called."""

    def _is_used(self, _place: Q | T) -> bool:
        """Return whether a deleted destination must stay open; the lock is held."""
        return False

    @abstractmethod
    def close(self, timeout: float | None = None) -> None: ...
