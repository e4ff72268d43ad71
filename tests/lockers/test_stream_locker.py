"""A lock on the servers of a stream: taken in turn, lost with its key, and refused clearly."""

from __future__ import annotations

from itertools import count

import pytest

from jdbcstore.config.locker import StreamLockerConfig
from jdbcstore.errors import ConfigurationError, NotMaster, StoreUnavailable
from jdbcstore.journal.stream.connection import NatsConnection
from jdbcstore.journal.stream.keys import StreamKeys
from jdbcstore.lockers import LockState, make_locker
from jdbcstore.stores.replicated.locker import StreamLocker
from jdbcstore.testing.polling import wait_until
from tests.support.streams import NatsServer, streamed

pytestmark = pytest.mark.servers

_numbers = count(1)


@pytest.fixture
def name() -> str:
    return f"locked-{next(_numbers)}"


def locker(nats: NatsServer, stream: str, name: str = "one", timeout: float = 30.0) -> StreamLocker:
    return StreamLocker(journal=streamed(nats.url, stream), name=name, session_timeout=timeout)


def test_one_holds_it_and_the_next_follows(nats: NatsServer, name: str) -> None:
    one, other = locker(nats, name), locker(nats, name, "other")
    assert one.start(0.0)
    with pytest.raises(NotMaster, match="one holds the lock") as refused:
        other.start(0.0)
    assert refused.value.holder == "one"
    assert one.keep_alive()
    assert one.held_until > one.clock.monotonic()
    other = locker(nats, name, "other")
    assert other.look() == "one"
    assert locker(nats, f"{name}-of-nobody").look() is None
    other.start(blocking=False)
    wait_until(lambda: other.holder == "one", what="a slave")
    one.stop()
    assert other.wait(60)
    assert not one.keep_alive()
    other.stop()
    assert other.state is LockState.STOPPED
    assert other.look() is None


def test_a_silent_holder_is_followed(nats: NatsServer, name: str) -> None:
    one, other = locker(nats, name, timeout=0.5), locker(nats, name, "other", timeout=30.0)
    assert one.start(0.0)
    assert other.start(60.0)
    assert not one.keep_alive()
    assert one.held_until < one.clock.monotonic()
    one.stop()  # it leaves the key of the other alone
    assert other.keep_alive()
    other.stop()


def test_what_was_put_although_its_answer_was_lost_is_its_own(nats: NatsServer, name: str) -> None:
    one = locker(nats, name)
    assert one.start(0.0)
    connection = NatsConnection(streamed(nats.url, name))
    keys = StreamKeys(connection, f"{name}-lock", 1, 30.0)
    found = keys.get("master")
    assert found is not None
    assert keys.put("master", found.value) is not None
    assert one.keep_alive()
    keys.delete("master", after=(keys.get("master") or found).revision)
    assert not one.keep_alive()
    connection.close()
    one.stop()


def test_without_servers_or_a_stream_it_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.journal.stream.keys.ANSWER", 0.5)
    with NatsServer() as server:
        one = locker(server, name)
        assert one.start(0.0)
        server.kill()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            one.keep_alive()
        one.stop()
    with pytest.raises(ConfigurationError, match="set stream"):
        make_locker(StreamLockerConfig(), "one")
    with pytest.raises(ConfigurationError, match="session_timeout"):
        StreamLockerConfig(session_timeout=3.0)
