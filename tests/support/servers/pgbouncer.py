"""A private PgBouncer, which is Debian's, in front of a private PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
from sqlalchemy import URL

from jdbcstore.testing.polling import wait_until
from tests.support.ports import free_port
from tests.support.servers.postgresql import PostgresqlServer
from tests.support.servers.process import ServerMissing

_PATIENCE = 60.0
_PLENTY = 60
"""Sessions of one database, where not their number is tested."""
_SETTINGS = """[databases]
* = host={server.host} port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {users}
pool_mode = {mode}
stats_users = {server.username}
max_client_conn = 400
default_pool_size = {size}
server_login_retry = 1
"""


class PgBouncer:
    """A pooler that gives each transaction, or each session, one of ``size`` sessions of the server."""

    def __init__(self, server: PostgresqlServer, size: int, mode: str = "transaction") -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        if program is None:
            raise ServerMissing("no PgBouncer is installed (pgbouncer)")
        self.port = free_port()
        self._server = server
        self._folder = Path(tempfile.mkdtemp(prefix="jdbcstore-pgbouncer-"))
        self._folder.chmod(0o755)
        users, settings = self._folder / "users", self._folder / "settings"
        users.write_text(f'"{server.username}" "{server.password}"\n')
        settings.write_text(
            _SETTINGS.format(server=server, port=self.port, users=users, size=size, mode=mode)
        )
        # It refuses to run as root.
        account = ["-u", server.account] if os.geteuid() == 0 else []
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen([program, *account, settings], stdout=log, stderr=log)
        log.close()
        wait_until(self._answers, _PATIENCE, "that PgBouncer answers")

    @property
    def url(self) -> str:
        """The server's database by way of the pooler."""
        return self._server.url.set(port=self.port).render_as_string(hide_password=False)

    def connect(self) -> psycopg.Connection:
        """Another client, in autocommit mode."""
        return self._connect(self._server.username)

    def _connect(self, database: str) -> psycopg.Connection:
        server = self._server
        return psycopg.connect(
            host=server.host,
            port=self.port,
            user=server.username,
            password=server.password,
            dbname=database,
            autocommit=True,
        )

    def forget_sessions(self) -> None:
        """Close the sessions of the server; later ones have its present settings."""
        server = self._server
        server.execute_as_administrator(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{server.username}'"
        )
        wait_until(lambda: not self._sessions(), _PATIENCE, "that PgBouncer has no session")

    def _sessions(self) -> list[object]:
        """The sessions of the server that the pooler has."""
        with contextlib.closing(self._connect("pgbouncer")) as console:
            return list[object](console.execute("SHOW SERVERS").fetchall())

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class PooledServer(PostgresqlServer):
    """A PostgreSQL that its users reach through a pooler in session mode."""

    mode = "session"

    def __init__(self, folder: Path | None = None) -> None:
        self._pooler: PgBouncer | None = None
        super().__init__(folder)
        self._pooler = PgBouncer(self, _PLENTY, self.mode)

    @property
    def url(self) -> URL:
        return super().url if self._pooler is None else super().url.set(port=self._pooler.port)

    @property
    def administrator_url(self) -> URL:
        return super().administrator_url.set(port=self.port)

    def close(self) -> None:
        if self._pooler is not None:
            self._pooler.close()
        super().close()


class TransactionPooledServer(PooledServer):
    """The same with a pooler in transaction mode."""

    mode = "transaction"
