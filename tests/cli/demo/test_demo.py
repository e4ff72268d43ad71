"""The main job, small: real processes, killed for real."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import recordings
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database


@pytest.fixture
def local(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def ledger_of(cli: CommandLine, folder: str) -> sqlite3.Connection:
    return sqlite3.connect(cli.folder / folder / "ledger.db")


def test_no_message_is_lost(local: CommandLine) -> None:
    result = local("demo", "--messages", "600", "--producers", "3", "--kills", "3", "--json")

    facts = result.json
    assert (facts["sent"], facts["acknowledged"], facts["received"]) == (600, 600, 600)
    assert (facts["lost"], facts["unmarked"], facts["left_in_store"]) == (0, 0, 0)
    assert facts["kept_the_promise"] is True
    assert facts["retried"] >= 3  # each kill caught producers waiting for an answer
    kills = [line for line in result.err.splitlines() if " is killed after " in line]
    assert len(kills) == 3
    with closing(ledger_of(local, facts["folder"])) as ledger:
        [(received,)] = ledger.execute("SELECT COUNT(DISTINCT message_id) FROM received")
        assert received == 600


def test_a_broker_that_loses_one_is_found_out(local: CommandLine, tmp_path: Path) -> None:
    sabotage = tmp_path / "sabotage"
    sabotage.mkdir()
    (sabotage / "sitecustomize.py").write_text(
        "import asyncio\n"
        "from jdbcstore.broker.engine import Engine\n"
        "send = Engine.send\n"
        "def lie(self, message, connection_id):\n"
        "    if not message.properties['order'].endswith(':7'):\n"
        "        return send(self, message, connection_id)\n"
        "    done = asyncio.get_running_loop().create_future()\n"
        "    done.set_result(None)\n"
        "    return done\n"
        "Engine.send = lie\n"
        "Engine.lane_to = lambda *_: None\n"
    )
    local.environment["PYTHONPATH"] += f":{sabotage}"

    result = local.run("demo", "--messages", "40", "--producers", "2", "--kills", "0")

    assert result.code == 1
    counts = {" ".join(words[:-1]): words[-1] for line in result.out.splitlines() if (words := line.split())}
    assert (counts["confirmed by the broker"], counts["received by the consumer"], counts["lost"]) == (
        "40",
        "38",
        "2",
    )
    assert "MESSAGES WERE LOST" in result.out


def test_a_broker_that_cannot_start(local: CommandLine) -> None:
    result = local.run("demo", "--url", "sqlite:///nowhere/store.db", "--messages", "10")

    assert result.code == 1
    assert "the broker process" in result.err
    (log,) = local.folder.glob("activemq-data/demo-*/processes.log")
    assert "the folder nowhere of the SQLite file does not exist" in log.read_text()
    assert str(log.relative_to(local.folder)) in result.err


def test_recorded_rows_are_browsed(local: CommandLine) -> None:
    recording = recordings.DIRECTORY / "postgres.jsonl"

    result = local("demo", "--messages", "10", "--kills", "0", "--recording", str(recording))
    assert result.out.rstrip().splitlines()[-1].startswith("No message is lost")

    shown = result.out.partition("\nThe same tables")[2].splitlines()
    ids = {line.split()[0] for line in shown if line.split()[1:2] and "://" in line.split()[1]}
    assert ids == {str(message.sequence) for message in recordings.postgres().messages}
    assert any("hello, world" in line for line in shown)


def test_what_is_no_recording(local: CommandLine) -> None:
    (local.folder / "rubbish").write_text('{"table": "ACTIVEMQ_MSGS"}\n')

    result = local.run("demo", "--messages", "10", "--kills", "0", "--recording", "rubbish")

    assert result.code == 3
    assert "rubbish is not a recording" in result.err


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_on_another_database(tmp_path: Path, database: Database) -> None:
    cli = CommandLine(tmp_path)

    result = cli("demo", "--url", database.url, "--messages", "200", "--kills", "1", "--json")

    assert result.json["kept_the_promise"] is True
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]
    assert database.password is None or database.password not in result.out + result.err


def test_without_a_client_it_says_so(local: CommandLine, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "sitecustomize.py").write_text("import sys\nsys.modules['stomp'] = None\n")
    local.environment["PYTHONPATH"] += f":{absent}"

    result = local.run("demo")

    assert result.code == 3
    assert "pip install 'stomp-py>=8.2'" in result.err


def test_without_spark_it_says_so_and_goes_on(local: CommandLine, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "pyspark.py").write_text("raise ImportError")
    local.environment["PYTHONPATH"] += f":{absent}"

    result = local("demo", "--messages", "10", "--kills", "0", "--ask")

    assert "No message is lost" in result.out
    assert "the Spark queries were skipped: Spark is not installed; run: pip install '" in result.err
