"""``--master``, ``--conf`` and ``--packages``, as far as they go without Spark."""

from __future__ import annotations

import pytest

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


def test_what_does_not_use_spark_refuses_them(local: CommandLine) -> None:
    pytest.importorskip("duckdb")
    local("init")
    result = local.run("sql", "--engine", "duckdb", "--master", "local[2]", "SELECT 1")
    assert result.code == 2
    assert "DuckDB has no cluster; omit --master" in result.err
    result = local.run("audit", "sqlite:///a.db", "sqlite:///b.db", "--conf", "spark.executor.memory=4g")
    assert result.code == 2
    assert "compared without Spark; omit --master" in result.err
    for command in ("restore", "replay"):
        result = local.run(command, *COMMANDS[command], "--master", "local[2]")
        assert result.code == 2
        assert "only if the archive is named by a URL; omit --master" in result.err
