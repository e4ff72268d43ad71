"""A private PostgreSQL server."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.servers.process import Server, ServerMissing, give


class PostgresqlServer(Server):
    """PostgreSQL with its own defaults (fsync on), UTF-8, and password logins over TCP only."""

    name = "postgresql"
    account = "postgres"
    scheme = "postgresql+psycopg"
    jdbc_scheme = "postgresql"
    administrator = "postgres"
    administrator_database = "postgres"
    stop_signal = signal.SIGINT
    immediate_stop_signal = signal.SIGQUIT

    def _find_programs(self) -> None:
        self._programs = programs(os.environ)

    def program(self, name: str) -> Path:
        """A program that came with this server, such as pgbench."""
        return self._programs / name

    def _initialise(self, data: Path) -> None:
        password = self.directory / "password"
        password.touch(mode=0o600)
        give(password, self._run_as())
        password.write_text(self.administrator_password)
        self._run(
            str(self._programs / "initdb"),
            f"--pgdata={data}",
            f"--username={self.administrator}",
            f"--pwfile={password}",
            "--auth=password",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )
        password.unlink()

    def _command(self, data: Path) -> Sequence[str]:
        settings = {
            "listen_addresses": self.host,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            # Its files may be in memory: a gigabyte of them, as by default, in each process of a run.
            "max_wal_size": "256MB",
            # Of a password that is kept for scram, a thousand hashes are made for each connection.
            "password_encryption": "md5",
            # In its directory: a killed server would leave it behind elsewhere.
            "dynamic_shared_memory_type": "mmap",
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [str(self._programs / "postgres"), "-D", str(data), *options]

    def _create_user(self) -> None:
        self.execute_as_administrator(
            f"CREATE ROLE {self.username} LOGIN CREATEDB PASSWORD '{self.password}'",
            f"CREATE DATABASE {self.username} OWNER {self.username}",
        )


def programs(environment: Mapping[str, str]) -> Path:
    """Where initdb and postgres are: JDBCSTORE_TEST_POSTGRESQL, or the newest version of the system."""
    if chosen := environment.get("JDBCSTORE_TEST_POSTGRESQL"):
        return Path(chosen)
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version, reverse=True)
    found = shutil.which("initdb")
    for initdb in [*system, *([Path(found)] if found else [])]:
        if (initdb.parent / "postgres").exists():
            return initdb.parent
    raise ServerMissing("no PostgreSQL server is installed (initdb, postgres)")


def _version(initdb: Path) -> float:
    number = re.match(r"\d+(\.\d+)?", initdb.parts[-3])
    return float(number.group()) if number else 0.0
