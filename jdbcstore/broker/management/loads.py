"""The unacknowledged messages and prefetch limits of consumers, added up by destination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard


class ConsumerLoads:
    """The sums at one moment; browsers are not counted."""

    def __init__(self, subscriptions: Iterable[BaseSubscription]) -> None:
        self.held = Counter[Destination]()
        """Unacknowledged messages."""
        self._used = Counter[Destination]()
        self._limits = Counter[Destination]()
        for subscription in subscriptions:
            if not isinstance(subscription, Browser):
                self._add(subscription)

    def _add(self, subscription: BaseSubscription) -> None:
        held, own = subscription.held, subscription.request.destination
        if own.is_composite or is_wildcard(own):
            self.held.update(entry.destination for entry in held)
        elif held:
            self.held[own] += len(held)
        for queue in subscription.queues:
            if isinstance(queue, Queue) and subscription.prefetch:
                self._used[queue.destination] += min(subscription.in_use, subscription.prefetch)
                self._limits[queue.destination] += subscription.prefetch

    def utilisation(self, queue: Destination) -> float | None:
        """Return the share of the prefetch limits that is in use; None without a limit."""
        limit = self._limits.get(queue)
        return self._used[queue] / limit if limit else None
