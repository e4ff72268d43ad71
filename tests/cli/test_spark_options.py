"""``--master``, ``--conf``, ``--packages`` and ``--remote``, as far as they go without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jdbcstore.cli.engines import default_engine
from jdbcstore.cli.spark_options import SparkOptions
from tests.cli.conftest import Invoke
from tests.support import ROOT
from tests.support.cli.command_line import CommandLine

SECRET = "hunter2"
COMMANDS = {
    "sql": ("SELECT 1",),
    "report": (),
    "archive": ("archived", "--acknowledged"),
    "audit": ("sqlite:///mq.db", "."),
    "restore": ("archived",),
    "replay": ("archived", "sqlite:///mq.db", "--to-destination", "ORDERS"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--conf", f"password {SECRET}"), "write KEY=VALUE"),
        (("--conf", f"={SECRET}"), "write KEY=VALUE"),
        (("--packages", "org.postgresql"), "write GROUP:ARTIFACT:VERSION"),
        (("--conf", "spark.a.secret=1", "--conf", f"spark.a.secret={SECRET}"), "is given twice"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(
    local: CommandLine, command: str, options: tuple[str, ...], said: str
) -> None:
    result = local.run(command, *COMMANDS[command], *options)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert SECRET not in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--conf", f"sparc.password={SECRET}"), "sparc.password is not a setting of Spark"),
        (("--conf", "spark.sql.ansi.enabled=false"), "spark.sql.ansi.enabled must be true"),
        (("--master", "local[2]", "--conf", "spark.master=yarn"), "spark.master is yarn; give one of them"),
    ],
)
def test_what_contradicts_is_said_before_spark_starts(
    local: CommandLine, options: tuple[str, ...], said: str
) -> None:
    pytest.importorskip("pyspark")
    local("init")
    result = local.run("sql", "SELECT 1", *options)
    assert (result.code, result.out) == (3, "")
    assert said in result.err
    assert SECRET not in result.err


@pytest.mark.parametrize(
    ("options", "archives", "expected"),
    [
        (SparkOptions(), (), "duckdb"),
        (SparkOptions(), ("folder",), "spark"),
        (SparkOptions(master="local[2]"), (), "spark"),
        (SparkOptions(conf={"spark.executor.memory": "4g"}), (), "spark"),
        (SparkOptions(remote="sc://127.0.0.1"), (), "spark"),
    ],
)
def test_duckdb_is_the_default_unless_spark_is_needed(
    options: SparkOptions, archives: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    assert default_engine(options, archives) == expected
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert default_engine(options, archives) == "spark"


def test_what_does_not_use_spark_refuses_them(local: CommandLine) -> None:
    pytest.importorskip("duckdb")
    local("init")
    result = local.run("sql", "--engine", "duckdb", "--master", "local[2]", "SELECT 1")
    assert result.code == 2
    assert "DuckDB has no cluster; omit --master" in result.err
    result = local.run("audit", "sqlite:///a.db", "sqlite:///b.db", "--conf", "spark.executor.memory=4g")
    assert result.code == 2
    assert "does not use Spark; omit --master" in result.err
    for command in ("restore", "replay"):
        result = local.run(command, *COMMANDS[command], "--master", "local[2]")
        assert result.code == 2
        assert "only if the archive is named by a URL; omit --master" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("SELECT 1", "--remote", "sc://127.0.0.1", "--master", "local[2]"), 2, "omit --master"),
        (("SELECT 1", "--remote", "sc://127.0.0.1", "--engine", "duckdb"), 2, "omit --remote"),
        (("SELECT 1", "--remote", "sc://127.0.0.1", "-o", "a.parquet"), 2, "with --remote, use --csv"),
        (("SELECT 1", "--remote", f"spark://127.0.0.1/;token={SECRET}"), 3, "sc://HOST:PORT"),
        (("SELECT 1", "--remote", f"sc://127.0.0.1:1/;token={SECRET}"), 4, "answers at 127.0.0.1:1 "),
    ],
)
def test_a_server_of_spark_connect(
    local: CommandLine, arguments: tuple[str, ...], code: int, said: str
) -> None:
    pytest.importorskip("pyspark")
    local("init")
    result = local.run("sql", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert SECRET not in result.err


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("sqlite:///none.db", 5, "there is no SQLite file none.db"),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/mq", 4, "check that the server runs"),
    ],
)
def test_the_database_is_asked_before_spark_starts(
    local: CommandLine, url: str, code: int, said: str
) -> None:
    """Spark cannot start: its master is wrong, which only Spark itself would say."""
    for command in (("sql", "SELECT 1"), ("report",), ("archive", "archived", "--acknowledged")):
        result = local.run("--url", url, *command, "--master", "spark://127.0.0.1:1")
        assert (result.code, result.out) == (code, "")
        assert said in result.err
        assert SECRET not in result.err


@pytest.mark.parametrize("name", ["connect", "register", "session"])
def test_a_pyspark_that_is_too_old_is_named(tmp_path: Path, name: str) -> None:
    """One of Spark 3 is found, which lacks modules that are imported; it starts, but cannot be used."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    facts = tmp_path / "pyspark-3.5.9.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 3.5.9\n")
    program = f"from jdbcstore import analytics; analytics.{name}"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"ConfigurationError: PySpark 3.5.9 is too old: {name} needs 4.0 or newer" in done.stderr


def test_a_folder_that_is_no_archive_needs_no_spark(
    invoke: Invoke, local_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    invoke("init")
    monkeypatch.setattr("jdbcstore.cli.engines.spark_session", lambda *_: pytest.fail("Spark starts"))
    result = invoke("audit", local_url, ".")
    assert result.err.startswith("jdbcstore: . is not an archive")
    assert result.code == 2
