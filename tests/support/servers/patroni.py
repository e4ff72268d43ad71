"""PostgreSQL under Patroni: three nodes, of which one is the primary and one a synchronous standby."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from jdbcstore.testing.polling import wait_until
from tests.support import ROOT, tiers
from tests.support.ports import free_port
from tests.support.servers.postgresql import programs
from tests.support.servers.process import STOP_TIMEOUT, ServerMissing, account_of, give

PROGRAMS = ROOT / ".build" / "patroni"
"""Patroni and etcd, as ``.ci/patroni`` makes them."""

_PATIENCE = 90.0
_HOST = "127.0.0.1"
_IN_DOUBT = "failed to write failover key into DCS"
"""Patroni's answer to a switch-over when etcd is too slow."""
_USERS = {"superuser": "postgres", "replication": "replicator", "rewind": "rewinder"}


class _Process:
    """A process of the cluster, as the account of PostgreSQL; it ends with the process that started it."""

    def __init__(self, folder: Path, name: str, signal_: str, command: Sequence[str]) -> None:
        self.log = folder / f"{name}.log"
        dies_with_us = ["setpriv", "--pdeathsig", signal_] if shutil.which("setpriv") else []
        account = account_of("postgres")
        surroundings: dict[str, Any] = {}
        if account is not None:
            surroundings = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*dies_with_us, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={"HOME": str(folder), "LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
                **surroundings,
            )

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(STOP_TIMEOUT)


