"""A topic in memory, with its durable subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.abc import Cursor, Page, Progress, Reference, SubscriptionInfo
from jdbcstore.message.destination import Destination
from jdbcstore.stores.memory.queue import MemoryMessageStore
from jdbcstore.stores.memory.shelf import Subscription
from jdbcstore.stores.memory.state import Held, Write
from jdbcstore.stores.memory.xa import hold_acknowledged
from jdbcstore.stores.shared.subscriptions import (
    TopicSubscription,
    check_subscription,
    subscription_exists,
    subscription_not_found,
)
from jdbcstore.util.futures import StoreFuture, done


class MemoryTopicMessageStore(MemoryMessageStore):
    """See :class:`jdbcstore.abc.TopicMessageStore`."""

    def subscribe(
        self,
        client_id: str,
        subscription_name: str,
        *,
        selector: str | None = None,
        retroactive: bool = False,
        subscribed_destination: Destination | None = None,
    ) -> TopicSubscription:
        pattern = subscribed_destination or self.destination
        info = SubscriptionInfo(client_id, subscription_name, self.destination, pattern, selector)
        check_subscription(info, self._state.lengths)
        with self._state.entered():
            existing = self._shelf.subscriptions.get((client_id, subscription_name))
            if existing is None:
                self._shelf.subscribe(info, retroactive=retroactive)
                self._state.places[self.destination] = self  # it may have been deleted
            elif existing.info != info:
                raise subscription_exists(existing.info)
        return TopicSubscription(self, info)

    def subscription(self, client_id: str, subscription_name: str) -> TopicSubscription:
        with self._state.entered():
            return TopicSubscription(self, self._subscription(client_id, subscription_name).info)

    def subscriptions(self) -> list[SubscriptionInfo]:
        with self._state.entered():
            return [subscription.info for subscription in self._shelf.subscriptions.values()]

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        with self._state.entered():
            gone = self._subscription(client_id, subscription_name)
            del self._shelf.subscriptions[client_id, subscription_name]
            self._state.unsubscribed(gone.info)

    def remove_all_subscriptions(self) -> None:
        """Delete every subscription of this topic for which nothing is in doubt."""
        with self._state.entered():
            subscriptions = self._shelf.subscriptions
            for key in [key for key, one in subscriptions.items() if not one.in_doubt]:
                del subscriptions[key]

    def in_doubt(self) -> set[int]:
        """Messages that a prepared transaction acknowledges for a durable subscription."""
        with self._state.entered():
            return {number for one in self._shelf.subscriptions.values() for number in one.in_doubt}

    def _subscription(self, client_id: str, subscription_name: str) -> Subscription:
        found = self._shelf.subscriptions.get((client_id, subscription_name))
        if found is None:
            raise subscription_not_found(client_id, subscription_name, self.destination)
        return found

    def acknowledge_for_in(
        self,
        writes: list[Write],
        client_id: str,
        subscription_name: str,
        messages: Sequence[Reference],
    ) -> None:
        """Acknowledge messages for one subscription in a transaction."""
        self.subscription(client_id, subscription_name)
        sequences = self.find(messages)

        def check() -> None:
            self._subscription(client_id, subscription_name)

        def acknowledge() -> None:
            subscription = self._subscription(client_id, subscription_name)
            for sequence in sequences:
                subscription.acknowledge(sequence)

        def hold() -> Held | None:
            subscription = self._subscription(client_id, subscription_name)
            return hold_acknowledged(subscription, sequences)

        writes.append(Write(acknowledge, check, hold))

    def acknowledge_for(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> None:
        """One subscription has consumed these messages."""
        writes: list[Write] = []
        self.acknowledge_for_in(writes, info.client_id, info.subscription_name, messages)
        self._state.write(writes)

    def acknowledge_for_async(
        self, info: SubscriptionInfo, messages: Sequence[Reference]
    ) -> StoreFuture[None]:
        """As :meth:`acknowledge_for`; the future is done when it is returned."""
        self.acknowledge_for(info, messages)
        return done(None)

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        """The next messages that a subscription has not acknowledged."""
        with self._state.entered():
            subscription = self._subscription(info.client_id, info.subscription_name)
            return self._page([lane.behind for lane in subscription.lanes], limit, after)

    def count_pending(self, info: SubscriptionInfo) -> int:
        """How many messages a subscription has not acknowledged."""
        with self._state.entered():
            return len(self._subscription(info.client_id, info.subscription_name))

    def cleanup(self, progress: Progress | None) -> int:
        """Remove what every subscription has acknowledged."""
        shelf = self._shelf
        # Asked again before each is removed: a retroactive subscription may have been made meanwhile.
        return self._state.remove(
            shelf, lambda: filter(shelf.is_done, shelf.stored), progress, still=shelf.is_done
        )
