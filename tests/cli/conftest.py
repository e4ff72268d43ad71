"""Command lines to test with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore import JdbcStore, StoreConfig
from jdbcstore.cli import main
from tests.support.cli.command_line import CommandLine, Result


@pytest.fixture
def cli(tmp_path: Path, url: str) -> CommandLine:
    """On each backend's database in turn, which the environment names."""
    return CommandLine(tmp_path, url)


@pytest.fixture
def local(tmp_path: Path) -> CommandLine:
    """Without any setting: on the default SQLite file, in a folder of the test's own."""
    return CommandLine(tmp_path)


@pytest.fixture
def local_url(tmp_path: Path) -> str:
    """The URL of that file."""
    return f"sqlite:///{tmp_path / 'activemq-data' / 'jdbcstore.db'}"


@pytest.fixture
def local_store(tmp_path: Path, local_url: str) -> Callable[[], JdbcStore]:
    """Opens a store on that file, also beside a command that has the lock."""

    def open_store() -> JdbcStore:
        (tmp_path / "activemq-data").mkdir(exist_ok=True)
        return JdbcStore(local_url, StoreConfig(cleanup_period=0.0), locker=None)

    return open_store


Invoke = Callable[..., Result]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Invoke:
    """Runs ``jdbcstore`` in this process, on the default SQLite file: for what needs no process."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("JDBCSTORE_"):
            monkeypatch.delenv(name)

    def invoke(*arguments: str) -> Result:
        capsys.readouterr()
        code = main([*arguments])
        return Result(code, *capsys.readouterr())

    return invoke
