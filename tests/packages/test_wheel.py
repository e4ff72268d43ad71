"""What a stranger installs: the wheel has what the product needs, and works without the clone."""

from __future__ import annotations

import signal
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore.database.schema import HEAD
from tests.packages.conftest import Installed
from tests.support import ROOT
from tests.support.docs.pages import Page

pytestmark = pytest.mark.xdist_group("packages")


def test_the_wheel_has_every_module_and_migration_and_nothing_else(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {
        f"jdbcstore/{path.relative_to(ROOT / 'jdbcstore').as_posix()}"
        for path in (ROOT / "jdbcstore").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".so", ".c"}
    }
    migrations = {
        f"jdbcstore/database/migrations/environment/{path.relative_to(ROOT / 'migrations').as_posix()}"
        for path in (ROOT / "migrations").rglob("*.py")
    }

    assert package | migrations <= names
    assert {name.partition("/")[0] for name in names} == {"jdbcstore"}


def test_the_first_example_of_the_readme_runs(installed: Installed) -> None:
    example = Page(ROOT / "README.md").examples("python")[0]
    script = installed.folder / "example.py"
    script.write_text(f"{example.code}\nimport jdbcstore\nprint(jdbcstore.__file__)\n")

    printed, place = installed.run("python", str(script)).splitlines()

    assert printed == "two pints 7"
    assert Path(place).is_relative_to(installed.programs.parent)


def test_the_broker_starts_and_stops(installed: Installed) -> None:
    """The second command of the README's first screen, on a free port."""
    broker = installed.start(
        ["jdbcstore", "broker", "--url", "sqlite:///broker.db", "--stomp", "127.0.0.1:0"]
    )
    assert broker.stdout is not None
    try:
        ready = broker.stdout.readline()
        broker.send_signal(signal.SIGTERM)
        code = broker.wait(timeout=180)
    finally:
        broker.kill()
        broker.communicate()

    assert ready.startswith("ready stomp=127.0.0.1:")
    assert code == 0


def test_commands_migrate_and_query(installed: Installed) -> None:
    store = ("--url", "sqlite:///commands.db")
    installed.run("jdbcstore", "send", "ORDERS", "two pints", *store)

    assert installed.run("jdbcstore", "migrate", *store)
    with closing(sqlite3.connect(installed.folder / "commands.db")) as connection:
        assert connection.execute("SELECT * FROM JDBCSTORE_VERSION").fetchall() == [(HEAD,)]
    assert "two pints" in installed.run("jdbcstore", "browse", "ORDERS", *store)
    query = "SELECT destination, count(*) AS messages FROM messages GROUP BY destination"
    assert "queue://ORDERS" in installed.run("jdbcstore", "sql", query, *store)
    assert installed.run("jdbcstore", "--version").startswith(f"jdbcstore, version {jdbcstore.__version__}\n")
