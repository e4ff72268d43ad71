"""Gives what waits in a queue to its consumers, in order."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from jdbcstore.broker.cursors import Backlog, MessageCursor
from jdbcstore.broker.cursors.lanes import Lanes
from jdbcstore.broker.cursors.store import StoreCursor
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.queues.consumers import Consumers
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)


class InHand:
    """The sequences that the store still has, and that are with the broker: a page must not bring them again.

    An entry is in hand from when it leaves its cursor until the store has forgotten it; and if a page
    was being read then, until that page has been taken.
    """

    def __init__(self) -> None:
        self._sequences: set[int] = set()
        self._gone: set[int] = set()
        self._reading = 0

    def add(self, sequence: int) -> None:
        self._sequences.add(sequence)

    @property
    def count(self) -> int:
        """Of those in hand, and of pages that are being read."""
        return len(self._sequences) + self._reading

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._sequences or sequence in self._gone

    def remove(self, entries: Sequence[Entry]) -> None:
        """The store has forgotten them."""
        gone = [entry.sequence for entry in entries]
        self._sequences.difference_update(gone)
        if self._reading:
            self._gone.update(gone)

    def release(self, entries: Sequence[Entry]) -> None:
        """The store has them, and nobody else: a page brings them again."""
        self._sequences.difference_update(entry.sequence for entry in entries)

    def begin_reading(self) -> None:
        if not self._reading:
            self._gone.clear()
        self._reading += 1

    def end_reading(self) -> None:
        self._reading -= 1


class Dispatcher:
    """What waits: in two backlogs, of stored messages and of others; and what was passed over.

    A message that those who have room do not want is set aside (``blocked``) until one of the others
    has room. One that no consumer wants is left to the store until there are other consumers. It is kept
    where it is not stored, or has come back from a consumer, which the store does not know.
    """

    def __init__(
        self,
        stored: MessageCursor,
        transient: MessageCursor,
        consumers: Consumers,
        clock: Clock,
        on_expired: Callable[[Sequence[Entry]], None],
        *,
        lanes: int,
        most_blocked: int,
    ) -> None:
        self.stored = Backlog(stored, lanes)
        self.transient = Backlog(transient, lanes)
        self.in_hand = InHand()
        self._consumers = consumers
        self._clock = clock
        self._on_expired = on_expired
        self._most_blocked = most_blocked
        self._store_cursor = stored if isinstance(stored, StoreCursor) else None
        self._blocked = Lanes(lanes)
        self._unwanted: deque[Entry] = deque()
        self._transient_turn = False

    def run(self) -> None:
        """Deliver all that can be delivered now."""
        consumers = self._consumers
        expired: list[Entry] = []
        if self._blocked.count:
            self._unblock(expired)
        consumers.woken.clear()
        while consumers.any_room and self._blocked.count < self._most_blocked:
            backlog = self._next()
            if backlog is None:
                break
            entry = backlog.head()
            assert entry is not None  # noqa: S101 - the backlog was chosen by its head
            if self._is_expired(entry):
                self._take(backlog, entry)
                expired.append(entry)
                continue
            subscription = consumers.next_for(entry)
            if subscription is not None:
                self._take(backlog, entry)
                subscription.deliver(entry)
            elif consumers.any_room:
                self._take(backlog, entry)
                self._pass_over(entry)
        if expired:
            self._on_expired(expired)

    def taker_of_next(self, entry: Entry) -> BaseSubscription | None:
        """Who gets a message that comes now; None if anything waits before it, or nobody takes it."""
        cursor = self._store_cursor
        if cursor is None or not cursor.is_up_to_date or self._blocked.count or self._is_expired(entry):
            return None
        return self._consumers.next_for(entry) if self.stored.head() is None else None

    def cover(self, entry: Entry) -> None:
        """What was given out before it was stored is stored now."""
        self.in_hand.add(entry.sequence)
        if self._store_cursor is not None:
            self._store_cursor.cover(entry)

    def _take(self, backlog: Backlog, entry: Entry) -> None:
        backlog.pop(entry)
        if entry.stored:
            self.in_hand.add(entry.sequence)

    def _next(self) -> Backlog | None:
        """Where the next message waits: stored and not stored ones in turns."""
        stored, transient = self.stored.head(), self.transient.head()
        if transient is None:
            return None if stored is None else self.stored
        if stored is not None:
            self._transient_turn = not self._transient_turn
            if not self._transient_turn:
                return self.stored
        return self.transient

    def _is_expired(self, entry: Entry) -> bool:
        expiration_ms = entry.message.expiration_ms
        return 0 < expiration_ms < self._clock.now_ms()

    def _unblock(self, expired: list[Entry]) -> None:
        """Give what was set aside to those who have room again."""
        consumers, kept = self._consumers, []
        while self._blocked.count and consumers.woken_room:
            entry = self._blocked.pop()
            if self._is_expired(entry):
                expired.append(entry)
                continue
            subscription = consumers.next_woken_for(entry)
            if subscription is None:
                kept.append(entry)
            else:
                subscription.deliver(entry)
        self._blocked.insert(kept)

    def _pass_over(self, entry: Entry) -> None:
        if self._consumers.is_wanted(entry):
            self._blocked.append(entry)
        elif entry.stored and self._store_cursor is not None and not entry.returned:
            self._store_cursor.leave(entry)
            self.in_hand.release([entry])
        else:
            self._unwanted.append(entry)

    def give_back(self, entries: Sequence[Entry]) -> None:
        """They wait again, in their places."""
        # What was set aside would overtake them.
        entries = [*entries, *self._blocked]
        self._blocked.clear()
        self.stored.give_back([entry for entry in entries if entry.stored])
        self.transient.give_back([entry for entry in entries if not entry.stored])

    def reconsider(self) -> None:
        """There are other consumers, who may want what nobody wanted."""
        unwanted, self._unwanted = self._unwanted, deque()
        self.give_back(unwanted)
        if self._store_cursor is not None:
            self._store_cursor.go_back()

    def waiting_transient(self) -> list[Entry]:
        """What waits in memory and is not stored, roughly in order."""
        aside = [entry for entry in (*self._unwanted, *self._blocked) if not entry.stored]
        return [*aside, *self.transient.waiting()]

    def take_expired(self) -> list[Entry]:
        """Take out what has expired, of what is in memory and waits."""
        now_ms = self._clock.now_ms()
        expired = [*self.stored.take_expired(now_ms), *self.transient.take_expired(now_ms)]
        expired += self._blocked.take_expired(now_ms)
        unwanted, self._unwanted = self._unwanted, deque()
        for entry in unwanted:
            (expired if self._is_expired(entry) else self._unwanted).append(entry)
        for entry in expired:
            if entry.stored:
                self.in_hand.add(entry.sequence)
        return expired

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here or is with a consumer, and nothing is stored."""
        aside = self._blocked.count or self._unwanted or self.in_hand.count
        return not aside and self.stored.is_empty and self.transient.is_empty

    def close(self) -> None:
        self.stored.close()
        self.transient.close()
        self._blocked.clear()
        self._unwanted.clear()
