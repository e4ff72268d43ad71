"""Counters of a queue or topic: plain integers that the loop increments and the management reads."""

from __future__ import annotations


class Counters:
    """Counts of one destination since it was first in memory, or of several together."""

    __slots__ = ("dead", "dequeued", "dispatched", "enqueued", "expired", "waited_ms")

    def __init__(self) -> None:
        self.enqueued = 0
        """Arrived messages; in a transaction, counted at its commit."""
        self.dispatched = 0
        """Deliveries to consumers, including redeliveries."""
        self.dequeued = 0
        """Messages that left: acknowledged, removed, moved, expired or dead. On a topic, messages that
        subscribers acknowledged."""
        self.expired = 0
        """Messages that expired here."""
        self.dead = 0
        """Messages that were moved from here to a dead letter queue."""
        self.waited_ms = 0
        """The sum of the milliseconds from sending to delivery."""

    def add(self, other: Counters) -> None:
        """Add the counters of an ending destination."""
        self.enqueued += other.enqueued
        self.dispatched += other.dispatched
        self.dequeued += other.dequeued
        self.expired += other.expired
        self.dead += other.dead
        self.waited_ms += other.waited_ms

    def since(self, before: Counters) -> Counters:
        """Return the growth since an earlier state of the same counters."""
        added = Counters()
        for name in self.__slots__:
            setattr(added, name, getattr(self, name) - getattr(before, name))
        return added
