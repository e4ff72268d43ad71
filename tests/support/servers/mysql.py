"""A private MySQL server: the one that ``.ci/mysql`` has unpacked."""

from __future__ import annotations

import getpass
import pwd
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.support import ROOT
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.process import ServerMissing

UNPACKED = ROOT / ".build" / "mysql"
REASON = ROOT / ".build" / "mysql-missing"
"""Why there is none, in the words of ``.ci/mysql``."""


_LEAN = (
    "--binlog-expire-logs-seconds=60",
    "--innodb-log-buffer-size=16M",
    "--innodb-log-writer-threads=OFF",
    "--max-binlog-size=16M",
    "--performance-schema-accounts-size=0",
    "--performance-schema-digests-size=0",
    "--performance-schema-error-size=0",
    "--performance-schema-events-statements-history-long-size=0",
    "--performance-schema-hosts-size=0",
    "--performance-schema-users-size=0",
)
"""Spares statistics that no test reads, 230 MB in each process of a run, and a log of all that it writes.

A commit writes the log itself: threads that do it look for something to write again and again, and took
a fifth of what the contract takes on MySQL.
"""


class MysqlServer(MariadbServer):
    """MySQL with its own defaults, but for packets of MariaDB's size: tests send larger ones; and lean.

    It is in the tree of the project, where another account may not read, and so runs as our own.
    """

    name = "mysql"
    scheme = "mysql+pymysql"
    jdbc_scheme = "mysql"

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
            *_LEAN,
            *self._options(data),
            "--max-allowed-packet=16M",
        ]
