"""Migrations that kill themselves: a process that has all imported, and forks one for each.

Run as ``python -m tests.support.migrations.dying``. Each line on its standard input has a URL, a revision and
a number: one is started that migrates to the revision, and kills itself with SIGKILL when it has run so
many statements that change something. The answer is ``killed`` or ``done``.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from typing import Any

from sqlalchemy import Engine, event, make_url

from jdbcstore import StoreConfig
from jdbcstore.database.engine import Database
from jdbcstore.database.migrations import migration_of

_CHANGE = re.compile(r"\s*(ALTER|CREATE|DELETE|DROP|INSERT|UPDATE)\b")


def main() -> None:
    gc.freeze()
    for line in sys.stdin:
        url, revision, number = line.split()
        make_url(url).get_dialect().import_dbapi()
        child = os.fork()
        if not child:
            _migrate(url, revision, int(number))
        _, status = os.waitpid(child, 0)
        outcome = {-signal.SIGKILL: "killed", 0: "done"}.get(os.waitstatus_to_exitcode(status), "failed")
        sys.stdout.write(f"{outcome}\n")
        sys.stdout.flush()


def _migrate(url: str, revision: str, number: int) -> None:
    left = number

    def die(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal left
        left -= bool(_CHANGE.match(statement))
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        event.listen(Engine, "after_cursor_execute", die)
        with migration_of(Database(url, StoreConfig()), revision) as migration:
            migration.run()
        code = 0
    finally:
        os._exit(code)


class DyingMigrations:
    """The test's end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.migrations.dying"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def is_killed(self, url: str, revision: str, number: int) -> bool:
        """Migrate, to be killed after so many statements; whether there were so many."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{url} {revision} {number}\n")
        outcome = self._process.stdout.readline().strip()
        assert outcome in ("killed", "done"), outcome
        return outcome == "killed"

    def close(self) -> None:
        self._process.communicate(timeout=180.0)


if __name__ == "__main__":
    main()
