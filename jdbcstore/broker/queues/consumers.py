"""Which of a queue's consumers gets the next message."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from jdbcstore.broker.entry import Entry
from jdbcstore.broker.subscription import BaseSubscription


class Consumers:
    """Round robin between those of the highest priority that have room; an exclusive one gets all."""

    def __init__(self, *, use_priority: bool = True, all_exclusive: bool = False) -> None:
        self._use_priority = use_priority
        self._all_exclusive = all_exclusive
        self._members: dict[BaseSubscription, int] = {}
        """Each, in the order they came, and its priority."""
        self._turns: dict[int, deque[BaseSubscription]] = {}
        """By priority, highest first: those that may have room, the next one first."""
        self._in_turn: set[BaseSubscription] = set()
        self.woken: dict[BaseSubscription, None] = {}
        """Those that have got room since it was cleared."""
        self._exclusive: BaseSubscription | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[BaseSubscription]:
        return iter(self._members)

    def add(self, subscription: BaseSubscription) -> None:
        priority = subscription.request.priority if self._use_priority else 0
        self._members[subscription] = priority
        if priority not in self._turns:
            self._turns[priority] = deque()
            self._turns = dict(sorted(self._turns.items(), reverse=True))
        self._choose_exclusive()
        self.wake(subscription)

    def remove(self, subscription: BaseSubscription) -> bool:
        """Whether others may now get what only this one could."""
        priority = self._members.pop(subscription, None)
        if priority is None:
            return False
        was_exclusive = subscription is self._exclusive
        if subscription in self._in_turn:
            self._in_turn.remove(subscription)
            self._turns[priority].remove(subscription)
        if priority not in self._members.values():
            del self._turns[priority]
        self.woken.pop(subscription, None)
        self._choose_exclusive()
        return was_exclusive

    def wake(self, subscription: BaseSubscription) -> None:
        """It has room."""
        if subscription not in self._members:
            return
        self.woken[subscription] = None
        if subscription not in self._in_turn:
            self._in_turn.add(subscription)
            self._turns[self._members[subscription]].append(subscription)

    @property
    def any_room(self) -> bool:
        """Whether somebody may have room."""
        return bool(self._in_turn)

    def next_for(self, entry: Entry) -> BaseSubscription | None:
        """Who gets it; None if nobody who has room wants it."""
        if self._exclusive is not None:
            return self._next_exclusive(self._exclusive, entry)
        for turns in self._turns.values():
            for _ in range(len(turns)):
                subscription = turns[0]
                if subscription.room <= 0:
                    turns.popleft()
                    self._in_turn.remove(subscription)
                    continue
                turns.rotate(-1)
                if subscription.wants(entry.message):
                    return subscription
        return None

    def _next_exclusive(self, exclusive: BaseSubscription, entry: Entry) -> BaseSubscription | None:
        if exclusive.room <= 0:
            # Nobody else counts.
            self._in_turn.clear()
            for turns in self._turns.values():
                turns.clear()
            return None
        return exclusive if exclusive.wants(entry.message) else None

    @property
    def woken_room(self) -> bool:
        """Whether one of the woken has room."""
        return any(subscription.room > 0 for subscription in self.woken)

    def next_woken_for(self, entry: Entry) -> BaseSubscription | None:
        """Who of the woken gets it."""
        for subscription in self.woken:
            allowed = self._exclusive is None or self._exclusive is subscription
            if allowed and subscription.room > 0 and subscription.wants(entry.message):
                return subscription
        return None

    def is_wanted(self, entry: Entry) -> bool:
        """Whether somebody wants it who may have no room now."""
        if self._exclusive is not None:
            return self._exclusive.wants(entry.message)
        return any(subscription.wants(entry.message) for subscription in self._members)

    def _choose_exclusive(self) -> None:
        """The first that came, of the highest priority."""
        candidates = [
            subscription
            for subscription in self._members
            if self._all_exclusive or subscription.request.exclusive
        ]
        chosen = max(candidates, key=self._members.__getitem__, default=None)
        if chosen is not self._exclusive:
            self._exclusive = chosen
            for subscription in self._members:
                self.wake(subscription)
