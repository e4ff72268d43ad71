"""Stores, lockers and claims at different nodes of clusters that take writes everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from threading import Barrier

import pymysql
import pytest
from pymysql.constants import ER

import jdbcstore
from jdbcstore import Claims, Configuration, JdbcStore, Message, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import DatabaseLockerConfig, LeaseDatabaseLockerConfig
from jdbcstore.database import schema_lock
from jdbcstore.database.engine import Database
from jdbcstore.database.migrations import migration_of
from jdbcstore.database.schema import HEAD
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import ConfigurationError, LockLost, OutcomeUnknown, StoreUnavailable
from jdbcstore.lockers.inspection import release
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.clock import SystemClock
from tests.support.faults.moved import STORED, MovedLine
from tests.support.require import unavailable
from tests.support.servers import ServerMissing
from tests.support.servers.galera import GaleraCluster
from tests.support.servers.group import GroupMember, GroupReplication
from tests.support.servers.mariadb import MariadbServer

pytestmark = [pytest.mark.slow, pytest.mark.servers, pytest.mark.xdist_group("clusters")]

MYSQL = "mysql"
"""The backend that the group needs."""
WAIT = 60.0
DOUBLINGS = 15
"""Of the rows of a table that one statement changes, so that the other nodes apply it for a while."""


Cluster = GaleraCluster | GroupReplication
KINDS: dict[str, type[Cluster]] = {"galera": GaleraCluster, "group": GroupReplication}


@pytest.fixture(scope="module", params=[*KINDS])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    try:
        cluster: Cluster = KINDS[request.param]()
    except ServerMissing as missing:
        if request.param == "galera":
            unavailable("galera", str(missing))
        unavailable(MYSQL, str(missing))
    first = cluster.nodes[0]
    first.rows("CREATE TABLE bulk (id INT PRIMARY KEY AUTO_INCREMENT, number INT)")
    first.rows("INSERT INTO bulk VALUES (NULL, 0)")
    for _ in range(DOUBLINGS):
        first.rows("INSERT INTO bulk SELECT NULL, number FROM bulk")
    yield cluster
    cluster.close()


@pytest.fixture(autouse=True)
def _empty(cluster: Cluster) -> Iterator[None]:
    """Leave neither tables nor a node that is cut off."""
    yield
    if isinstance(cluster, GaleraCluster):
        for node in cluster.nodes:
            node.isolate(isolated=False)
        for node in cluster.nodes:
            node.wait()
    _drop_tables(cluster)


def _drop_tables(cluster: Cluster) -> None:
    first = cluster.nodes[0]
    cluster.settled(first, "SELECT 1")
    for name, kind in first.rows("SHOW FULL TABLES"):
        if name != "bulk":
            first.rows(f"DROP {'SEQUENCE' if kind == 'SEQUENCE' else 'TABLE'} `{name}`")
    for other in cluster.nodes:
        cluster.settled(other, "SELECT 1")


def _hold_others_back(node: MariadbServer) -> None:
    """Commit at this node what the others apply for a while."""
    node.rows("UPDATE bulk SET number = number + 1")


def _leased(url: str) -> JdbcStore:
    configuration = Configuration(
        data_source=DataSourceConfig(url=url),
        store=StoreConfig(cleanup_period=0.0),
        locker=LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=WAIT),
    )
    return JdbcStore.configured(configuration)


def test_nothing_is_written_behind_the_epoch(cluster: Cluster) -> None:
    """The deposed master's node has not applied the end of its epoch yet."""
    one, other, *_ = cluster.nodes
    for _ in range(8):
        with (
            _leased(cluster.urls()[0]) as master,
            closing(DatabaseSession(cluster.urls()[1], StoreConfig())) as session,
        ):
            queue = master.queue("Q")
            queue.add_message(Message("before"))
            stored = one.rows(STORED)
            _hold_others_back(other)
            release(session, SystemClock(), force=True)
            with pytest.raises((LockLost, StoreUnavailable)):
                queue.add_message(Message("behind"))
            assert cluster.settled(one, STORED) == stored


def test_a_lease_is_held_at_one_node(cluster: Cluster) -> None:
    with _leased(cluster.urls()[0]) as master, ThreadPoolExecutor(2) as pool:
        master.queue("Q").add_message(Message("first"))
        slaves = [pool.submit(_leased, url) for url in cluster.urls()[1:]]
        wait_until(lambda: any(slave.running() for slave in slaves), WAIT, "that slaves wait")
        assert not any(slave.done() for slave in slaves)
        master.close()
        served = Counter[str]()
        for _ in cluster.urls()[1:]:
            wait_until(lambda: any(slave.done() for slave in slaves), WAIT, "that one takes over")
            [(slave, store)] = [(slave, slave.result()) for slave in slaves if slave.done()]
            slaves.remove(slave)
            served[str([message.body for message in store.queue("Q").recover()])] += 1
            store.close()
        assert served == {"['first']": len(cluster.nodes) - 1}


