"""The addresses of the master, beside its epoch."""

from __future__ import annotations

import pytest

from jdbcstore import JdbcStore
from jdbcstore.abc import Announcing
from jdbcstore.errors import LockLost
from jdbcstore.testing import OpenStore
from jdbcstore.testing.clock import FakeClock
from tests.lockers.conftest import OpenLocked


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_they_are_those_of_the_last_master(open_store: OpenStore, clock: FakeClock) -> None:
    store = open_store(clock=clock)
    assert isinstance(store, JdbcStore)
    assert isinstance(store, Announcing)
    assert store.announced() == []
    since = clock.now_ms()
    store.announce([("stomp", "stomp://[::1]:61613"), ("management", "http://a_b%c:1"), ("long", "x" * 300)])
    clock.advance(1)
    other = open_store(clock=clock)
    assert isinstance(other, JdbcStore)
    expected = [("management", "http://a_b%c:1", since), ("stomp", "stomp://[::1]:61613", since)]
    assert [tuple(one) for one in other.announced()] == expected
    other.announce([])
    assert store.announced() == []


@pytest.mark.backends("sqlite")
def test_only_the_master_writes_them(open_locked: OpenLocked) -> None:
    store = open_locked()
    store.announce([("management", "http://mine")])
    assert store.fence is not None
    store.fence.lose("for this test")
    with pytest.raises(LockLost):
        store.announce([("management", "http://late")])
    assert [one.url for one in store.announced()] == ["http://mine"]