class PatroniNode:
    """One node: Patroni, and the PostgreSQL that it runs."""

    def __init__(self, cluster: PatroniCluster, number: int) -> None:
        self.name = f"node{number}"
        self.port, self.rest_port = free_port(), free_port()
        self._cluster = cluster
        self._folder = cluster.folder / self.name
        self._folder.mkdir()
        give(self._folder, account_of("postgres"))
        self._configuration = self._folder / "patroni.yml"
        self._configuration.write_text(json.dumps(self._settings()))  # which is YAML, too
        give(self._configuration, account_of("postgres"))
        self._process: _Process | None = None

    def _settings(self) -> dict[str, Any]:
        cluster, address = self._cluster, f"{_HOST}:{self.port}"
        rest = f"{_HOST}:{self.rest_port}"
        users = {
            kind: {"username": user, "password": cluster.administrator_password}
            for kind, user in _USERS.items()
        }
        return {
            "scope": "jdbcstore",
            "name": self.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"{_HOST}:{cluster.etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": 20,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    # A primary whose server has ended is not started again, but followed.
                    "primary_start_timeout": 0,
                    "synchronous_mode": True,
                    "synchronous_mode_strict": True,
                    "postgresql": {"use_pg_rewind": True, "use_slots": False},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "no-sync"],
            },
            "postgresql": {
                "listen": address,
                "connect_address": address,
                "data_dir": str(self._folder / "data"),
                "bin_dir": str(cluster.programs),
                "pgpass": str(self._folder / "pgpass"),
                "authentication": users,
                "pg_hba": [
                    "local all all trust",
                    f"host all all {_HOST}/32 md5",
                    f"host replication all {_HOST}/32 md5",
                ],
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
                "parameters": {
                    "unix_socket_directories": str(self._folder),
                    "shared_buffers": "32MB",
                    "max_connections": 100,
                    "max_wal_size": "256MB",
                    "password_encryption": "md5",
                    "dynamic_shared_memory_type": "mmap",
                },
            },
        }

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        command = [str(self._cluster.folder / "patroni" / "patroni"), str(self._configuration)]
        self._process = _Process(self._folder, "patroni", "TERM", command)

    def kill_server(self) -> None:
        """End PostgreSQL with SIGKILL; Patroni lives."""
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int((self._folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            os.kill(pid, signal.SIGKILL)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop Patroni, but not PostgreSQL, for a while."""
        assert self._process is not None
        self._process.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send(signal.SIGCONT)

    def kill(self) -> None:
        """End Patroni and PostgreSQL with SIGKILL."""
        if self._process is not None:
            self._process.kill()
        self.kill_server()

    def ask(self, path: str, data: object = None) -> Any:
        """Return the answer of Patroni's REST interface; None if it does not answer."""
        body = None if data is None else json.dumps(data).encode()
        try:
            url = f"http://{_HOST}:{self.rest_port}/{path}"
            with urllib.request.urlopen(url, body, timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        except OSError:
            return None
        try:
            return json.loads(text)
        except ValueError:
            return text

    def role(self) -> str:
        """Return ``primary``, ``sync_standby`` or ``standby``; empty if it does not serve yet."""
        found = self.ask("patroni")
        if not isinstance(found, dict) or found.get("state") != "running":
            return ""
        if found["role"] == "primary":
            return "primary"
        if found.get("replication_state") != "streaming":
            return ""
        return "sync_standby" if found.get("sync_standby") else "standby"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of the administrator's statement in the ordinary user's database."""
        with self._cluster.connect(self, self._cluster.username) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def end_of_log(self) -> str:
        return (self._folder / "patroni.log").read_text()[-3000:]


class PatroniCluster:
    """Three nodes that serve, and the etcd in which they elect the primary."""

    def __init__(self) -> None:
        if not (PROGRAMS / "etcd").exists():
            raise ServerMissing("no Patroni is installed (run .ci/patroni)")
        self.programs = programs(os.environ)
        tiers.starts("servers")
        self.username = "jdbcstore"
        self.password = f"pw-{secrets.token_hex(8)}"
        self.administrator_password = f"pw-{secrets.token_hex(8)}"
        self.folder = Path(tempfile.mkdtemp(prefix="jdbcstore-patroni-"))
        give(self.folder, account_of("postgres"))
        # The account may not be allowed to read the project's tree.
        shutil.copytree(PROGRAMS, self.folder / "patroni")
        self.nodes: list[PatroniNode] = []
        self._etcd: _Process | None = None
        with ExitStack() as unless_started:
            unless_started.callback(self.close)
            self._start()
            unless_started.pop_all()

    def _start(self) -> None:
        self.etcd_port, self._peer_port = free_port(), free_port()
        self.start_etcd()
        self.nodes += [PatroniNode(self, number) for number in range(3)]
        for node in self.nodes:
            node.start()
        self.wait()
        with self.connect(self.primary(), "postgres") as connection:
            connection.execute(f"CREATE ROLE {self.username} LOGIN CREATEDB PASSWORD '{self.password}'")
            connection.execute(f"CREATE DATABASE {self.username} OWNER {self.username}")

    def start_etcd(self) -> None:
        """Start etcd, with its data if it ran before."""
        peer = self._peer_port
        command = [
            str(self.folder / "patroni" / "etcd"),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://{_HOST}:{self.etcd_port}",
            f"--advertise-client-urls=http://{_HOST}:{self.etcd_port}",
            f"--listen-peer-urls=http://{_HOST}:{peer}",
            f"--initial-advertise-peer-urls=http://{_HOST}:{peer}",
            f"--initial-cluster=default=http://{_HOST}:{peer}",
        ]
        self._etcd = _Process(self.folder, "etcd", "KILL", command)

    def kill_etcd(self) -> None:
        """End etcd with SIGKILL."""
        assert self._etcd is not None
        self._etcd.kill()

    def connect(self, node: PatroniNode, database: str) -> psycopg.Connection:
        """Return a connection of the administrator, in autocommit mode."""
        return psycopg.connect(
            host=_HOST,
            port=node.port,
            user="postgres",
            password=self.administrator_password,
            dbname=database,
            autocommit=True,
        )

    def url(self, *nodes: PatroniNode, read_write: bool = True) -> str:
        """Return the URL of the database at these nodes, or at all."""
        hosts = "&".join(f"host={_HOST}:{node.port}" for node in nodes or self.nodes)
        wanted = "&target_session_attrs=read-write" if read_write else ""
        return f"postgresql://{self.username}:{self.password}@/{self.username}?{hosts}{wanted}"

    def roles(self) -> dict[str, str]:
        """Return ``primary``, ``sync_standby`` or ``standby`` of each node that serves, by its name."""
        roles = {node.name: node.role() for node in self.nodes}
        return {name: role for name, role in roles.items() if role}

    def primary(self) -> PatroniNode:
        """Return the primary, once there is one."""

        def find() -> PatroniNode | None:
            roles = self.roles()
            return next((node for node in self.nodes if roles.get(node.name) == "primary"), None)

        found = wait_until(find, _PATIENCE, "a primary")
        assert found is not None
        return found

    def wait(self) -> None:
        """Wait until there are a primary, a synchronous standby and another standby."""
        wanted = ["primary", "standby", "sync_standby"]
        try:
            wait_until(lambda: sorted(self.roles().values()) == wanted, _PATIENCE, "that all nodes serve")
        except AssertionError as error:
            logs = "\n".join(node.end_of_log() for node in self.nodes)
            raise RuntimeError(f"Patroni's nodes are {self.roles()}:\n{logs}") from error

    def switch_over(self) -> PatroniNode:
        """Let the synchronous standby take over, as an administrator plans it; return the new primary."""
        roles = self.roles()
        leader, candidate = (
            next(name for name, role in roles.items() if role == wanted)
            for wanted in ("primary", "sync_standby")
        )

        def has_switched() -> bool:
            answer = str(self.nodes[0].ask("switchover", {"leader": leader, "candidate": candidate}))
            done = answer.startswith("Successfully switched over") or self.roles().get(candidate) == "primary"
            assert done or answer == _IN_DOUBT, answer
            return done

        wait_until(has_switched, _PATIENCE, "that the standby takes over")
        return next(node for node in self.nodes if node.name == candidate)

    def kill_primary(self) -> PatroniNode:
        """Kill the server of the primary; return the new primary."""
        killed = self.primary()
        killed.kill_server()
        wait_until(lambda: self.primary() is not killed, _PATIENCE, "that another node is the primary")
        return self.primary()

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        if self._etcd is not None:
            self._etcd.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