def test_a_store_sees_what_was_committed_at_another_node_before_it_opened(cluster: Cluster) -> None:
    first, second, *_ = cluster.urls()
    config = StoreConfig(cleanup_period=0.0)
    with JdbcStore(first, config) as store:
        store.queue("Q").add_message(Message("one"))
        cluster.settled(cluster.nodes[1], STORED)
        _hold_others_back(cluster.nodes[0])
        store.queue("Q").add_message(Message("two"))
    with JdbcStore(second, config) as store:
        assert [message.body for message in store.queue("Q").recover()] == ["one", "two"]


def _at_each_node(cluster: Cluster, work: Callable[[str], None]) -> None:
    """Do something at all nodes at once, twice at each."""
    urls = cluster.urls() * 2
    meeting = Barrier(len(urls))

    def do(url: str) -> None:
        meeting.wait(WAIT)
        work(url)

    with ThreadPoolExecutor(len(urls)) as pool:
        for done in [pool.submit(do, url) for url in urls]:
            done.result(WAIT)


def test_the_tables_are_created_from_each_node_at_once(cluster: Cluster) -> None:
    """The brokers and workers of a deployment start at the same moment."""

    def store(url: str) -> None:
        with JdbcStore(url, StoreConfig(cleanup_period=0.0)) as store:
            store.queue("Q").add_message(Message("stored"))

    def claim(url: str) -> None:
        with Claims(url) as claims:
            claims.queue("Q").add(Message("added"))

    for _ in range(3):
        _at_each_node(cluster, store)
        _at_each_node(cluster, claim)
        times = 2 * len(cluster.nodes)
        assert _bodies(cluster) == {"stored": times, "added": times}
        assert cluster.nodes[0].rows("SELECT version_num FROM JDBCSTORE_VERSION") == [(HEAD,)]
        _drop_tables(cluster)


def test_migrations_from_each_node_at_once(cluster: Cluster) -> None:
    def migrate(target: str, url: str) -> None:
        with migration_of(Database(url, StoreConfig()), target) as migration:
            migration.run()

    for target in ("head", "activemq", "head"):
        _at_each_node(cluster, partial(migrate, target))
    assert cluster.nodes[0].rows("SELECT version_num FROM JDBCSTORE_VERSION") == [(HEAD,)]


