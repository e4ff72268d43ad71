"""A private HAProxy, which is Debian's, that leads to the primary of Patroni's cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from jdbcstore.testing.polling import wait_until
from tests.support.ports import free_port
from tests.support.servers.patroni import PatroniCluster
from tests.support.servers.process import ServerMissing

_PATIENCE = 60.0
_SETTINGS = """defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen primary
  bind 127.0.0.1:{port}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 1s fall 3 rise 2 on-marked-down shutdown-sessions
{servers}
"""
"""As Patroni's manual has it."""


class HaProxy:
    """An address that leads to the primary."""

    def __init__(self, cluster: PatroniCluster) -> None:
        program = shutil.which("haproxy", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        if program is None:
            raise ServerMissing("no HAProxy is installed (haproxy)")
        self.port = free_port()
        self._cluster = cluster
        self._folder = Path(tempfile.mkdtemp(prefix="jdbcstore-haproxy-"))
        settings = self._folder / "settings"
        servers = "\n".join(
            f"  server {node.name} 127.0.0.1:{node.port} check port {node.rest_port}"
            for node in cluster.nodes
        )
        settings.write_text(_SETTINGS.format(port=self.port, servers=servers))
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen([program, "-db", "-f", settings], stdout=log, stderr=log)
        log.close()
        wait_until(self._leads, _PATIENCE, "that HAProxy has checked all nodes")

    @property
    def url(self) -> str:
        """The cluster's database by way of the proxy."""
        cluster = self._cluster
        address = f"127.0.0.1:{self.port}"
        return f"postgresql://{cluster.username}:{cluster.password}@{address}/{cluster.username}"

    def _leads(self) -> bool:
        """Whether no line leads to a standby: each node would be given one of them."""
        try:
            for _ in self._cluster.nodes:
                with psycopg.connect(self.url) as connection:
                    if connection.execute("SELECT pg_is_in_recovery()").fetchall() != [(False,)]:
                        return False
        except psycopg.OperationalError:
            return False
        return True

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
