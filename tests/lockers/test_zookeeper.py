"""A lock in ZooKeeper: taken in turn, lost with its session, and refused clearly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.config.locker import ZooKeeperLockerConfig
from jdbcstore.errors import ConfigurationError, LockLost, NotMaster, StoreUnavailable
from jdbcstore.lockers import LockState, make_locker
from jdbcstore.lockers.zookeeper import ZooKeeperLocker
from jdbcstore.testing.messages import content
from jdbcstore.testing.polling import wait_until
from tests.lockers.conftest import OpenLocked
from tests.support.zookeeper import LONGEST_SESSION, ZooKeeper

pytestmark = pytest.mark.java

HOLDER = """
import sys
from jdbcstore.lockers.zookeeper import ZooKeeperLocker
locker = ZooKeeperLocker(address=sys.argv[1], path=sys.argv[2], session_timeout=1.0, name="holder")
print(locker.start(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}"


def locker(zookeeper: ZooKeeper, path: str, name: str = "one", **options: Any) -> ZooKeeperLocker:
    return ZooKeeperLocker(
        address=zookeeper.address, path=path, name=name, **{"session_timeout": LONGEST_SESSION} | options
    )


def test_one_holds_it_and_the_next_is_woken(zookeeper: ZooKeeper, path: str) -> None:
    one, other, third = (locker(zookeeper, path, name) for name in ("one", "other", "third"))
    assert one.start(60.0)
    with pytest.raises(NotMaster, match="one holds the lock") as refused:
        other.start(0.0)
    assert refused.value.holder == "one"
    other = locker(zookeeper, path, "other")
    assert other.look() == "one"
    assert locker(zookeeper, f"{path}-of-nobody").look() is None
    other.start(blocking=False)
    wait_until(lambda: other.holder == "one", what="the place in line")
    third.start(blocking=False)
    one.stop()
    assert other.wait(60)
    assert third.state is LockState.SLAVE
    assert other.keep_alive()
    other.stop()
    assert third.wait(60)
    third.stop()


def test_a_killed_holder_is_followed(zookeeper: ZooKeeper, path: str) -> None:
    command = [sys.executable, "-c", HOLDER, zookeeper.address, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        holder.kill()
    one = locker(zookeeper, path)
    assert one.start(60.0)
    one.stop()


def test_a_paused_holder_has_lost_it(zookeeper: ZooKeeper, path: str) -> None:
    one, other = locker(zookeeper, path), locker(zookeeper, path, "other")
    command = [sys.executable, "-c", HOLDER, zookeeper.address, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        os.kill(holder.pid, signal.SIGSTOP)
        assert one.start(60.0)
        os.kill(holder.pid, signal.SIGCONT)
        # It is heard of again, and takes nothing.
        assert one.keep_alive()
        with pytest.raises(NotMaster, match="one holds the lock"):
            other.start(0.0)
        holder.kill()
    one.stop()


def test_a_session_outlives_the_server(
    zookeeper: ZooKeeper, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    one = locker(zookeeper, path)
    assert one.start(60.0)
    until = one.held_until
    zookeeper.kill()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        one.keep_alive()
    assert one.held_until == until
    # A client that waited twice as long after each attempt would be late.
    wait_until(lambda: caplog.text.count("refused") >= 10, what="attempts to connect")
    zookeeper.start()

    def answers() -> bool:
        try:
            return one.keep_alive()
        except StoreUnavailable:
            return False

    # A server that has just started gives each session its whole time again.
    wait_until(answers, what="the same session")
    assert one.held_until > until
    one.stop()


def test_a_node_that_is_removed_is_a_lost_lock(zookeeper: ZooKeeper, path: str) -> None:
    from kazoo.client import KazooClient

    one = locker(zookeeper, path)
    assert one.start(60.0)
    client = KazooClient(zookeeper.address)
    client.start(60.0)
    client.delete(path, recursive=True)
    assert not one.keep_alive()
    # Somebody else's node of the same name is not ours either.
    client.create(f"{path}/lock-0000000000", b"other", makepath=True)
    assert not one.keep_alive()
    client.stop()
    client.close()
    one.stop()


def test_the_servers_may_give_less_time(zookeeper: ZooKeeper, path: str) -> None:
    one = locker(zookeeper, path, session_timeout=1000 * LONGEST_SESSION)
    assert one.start(60.0)
    assert one.held_until - one.clock.monotonic() < LONGEST_SESSION
    one.stop()


def test_only_its_user_may_use_the_path(
    zookeeper: ZooKeeper, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    monkeypatch.setenv("ZK", "0pen-Sesame")
    one, other = (locker(zookeeper, path, password_env="ZK") for _ in range(2))
    assert one.start(60.0)
    with pytest.raises(NotMaster):
        other.start(0.0)
    monkeypatch.setenv("ZK", "Sesame-0pen")
    with pytest.raises(ConfigurationError, match="password_env"):
        locker(zookeeper, path, password_env="ZK").start(0.0)
    with pytest.raises(ConfigurationError, match="password_env"):
        locker(zookeeper, path).start(0.0)
    monkeypatch.delenv("ZK")
    with pytest.raises(ConfigurationError, match="ZK, which is not set"):
        locker(zookeeper, path, password_env="ZK").start(0.0)
    one.stop()
    assert "Sesame" not in caplog.text + repr(one)


def test_no_server() -> None:
    one = ZooKeeperLocker(address="127.0.0.1:1", session_timeout=1.0, fail_if_locked=True)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1 does not answer"):
        one.start(60.0)
    assert not one.keep_alive()
    with pytest.raises(ConfigurationError, match="is not an address"):
        ZooKeeperLocker(address="one:two:three").start(0.0)


@pytest.mark.backends("sqlite", "postgresql")
def test_the_fence_of_a_store(zookeeper: ZooKeeper, path: str, open_locked: OpenLocked) -> None:
    """A master that ZooKeeper does not answer stops by itself, before its session can end."""
    config = ZooKeeperLockerConfig(
        address=zookeeper.address, path=path, session_timeout=LONGEST_SESSION / 2, lock_keep_alive_period=0.2
    )
    one = open_locked(config)
    one.queue("A").add_message(Message("first"))
    assert one.fence is not None
    zookeeper.pause()
    try:
        assert one.fence.wait_lost(60)
        with pytest.raises(LockLost):
            one.queue("A").add_message(Message("too late"))
    finally:
        zookeeper.resume()
    other = open_locked(config, broker_name="two")
    assert content(other.queue("A")) == ["first"]
    other.queue("A").add_message(Message("second"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lock_keep_alive_period": 5.0}, "check more than twice"),
        ({"lock_keep_alive_period": 0.0}, "check more than twice"),
        ({"path": "orders"}, "not a path of ZooKeeper"),
        ({"path": "/orders/"}, "not a path of ZooKeeper"),
    ],
)
def test_wrong_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ZooKeeperLockerConfig(address="localhost:2181", **options)


def test_an_address_must_be_given() -> None:
    with pytest.raises(ConfigurationError, match="needs an address"):
        make_locker(ZooKeeperLockerConfig(), "one")