def test_a_process_that_ended_while_it_changed_tables(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its right to do so is taken over, once it was not renewed for a while."""
    with JdbcStore(cluster.urls()[0], StoreConfig(cleanup_period=0.0)):
        cluster.nodes[0].rows("INSERT INTO JDBCSTORE_SCHEMA_LOCK VALUES (1, 'host 1 a', 3)")
    cluster.settled(cluster.nodes[1], "SELECT 1")
    monkeypatch.setattr(schema_lock, "LEASE", 0.0)
    with Claims(cluster.urls()[1]) as claims:
        claims.queue("Q").add(Message("after"))
    assert _bodies(cluster) == Counter(["after"])
    assert cluster.settled(cluster.nodes[0], "SELECT OWNER FROM JDBCSTORE_SCHEMA_LOCK") == []
    assert "host 1 a" in caplog.text


def test_a_journal_at_another_node_after_each_checkpoint(cluster: Cluster, tmp_path: Path) -> None:
    """The position that a checkpoint has reached is in the tables, with all that it wrote."""
    journal = JournalConfig(directory=str(tmp_path / "journal"))
    for number, url in enumerate((*cluster.urls(), *cluster.urls())):
        base = JdbcStore(url, StoreConfig(cleanup_period=0.0), journaled=True)
        with JournaledStore(base, journal) as store:
            queue = store.queue("Q")
            for message in queue.recover():
                assert message.body == str(number - 1)
                queue.acknowledge(message)
            for body in (number, number):
                queue.add_message(Message(str(body)))
                store.checkpoint()
                assert len(queue.recover()) == queue.message_count()
        assert _bodies(cluster) == {str(number): 2}


SAID = {
    GaleraCluster: ("Galera Cluster", "one of 3 nodes"),
    GroupReplication: ("MySQL Group Replication with several primaries", "one of 2 nodes"),
}


def test_the_cluster_is_named(cluster: Cluster) -> None:
    with JdbcStore(cluster.urls()[1]) as store:
        server, durability = store.server, store.durability()
    assert server is not None
    assert durability is not None
    assert "survive the loss of a node, but not of all nodes at once" in durability.survives
    assert (server.engine, str(server).rpartition(", ")[2]) == SAID[type(cluster)]


@pytest.fixture
def with_one_primary(cluster: Cluster) -> Iterator[list[GroupMember]]:
    """The members of a group, of which only one takes writes."""
    if not isinstance(cluster, GroupReplication):
        pytest.skip("Galera has no single primary")
    one = cluster.nodes[0]
    one.rows("SELECT group_replication_switch_to_single_primary_mode()")
    yield cluster.nodes
    if one.rows("SELECT @@group_replication_single_primary_mode") == [(1,)]:
        one.rows("SELECT group_replication_switch_to_multi_primary_mode()")


def test_a_group_with_one_primary(cluster: Cluster, with_one_primary: list[GroupMember]) -> None:
    nodes = with_one_primary
    try:
        is_read = [node.rows("SELECT @@global.super_read_only") == [(1,)] for node in nodes]
        assert sorted(is_read) == [False, True]
        primary, standby = (nodes[is_read.index(reads)] for reads in (False, True))
        hosts = {"host": [f"127.0.0.1:{node.port}" for node in (standby, primary)]}
        url = primary.url._replace(host=None, port=None).update_query_dict(hosts)
        primary.rows("SET GLOBAL group_replication_consistency = 'EVENTUAL'")
        with JdbcStore(url.render_as_string(hide_password=False)) as store:
            store.queue("Q").add_message(Message("to the primary"))
            assert str(store.server).startswith("MySQL Group Replication 9")
            assert store.server == store.examine().server
            durability = store.durability()
        assert durability is not None
        assert [one.name for one in durability.risks] == ["group replication consistency"]
        assert len(primary.rows(STORED)) == len(cluster.settled(standby, STORED)) == 1
        with JdbcStore(standby.url.render_as_string(hide_password=False), read_only=True) as reader:
            assert ", standby, one of 2 nodes" in str(reader.server)
    finally:
        primary.rows("SET GLOBAL group_replication_consistency = DEFAULT")


def test_a_group_that_changes_under_a_store(
    with_one_primary: list[GroupMember], caplog: pytest.LogCaptureFixture
) -> None:
    [primary] = [node for node in with_one_primary if node.rows("SELECT @@global.super_read_only") == [(0,)]]
    with JdbcStore(primary.url.render_as_string(hide_password=False)) as store:
        store.queue("Q").add_message(Message("before"))
        primary.rows("SELECT group_replication_switch_to_multi_primary_mode()")
        ids = primary.rows(f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{primary.username}'")
        for (number,) in ids:
            primary.rows(f"KILL {number}")
        store.queue("Q").add_message(Message("after"))
        # The next connection is asked what its server is.
        assert [message.body for message in store.queue("Q").recover()] == ["before", "after"]
        assert str(store.server).startswith("MySQL Group Replication with several primaries")
    assert "was MySQL Group Replication, and is MySQL Group Replication with several" in caplog.text


def test_the_database_locker_is_refused(cluster: Cluster) -> None:
    configuration = Configuration(
        data_source=DataSourceConfig(url=cluster.urls()[1]), locker=DatabaseLockerConfig()
    )
    with pytest.raises(ConfigurationError, match="lease-database-locker"):
        JdbcStore.configured(configuration)


def test_claims_at_each_node(cluster: Cluster) -> None:
    """Each message is delivered once, and conflicts between nodes do not reach the caller."""
    per_node, nodes = 40, len(cluster.nodes)
    with ExitStack() as opened, ThreadPoolExecutor(2 * nodes) as pool:
        workers = [opened.enter_context(Claims(url)) for url in cluster.urls()]
        meeting = Barrier(2 * nodes)

        def add(number: int) -> None:
            queue = workers[number].queue("Q")
            meeting.wait(WAIT)
            for one in range(per_node):
                queue.add(Message(f"{number} {one}"))

        def work(number: int) -> list[object]:
            queue = workers[number].queue("Q")
            meeting.wait(WAIT)
            bodies: list[object] = []
            while not all(adding.done() for adding in added) or queue.count()[0]:
                for claim in queue.claim(3):
                    bodies.append(claim.message.body)
                    queue.acknowledge(claim)
            return bodies

        added = [pool.submit(add, number) for number in range(nodes)]
        worked = [pool.submit(work, number) for number in range(nodes)]
        for adding in added:
            adding.result(WAIT)
        delivered = Counter(body for working in worked for body in working.result(WAIT))
    assert delivered == Counter(f"{node} {one}" for node in range(nodes) for one in range(per_node))


def test_a_sequence_of_a_server_that_became_a_cluster(cluster: Cluster) -> None:
    """The statement of the page gives each node its own numbers."""
    if not isinstance(cluster, GaleraCluster):
        pytest.skip("MySQL has no sequences")
    for node in cluster.nodes:
        node.execute_as_administrator(
            "SET SESSION wsrep_on = OFF", f"CREATE SEQUENCE {node.username}.JDBCSTORE_CLAIM_IDS"
        )
    cluster.nodes[0].rows("ALTER SEQUENCE JDBCSTORE_CLAIM_IDS INCREMENT BY 0")
    numbers = [_next_number(node) for node in cluster.nodes for _ in range(3)]
    assert len(set(numbers)) == 9
    cluster.nodes[0].rows("DROP SEQUENCE JDBCSTORE_CLAIM_IDS")


def _next_number(node: MariadbServer) -> object:
    """The sequence's next number at a node, which may answer first that it conflicts with another node's."""
    while True:
        try:
            [(number,)] = node.rows("SELECT NEXTVAL(JDBCSTORE_CLAIM_IDS)")
        except pymysql.err.OperationalError as error:
            if error.args[0] != ER.LOCK_DEADLOCK:
                raise
        else:
            return number


class _Moved:
    """The first node, and the second one, which is behind."""

    def __init__(self, cluster: Cluster) -> None:
        nodes: list[MariadbServer] = [*cluster.nodes]
        self._first, self._second, *_ = nodes
        self.url = cluster.urls()[0] + "?ssl_disabled=true"  # the line reads what is sent

    @property
    def other_port(self) -> int:
        return self._second.port

    def stored(self) -> list[tuple[object, ...]]:
        return self._first.rows(STORED)


def test_a_commit_in_doubt_is_found_at_another_node(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    servers = _Moved(cluster)
    for _ in range(4):
        with (
            closing(MovedLine(servers, commits=rb"COMMIT")) as line,
            jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=WAIT, locker=None) as store,
        ):
            queue = store.queue("Q")
            before = queue.add_message(Message("before")).sequence
            _hold_others_back(cluster.nodes[0])
            line.moves = True
            added = queue.add_message(Message("once")).sequence
            assert not line.moves
            assert [message.sequence for message in queue.recover()][-2:] == [before, added]
    assert [len(cluster.settled(node, STORED)) for node in cluster.nodes] == [8] * len(cluster.nodes)
    assert "another process" not in caplog.text


def test_an_isolated_node_tells_the_truth(cluster: Cluster) -> None:
    """What was acknowledged is stored once, what was not written is not."""
    if not isinstance(cluster, GaleraCluster):
        pytest.skip("two members are no majority without each other")
    node = cluster.nodes[1]
    outcomes: dict[str, str] = {}
    with (
        jdbcstore.open(cluster.urls()[1], cleanup_period=0, reconnect_timeout=0.5, locker=None) as store,
        ThreadPoolExecutor(4) as pool,
    ):
        queue = store.queue("Q")
        cut = Barrier(5)

        def send(thread: int) -> None:
            for number in range(300):
                body = f"{thread} {number}"
                if number in (100, 200):
                    cut.wait(WAIT)
                try:
                    queue.add_message(Message(body))
                except OutcomeUnknown:
                    outcomes[body] = "unknown"
                except StoreUnavailable:
                    outcomes[body] = "not written"
                else:
                    outcomes[body] = "stored"

        sending = [pool.submit(send, thread) for thread in range(4)]
        for _ in range(2):
            cut.wait(WAIT)
            node.isolate()
            cluster.nodes[0].wait_for_group(2)
            node.isolate(isolated=False)
            node.wait()
        for one in sending:
            one.result(WAIT)
    bodies = _bodies(cluster)
    lies = {body: said for body, said in outcomes.items() if bodies[body] not in _COPIES[said]}
    assert lies == {}
    assert "unknown" in outcomes.values() or "not written" in outcomes.values()


def _bodies(cluster: Cluster) -> Counter[object]:
    with JdbcStore(cluster.urls()[0], read_only=True) as store:
        return Counter(message.body for message in store.queue("Q").recover(limit=2000))


_COPIES = {"stored": (1,), "not written": (0,), "unknown": (0, 1)}
"""How often a message may be stored, by what its sender was answered."""
