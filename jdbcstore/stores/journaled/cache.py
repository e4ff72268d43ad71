"""The subscriptions of a backing store, in memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from jdbcstore.abc import Cursor, SubscriptionInfo
from jdbcstore.message.destination import Destination
from jdbcstore.stores.journaled.overlay import Layer, Overlay
from jdbcstore.stores.shared.checkpoint import CheckpointedStore, SubscriptionKey
from jdbcstore.stores.shared.checks import MAX_SEQUENCE
from jdbcstore.stores.shared.operations import SUBSCRIBE, UNSUBSCRIBE, RecordedOperation
from jdbcstore.stores.shared.subscriptions import subscription_not_found


class SubscriptionCache:
    """A cache of the backing store's subscriptions, which only the journal changes. Thread-safe."""

    def __init__(self, store: CheckpointedStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._topics: dict[Destination, Mapping[SubscriptionKey, SubscriptionInfo]] = {}
        self._lanes: dict[SubscriptionKey, int] = {}

    def of(self, topic: Destination) -> Mapping[SubscriptionKey, SubscriptionInfo]:
        with self._lock:
            subscriptions = self._topics.get(topic)
            if subscriptions is None:
                subscriptions = self._topics[topic] = {
                    SubscriptionKey(topic, info.client_id, info.subscription_name): info
                    for info in self._store.topic(topic).subscriptions()
                }
            return subscriptions

    def find(self, key: SubscriptionKey) -> SubscriptionInfo:
        """Raise :class:`SubscriptionNotFound` if it does not exist."""
        marks = self.of(key.topic).get(key)
        if marks is None:
            raise subscription_not_found(key.client_id, key.subscription_name, key.topic)
        return marks

    def lanes(self, key: SubscriptionKey) -> int:
        """Return the lanes it is read in: one, or one per priority, as its topic had when it was created."""
        with self._lock:
            lanes = self._lanes.get(key)
            if lanes is None:
                backing = self._store.topic(key.topic).subscription(key.client_id, key.subscription_name)
                lanes = self._lanes[key] = len(backing.recover(1, Cursor((MAX_SEQUENCE,))).cursor.positions)
            return lanes

    def operated(self, operation: RecordedOperation) -> None:
        """Forget what an operation has changed."""
        if operation.kind in (SUBSCRIBE, UNSUBSCRIBE):
            self.changed(SubscriptionKey(operation.destination, *operation.subscriber))

    def changed(self, key: SubscriptionKey) -> None:
        """Forget a subscription that was created or deleted."""
        with self._lock:
            self._topics.pop(key.topic, None)
            self._lanes.pop(key, None)

    def consumed(self, overlay: Overlay, layer: Layer) -> dict[Destination, set[int]]:
        """Messages of a layer that every subscription has consumed in it; takes the overlay's lock."""
        with overlay.lock:
            topics = {key.topic for key in layer.acknowledged}
        every = {topic: list(self.of(topic)) for topic in topics}
        with overlay.lock:
            return {topic: layer.consumed_by_all(keys) for topic, keys in every.items()}
