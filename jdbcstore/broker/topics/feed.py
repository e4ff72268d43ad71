"""One topic's messages for one durable subscription that somebody consumes."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from jdbcstore.abc import Cursor, DurableSubscription, Page, Reference, TopicMessageStore, Transaction
from jdbcstore.broker.cursors import Backlog, MessageCursor
from jdbcstore.broker.cursors.choice import memory_or_file
from jdbcstore.broker.cursors.loaded import LoadedCursor
from jdbcstore.broker.cursors.store import StoreCursor
from jdbcstore.broker.entry import Entry, Shared
from jdbcstore.broker.filling import Filling
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.queues.dead_letters import expired
from jdbcstore.broker.queues.redelivery import delay_before, is_over
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

if TYPE_CHECKING:
    from jdbcstore.broker.topics.durable import Track
    from jdbcstore.broker.topics.durable_subscriber import DurableSubscriber
    from jdbcstore.broker.topics.topic import Topic


class DurableFeed:
    """A :class:`jdbcstore.broker.entry.Source`: what is stored for the subscription, in a window on the
    store, in memory or in files; and what is not stored, while it is consumed.

    What has expired, and what the selector does not want, is acknowledged for the consumer, in batches.
    """

    def __init__(
        self, parts: Parts, topic: Topic, store: TopicMessageStore, session: DurableSubscriber, track: Track
    ) -> None:
        self._parts = parts
        self._topic = topic
        self.memory = topic.memory
        self._store = store
        self._session = session
        self._track = track
        self._subscription: DurableSubscription | None = None
        lanes = 10 if topic.policy.prioritized_messages else 1
        self._cursor = self._make_stored(lanes)
        self._stored = Backlog(self._cursor, lanes)
        self._transient = track.transient(topic)
        self._transient_turn = False
        self._back: dict[Entry, None] = {}
        """What is stored, was given back and waits again."""
        self._acknowledged: list[Entry] = []
        self._acknowledging: list[Future[None]] = []
        self.is_ready = False
        """For the session: whether to ask it for more."""
        self.is_held_up = False
        """Whether it has more, for which there is no memory now."""
        self._filling = Filling(parts, topic.memory, self.retain, self.acknowledged)

    @property
    def destination(self) -> Destination:
        return self._topic.destination

    def _make_stored(self, lanes: int) -> StoreCursor:
        policy = self._topic.policy
        kind = policy.pending_durable_subscriber_policy
        of_store = kind == "storeDurableSubscriberCursor"
        make = StoreCursor if of_store else partial(LoadedCursor, self._make_cursor(kind, lanes))
        return make(
            self._read_page,
            self._entry_of_page,
            self._wake,
            memory=self._topic.memory,
            page_size=policy.max_page_size,
            lanes=lanes,
        )

    def _make_cursor(self, kind: str, lanes: int) -> MessageCursor:
        return memory_or_file(
            kind,
            f"{self._session.durable.name} of {self.destination}",
            lambda _: self,
            self._topic.memory,
            lanes=lanes,
            folder=self._parts.folder,
            on_lost=self._session.lose,
            files=self._parts.files,
        )

    def _read_page(self, limit: int, after: Cursor, then: Callable[[Future[Page]], None]) -> None:
        in_hand = self._track.in_hand
        in_hand.begin_reading()
        page = self._parts.run(partial(self._recover, limit, after))
        page.add_done_callback(self._parts.guarded(then))
        page.add_done_callback(lambda _: in_hand.end_reading())

    def _recover(self, limit: int, after: Cursor) -> Page:
        """In a thread."""
        if self._subscription is None:
            subscription = self._store.subscription(*self._session.durable.key)
            subscription.acknowledge()  # what the first one looks up must not block the loop
            self._subscription = subscription
        return self._subscription.recover(limit, after)

    def _entry_of_page(self, message: Message) -> Entry | None:
        sequence = message.sequence or 0
        if sequence in self._track.in_hand:
            return None
        count = self._track.delivered.get(sequence)
        if count is not None:
            message = message.replace(redelivery_counter=count)
        known = count is not None or sequence <= self._parts.last_sequence
        shared = self._topic.share(message, sequence)
        if count is None:
            message = shared.message
        return Entry(message, self, sequence, stored=True, redelivered=known, shared=shared)

    def _wake(self) -> None:
        self._session.wake(self)

    def push(self, shared: Shared, sequence: int | None) -> None:
        """A message has come to the topic; it is stored if it has a sequence."""
        message = shared.message
        if sequence is not None:
            self._cursor.push(Entry(message, self, sequence, stored=True, shared=shared))
        else:
            number = next(self._parts.numbers)
            self._transient.cursor.push(Entry(message, self, number, stored=False, shared=shared))
        self._wake()

    def lose_sight(self) -> None:
        """Something may have been stored that was not pushed."""
        self._cursor.lose_sight()
        self._wake()

    @property
    def is_full(self) -> bool:
        """Whether producers should wait until what is stored has been consumed."""
        return self._cursor.is_full

    def next(self) -> Entry | None:
        """Take the next message that the consumer wants; None if none is in memory."""
        dead: list[Entry] = []
        found = None
        while found is None and (backlog := self._choose()) is not None:
            entry = backlog.head()
            assert entry is not None  # noqa: S101 - the backlog was chosen by its head
            backlog.pop(entry)
            if entry.stored:
                self._track.in_hand.add(entry.sequence)
                self._back.pop(entry, None)
            else:
                entry.source = self  # it may have waited since before
            if 0 < entry.message.expiration_ms < self._parts.clock.now_ms():
                dead.append(entry)
            elif self._session.wants(entry.message):
                found = entry
            else:
                self._pass_over(entry)
        if dead:
            self._bury(dead, expired, is_expiry=True).add_done_callback(Future.exception)  # it is logged
        return found

    def _choose(self) -> Backlog | None:
        """Where the next message waits: stored and not stored ones in turns."""
        stored, transient = self._stored.head(), self._transient.head()
        self.is_held_up = False
        if self._session.held and self.memory.is_full:
            # What is with the consumer is in memory, unless it can be had again.
            if not (self._session.lets_go and self._cursor.is_window):
                self.is_held_up = stored is not None
                stored = None
            self.is_held_up |= transient is not None
            transient = None
        if transient is None:
            return None if stored is None else self._stored
        if stored is not None:
            self._transient_turn = not self._transient_turn
            if not self._transient_turn:
                return self._stored
        return self._transient

    def _pass_over(self, entry: Entry) -> None:
        self._topic.memory.let_go([entry])
        if entry.stored:
            self._acknowledged.append(entry)
            self._parts.touch(self)

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        self._topic.memory.let_go(entries)
        stored = [entry for entry in entries if entry.stored]
        if not stored:
            return self._parts.done()
        promise: Future[None] = self._parts.loop.create_future()
        self._acknowledged.extend(stored)
        self._acknowledging.append(promise)
        self._parts.touch(self)
        return promise

    def turn(self) -> None:
        """Write the acknowledgements of a turn of the loop."""
        if not self._acknowledged:
            return
        assert self._subscription is not None  # noqa: S101 - stored entries come from it
        entries, self._acknowledged = self._acknowledged, []
        promises, self._acknowledging = self._acknowledging, []
        write = partial(self._subscription.acknowledge_async, *self._references(entries))
        self._parts.line.submit(write, 0, partial(self._written, entries, promises))

    def _written(
        self, entries: list[Entry], promises: list[Future[None]], _: None, error: BaseException | None
    ) -> None:
        if error is None:
            self._forget(entries)
        else:
            for entry in entries:
                entry.redeliver()
                self._topic.memory.hold(entry)
            self.give_back(entries)
        for promise in promises:
            self._parts.settle(promise, error)

    def _forget(self, entries: Sequence[Entry]) -> None:
        """The store has."""
        self._track.in_hand.remove(entries)
        if self._track.delivered:
            for entry in entries:
                self._track.delivered.pop(entry.sequence, None)

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        stored = self._references([entry for entry in entries if entry.stored])
        if stored:
            topic = transaction.topic(self.destination)
            topic.acknowledge_subscription(*self._session.durable.key, *stored)
        return bool(stored)

    def _references(self, entries: Sequence[Entry]) -> list[Reference]:
        prioritized = self._topic.policy.prioritized_messages  # a priority is asked for if it is not given
        return [entry.message if prioritized else entry.sequence for entry in entries]

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self._topic.memory.let_go(entries)
        self._forget([entry for entry in entries if entry.stored])

    def reject(self, entries: Sequence[Entry], subscription: BaseSubscription) -> Future[None]:  # noqa: ARG002
        """As with a queue: redelivered as the policy says, or a dead letter."""
        policy = self._topic.policy.redelivery_policy
        dead = []
        for entry in entries:
            count = entry.message.redelivery_counter
            if policy is None or is_over(policy, count):
                dead.append(entry)
            else:
                entry.redeliver()
                self._session.delays.add(entry, delay_before(policy, count))
        if not dead:
            return self._parts.done()
        return self._filling.then(self._store, dead, self._bury_rejected)

    def _bury_rejected(self, entries: Sequence[Entry]) -> Future[None]:
        return self._bury(entries, lambda _: "java.lang.Throwable: Rejected by its consumer")

    def _bury(
        self, entries: Sequence[Entry], cause: Callable[[Message], str], *, is_expiry: bool = False
    ) -> Future[None]:
        return self._parts.dead_letters.bury(
            self,
            self._topic.policy.dead_letter_strategy,
            entries,
            cause,
            is_expiry=is_expiry,
            subscriber=":".join(self._session.durable.key),
        )

    def retain(self, entries: Sequence[Entry]) -> None:
        self._session.try_again(entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        """They wait again, here or for the next consumer."""
        if not self._session.closed:
            self._take_back([entry for entry in entries if entry.stored])
            self._transient.give_back([entry for entry in entries if not entry.stored])
            self._wake()
            return
        stored = [entry for entry in entries if entry.stored]
        self._transient.give_back([entry for entry in entries if not entry.stored])
        self._topic.memory.let_go(stored)
        self._track.delivered.update((entry.sequence, entry.message.redelivery_counter) for entry in stored)
        following = self._track.feed
        if following is None or following is self:
            self._track.in_hand.release(stored)
        else:
            following.adopt(stored)

    def adopt(self, entries: Sequence[Entry]) -> None:
        """Take over what a consumer before had; this one's pages did not bring it."""
        for entry in entries:
            entry.source = self
            self._topic.memory.hold(entry)
        self._take_back(entries)
        self._wake()

    def _take_back(self, entries: Sequence[Entry]) -> None:
        hollow = [entry for entry in entries if entry.is_hollow]
        entries = [entry for entry in entries if not entry.is_hollow]
        self._stored.give_back(entries)
        self._back.update(dict.fromkeys(entries))
        if hollow:
            # With all that waits: it would come before them.
            self._read_again([*hollow, *self._stored.take_returned()])
            self._back.clear()

    def _read_again(self, entries: Sequence[Entry]) -> None:
        """They are in the store: pages bring them in their places."""
        self._track.delivered.update((entry.sequence, entry.message.redelivery_counter) for entry in entries)
        self._track.in_hand.release(entries)
        for entry in entries:
            self._cursor.leave(entry)
        self._cursor.go_back()

    def given(self, entry: Entry) -> None:
        if entry.stored and self._cursor.is_window and self._topic.memory.is_high:
            entry.hollow(self._topic.memory)

    def has_room(self, subscription: BaseSubscription) -> None: ...

    def leave(self, subscription: BaseSubscription) -> None: ...

    def close(self) -> None:
        """Forget what waits and is stored: that comes again."""
        self.give_back([*self._back])
        self._track.feed = None
        self._topic.remove_feed(self)
        self._stored.close()
