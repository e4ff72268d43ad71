"""Messages for destinations in several stores, each stored by itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from jdbcstore.abc import Outcome, Store
from jdbcstore.errors import InvalidDestination, StoreError
from jdbcstore.message.message import Message
from jdbcstore.stores.filtered.routes import Routes
from jdbcstore.util.futures import StoreFuture


def add_apart(routes: Routes, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
    """See :meth:`jdbcstore.abc.Store.add_each_async`: the messages of each store are one such call of it."""
    places: dict[Store, list[int]] = {}
    refused: dict[int, StoreError] = {}
    for at, message in enumerate(messages):
        try:
            places.setdefault(_store_of(routes, message), []).append(at)
        except StoreError as error:
            refused[at] = error
    if len(places) == 1 and not refused:
        return next(iter(places)).add_each_async(messages)
    gathered = _Gathered(len(messages), len(places) + 1)
    gathered.take(refused)
    for store, mine in places.items():
        try:
            added = store.add_each_async([messages[at] for at in mine])
        except StoreError as error:
            gathered.take(dict.fromkeys(mine, error))
        else:
            added.add_done_callback(partial(gathered.take_done, mine))
    return gathered.result


def _store_of(routes: Routes, message: Message) -> Store:
    if message.destination is None:
        raise InvalidDestination("a message that is stored by itself needs a destination of its own")
    return routes.store_of(message.destination)


class _Gathered:
    """The outcomes of several stores, each message's in its place."""

    def __init__(self, count: int, parts: int) -> None:
        self.result: StoreFuture[list[Outcome]] = StoreFuture()
        self.result.set_running_or_notify_cancel()  # what one store has begun with, no other calls back
        self._outcomes: dict[int, Outcome] = {}
        self._count = count
        self._parts = parts
        self._lock = threading.Lock()

    def take_done(self, places: list[int], added: StoreFuture[list[Outcome]]) -> None:
        """On a thread of the store's."""
        try:
            self.take(dict(zip(places, added.result(), strict=True)))
        except StoreError as error:
            self.take(dict.fromkeys(places, error))

    def take(self, outcomes: dict[int, Outcome] | dict[int, StoreError]) -> None:
        """These are known; all of them are when every part is."""
        with self._lock:
            self._outcomes.update(outcomes)
            self._parts -= 1
            is_whole = not self._parts
        if is_whole:
            self.result.set_result([self._outcomes[at] for at in range(self._count)])
