"""Clusters of databases under the campaign: faults of their nodes, and a balancer before them."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

import pymysql
from sqlalchemy import URL

from jdbcstore.testing.polling import wait_until
from tests.support.faults.proxy import ProxyLine
from tests.support.servers.galera import GaleraCluster, GaleraNode
from tests.support.servers.group import GroupMember, GroupReplication
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.patroni import PatroniCluster, PatroniNode

_PATIENCE = 120.0
_ASKED = 1.5
"""Seconds for the answer of a node to the balancer."""
_PERIOD = 0.3
_STARTS = 3
_FALLS = 3
"""Checks that a node fails before it is left: one may be late on a busy machine."""

Fault = Callable[[random.Random], str]
N = TypeVar("N", bound=MariadbServer)


class Cluster(ABC):
    """The nodes of a cluster, as the campaign breaks them. It heals what it broke before it returns."""

    backend: str
    """The database that it is made of."""

    @property
    @abstractmethod
    def url(self) -> URL:
        """The database of a user who may create databases, at a node that takes writes."""

    @property
    @abstractmethod
    def ports(self) -> Sequence[int]:
        """The ports of the nodes for clients."""

    @abstractmethod
    def accepts_writes(self, port: int) -> bool:
        """Return whether the node at this port takes writes now."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until each node has applied the commits of all."""

    @abstractmethod
    def faults(self) -> Mapping[str, Fault]:
        """Return the faults of its nodes, by kind."""

    @abstractmethod
    def close(self) -> None:
        """Remove it."""


class _AllWrite(Cluster, Generic[N]):
    """Nodes of MariaDB or MySQL that all take writes."""

    def __init__(self, cluster: GaleraCluster | GroupReplication, nodes: list[N]) -> None:
        self._cluster = cluster
        self._nodes = nodes

    @property
    def url(self) -> URL:
        return self._nodes[0].url

    @property
    def ports(self) -> Sequence[int]:
        return [node.port for node in self._nodes]

    def accepts_writes(self, port: int) -> bool:
        return self._serves(next(node for node in self._nodes if node.port == port))

    @abstractmethod
    def _serves(self, node: N) -> bool:
        """Return whether a node takes writes now."""

    def settle(self) -> None:
        for node in self._nodes:
            with suppress(pymysql.Error):
                self._cluster.settled(node, "SELECT 1")

    def _chosen(self, chance: random.Random) -> tuple[N, list[N]]:
        node = chance.choice(self._nodes)
        return node, [other for other in self._nodes if other is not node]

    def _name(self, node: N) -> str:
        return f"node {self._nodes.index(node) + 1}"

    def close(self) -> None:
        self._cluster.close()


