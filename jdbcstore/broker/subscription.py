"""The broker's end of a consumer: what is with it, and how much more it takes."""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast

from jdbcstore.broker.api import Consumer, Delivery, SubscriptionRequest
from jdbcstore.broker.entry import Entry, Source
from jdbcstore.broker.parts import Parts
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector

log = logging.getLogger(__name__)

_MANY = 1000
"""With a consumer, beyond which it gets no more where memory is full."""


class BaseSubscription:
    """A :class:`jdbcstore.broker.api.Subscription` on any number of sources, with one prefetch.

    A source asks for :attr:`room` and calls :meth:`deliver`; it is told by ``has_room`` when there is
    room again. ``on_close`` is called once, last of all.
    """

    def __init__(
        self,
        parts: Parts,
        request: SubscriptionRequest,
        consumer: Consumer,
        prefetch: int,
        selector: Selector | None = None,
    ) -> None:
        self.parts = parts
        self.loop = parts.loop
        self.request = request
        self.consumer = consumer
        self.prefetch = max(prefetch, 1)
        self._selector = selector
        self.sources: list[Source] = []
        self.held: dict[Entry, None] = {}
        """What is with the consumer, in the order of delivery."""
        self.extension = 0
        """How much of that an open transaction has acknowledged: it takes no room."""
        self.begun = False
        """Whether whoever subscribed knows it."""
        self.paused = False
        self.closed = False
        self._lets_go = not consumer.keeps_messages
        self.on_close: Callable[[BaseSubscription], None] = _nothing

    @property
    def room(self) -> int:
        """How many more messages the consumer takes."""
        if self.paused or self.closed or not self.begun:
            return 0
        count = len(self.held)
        if count >= _MANY and self._is_too_much():
            return 0
        return self.prefetch + self.extension - count

    def _is_too_much(self) -> bool:
        """Whether there is no memory for even more that a client does not acknowledge."""
        if not self.parts.memory.is_full:
            return False
        self.parts.memory.when_room(self.tell_room)
        self.parts.notices.held_up(self.parts.memory, self.request, self.request.destination)
        return True

    def wants(self, message: Message) -> bool:
        """Whether the selector, if there is one, takes the message."""
        if self._selector is None:
            return True
        try:
            return self._selector.matches(message)
        except CorruptMessage as error:
            log.warning("no selector takes a message whose properties are damaged: %s", error)
            return False

    def deliver(self, entry: Entry) -> None:
        """Give the consumer a message, for which there must be room."""
        entry.holder = self
        self.held[entry] = None
        try:
            self.consumer.deliver(entry)
        except Exception as error:
            log.exception("a consumer of %s failed and is closed", entry.destination)
            self.end(error)
            return
        if self._lets_go and entry.holder is self:
            entry.source.given(entry)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> Future[None]:
        return self._settle(deliveries, lambda source, entries: source.acknowledge(entries))

    def reject(self, deliveries: Sequence[Delivery]) -> Future[None]:
        return self._settle(deliveries, lambda source, entries: source.reject(entries, self))

    def _settle(
        self, deliveries: Sequence[Delivery], settle: Callable[[Source, list[Entry]], Future[None]]
    ) -> Future[None]:
        entries = []
        for entry in cast("Sequence[Entry]", deliveries):
            # Others are no longer with this consumer, or in a transaction.
            if entry.holder is self and entry.transaction is None:
                entry.holder = None
                del self.held[entry]
                entries.append(entry)
        done = [settle(source, mine) for source, mine in by_source(entries)]
        if entries:
            self.tell_room()
        return done[0] if len(done) == 1 else all_done(self.loop, done)

    def lend(self, deliveries: Sequence[Delivery], transaction: object) -> list[Entry]:
        """Those that are with this consumer, and now in this transaction."""
        entries = []
        for entry in cast("Sequence[Entry]", deliveries):
            if entry.holder is self and entry.transaction is None:
                entry.transaction = transaction
                entries.append(entry)
        return entries

    def begin(self) -> None:
        """Whoever subscribed has been told: deliveries may begin."""
        self.begun = True
        self.tell_room()  # unless it is closed already

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self.tell_room()

    def tell_room(self) -> None:
        """Tell the sources that there is room, if there is."""
        if self.room > 0:
            for source in self.sources:
                source.has_room(self)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        for source in self.sources:
            source.leave(self)
        # What a transaction acknowledges stays until that is decided.
        self.give_back([entry for entry in self.held if entry.transaction is None])
        self.on_close(self)

    def give_back(self, entries: Sequence[Entry]) -> None:
        """They were with the consumer, and are for another one."""
        for entry in entries:
            del self.held[entry]
            entry.holder = None
            entry.redeliver()
        for source, mine in by_source(entries):
            source.give_back(mine)

    def end(self, error: Exception) -> None:
        """The broker closes the subscription."""
        if not self.closed:
            self.close()
            self.consumer.end(error)


def _nothing(_subscription: BaseSubscription) -> None:
    return None


def by_source(entries: Iterable[Entry]) -> list[tuple[Source, list[Entry]]]:
    """The entries of each source."""
    found: dict[int, tuple[Source, list[Entry]]] = {}
    for entry in entries:
        source = entry.source
        mine = found.get(id(source))
        if mine is None:
            found[id(source)] = mine = (source, [])
        mine[1].append(entry)
    return list(found.values())


def all_done(loop: AbstractEventLoop, futures: Sequence[Future[None]]) -> Future[None]:
    """Done when all are; fails as the first of them that fails."""
    result: Future[None] = loop.create_future()
    futures = [future for future in futures if not future.done() or future.exception() is not None]
    if not futures:
        result.set_result(None)
        return result
    together = asyncio.gather(*futures, return_exceptions=True)

    def finish(done: Future[list[BaseException | None]]) -> None:
        if result.done():
            return
        errors = [error for error in done.result() if isinstance(error, BaseException)]
        if errors:
            result.set_exception(errors[0])
        else:
            result.set_result(None)

    together.add_done_callback(finish)
    return result


def then(loop: AbstractEventLoop, first: Future[None], begin: Callable[[], Future[None]]) -> Future[None]:
    """Done as what is begun when the first is done, which does not fail."""
    result: Future[None] = loop.create_future()
    first.add_done_callback(lambda _: begin().add_done_callback(partial(pass_on, result)))
    return result


def pass_on(result: Future[None], done: Future[None]) -> None:
    """Complete a future as another one is."""
    if done.cancelled():
        result.cancel()
        return
    error = done.exception()
    if result.done():
        return
    if error is None:
        result.set_result(None)
    else:
        result.set_exception(error)
