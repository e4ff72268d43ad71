"""A private MySQL server: the one that ``.ci/mysql`` has unpacked."""

from __future__ import annotations

import getpass
import pwd
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.support import ROOT
from tests.support.servers.process import Server, ServerMissing

UNPACKED = ROOT / ".build" / "mysql"
REASON = ROOT / ".build" / "mysql-missing"
"""Why there is none, in the words of ``.ci/mysql``."""


class MysqlServer(Server):
    """MySQL with its own defaults, but for packets of MariaDB's size: tests send larger ones.

    It is in the tree of the project, where another account may not read, and so runs as our own.
    """

    name = "mysql"
    scheme = "mysql+pymysql"
    jdbc_scheme = "mysql"
    administrator = "root"
    administrator_database = "mysql"
    stop_signal = signal.SIGTERM

    def _find_programs(self) -> None:
        if not (UNPACKED / "data").is_dir():
            why = REASON.read_text().strip() if REASON.exists() else "run .ci/mysql"
            raise ServerMissing(f"no MySQL server is unpacked in .build ({why})")

    def _run_as(self) -> pwd.struct_passwd | None:
        return None

    def _initialise(self, data: Path) -> None:
        shutil.copytree(UNPACKED / "data", data)
        # The server runs this at each start, before it takes connections: one statement a line.
        (self.directory / "init.sql").write_text(
            "DROP USER IF EXISTS root@localhost;\n"
            f"CREATE USER IF NOT EXISTS root@'%' IDENTIFIED BY '{self.administrator_password}';\n"
            "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"
        )

    def _command(self, data: Path) -> Sequence[str]:
        return [
            str(UNPACKED / "mysqld"),
            f"--user={getpass.getuser()}",
            f"--datadir={data}",
            f"--bind-address={self.host}",
            f"--port={self.port}",
            f"--socket={self.directory / 'socket'}",
            f"--pid-file={self.directory / 'pid'}",
            f"--init-file={self.directory / 'init.sql'}",
            "--max-allowed-packet=16M",
            "--skip-name-resolve",
            "--max-connections=200",
        ]

    def _create_user(self) -> None:
        self.execute_as_administrator(
            f"CREATE USER {self.username}@'%' IDENTIFIED BY '{self.password}'",
            f"GRANT ALL ON *.* TO {self.username}@'%'",
            f"CREATE DATABASE {self.username}",
        )
