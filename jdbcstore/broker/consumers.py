"""Which of a queue's consumers gets the next message."""

from __future__ import annotations

from collections import deque

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
        self._exclusive: BaseSubscription | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._members)

    def add(self, subscription: BaseSubscription) -> None:
        priority = subscription.request.priority if self._use_priority else 0
        self._members[subscription] = priority
        if priority not in self._turns:
            self._turns[priority] = deque()
            self._turns = dict(sorted(self._turns.items(), reverse=True))
        self._choose_exclusive()
        self.wake(subscription)

    def remove(self, subscription: BaseSubscription) -> None:
        priority = self._members.pop(subscription, None)
        if priority is None:
            return
        if subscription in self._in_turn:
            self._in_turn.remove(subscription)
            self._turns[priority].remove(subscription)
        if priority not in self._members.values():
            del self._turns[priority]
        self._choose_exclusive()

    def wake(self, subscription: BaseSubscription) -> None:
        """It has room."""
        if subscription not in self._in_turn and subscription in self._members:
            self._in_turn.add(subscription)
            self._turns[self._members[subscription]].append(subscription)

    @property
    def any_room(self) -> bool:
        """Whether somebody may have room."""
        return bool(self._in_turn)

    def next_for(self, entry: Entry) -> BaseSubscription | None:
        """Who gets it; None if nobody who has room wants it."""
        if self._exclusive is not None:
            return self._exclusive if self._takes(self._exclusive, entry) else None
        for turns in self._turns.values():
            for _ in range(len(turns)):
                subscription = turns[0]
                if subscription.room <= 0:
                    turns.popleft()
                    self._in_turn.remove(subscription)
                    continue
                turns.rotate(-1)
                if subscription.matches is None or subscription.matches(entry.message):
                    return subscription
        return None

    def _takes(self, subscription: BaseSubscription, entry: Entry) -> bool:
        return subscription.room > 0 and (subscription.matches is None or subscription.matches(entry.message))

    def _choose_exclusive(self) -> None:
        """The first that came, of the highest priority."""
        candidates = [
            subscription
            for subscription in self._members
            if self._all_exclusive or subscription.request.exclusive
        ]
        self._exclusive = max(candidates, key=self._members.__getitem__, default=None)
