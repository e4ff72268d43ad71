"""A store over several stores, with a route from each destination to one of them."""

from __future__ import annotations

import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

from jdbcstore.abc import MessageStore, Outcome, Progress, Store, TopicMessageStore
from jdbcstore.errors import StoreClosed, StoreError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.message import Message
from jdbcstore.stores.filtered.routes import Route, Routes, destination_named
from jdbcstore.stores.filtered.transaction import FilteredTransactions, Outcomes, Writes
from jdbcstore.stores.shared.encoding import Result, encode_each, own_destination
from jdbcstore.stores.shared.rows import MessageNamer
from jdbcstore.stores.shared.transaction import BufferedTransaction
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.closing import Closing
from jdbcstore.util.futures import StoreFuture, done

T = TypeVar("T")
_THREADS = 4
_LAST_WORDS = 1.0
"""Seconds for a pending commit to notice that its stores were closed."""
_PRODUCER_LENGTH = 250
"""The default length of MSGID_PROD."""


class FilteredStore(Closing):
    """Routes each destination to one of several stores; ActiveMQ's mKahaDB, with any stores.

    It keeps every promise of :class:`jdbcstore.abc.Store` that its stores keep, with three differences.
    Sequences are each store's own: they order the messages of one destination and of one store.
    A transaction over several stores is committed in two phases: if the process ends in between, it is
    finished when a filtered store with the same routes is opened. And such a transaction accepts neither
    ``update_message`` nor an ``acknowledge`` of a topic's message for all subscriptions.

    It owns its stores: closing it closes them. Opening finishes interrupted transactions, unless this and its
    stores are ``read_only``.

    :raises ConfigurationError: there is no route, or two stores have the same name
    :raises StoreUnavailable: a store does not answer
    """

    commits_in_order = False
    """Transactions over several stores run in threads, each for several commits."""

    def __init__(
        self, routes: Sequence[Route], *, clock: Clock | None = None, read_only: bool = False
    ) -> None:
        self.routes = Routes(routes)
        """The routes, and the stores that are open."""
        self.outcomes = Outcomes(self.routes)
        """The decisions on transactions over several stores."""
        namer = MessageNamer(clock or SystemClock(), _PRODUCER_LENGTH)
        self.xa = FilteredTransactions(self.routes, self.outcomes, namer, self._run)
        self._threads = ThreadPoolExecutor(_THREADS, "jdbcstore-filtered")
        self._running: set[Future[None]] = set()
        self._lock = threading.Lock()
        self._closed = False
        if not read_only:
            try:
                self.outcomes.finish()
            except BaseException:
                self.routes.close_each()
                raise

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> MessageStore:
        destination = destination_named(name, DestinationKind.QUEUE)
        return self.routes.store_of(destination).queue(destination, prioritized=prioritized)

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> TopicMessageStore:
        destination = destination_named(name, DestinationKind.TOPIC)
        return self.routes.store_of(destination).topic(destination, prioritized=prioritized)

    def transaction(self) -> BufferedTransaction[Writes]:
        return self.xa.begin()

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        """As the contract says: the messages of each store are one such call of it."""
        routed, outcomes = encode_each(messages, self._routed)
        places: dict[Store, list[int]] = {}
        for at, (store, _) in enumerate(routed):
            places.setdefault(store, []).append(at)
        if len(places) == 1 and len(routed) == len(messages):
            return next(iter(places)).add_each_async(messages)
        if not places:
            return done(outcomes([]))
        gathered = _Gathered(len(routed), len(places), outcomes)
        for store, mine in places.items():
            try:
                added = store.add_each_async([routed[at][1] for at in mine])
            except StoreError as error:
                gathered.record(dict.fromkeys(mine, error))
            else:
                added.add_done_callback(partial(gathered.record_done, mine))
        return gathered.result

    def use_loop(self, loop: AbstractEventLoop | None) -> None:
        """Nothing: its stores write on threads of their own."""

    def _routed(self, message: Message) -> tuple[Store, Message]:
        return self.routes.store_of(own_destination(message)), message

    def _run(self, work: Callable[[], T]) -> StoreFuture[T]:
        result: StoreFuture[T] = StoreFuture()
        with self._lock:
            if self._closed:
                raise StoreClosed()
            running = self._threads.submit(_fulfil, result, work)
            self._running.add(running)
        running.add_done_callback(self._running.discard)
        return result

    def destinations(self) -> list[Destination]:
        destinations = (
            destination
            for store in self.routes.stores
            for destination in store.destinations()
            if self.routes.leads_to(store, destination)
        )
        return sorted(destinations, key=str)

    def record_queue(self, name: str | Destination) -> None:
        destination = destination_named(name, DestinationKind.QUEUE)
        self.routes.store_of(destination).record_queue(destination)

    def drop_record(self, queue: Destination) -> None:
        self.routes.store_of(queue).drop_record(queue)

    def delete_destination(self, destination: Destination, progress: Progress | None = None) -> int:
        """As the contract says. A store of its own is closed and removed with the destination."""
        removed = self.routes.store_of(destination).delete_destination(destination, progress)
        if self.routes.has_its_own(destination):
            with self.outcomes.alone():
                self.routes.remove(destination)
        return removed

    def last_sequence(self) -> int:
        """Return the highest of any store."""
        return max(store.last_sequence() for store in self.routes.stores)

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        sequences = (store.last_producer_sequence_id(producer_id) for store in self.routes.stores)
        return max((sequence for sequence in sequences if sequence is not None), default=None)

    def cleanup(self, progress: Progress | None = None) -> int:
        return sum(store.cleanup(progress) for store in self.routes.stores)

    def close(self, timeout: float | None = None) -> None:
        with self._lock:
            self._closed = True
            self._threads.shutdown(wait=False)
        deadline = None if timeout is None else time.monotonic() + timeout
        self.routes.close()
        late = wait(tuple(self._running), timeout).not_done
        unwritten: list[StoreClosed] = []
        for store in self.routes.stores:
            try:
                store.close(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except StoreClosed as error:
                unwritten.append(error)
        wait(late, _LAST_WORDS)
        if unwritten or late:
            raise StoreClosed(
                f"closed after {timeout} seconds; writes that were not done by then have failed with"
                " StoreClosed",
                unwritten=sum(error.unwritten for error in unwritten) or len(late),
            )


class _Gathered:
    """The outcomes of several stores, in the order of the messages; ``merged`` makes the result of them."""

    def __init__(self, count: int, parts: int, merged: Result) -> None:
        self.result: StoreFuture[list[Outcome]] = StoreFuture()
        self.result.set_running_or_notify_cancel()  # a store may have begun with its part
        self._outcomes: dict[int, Outcome] = {}
        self._count = count
        self._parts = parts
        self._merged = merged
        self._lock = threading.Lock()

    def record_done(self, places: list[int], added: StoreFuture[list[Outcome]]) -> None:
        """Note that a store has completed its part, on its own thread."""
        try:
            self.record(dict(zip(places, added.result(), strict=True)))
        except StoreError as error:
            self.record(dict.fromkeys(places, error))

    def record(self, outcomes: Mapping[int, Outcome]) -> None:
        """Record the outcomes of one part; the last one completes the future."""
        with self._lock:
            self._outcomes.update(outcomes)
            self._parts -= 1
            is_complete = not self._parts
        if is_complete:
            self.result.set_result(self._merged([self._outcomes[at] for at in range(self._count)]))


def _fulfil(result: StoreFuture[T], work: Callable[[], T]) -> None:
    if not result.set_running_or_notify_cancel():
        return
    try:
        result.set_result(work())
    except BaseException as error:
        result.set_exception(error)
