"""The consumer of a durable subscription."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from jdbcstore.broker.api import Consumer, SubscriptionRequest
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.queues.redelivery import Delays
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.feed import DurableFeed
from jdbcstore.broker.topics.subscriber import is_local
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import SpillFailed
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector

if TYPE_CHECKING:
    from jdbcstore.broker.topics.durable import Durable
    from jdbcstore.broker.topics.topic import Topic

_BEFORE_ANOTHER_TRY = 1.0


class DurableSubscriber(BaseSubscription):
    """A consumer that gets the messages of a feed for each topic, in turns."""

    def __init__(
        self,
        parts: Parts,
        request: SubscriptionRequest,
        consumer: Consumer,
        policy: PolicyEntry,
        durable: Durable,
        selector: Selector | None,
    ) -> None:
        prefetch = policy.durable_topic_prefetch if request.prefetch is None else request.prefetch
        super().__init__(parts, request, consumer, prefetch, selector)
        self.durable = durable
        self.delays = Delays(parts.loop, parts.guarded(self._give_back_to_sources))
        self._feeds: list[DurableFeed] = []
        self._ready: deque[DurableFeed] = deque()
        """Those that may have something, the next one first."""

    def wants(self, message: Message) -> bool:
        return not is_local(message, self.request) and super().wants(message)

    def attach(self, topic: Topic) -> None:
        """This topic's messages are for it too."""
        track = self.durable.tracks.get(topic.destination)
        if self.closed or track is None or track.feed is not None or topic.store is None:
            return
        if not topic.when_ready(partial(self._attach_later, topic)):
            return
        feed = track.feed = DurableFeed(self.parts, topic, topic.store, self, track)
        self._feeds.append(feed)
        topic.add_feed(feed)
        self.wake(feed)

    def _attach_later(self, topic: Topic, error: BaseException | None) -> None:
        if error is None:
            self.attach(topic)
        else:
            self.loop.call_later(_BEFORE_ANOTHER_TRY, self.attach, topic)

    @property
    def lets_go(self) -> bool:
        """Whether its consumer needs no message that it was given."""
        return self._lets_go

    def wake(self, feed: DurableFeed) -> None:
        """It may have something."""
        if not feed.is_ready:
            feed.is_ready = True
            self._ready.append(feed)
        if self.room > 0:
            self.parts.touch(self)

    def tell_room(self) -> None:
        if self._ready and self.room > 0:
            self.parts.touch(self)

    def turn(self) -> None:
        ready, held_up = self._ready, 0
        while held_up < len(ready) and self.room > 0:
            feed = ready[0]
            entry = feed.next()
            if entry is not None:
                ready.rotate(-1)
                self.deliver(entry)
                held_up = 0
            elif feed.is_held_up:
                ready.rotate(-1)
                held_up += 1
            else:
                ready.popleft().is_ready = False
        if held_up:
            for feed in ready:
                feed.memory.when_room(self.tell_room)
                self.parts.notices.held_up(feed.memory, self.request, feed.destination)

    def try_again(self, entries: Sequence[Entry]) -> None:
        """What was to become of them could not be written."""
        if self.closed:
            self._give_back_to_sources(entries)
        for entry in () if self.closed else entries:
            self.delays.add(entry, _BEFORE_ANOTHER_TRY)

    def _give_back_to_sources(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            entry.source.give_back([entry])

    def lose(self, error: SpillFailed) -> None:
        """Messages that waited are lost, or at least not here any more."""
        # Not in the middle of a dispatch.
        self.loop.call_soon(self.end, error)

    def close(self) -> None:
        if self.closed:
            return
        delayed = self.delays.clear()
        super().close()
        self._give_back_to_sources(delayed)
        for feed in self._feeds:
            feed.close()
        self._feeds.clear()
        self._ready.clear()
        self.durable.is_in_use = False
