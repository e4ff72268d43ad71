"""A topic behind a journal, and its durable subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.abc import Cursor, Page, Reference, SubscriptionInfo
from jdbcstore.message.destination import Destination
from jdbcstore.stores.journaled.counting import count_pending
from jdbcstore.stores.journaled.destinations import JournaledMessageStore
from jdbcstore.stores.journaled.operations import FORGET, Writes
from jdbcstore.stores.journaled.parts import Parts
from jdbcstore.stores.journaled.reading import Source, read_page
from jdbcstore.stores.journaled.units import Unit
from jdbcstore.stores.shared.checkpoint import CheckpointedTopic, SubscriptionKey
from jdbcstore.stores.shared.encoding import nothing
from jdbcstore.util.futures import StoreFuture


class JournaledTopicMessageStore(JournaledMessageStore):
    """See :class:`jdbcstore.abc.TopicMessageStore`. Subscriptions come and go at a checkpoint."""

    def __init__(self, parts: Parts, behind: CheckpointedTopic) -> None:
        super().__init__(parts, behind)
        self._topic = behind

    def subscribe(
        self,
        client_id: str,
        subscription_name: str,
        *,
        selector: str | None = None,
        retroactive: bool = False,
        subscribed_destination: Destination | None = None,
    ) -> JournaledDurableSubscription:
        key = SubscriptionKey(self._destination, client_id, subscription_name)
        subscriptions = self._parts.subscriptions
        with self._parts.checkpointer.everything_behind():
            try:
                made = self._topic.subscribe(
                    client_id,
                    subscription_name,
                    selector=selector,
                    retroactive=retroactive,
                    subscribed_destination=subscribed_destination,
                )
            finally:
                subscriptions.changed(key)
            subscriptions.lanes(key)
        return JournaledDurableSubscription(self, made.info)

    def subscription(self, client_id: str, subscription_name: str) -> JournaledDurableSubscription:
        key = SubscriptionKey(self._destination, client_id, subscription_name)
        self._parts.writer.check_open()
        return JournaledDurableSubscription(self, self._parts.subscriptions.check(key))

    def subscriptions(self) -> list[SubscriptionInfo]:
        self._parts.writer.check_open()
        return list(self._parts.subscriptions.of(self._destination).values())

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        key = SubscriptionKey(self._destination, client_id, subscription_name)
        with self._parts.checkpointer.everything_behind():
            try:
                self._topic.unsubscribe(client_id, subscription_name)
            finally:
                self._parts.subscriptions.changed(key)
            # What is acknowledged for it in the journal is not for another one of this name.
            forget = Unit(Writes(acknowledgements=[(key, ())]), nothing, kind=FORGET)
            self._parts.writer.execute(forget)

    def remove_all_subscriptions(self) -> None:
        """Delete every subscription of this topic for which nothing is in doubt."""
        doubtful = self._doubtful_behind()
        for key in list(self._parts.subscriptions.of(self._destination)):
            with self._parts.overlay.lock:
                is_held = key in self._parts.overlay.held
            if not is_held and key not in doubtful:
                self.unsubscribe(key.client_id, key.subscription_name)

    def _doubtful_behind(self) -> set[tuple[Destination, str | None, str | None]]:
        """The subscriptions for which the store behind has something in doubt."""
        found = self._parts.store.xa.recover() if self._parts.behind_prepared else ()
        writes = [write for transaction in found for write in transaction.writes]
        return {(write.destination, write.client_id, write.subscription_name) for write in writes}

    def _decided(self, sequences: list[int]) -> list[int]:
        overlay = self._parts.overlay
        with overlay.lock:
            doubtful = {*overlay.doubtful(self._container)}
        if self._parts.behind_prepared:
            doubtful |= self._topic.in_doubt()
        return [sequence for sequence in sequences if sequence not in doubtful] if doubtful else sequences

    def acknowledge_in(
        self, writes: Writes, client_id: str, subscription_name: str, messages: Sequence[Reference]
    ) -> None:
        """Have messages consumed by a subscription; for the writers of this package."""
        key = SubscriptionKey(self._destination, client_id, subscription_name)
        self._parts.subscriptions.check(key)
        with_priority = self._lanes > 1
        found = [pair for one in messages for pair in self.resolve(one, with_priority=with_priority)]
        if found:
            writes.acknowledgements.append((key, found))

    def source_of(self, info: SubscriptionInfo) -> Source:
        """What a subscription reads."""
        key = SubscriptionKey(self._destination, info.client_id, info.subscription_name)
        return Source(self._parts.overlay, self._container, self._parts.subscriptions.lanes(key), key)

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        """The next messages that a subscription has not acknowledged."""
        behind = self._topic.subscription(info.client_id, info.subscription_name)
        return read_page(self.source_of(info), behind.recover, limit, after)

    def count_pending(self, info: SubscriptionInfo) -> int:
        """How many messages a subscription has not acknowledged."""
        behind = self._topic.subscription(info.client_id, info.subscription_name)
        return count_pending(self._parts, self.source_of(info), behind)

    def acknowledged(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> Unit:
        """The unit in which a subscription consumes messages."""
        writes = Writes()
        self.acknowledge_in(writes, info.client_id, info.subscription_name, messages)
        return Unit(writes, nothing)

    def acknowledge_for(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> None:
        """A subscription has consumed these, durably."""
        self._parts.writer.execute(self.acknowledged(info, messages))

    def acknowledge_for_async(
        self, info: SubscriptionInfo, messages: Sequence[Reference]
    ) -> StoreFuture[None]:
        """As :meth:`acknowledge_for`, without waiting."""
        return self._parts.writer.submit(self.acknowledged(info, messages))


class JournaledDurableSubscription:
    """See :class:`jdbcstore.abc.DurableSubscription`."""

    def __init__(self, topic: JournaledTopicMessageStore, info: SubscriptionInfo) -> None:
        self._topic = topic
        self._info = info

    @property
    def info(self) -> SubscriptionInfo:
        return self._info

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        return self._topic.recover_pending(self._info, limit, after)

    def acknowledge(self, *messages: Reference) -> None:
        self._topic.acknowledge_for(self._info, messages)

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        return self._topic.acknowledge_for_async(self._info, messages)

    def message_count(self) -> int:
        return self._topic.count_pending(self._info)
