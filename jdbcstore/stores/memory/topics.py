"""Topics and durable subscriptions in memory."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.abc import Cursor, Page, Progress, Reference, SubscriptionInfo
from jdbcstore.message.destination import Destination
from jdbcstore.stores.memory.destinations import MemoryMessageStore
from jdbcstore.stores.memory.holding import hold_acknowledged
from jdbcstore.stores.memory.shared import Held, Write
from jdbcstore.stores.memory.shelf import Subscription
from jdbcstore.stores.shared.checks import check_subscription, subscription_exists, subscription_not_found
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
    ) -> MemoryDurableSubscription:
        pattern = subscribed_destination or self.destination
        info = SubscriptionInfo(client_id, subscription_name, self.destination, pattern, selector)
        check_subscription(info, self._shared.lengths)
        with self._shared.entered():
            existing = self._shelf.subscriptions.get((client_id, subscription_name))
            if existing is None:
                self._shelf.subscribe(info, retroactive=retroactive)
            elif existing.info != info:
                raise subscription_exists(existing.info)
        return MemoryDurableSubscription(self, info)

    def subscription(self, client_id: str, subscription_name: str) -> MemoryDurableSubscription:
        with self._shared.entered():
            return MemoryDurableSubscription(self, self._subscription(client_id, subscription_name).info)

    def subscriptions(self) -> list[SubscriptionInfo]:
        with self._shared.entered():
            return [subscription.info for subscription in self._shelf.subscriptions.values()]

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        with self._shared.entered():
            gone = self._subscription(client_id, subscription_name)
            del self._shelf.subscriptions[client_id, subscription_name]
            self._shared.unsubscribed(gone.info)

    def remove_all_subscriptions(self) -> None:
        """Delete every subscription of this topic for which nothing is in doubt."""
        with self._shared.entered():
            subscriptions = self._shelf.subscriptions
            for key in [key for key, one in subscriptions.items() if not one.in_doubt]:
                del subscriptions[key]

    def in_doubt(self) -> set[int]:
        """Messages that a prepared transaction acknowledges for a durable subscription."""
        with self._shared.entered():
            return {number for one in self._shelf.subscriptions.values() for number in one.in_doubt}

    def _subscription(self, client_id: str, subscription_name: str) -> Subscription:
        found = self._shelf.subscriptions.get((client_id, subscription_name))
        if found is None:
            raise subscription_not_found(client_id, subscription_name, self.destination)
        return found

    def acknowledging_subscription(
        self, client_id: str, subscription_name: str, messages: Sequence[Reference]
    ) -> Write:
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

        return Write(acknowledge, check, hold)

    def acknowledge_subscription(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> None:
        write = self.acknowledging_subscription(info.client_id, info.subscription_name, messages)
        self._shared.write([write])

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        """The next messages that a subscription has not acknowledged."""
        with self._shared.entered():
            subscription = self._subscription(info.client_id, info.subscription_name)
            return self._page([lane.behind for lane in subscription.lanes], limit, after)

    def count_pending(self, info: SubscriptionInfo) -> int:
        """How many messages a subscription has not acknowledged."""
        with self._shared.entered():
            return len(self._subscription(info.client_id, info.subscription_name))

    def cleanup(self, progress: Progress | None) -> int:
        """Remove what every subscription has acknowledged."""
        shelf = self._shelf
        # Asked again before each goes: a retroactive subscription may have come and want it.
        return self._shared.remove(
            shelf, lambda: filter(shelf.is_done, shelf.stored), progress, still=shelf.is_done
        )


class MemoryDurableSubscription:
    """See :class:`jdbcstore.abc.DurableSubscription`."""

    def __init__(self, topic: MemoryTopicMessageStore, info: SubscriptionInfo) -> None:
        self._topic = topic
        self._info = info

    @property
    def info(self) -> SubscriptionInfo:
        return self._info

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        return self._topic.recover_pending(self._info, limit, after)

    def acknowledge(self, *messages: Reference) -> None:
        self._topic.acknowledge_subscription(self._info, messages)

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        self.acknowledge(*messages)
        return done(None)

    def message_count(self) -> int:
        return self._topic.count_pending(self._info)
