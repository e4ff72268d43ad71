"""The queues that an administrator has paused, as rows that the next master finds."""

from __future__ import annotations

import pytest

from jdbcstore import Destination, JdbcStore
from jdbcstore.abc import PausedQueue, Pausing
from jdbcstore.errors import InvalidDestination
from jdbcstore.testing import OpenStore
from jdbcstore.testing.clock import FakeClock

NAMES = ("ORDERS", "orders", "a:b%c_d e", "é\U0001f37a", "x" * 60)
"""Names that differ only in the case of letters, and that need encoding."""


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_they_are_kept_for_the_next_master(open_store: OpenStore, clock: FakeClock) -> None:
    store = open_store(clock=clock)
    assert isinstance(store, JdbcStore)
    assert isinstance(store, Pausing)
    assert store.paused_queues() == []
    queues = [Destination.queue(name) for name in NAMES]
    for queue in queues:
        store.pause_queue(queue, "é:me")
    since = clock.now_ms()
    other = open_store(clock=clock)
    assert isinstance(other, JdbcStore)
    found = other.paused_queues()
    assert [one.queue for one in found] == queues
    assert [one.since_ms for one in found] == [since + number for number in range(len(queues))]
    assert {one.user for one in found} == {"é:me"}
    for queue in (queues[0], queues[0], Destination.queue("never")):
        other.resume_queue(queue)
    assert [one.queue for one in store.paused_queues()] == queues[1:]
    clock.advance(1)
    store.pause_queue(queues[1], "me")  # again
    assert store.paused_queues()[-1] == PausedQueue(queues[1], "me", since + 1000)
    long = Destination.queue("y" * 225)
    store.pause_queue(long, "user")
    assert store.paused_queues()[-1][:2] == (long, "")
    with pytest.raises(InvalidDestination, match="too long to be kept"):
        store.pause_queue(Destination.queue("é" * 100), "user")
    for one in store.paused_queues():
        store.resume_queue(one.queue)
    assert store.paused_queues() == []
