"""Counters of a queue or topic: plain integers that the loop increments, which management reads."""

from __future__ import annotations


class Counters:
    """Counts of one destination since the broker knows it, or at several together."""

    __slots__ = ("dead", "dequeued", "dispatched", "enqueued", "expired", "waited_ms")

    def __init__(self) -> None:
        self.enqueued = 0
        """Messages that have arrived; with a transaction, at its commit."""
        self.dispatched = 0
        """Deliveries to consumers, redeliveries included."""
        self.dequeued = 0
        """Messages that have left: acknowledged, removed, moved, expired or dead. On a topic, those that
        subscribers have acknowledged."""
        self.expired = 0
        """Messages that have expired here."""
        self.dead = 0
        """Messages that were moved from here to a dead letter queue."""
        self.waited_ms = 0
        """Milliseconds from the time when messages were sent to their deliveries, all added up."""

    def add(self, other: Counters) -> None:
        """Add the counters of a destination that ends."""
        self.enqueued += other.enqueued
        self.dispatched += other.dispatched
        self.dequeued += other.dequeued
        self.expired += other.expired
        self.dead += other.dead
        self.waited_ms += other.waited_ms

    def since(self, before: Counters) -> Counters:
        """Return what was added to an earlier state of the same counters, which is another object."""
        added = Counters()
        for name in self.__slots__:
            setattr(added, name, getattr(self, name) - getattr(before, name))
        return added
