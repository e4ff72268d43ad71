"""PostgreSQL under Patroni: a planned switch-over and a killed primary, under a store and brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from jdbcstore import JdbcStore, Message, StoreConfig
from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.support.broker.load import Load, body_of, drained
from tests.support.broker.programs import BrokerProcess
from tests.support.ports import free_port
from tests.support.require import unavailable
from tests.support.servers import ServerMissing
from tests.support.servers.haproxy import HaProxy
from tests.support.servers.patroni import PatroniCluster, PatroniNode

pytestmark = [pytest.mark.slow, pytest.mark.servers, pytest.mark.xdist_group("patroni")]

WAIT = 60.0
SENDERS = 3
MORE = 20
"""Messages that are stored after each fault."""
COPIES = {"stored": (1,), "not written": (0,), "unknown": (0, 1)}
"""How often a message may be stored, by the answer to its sender."""
STORED = "SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID"
LEASE = """
[locker]
type = "lease-database-locker"
lock_acquire_sleep_interval = 8
lock_keep_alive_period = 1
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[PatroniCluster]:
    try:
        cluster = PatroniCluster()
    except ServerMissing as missing:
        unavailable("patroni", str(missing))
    yield cluster
    cluster.close()


def _from_primary(cluster: PatroniCluster) -> list[PatroniNode]:
    """The nodes, the primary first: the one that a list of hosts leads to as long as it takes writes."""
    first = cluster.primary()
    return [first, *(node for node in cluster.nodes if node is not first)]


class _Senders:
    """Threads that send to a store until they are stopped, and the answer to each message."""

    def __init__(self, store: JdbcStore, pool: ThreadPoolExecutor, name: str) -> None:
        self.answers: dict[str, str] = {}
        self._queue = store.queue(name)
        self._stopped = Event()
        self._threads = [pool.submit(self._send, thread) for thread in range(SENDERS)]

    def _send(self, thread: int) -> None:
        for number in count():
            if self._stopped.is_set():
                return
            body = f"{thread} {number}"
            try:
                self._queue.add_message(Message(body))
            except OutcomeUnknown:
                self.answers[body] = "unknown"
            except StoreUnavailable:
                self.answers[body] = "not written"
            else:
                self.answers[body] = "stored"

    def wait_for_more(self) -> None:
        wanted = self.stored + MORE
        wait_until(lambda: self.stored >= wanted, WAIT, f"that {wanted} messages are stored")

    @property
    def stored(self) -> int:
        return [*self.answers.values()].count("stored")

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.result(WAIT)


@pytest.fixture(params=["hosts", pytest.param("haproxy", marks=pytest.mark.whole)])
def address(cluster: PatroniCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A URL that leads to the primary: a list of hosts, or a proxy that asks Patroni which node it is."""
    cluster.wait()
    if request.param == "hosts":
        yield cluster.url(*_from_primary(cluster))
        return
    try:
        proxy = HaProxy(cluster)
    except ServerMissing as missing:
        unavailable("haproxy", str(missing))
    yield proxy.url
    proxy.close()


def test_a_store_follows_the_primary(
    cluster: PatroniCluster, address: str, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    first = cluster.primary()
    config = StoreConfig(cleanup_period=0.0, reconnect_timeout=WAIT)
    with JdbcStore(address, config) as store, ThreadPoolExecutor(SENDERS) as pool:
        durability = store.durability()
        assert durability is not None
        assert "survive the loss of the server: COMMIT waits for" in durability.survives
        senders = _Senders(store, pool, name)
        senders.wait_for_more()
        second = cluster.switch_over()
        senders.wait_for_more()
        cluster.wait()
        third = cluster.kill_primary()
        senders.wait_for_more()
        senders.stop()
    cluster.wait()
    # The old primary is the first host, and is a standby.
    for is_of_libpq in (True, False):
        with JdbcStore(cluster.url(second, first, third, read_write=is_of_libpq), config) as again:
            again.queue(name).add_message(Message("to the primary"))
    with JdbcStore(cluster.url(second, first, third), config) as again:
        assert again.server is not None
        assert again.server.role == "primary"
        bodies = Counter(message.body for message in again.queue(name).recover(limit=100_000))
    assert bodies.pop("to the primary") == 2
    lies = {body: said for body, said in senders.answers.items() if bodies.pop(body, 0) not in COPIES[said]}
    assert lies == {}
    assert not bodies
    stored = third.rows(STORED)
    for node in cluster.nodes:
        wait_until(lambda node=node: node.rows(STORED) == stored, WAIT, f"that {node.name} has the same")  # type: ignore[misc]
    assert [node.rows("SELECT pg_is_in_recovery()") for node in (second, third)] == [[(True,)], [(False,)]]


def test_a_standby_is_only_read(cluster: PatroniCluster) -> None:
    cluster.wait()
    first, *others = _from_primary(cluster)
    with JdbcStore(cluster.url(first)) as store:
        store.queue("READ").add_message(Message("one"))
    [last] = first.rows("SELECT pg_current_wal_lsn()")
    standbys = [cluster.url(node, read_write=False) for node in others]
    standbys.append(cluster.url(*others, read_write=False))
    for node in others:
        replayed = f"SELECT pg_last_wal_replay_lsn() >= '{last[0]}'"
        wait_until(lambda: node.rows(replayed) == [(True,)], WAIT, "that it is replayed")  # noqa: B023
    for url in standbys:
        with JdbcStore(url, read_only=True) as store:
            assert [message.body for message in store.queue("READ").recover()] == ["one"]
            assert store.server is not None
            assert store.server.role == "standby"
        with (
            JdbcStore(url, StoreConfig(reconnect_timeout=0.1)) as store,
            pytest.raises(StoreUnavailable, match="the server accepts only reads"),
        ):
            store.queue("READ").add_message(Message("two"))


def test_a_pair_of_brokers_serves_again(cluster: PatroniCluster, tmp_path: Path) -> None:
    cluster.wait()
    first, *others = _from_primary(cluster)
    options = tmp_path / "broker.toml"
    options.write_text(LEASE)
    ports = free_port(), free_port()
    url = cluster.url(first, *others)
    pair = [
        BrokerProcess(tmp_path, "--url", url, "--config", str(options), stomp=f"127.0.0.1:{port}")
        for port in ports
    ]
    try:
        load = Load(*ports, to="PAIR", count=1_000_000)
        with load:
            try:
                load.wait_for(MORE)
                cluster.switch_over()
                load.wait_for(len(load.stored) + MORE)
                cluster.wait()
                cluster.kill_primary()
                load.wait_for(len(load.stored) + MORE)
            finally:
                load.stop()
        delivered = Counter(map(body_of, drained("PAIR", *ports)))
    finally:
        for broker in pair:
            broker.kill()
    twice = {body for body, times in delivered.items() if times > 1}
    assert {*load.stored} - {*delivered} == set()
    assert twice - load.doubtful == set()
    assert {*delivered} - {*load.stored} - load.doubtful == set()
