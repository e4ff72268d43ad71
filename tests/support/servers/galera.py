"""A Galera cluster of MariaDB: three nodes that all take writes, and certify each other's at commit."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pymysql

from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.ports import free_port
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.process import ServerMissing, give

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
SCRIPTS = ROOT / ".build" / "galera"
"""The scripts of a state transfer, as ``.ci/galera`` unpacks them."""

_PATIENCE = 90.0


class GaleraNode(MariadbServer):
    """One node, at its own port for clients and another for the group."""

    def __init__(self, first: GaleraNode | None, folder: Path | None = None) -> None:
        self._first = first
        self._is_new = first is None
        """Whether the next start begins a group instead of joining one."""
        self.group_port, self._transfer_port, self._incremental_port = free_port(), free_port(), free_port()
        self.members: list[GaleraNode] = first.members if first else []
        self.members.append(self)
        super().__init__(folder)
        self._is_new = False

    def _find_programs(self) -> None:
        super()._find_programs()
        if not PROVIDER.exists():
            raise ServerMissing("no Galera is installed (galera-4)")
        if not shutil.which("rsync"):
            raise ServerMissing("a node of Galera joins with rsync, which is not installed")
        self._scripts = SCRIPTS if SCRIPTS.is_dir() else Path("/usr/bin")
        if not (self._scripts / "wsrep_sst_rsync").exists():
            raise ServerMissing("the scripts of Galera's state transfer are missing (run .ci/galera)")

    def _initialise(self, data: Path) -> None:
        # The server's account may not be allowed to read the project's tree.
        (self.directory / "scripts").mkdir(mode=0o755)
        for script in self._scripts.glob("wsrep_sst_*"):
            shutil.copy(script, self.directory / "scripts")
        if self._first is None:
            super()._initialise(data)
            return
        # The group sends its data, users included.
        data.mkdir()
        give(data, self._run_as())
        self.administrator_password = self._first.administrator_password
        self.username, self.password = self._first.username, self._first.password

    def _create_user(self) -> None:
        if self._first is None:
            super()._create_user()

    def _options(self, data: Path) -> Sequence[str]:
        options = [
            option
            for option in super()._options(data)
            if self._is_new or not option.startswith("--init-file")
        ]
        members = "" if self._is_new else ",".join(f"{self.host}:{one.group_port}" for one in self.members)
        provider = {
            "gmcast.listen_addr": f"tcp://{self.host}:{self.group_port}",
            "ist.recv_addr": f"{self.host}:{self._incremental_port}",
            "gcache.size": "64M",
            "evs.suspect_timeout": "PT3S",
            "evs.inactive_timeout": "PT8S",
            "pc.recovery": "false",
        }
        return [
            *options,
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=2",
            "--wsrep-on=ON",
            f"--wsrep-provider={PROVIDER}",
            "--wsrep-cluster-name=jdbcstore",
            f"--wsrep-cluster-address=gcomm://{members}",
            f"--wsrep-node-address={self.host}:{self.group_port}",
            f"--wsrep-node-incoming-address={self.host}:{self.port}",
            f"--wsrep-sst-receive-address={self.host}:{self._transfer_port}",
            "--wsrep-sst-method=rsync",
            "--wsrep-provider-options=" + ";".join(f"{name}={value}" for name, value in provider.items()),
        ]

    def _surroundings(self) -> dict[str, Any]:
        surroundings = super()._surroundings()
        surroundings["env"]["PATH"] = f"{self.directory}/scripts:{surroundings['env']['PATH']}"
        return surroundings

    def isolate(self, *, isolated: bool = True) -> None:
        """Cut this node off from the others, or let it back."""
        self.rows(f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={int(isolated)}'")

    def state(self) -> str:
        """``Synced`` of a node that serves, or the reason why it does not."""
        try:
            [(_, state)] = self.rows("SHOW STATUS LIKE 'wsrep_local_state_comment'")
            [(_, ready)] = self.rows("SHOW STATUS LIKE 'wsrep_ready'")
        except pymysql.Error as error:
            return str(error)
        return str(state) if ready == "ON" else "not ready"

    def wait(self) -> None:
        """Wait until this node serves."""
        wait_until(lambda: self.state() == "Synced", _PATIENCE, "that the node serves")

    def wait_for_group(self, size: int) -> None:
        """Wait until this node sees that many in its group. Before, a killed node cannot join again."""
        wait_until(lambda: self.group_size() == size, _PATIENCE, f"that the group has {size} nodes")

    def group_size(self) -> int:
        """How many nodes this one sees in its group; 0 of a node that does not answer."""
        try:
            [(_, size)] = self.rows("SHOW STATUS LIKE 'wsrep_cluster_size'")
        except pymysql.Error:
            return 0
        return int(str(size))


class GaleraCluster:
    """Three nodes that serve."""

    def __init__(self) -> None:
        self.nodes: list[GaleraNode] = []
        with ExitStack() as unless_started:
            unless_started.callback(self.close)
            for _ in range(3):
                node = GaleraNode(self.nodes[0] if self.nodes else None)
                self.nodes.append(node)
            for node in self.nodes:
                node.wait()
            unless_started.pop_all()

    def settled(self, node: MariadbServer, query: str) -> list[tuple[object, ...]]:
        """The rows of a query once the node has applied all that any has committed."""
        return node.rows(f"SET STATEMENT wsrep_sync_wait = 1 FOR {query}")

    def urls(self) -> list[str]:
        """The database through each node, with its password."""
        return [node.url.render_as_string(hide_password=False) for node in self.nodes]

    def close(self) -> None:
        for node in self.nodes:
            node.close()


class GaleraServer(GaleraNode):
    """The first of three nodes; the others start and end with it."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(None, folder)
        with ExitStack() as unless_started:
            unless_started.callback(self.close)
            for _ in range(2):
                GaleraNode(self, folder)
            for node in self.members:
                node.wait()
            unless_started.pop_all()

    def close(self) -> None:
        for node in [*self.members[1:]]:
            node.close()
        super().close()
