"""Message groups: the owner of a group is the consumer of a queue that gets all its messages."""

from __future__ import annotations

from collections import Counter, OrderedDict
from zlib import crc32

from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.config.policy import GroupMap


class MessageGroups:
    """The owner of each open group of a queue.

    As in ActiveMQ, a bounded map forgets the least recently used group, which any consumer may own next. With
    buckets, all groups of a bucket have the same owner.
    """

    def __init__(self, groups: GroupMap) -> None:
        self._buckets = groups.bucket_count if groups.kind == "bucket" else 0
        self._most = groups.cache_size if groups.kind == "cached" else 0
        self._owners: OrderedDict[str | int, BaseSubscription] = OrderedDict()
        self._counts: Counter[BaseSubscription] = Counter()

    def _key(self, group_id: str) -> str | int:
        return crc32(group_id.encode(errors="replace")) % self._buckets if self._buckets else group_id

    def owner(self, group_id: str) -> BaseSubscription | None:
        """Return the owner of a group; None if the next message may go to any consumer."""
        key = self._key(group_id)
        owner = self._owners.get(key)
        if owner is not None and self._most:
            self._owners.move_to_end(key)
        return owner

    def assign(self, group_id: str, subscription: BaseSubscription) -> bool:
        """Make a consumer the owner of a group; return whether another group was forgotten for it."""
        key = self._key(group_id)
        self._drop(key)
        self._owners[key] = subscription
        self._counts[subscription] += 1
        if not self._most or len(self._owners) <= self._most:
            return False
        self._drop(next(iter(self._owners)))
        return True

    def close(self, group_id: str) -> None:
        """Forget the owner of a group after its last message."""
        self._drop(self._key(group_id))

    def count(self, subscription: BaseSubscription) -> int:
        """Return the number of groups that a consumer owns."""
        return self._counts[subscription]

    def forget(self, subscription: BaseSubscription) -> bool:
        """Forget a consumer; return whether it owned a group."""
        if not self._counts.pop(subscription, 0):
            return False
        for key in [key for key, owner in self._owners.items() if owner is subscription]:
            del self._owners[key]
        return True

    def _drop(self, key: str | int) -> None:
        owner = self._owners.pop(key, None)
        if owner is not None:
            self._counts[owner] -= 1
