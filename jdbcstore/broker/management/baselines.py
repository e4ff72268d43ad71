"""Counters since they were last reset."""

from __future__ import annotations

from operator import attrgetter
from weakref import WeakKeyDictionary

from jdbcstore.broker.counters import Counters
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.topics.topic import Topic


class Baselines:
    """The counters of destinations and of the whole broker at their last reset."""

    def __init__(self) -> None:
        self._before: WeakKeyDictionary[Queue | Topic | Engine, Counters] = WeakKeyDictionary()

    def since(self, counted: Queue | Topic | Engine, counters: Counters) -> Counters:
        """Return the growth of counters since they were reset."""
        before = self._before.get(counted) if self._before else None
        return counters if before is None else counters.since(before)

    def reset(self, destination: Queue | Topic) -> None:
        """Reset the counters of a queue or topic."""
        self._before[destination] = destination.counters.since(Counters())

    def reset_all(self, engine: Engine) -> None:
        """Reset all counters."""
        self._before[engine] = total_of(engine)
        for destination in engine.destinations.by_name.values():
            self.reset(destination)


def total_of(engine: Engine) -> Counters:
    """Return the sum of the counters of all destinations, including ended ones."""
    total = engine.destinations.forgotten.since(Counters())
    every = [destination.counters for destination in engine.destinations.by_name.values()]
    for name in Counters.__slots__:
        setattr(total, name, getattr(total, name) + sum(map(attrgetter(name), every)))
    return total