class Galera(_AllWrite[GaleraNode]):
    """Three nodes of MariaDB that all take writes."""

    backend = "mariadb"

    def __init__(self) -> None:
        cluster = GaleraCluster()
        super().__init__(cluster, cluster.nodes)

    def _serves(self, node: GaleraNode) -> bool:
        return _asked(node, "SHOW STATUS LIKE 'wsrep_local_state_comment'") == "Synced" and (
            _asked(node, "SHOW STATUS LIKE 'wsrep_ready'") == "ON"
        )

    def faults(self) -> Mapping[str, Fault]:
        return {
            "node killed": self._kill,
            "node frozen": self._freeze,
            "node isolated": self._isolate,
            "node restarted": self._restart,
            "quorum lost": self._lose_quorum,
        }

    def _chosen(self, chance: random.Random) -> tuple[GaleraNode, list[GaleraNode]]:
        """Choose once all form one group: else a further fault may end it for good."""
        for node in self._nodes:
            node.wait()
            node.wait_for_group(len(self._nodes))
        return super()._chosen(chance)

    def _kill(self, chance: random.Random) -> str:
        node, others = self._chosen(chance)
        node.kill()
        others[0].wait_for_group(2)
        time.sleep(chance.uniform(0.0, 3.0))
        self._join(node)
        return self._name(node)

    def _freeze(self, chance: random.Random) -> str:
        node, _ = self._chosen(chance)
        seconds = _freeze(node, chance.uniform(0.5, 9.0))
        node.wait()
        return f"{self._name(node)}, {seconds:.1f} s"

    def _isolate(self, chance: random.Random) -> str:
        node, others = self._chosen(chance)
        node.isolate()
        others[0].wait_for_group(2)
        time.sleep(chance.uniform(0.0, 3.0))
        node.isolate(isolated=False)
        node.wait()
        return self._name(node)

    def _restart(self, chance: random.Random) -> str:
        node, others = self._chosen(chance)
        node.stop()
        others[0].wait_for_group(2)
        self._join(node)
        return self._name(node)

    def _lose_quorum(self, chance: random.Random) -> str:
        survivor, others = self._chosen(chance)
        for node in others:
            node.kill()
        wait_until(lambda: survivor.state() != "Synced", _PATIENCE, "that the survivor has no quorum")
        time.sleep(chance.uniform(0.0, 3.0))
        survivor.rows("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
        survivor.wait()
        survivor.wait_for_group(1)
        for node in others:
            self._join(node)
        return f"all but {self._name(survivor)}"

    def _join(self, node: GaleraNode) -> None:
        """Start a node, and again if it gave up joining, as a supervisor does."""
        for _ in range(_STARTS):
            try:
                node.start()
                node.wait()
            except (RuntimeError, AssertionError):
                node.kill()
            else:
                return
        raise RuntimeError(f"{self._name(node)} of Galera does not join")


class Group(_AllWrite[GroupMember]):
    """Three members of a MySQL group that all take writes."""

    backend = "mysql"

    def __init__(self) -> None:
        cluster = GroupReplication(size=3)
        super().__init__(cluster, cluster.nodes)

    def _serves(self, node: GroupMember) -> bool:
        return self._is_online(node) and _asked(node, "SELECT '', @@global.super_read_only") == "0"

    def _is_online(self, node: GroupMember) -> bool:
        """Return whether a member is one of a majority that are online, as it sees them itself."""
        return (
            _asked(
                node,
                "SELECT '', SUM(MEMBER_STATE = 'ONLINE') * 2 > COUNT(*) AND"
                " SUM(MEMBER_STATE = 'ONLINE' AND MEMBER_ID = @@server_uuid) = 1"
                " FROM performance_schema.replication_group_members",
            )
            == "1"
        )

    def faults(self) -> Mapping[str, Fault]:
        return {
            "node killed": self._kill,
            "node frozen": self._freeze,
            "node left": self._leave,
            "node restarted": self._restart,
            "quorum lost": self._lose_quorum,
        }

    def _wait_for(self, node: GroupMember, size: int) -> None:
        online = (
            "SELECT '', IF(SUM(MEMBER_STATE = 'ONLINE') = COUNT(*), COUNT(*), 0)"
            " FROM performance_schema.replication_group_members"
        )
        wait_until(lambda: _asked(node, online) == str(size), _PATIENCE, f"that the group has {size} members")

    def _rejoin(self, node: GroupMember) -> None:
        node.execute_as_administrator("START GROUP_REPLICATION")
        wait_until(lambda: self._is_online(node), _PATIENCE, "that the member is online")

    def _kill(self, chance: random.Random) -> str:
        node, others = self._chosen(chance)
        node.kill()
        self._wait_for(others[0], 2)
        time.sleep(chance.uniform(0.0, 3.0))
        node.start()
        self._rejoin(node)
        return self._name(node)

    def _freeze(self, chance: random.Random) -> str:
        node, _ = self._chosen(chance)
        seconds = _freeze(node, chance.uniform(0.5, 9.0))
        wait_until(lambda: self._is_online(node), _PATIENCE, "that the member is online")
        self._wait_for(node, 3)
        return f"{self._name(node)}, {seconds:.1f} s"

    def _leave(self, chance: random.Random) -> str:
        node, others = self._chosen(chance)
        node.execute_as_administrator("STOP GROUP_REPLICATION")
        self._wait_for(others[0], 2)
        time.sleep(chance.uniform(0.0, 3.0))
        self._rejoin(node)
        return self._name(node)

    def _restart(self, chance: random.Random) -> str:
        node, others = self._chosen(chance)
        node.stop()
        self._wait_for(others[0], 2)
        node.start()
        self._rejoin(node)
        return self._name(node)

    def _lose_quorum(self, chance: random.Random) -> str:
        survivor, others = self._chosen(chance)
        for node in others:
            node.kill()
        wait_until(lambda: not self._is_online(survivor), _PATIENCE, "that the survivor has no quorum")
        time.sleep(chance.uniform(0.0, 3.0))
        address = f"{survivor.host}:{survivor.group_port}"
        survivor.execute_as_administrator(
            f"SET GLOBAL group_replication_force_members = '{address}'",
            "SET GLOBAL group_replication_force_members = ''",
        )
        wait_until(lambda: self._is_online(survivor), _PATIENCE, "that the survivor serves")
        for node in others:
            node.start()
            self._rejoin(node)
        return f"all but {self._name(survivor)}"


class Patroni(Cluster):
    """A primary of PostgreSQL with a synchronous standby and another one."""

    backend = "postgresql"

    def __init__(self) -> None:
        self._cluster = PatroniCluster()
        self._nodes = self._cluster.nodes

    @property
    def url(self) -> URL:
        cluster, port = self._cluster, self._cluster.primary().port
        return URL.create(
            "postgresql+psycopg", cluster.username, cluster.password, "127.0.0.1", port, cluster.username
        )

    @property
    def ports(self) -> Sequence[int]:
        return [node.port for node in self._nodes]

    def accepts_writes(self, port: int) -> bool:
        return next(node for node in self._nodes if node.port == port).role() == "primary"

    def settle(self) -> None:
        """All read at the primary."""

    def faults(self) -> Mapping[str, Fault]:
        return {
            "primary killed": self._kill_primary,
            "node killed": self._kill_node,
            "standby killed": self._kill_standby,
            "switch-over": self._switch_over,
            "Patroni frozen": self._freeze,
            "etcd killed": self._kill_etcd,
        }

    def _kill_primary(self, _: random.Random) -> str:
        self._cluster.wait()  # else no standby may take over
        node = self._cluster.kill_primary()
        self._cluster.wait()
        return f"now {node.name}"

    def _kill_node(self, chance: random.Random) -> str:
        """With its Patroni, so that the others find out by the end of its key."""
        node = self._cluster.primary()
        node.kill()
        self._wait_for_other(node)
        time.sleep(chance.uniform(0.0, 3.0))
        node.start()
        self._cluster.wait()
        return node.name

    def _wait_for_other(self, node: PatroniNode) -> None:
        wait_until(lambda: self._cluster.primary() is not node, _PATIENCE, "another primary")

    def _kill_standby(self, chance: random.Random) -> str:
        node = chance.choice([node for node in self._nodes if node.role() != "primary"])
        node.kill_server()
        self._cluster.wait()
        return node.name

    def _switch_over(self, _: random.Random) -> str:
        node = self._cluster.switch_over()
        self._cluster.wait()
        return f"to {node.name}"

    def _freeze(self, chance: random.Random) -> str:
        """Leave a primary whose key has expired, and whose Patroni cannot end it."""
        node = self._cluster.primary()
        with node.frozen():
            others = [other for other in self._nodes if other is not node]
            wait_until(
                lambda: any(other.role() == "primary" for other in others), _PATIENCE, "a second primary"
            )
            time.sleep(chance.uniform(0.0, 3.0))
        self._cluster.wait()
        return node.name

    def _kill_etcd(self, chance: random.Random) -> str:
        self._cluster.kill_etcd()
        time.sleep(chance.uniform(0.5, 8.0))
        self._cluster.start_etcd()
        self._cluster.wait()
        return ""

    def close(self) -> None:
        self._cluster.close()


CLUSTERS: Mapping[str, type[Cluster]] = {"galera": Galera, "patroni": Patroni, "group": Group}


def _freeze(node: MariadbServer, seconds: float) -> float:
    assert node.pid is not None
    os.kill(node.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(node.pid, signal.SIGCONT)
    return seconds


def _asked(node: MariadbServer, query: str) -> str:
    """Return the second column of a node's answer; empty if there is none in time."""
    try:
        connection = pymysql.connect(
            host=node.host,
            port=node.port,
            user=node.administrator,
            password=node.administrator_password,
            connect_timeout=2,
            read_timeout=_ASKED,
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(query)
            row = cursor.fetchone()
    except (pymysql.Error, OSError):
        return ""
    return str(row[1]) if row else ""


class Balancer:
    """Leads each line to a node that takes writes, and cuts it when its node does not, as HAProxy does.

    A line prefers a node of its own, so that clients at different nodes work at the same time.
    """

    def __init__(self, cluster: Cluster, lines: Sequence[ProxyLine]) -> None:
        self._cluster = cluster
        self._lines = lines
        self._at: list[int | None] = [None] * len(lines)
        self._failed = dict.fromkeys(cluster.ports, _FALLS)
        """How often in a row each node has failed its check."""
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(len(cluster.ports), thread_name_prefix="balancer")
        self._lead()
        self._thread = threading.Thread(target=self._run, name="balancer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(_PERIOD):
            self._lead()

    def _lead(self) -> None:
        ports = [*self._failed]
        for port, serves in zip(ports, self._pool.map(self._cluster.accepts_writes, ports), strict=True):
            self._failed[port] = 0 if serves else self._failed[port] + 1
        for number, line in enumerate(self._lines):
            now = self._at[number]
            if now is not None and self._failed[now] < _FALLS:
                continue
            preferred = [ports[(number + step) % len(ports)] for step in range(len(ports))]
            target = next((port for port in preferred if not self._failed[port]), None)
            if target is not None:
                self._at[number] = target
                line.lead_to(target)
            elif now is not None:
                self._at[number] = None
                line.cut_all()

    def close(self) -> None:
        """Leave the lines as they are."""
        self._stopped.set()
        self._thread.join()
        self._pool.shutdown()
