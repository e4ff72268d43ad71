"""On a cluster whose workers have no jdbcstore: the same answers, of every vendor."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.analytics.vendors import VENDORS, find_jar
from tests.conftest import new_database
from tests.support import ROOT
from tests.support.backends import BACKENDS
from tests.support.databases import Database
from tests.support.pool import ServerPool
from tests.support.require import unavailable

EXPECTED = [
    [["queue://FEW", 4], ["queue://MANY", 12]],
    [[sum(range(16)), 16, 0]],
    [[16, "queue://FEW"], [15, "queue://MANY"]],
]


@pytest.fixture
def databases(
    server_pool: ServerPool, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[dict[str, Database]]:
    """One of each vendor, with the same messages."""
    with ExitStack() as opened:
        databases = {}
        for backend in BACKENDS:
            if backend.id not in ("sqlite", "postgresql", "mariadb"):
                continue
            if find_jar(VENDORS[backend.id]) is None:
                unavailable("spark", f"no JDBC driver for {backend.id}")
            (tmp_path / backend.id).mkdir()
            database = new_database(backend, server_pool, tmp_path / backend.id, request)
            opened.callback(database.close)
            databases[backend.id] = database
            with jdbcstore.open(database.url, cleanup_period=0.0) as store:
                for n in range(16):
                    queue = store.queue("FEW" if n % 4 == 3 else "MANY")
                    queue.add_message(Message(str(n), properties={"n": n}))
        yield databases


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python with the packages of this one, but without jdbcstore."""
    home = tmp_path / "venv"
    venv.create(home)
    [packages] = home.glob("lib/python*/site-packages")
    # Of a directory that is named like this, the .pth of an editable installation is not read.
    (packages / "others.pth").write_text(str(Path(pyspark.__file__).parents[1]))
    return home / "bin" / "python"


@pytest.fixture
def application(databases: dict[str, Database], python: Path) -> Iterator[subprocess.Popen[str]]:
    urls = json.dumps({name: database.url for name, database in databases.items()})
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.analytics.cluster", urls],
        cwd=ROOT,
        env={
            **os.environ,
            "PYSPARK_PYTHON": str(python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """The application with its master and workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.timeout(900)  # three Java machines start
def test_the_same_on_a_cluster(databases: dict[str, Database], application: subprocess.Popen[str]) -> None:
    assert application.stdout is not None
    said = json.loads(application.stdout.read())
    # Where Spark is installed, its workers keep what they print.
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / said["application"], ignore_errors=True)
    assert application.wait(60) == 0
    assert said["answers"] == dict.fromkeys(databases, EXPECTED)
    files, workers = zip(*said["places"], strict=True)
    assert all("jdbcstore.zip" in file for file in files)
    assert len({*workers}) == 2
