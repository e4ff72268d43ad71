"""A failover pair of the real ActiveMQ and jdbcstore: whichever is killed, the other has all messages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Configuration, JdbcStore, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import DatabaseLockerConfig, LeaseDatabaseLockerConfig, LockerConfig
from tests.databases import Database
from tests.interop.activemq import Broker, Peer, PeerMissing
from tests.interop.messages import text
from tests.polling import wait_until
from tests.require import unavailable

LEASE = 2.0
WAIT = 60.0
LEASES = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=LEASE, lock_keep_alive_period=LEASE / 4)
LOCKERS: dict[str, tuple[LockerConfig, dict[str, Any]]] = {
    "lease": (LEASES, {"lease_ms": LEASE * 1000}),
    "database": (DatabaseLockerConfig(lock_keep_alive_period=0.5), {}),
}
MASTER = """
import sys
from tests.interop.test_failover import LOCKERS, open_locked
from jdbcstore import Message
store = open_locked(sys.argv[1], LOCKERS[sys.argv[2]][0])
for number in range(int(sys.argv[3])):
    store.queue("Q").add_message(Message(f"ours {number}"))
print("stored", flush=True)
sys.stdin.readline()
"""


def open_locked(url: str, locker: LockerConfig) -> JdbcStore:
    return JdbcStore.configured(
        Configuration(
            data_source=DataSourceConfig(url=url), store=StoreConfig(cleanup_period=0.0), locker=locker
        ),
        lock_timeout=WAIT,
    )


@pytest.fixture
def start_broker(database: Database) -> Iterator[Callable[..., tuple[Peer, Broker]]]:
    """Starts a broker in a JVM of its own, which a test may kill."""
    peers = []

    def start(**options: Any) -> tuple[Peer, Broker]:
        try:
            peer = Peer()
        except PeerMissing as missing:
            unavailable("activemq", str(missing))
        peers.append(peer)
        login = (database.jdbc_url, database.username or "", database.password or "")
        return peer, peer.broker(*login, **options)

    yield start
    for peer in peers:
        peer._process.kill()
        peer._process.communicate()
        peer._directory.cleanup()


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize("kind", LOCKERS)
def test_each_follows_the_other(
    database: Database, start_broker: Callable[..., tuple[Peer, Broker]], kind: str
) -> None:
    locker, options = LOCKERS[kind]
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    peer, broker = start_broker(**options)
    sent = [f"theirs {number}" for number in range(20)]
    broker.send("queue://Q", [text(body) for body in sent])
    with ThreadPoolExecutor() as threads:
        # The broker is killed, and jdbcstore follows and has all its messages.
        following = threads.submit(open_locked, database.url, locker)
        with pytest.raises(TimeoutError):
            following.result(LEASE * 1.5)
        peer._process.kill()
        with following.result(WAIT) as store:
            found = [message.body for message in store.queue("Q").recover()]
            assert found == sent
        # A process of ours is killed, and a broker follows.
        ours = subprocess.Popen(
            [sys.executable, "-c", MASTER, database.url, kind, "10"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert ours.stdout is not None
        assert ours.stdout.readline() == "stored\n"
        broker_following = threads.submit(start_broker, **options)
        with pytest.raises(TimeoutError):
            broker_following.result(LEASE * 1.5)
        ours.kill()
        ours.communicate()
        _, broker = broker_following.result(WAIT)
        received = broker.receive("queue://Q", 30)
        assert len(received) == 30
        wait_until(lambda: database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == [], WAIT, "that all are consumed")
