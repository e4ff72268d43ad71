"""A topic in memory, with its durable subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.abc import Cursor, Page, Progress, Reference, SubscriptionInfo
from jdbcstore.stores.memory.queue import MemoryMessageStore
from jdbcstore.stores.memory.shelf import Subscription
from jdbcstore.stores.memory.state import Held, Write
from jdbcstore.stores.memory.xa import hold_acknowledged
from jdbcstore.stores.shared.subscriptions import (
    SubscribedTopic,
    check_subscription,
    subscription_exists,
    subscription_not_found,
)


class MemoryTopicMessageStore(MemoryMessageStore, SubscribedTopic[list[Write]]):
    """See :class:`jdbcstore.abc.TopicMessageStore`."""

    def _subscribe(self, info: SubscriptionInfo, *, retroactive: bool) -> None:
        check_subscription(info, self._state.lengths)
        with self._state.entered():
            existing = self._shelf.subscriptions.get((info.client_id, info.subscription_name))
            if existing is None:
                self._shelf.subscribe(info, retroactive=retroactive)
                self._state.places[self.destination] = self  # it may have been deleted
            elif existing.info != info:
                raise subscription_exists(existing.info)

    def _info_of(self, client_id: str, subscription_name: str) -> SubscriptionInfo:
        with self._state.entered():
            return self._subscription(client_id, subscription_name).info

    def subscriptions(self) -> list[SubscriptionInfo]:
        with self._state.entered():
            return [subscription.info for subscription in self._shelf.subscriptions.values()]

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        with self._state.entered():
            gone = self._subscription(client_id, subscription_name)
            del self._shelf.subscriptions[client_id, subscription_name]
            self._state.unsubscribed(gone.info)

    def remove_all_subscriptions(self) -> None:
        with self._state.entered():
            subscriptions = self._shelf.subscriptions
            for key in [key for key, one in subscriptions.items() if not one.in_doubt]:
                del subscriptions[key]

    def in_doubt(self) -> set[int]:
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
        self._info_of(client_id, subscription_name)
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

    def acknowledgement(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> list[Write]:
        writes: list[Write] = []
        self.acknowledge_for_in(writes, info.client_id, info.subscription_name, messages)
        return writes

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        with self._state.entered():
            subscription = self._subscription(info.client_id, info.subscription_name)
            return self._page([lane.behind for lane in subscription.lanes], limit, after)

    def count_pending(self, info: SubscriptionInfo) -> int:
        with self._state.entered():
            return len(self._subscription(info.client_id, info.subscription_name))

    def cleanup(self, progress: Progress | None) -> int:
        """Remove what every subscription has acknowledged."""
        shelf = self._shelf
        # Asked again before each is removed: a retroactive subscription may have been made meanwhile.
        return self._state.remove(
            shelf, lambda: filter(shelf.is_done, shelf.stored), progress, still=shelf.is_done
        )
