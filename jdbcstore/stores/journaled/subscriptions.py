"""The durable subscriptions of the store behind, which nobody but its journal changes."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from jdbcstore.abc import Cursor, SubscriptionInfo
from jdbcstore.message.destination import Destination
from jdbcstore.stores.journaled.layers import Layer
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.shared.checkpoint import CheckpointedStore, SubscriptionKey
from jdbcstore.stores.shared.subscriptions import subscription_not_found

_END = Cursor((2**63 - 1,))


class Subscriptions:
    """Remembers them, so that an acknowledgement takes no question to the store behind."""

    def __init__(self, store: CheckpointedStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._topics: dict[Destination, Mapping[SubscriptionKey, SubscriptionInfo]] = {}
        self._lanes: dict[SubscriptionKey, int] = {}

    def of(self, topic: Destination) -> Mapping[SubscriptionKey, SubscriptionInfo]:
        """Those of a topic."""
        with self._lock:
            found = self._topics.get(topic)
            if found is None:
                found = self._topics[topic] = {
                    SubscriptionKey(topic, info.client_id, info.subscription_name): info
                    for info in self._store.topic(topic).subscriptions()
                }
            return found

    def check(self, key: SubscriptionKey) -> SubscriptionInfo:
        """What it is; :class:`SubscriptionNotFound` if it is gone."""
        found = self.of(key.topic).get(key)
        if found is None:
            raise subscription_not_found(key.client_id, key.subscription_name, key.topic)
        return found

    def lanes(self, key: SubscriptionKey) -> int:
        """How many it is read in: as many as its topic had when it was made."""
        with self._lock:
            found = self._lanes.get(key)
            if found is None:
                behind = self._store.topic(key.topic).subscription(key.client_id, key.subscription_name)
                found = self._lanes[key] = len(behind.recover(1, _END).cursor.positions)
            return found

    def changed(self, key: SubscriptionKey) -> None:
        """It came or went: look again."""
        with self._lock:
            self._topics.pop(key.topic, None)
            self._lanes.pop(key, None)

    def done(self, overlay: Overlay, layer: Layer) -> dict[Destination, set[int]]:
        """Messages added in this layer that every subscription of their topic has consumed there; locks."""
        with overlay.lock:
            topics = {key.topic for key in layer.acknowledged}
        every = {topic: list(self.of(topic)) for topic in topics}
        with overlay.lock:
            return {topic: layer.consumed_by_all(keys) for topic, keys in every.items()}
