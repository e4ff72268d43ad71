"""The databases' own command line clients."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from sqlalchemy import make_url

from tests.support.databases import Database, PostgresqlDatabase, SqliteDatabase


def run_script(database: Database, script: Path, *, login: tuple[str, str] | None = None) -> None:
    """Run a script as an administrator does; errors fail the test. ``login`` is the URL's if not given."""
    url = make_url(database.url)
    if login is not None:
        url = url.set(username=login[0], password=login[1])
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin"}
    if isinstance(database, SqliteDatabase):
        command = ["sqlite3", "-bail", str(database.path)]
    elif isinstance(database, PostgresqlDatabase):
        command = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={database.name}"]
        command += [f"--host={url.host}", f"--port={url.port}", f"--username={url.username}"]
        environment["PGPASSWORD"] = str(url.password)
        # Not what IF EXISTS has skipped. A pooler takes no options of a session.
        command += ["--command=SET client_min_messages = warning", "--file=-"]
    else:
        client = shutil.which("mariadb") or "mysql"
        command = [client, "--no-defaults", f"--host={url.host}", f"--port={url.port}"]
        command += [f"--user={url.username}", f"--password={url.password}", database.name]
    with script.open() as lines:
        done = subprocess.run(command, stdin=lines, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), f"{script}: {done.stderr}"
