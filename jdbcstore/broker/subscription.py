"""Subscriptions: the unacknowledged entries of a consumer, and its prefetch limit."""

from __future__ import annotations

import logging
import threading
from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

from jdbcstore.broker.api import Consumer, Delivery, MessageEventKind, SubscriptionRequest
from jdbcstore.broker.attempts import Attempt
from jdbcstore.broker.entry import Entry, EntrySource, report_consumed
from jdbcstore.broker.loop import unheard
from jdbcstore.broker.memory import Resources
from jdbcstore.errors import CorruptMessage, SpillFailed
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector

log = logging.getLogger(__name__)

_MOST_DECODED = 1 << 20
"""The most stored bytes of messages whose properties are kept decoded for other selectors."""
_RETURNED = "Its consumers have left without an acknowledgement"
_LONGEST = 200
"""The most characters of a cause in the log."""
_MANY = 1000
"""The most unacknowledged entries of a consumer while memory is full."""


class Dispatching(Protocol):
    """A source that chooses among its subscriptions: a queue."""

    def has_room(self, subscription: BaseSubscription) -> None:
        """Deliver more, because the subscription has room again."""

    def leave(self, subscription: BaseSubscription) -> None:
        """Forget a closed subscription. Called before its entries are given back."""

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call back once all messages that can be delivered now have been."""


@dataclass(eq=False, repr=False)
class BaseSubscription:
    """A :class:`jdbcstore.broker.api.Subscription` to any number of sources, with one prefetch limit.

    A source reads :attr:`room` and calls :meth:`deliver`.

    :raises InvalidSelector: the request's selector is invalid
    """

    _resources: Resources
    request: SubscriptionRequest
    consumer: Consumer
    prefetch: int
    """The default limit, if the request has none."""
    on_close: Callable[[BaseSubscription], object] = field(kw_only=True)
    """Called once, after everything else."""

    def __post_init__(self) -> None:
        self._loop = self._resources.loop
        request = self.request
        if request.prefetch is None:
            self.prefetch = max(self.prefetch, 1)
        elif not request.prefetch_is_default:
            self.prefetch = request.prefetch
        self._selector = Selector(request.selector) if request.selector else None
        self.queues: list[Dispatching] = []
        self.held: dict[Entry, int] = {}
        """The unacknowledged entries, in the order of delivery, with the time of each in epoch milliseconds;
        0 for reserved ones."""
        self.lent: set[Entry] = set()
        """Deliveries that an open transaction has acknowledged."""
        self.extension: set[Entry] = set()
        """Deliveries that take no room, because an open transaction has acknowledged them, or the client
        will."""
        self.reserved: set[Entry] = set()
        """Deliveries that the consumer does not have yet."""
        self._pulled = 0
        """Messages still to be delivered without a prefetch."""
        self.begun = False
        """Whether the subscriber knows the subscription; nothing is delivered before."""
        self.paused = False
        self.closed = False
        self.is_slow = False
        """Whether watchers were notified that it is slow."""
        self.dispatched = 0
        """Deliveries to the consumer."""
        self.rejected = 0
        """Messages that the consumer rejected."""
        self.unloads_messages = not self.consumer.keeps_messages
        self._reports_dispatches = self._resources.events.reports_dispatches and not request.browser

    @property
    def room(self) -> int:
        """Return the number of messages that may still be delivered."""
        if self.paused or self.closed or not self.begun:
            return 0
        count = len(self.held)
        if count >= _MANY and self._is_too_much():
            return 0
        if self.prefetch:
            return self.prefetch + len(self.extension) - count
        return self._pulled

    @property
    def in_use(self) -> int:
        """Return the part of the prefetch limit that is in use."""
        return len(self.held) - len(self.extension)

    @property
    def oldest_ms(self) -> int | None:
        """Return the time of the first unacknowledged delivery; None without one."""
        times = (time_ms for entry, time_ms in self.held.items() if time_ms and entry not in self.lent)
        return next(times, None)

    def _is_too_much(self) -> bool:
        """Return whether there is no memory for more unacknowledged messages."""
        memory = self._resources.memory
        if not memory.is_full:
            return False
        memory.when_room(self.on_room)
        self._resources.notices.held_up(memory.reached, self.request, self.request.destination)
        return True

    def wants(self, message: Message) -> bool:
        """Return whether the selector matches, if there is one."""
        return self._selector is None or matches(self._selector, message)

    def reserve(self, entry: Entry) -> None:
        """Hold a message for the consumer, which must have room, before :meth:`deliver`."""
        self._hold(entry)
        self.reserved.add(entry)

    def _hold(self, entry: Entry) -> None:
        self.held[entry] = 0
        if self._pulled:
            self._pulled -= 1

    def deliver(self, entry: Entry) -> None:
        """Pass a message to the consumer, which must have room."""
        if entry in self.reserved:
            self.reserved.remove(entry)
        else:
            self._hold(entry)
        now_ms = self.held[entry] = self._loop.clock.now_ms()
        self.dispatched += 1
        counters = entry.source.counters
        counters.dispatched += 1
        message = entry.message
        sent_ms = message.timestamp_ms
        if sent_ms:
            counters.waited_ms += max(now_ms - sent_ms, 0)
        tracing = self._resources.tracing
        if tracing is not None:
            tracing.delivered(entry, self.request)
        try:
            self.consumer.deliver(entry)
        except Exception as error:
            log.exception("a consumer of %s failed and is closed", entry.destination)
            self.end(error)
            return
        if self._reports_dispatches:
            events, kind = self._resources.events, MessageEventKind.DISPATCHED
            events.happened(kind, entry.destination, [message], self.request)
        if self.unloads_messages and entry in self.held:
            entry.source.delivered(entry)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> Future[None]:
        done = self._settle(deliveries, self._acknowledge)
        tracing = self._resources.tracing
        return done if tracing is None else tracing.settled("acknowledge", deliveries, self.request, done)

    def reject(self, deliveries: Sequence[Delivery], cause: str | None = None) -> Future[None]:
        done = self._settle(deliveries, partial(self._reject, cause=cause, outcome="rejected"))
        tracing = self._resources.tracing
        return done if tracing is None else tracing.settled("reject", deliveries, self.request, done)

    def _reject(
        self, source: EntrySource, entries: list[Entry], *, cause: str | None, outcome: str
    ) -> Future[None]:
        consumer = self.request.client or f"connection {self.request.connection_id}"
        attempt = Attempt(self._loop.clock.now_ms(), f"{outcome} by {consumer}")
        name, client_id = self.request.subscription_name, self.request.client_id
        subscriber = None if name is None else f"{client_id}:{name}"
        self._resources.attempts.record([entry.key for entry in entries], subscriber, attempt)
        self.rejected += len(entries)
        if self._resources.notices.is_news("rejected", source.destination, consumer, interval=60.0):
            why = f": {cause[:_LONGEST]}" if cause else ""
            log.warning("%s: messages are %s%s", source.destination, attempt.text, why)
        return source.reject(entries, cause)

    def _acknowledge(self, source: EntrySource, entries: list[Entry]) -> Future[None]:
        report_consumed(self._resources.events, source, entries)
        event_log = self._resources.event_log
        if event_log is not None:
            event_log.acknowledged(self.request, entries)
        return source.acknowledge(entries)

    def expire(self, deliveries: Sequence[Delivery]) -> Future[None]:
        return self._settle(deliveries, lambda source, entries: source.expire(entries))

    def _settle(
        self, deliveries: Sequence[Delivery], settle: Callable[[EntrySource, list[Entry]], Future[None]]
    ) -> Future[None]:
        entries = []
        for entry in cast("Sequence[Entry]", deliveries):
            # Other entries are no longer with this consumer, or are in a transaction.
            if entry in self.held and entry not in self.lent:
                del self.held[entry]
                entries.append(entry)
        if self.extension:
            self.extension.difference_update(entries)
        done = [settle(source, mine) for source, mine in by_source(entries)]
        if entries:
            self.on_room()
        return done[0] if len(done) == 1 else self._loop.all_done(done)

    def lend(self, deliveries: Sequence[Delivery]) -> list[Entry]:
        """Lend unacknowledged entries to a transaction; return the ones that this consumer still holds.

        They no longer take room, and stay here until :meth:`settle_lent` or :meth:`take_back_lent`.
        """
        entries = []
        for entry in cast("Sequence[Entry]", deliveries):
            if entry in self.held and entry not in self.lent:
                self.lent.add(entry)
                entries.append(entry)
        self.extension.update(entries)
        self.on_room()
        return entries

    def settle_lent(self, entries: Sequence[Entry]) -> None:
        """Forget lent entries after the commit of their transaction."""
        self.lent.difference_update(entries)
        self.extension.difference_update(entries)
        for entry in entries:
            del self.held[entry]

    def take_back_lent(self, entries: Sequence[Entry]) -> None:
        """Take back lent entries after a rollback; if this is closed, their sources get them."""
        self.lent.difference_update(entries)
        self.extension.difference_update(entries)
        if self.closed:
            self.give_back(entries)

    def extend(self, deliveries: Sequence[Delivery]) -> None:
        self.extension.update(entry for entry in cast("Sequence[Entry]", deliveries) if entry in self.held)
        self.on_room()

    def change_prefetch(self, prefetch: int) -> None:
        self.prefetch = max(prefetch, 0)
        self.on_room()

    def pull(self, count: int) -> None:
        self._pulled = 0 if self.prefetch else count
        self.on_room()

    def when_settled(self, callback: Callable[[], None]) -> None:
        if self.begun:
            self._call_when_settled(callback)
        else:  # it begins in the next iteration of the loop, and has no entries until then
            self._loop.call_soon(self.when_settled, callback)

    def _call_when_settled(self, callback: Callable[[], None]) -> None:
        remaining = len(self.queues)
        if not remaining:
            self._loop.call_soon(callback)

        def settled() -> None:
            nonlocal remaining
            remaining -= 1
            if not remaining:
                callback()

        for queue in self.queues:
            queue.when_settled(settled)

    def begin(self) -> None:
        """Start delivering, because the subscriber has the subscription."""
        self.begun = True
        self.on_room()  # unless it is already closed

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self.on_room()

    def on_room(self) -> None:
        """Notify the queues, if there is room."""
        if self.room > 0:
            for queue in self.queues:
                queue.has_room(self)

    def close(self, unseen: Collection[Delivery] = (), *, has_left: bool = False) -> None:
        if self.closed:
            return
        self.closed = True
        for queue in self.queues:
            queue.leave(self)
        # Entries acknowledged by a transaction stay until its outcome.
        entries = [entry for entry in self.held if entry not in self.lent]
        self.give_back(entries, unseen, has_left=has_left)
        self.on_close(self)

    def give_back(
        self, entries: Sequence[Entry], unseen: Collection[Delivery] = (), *, has_left: bool = False
    ) -> None:
        """Return unacknowledged entries to their sources, marked as redelivered unless they are unseen.

        :param has_left: whether their client has disconnected, which may count as a rejection
        """
        self.extension.difference_update(entries)
        returned: list[Entry] = []
        for entry in entries:
            del self.held[entry]
            if entry in self.reserved or (entry in unseen and not entry.is_marked):
                self.reserved.discard(entry)
                entry.return_unseen()
            elif has_left and entry.source.counts_returned:
                returned.append(entry)
            else:
                entry.redeliver()
        if returned:
            counted = {*returned}
            entries = [entry for entry in entries if entry not in counted]
            for source, mine in by_source(returned):
                done = self._reject(source, mine, cause=_RETURNED, outcome="left unacknowledged")
                done.add_done_callback(unheard)
        for source, mine in by_source(entries):
            source.give_back(mine)

    def end(self, error: Exception) -> None:
        """Close the subscription and notify its consumer."""
        if not self.closed:
            self.close()
            self.consumer.end(error)

    def fall_behind(self, message: Message, topics: Iterable[Destination]) -> None:
        """Notify the watchers, once, that this message waits because the consumer is slow."""
        if not self.is_slow:
            self.is_slow = True
            for topic in topics:
                events = self._resources.events
                events.happened(MessageEventKind.SLOW_CONSUMER, topic, [message], self.request)

    def on_lost(self, error: SpillFailed) -> None:
        """End, because a temporary file with waiting messages cannot be read back."""
        self._loop.call_soon(self.end, error)  # not in the middle of a dispatch


class _Decoded(threading.local):
    """A cache of decoded properties for selectors; all other messages are encoded in memory.

    Decoded properties take many times the bytes that ``memory_limit`` counts for their message.
    """

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._size = 0

    def add(self, message: Message) -> None:
        self._messages.append(message)
        self._size += message.stored_size
        while self._size > _MOST_DECODED:
            oldest = self._messages.popleft()
            self._size -= oldest.stored_size
            oldest.forget_properties()


_decoded = _Decoded()


def matches(selector: Selector, message: Message) -> bool:
    """Return whether a selector matches; no selector matches a message with damaged properties."""
    try:
        was_unread = message.has_unread_properties
        matched = selector.matches(message)
        if was_unread and not message.has_unread_properties:
            _decoded.add(message)
        return matched
    except CorruptMessage as error:
        log.warning("no selector matches a message with damaged properties: %s", error)
        return False


def by_source(entries: Sequence[Entry]) -> list[tuple[EntrySource, list[Entry]]]:
    """Return the entries grouped by source."""
    if len(entries) == 1:
        return [(entries[0].source, [*entries])]
    by_identity: dict[int, tuple[EntrySource, list[Entry]]] = {}
    for entry in entries:
        source = entry.source
        mine = by_identity.get(id(source))
        if mine is None:
            by_identity[id(source)] = mine = (source, [])
        mine[1].append(entry)
    return list(by_identity.values())
