"""``jdbcstore sql``, in this process, which has the session."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow.parquet
import pytest

from jdbcstore.analytics.questions import named
from tests.analytics.conftest import Invoke
from tests.support import recordings
from tests.support.cli.command_line import CommandLine, Result
from tests.support.jvm import QUICK

pytestmark = pytest.mark.timeout(900)

SPARK = ("--engine", "spark")


@pytest.fixture
def local(tmp_path: Path) -> CommandLine:
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(f"spark.driver.defaultJavaOptions {' '.join(QUICK)}\n")
    return CommandLine(tmp_path, SPARK_CONF_DIR=str(settings))


def test_an_answer_in_every_form(invoke: Invoke, tmp_path: Path) -> None:
    columns = "id, destination, properties, body_bytes, timestamp AS `a``b`"
    query = f"SELECT {columns} FROM messages_decoded ORDER BY id"
    ids = [message.sequence for message in recordings.postgres().messages]

    lines = invoke("sql", *SPARK, "--json", query).lines
    assert [line["id"] for line in lines] == ids
    assert all(list(line) == ["id", "destination", "properties", "body_bytes", "a`b"] for line in lines)
    rows = list(csv.DictReader(io.StringIO(invoke("sql", *SPARK, "--csv", query).out)))
    assert [int(row["id"]) for row in rows] == ids
    assert [json.loads(row["properties"]) for row in rows] == [line["properties"] for line in lines]
    table = invoke("sql", *SPARK, query)
    assert (table.code, table.err) == (0, "")
    assert all(f" {id_} " in f" {table.out}" for id_ in ids)
    assert invoke("sql", *SPARK, "-o", "answer.parquet", query) == Result(0, "", "")
    stored = pyarrow.parquet.read_table(tmp_path / "answer.parquet")
    assert stored.column("id").to_pylist() == ids


def test_a_process_of_its_own_prints_the_answer_and_nothing_else(local: CommandLine) -> None:
    local("send", "ORDERS", "pint")
    query = "SELECT id, body_text FROM messages_decoded"
    assert local.run_anew("sql", *SPARK, "--json", query) == Result(0, '{"id": 1, "body_text": "pint"}\n', "")


def test_every_question_that_has_a_name_is_answered(invoke: Invoke) -> None:
    listed = invoke("sql", *SPARK, "--list", "--json").lines
    assert [line["name"] for line in listed] == list(named())
    answers = {}
    for name in named():
        result = invoke("sql", *SPARK, "--json", name)
        assert (result.code, result.err) == (0, ""), name
        answers[name] = result.lines
    messages = [message for message in recordings.postgres().messages if message.xid is None]
    assert sum(row["depth"] for row in answers["backlog"]) == len(messages)
    assert sum(row["messages"] for row in answers["throughput"]) == len(recordings.postgres().messages)
    assert answers["largest"][0]["message_size"] == max(len(m.msg) for m in recordings.postgres().messages)
    assert "dlqDeliveryFailureCause" in {row["name"] for row in answers["properties"]}
    assert [row["cause"] for row in answers["poison"] if row["cause"]]
    assert answers["duplicates"] == []
    assert answers["redelivery"]
    assert answers["lag"]


def test_the_session_that_runs_has_the_master_and_the_settings_that_are_named(invoke: Invoke) -> None:
    query = "SELECT 1 AS one"
    same = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2")
    assert invoke("sql", "--json", query, *same) == Result(0, '{"one": 1}\n', "")
    for other in (("--master", "local[3]"), ("--conf", "spark.sql.shuffle.partitions=3")):
        result = invoke("sql", query, *other)
        assert (result.code, result.out) == (3, "")
        assert "a Spark session is running with another spark." in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "give a query, --list or --shell"),
        (("nonsense",), 2, "there is no query named nonsense"),
        (("SELECT 1", "-o", "answer.txt"), 2, "must end in .parquet"),
        (("SELECT * FROM nowhere",), 1, "nowhere"),
        (("SELECT (",), 1, "PARSE_SYNTAX_ERROR"),
        (("SELECT raise_error('oh dear')",), 1, "oh dear"),
        (("SELECT pints FROM messages_decoded",), 1, "a property is read by properties['pints'].text"),
        (("SELECT m.pints FROM messages_decoded m",), 1, "a property is read by properties['pints'].text"),
    ],
)
def test_what_is_wrong_is_one_line(invoke: Invoke, arguments: tuple[str, ...], code: int, said: str) -> None:
    result = invoke("sql", *SPARK, *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert result.err.count("\n") == 1


def test_the_demo_ends_with_three_answers(invoke: Invoke) -> None:
    result = invoke("demo", "--messages", "60", "--producers", "2", "--kills", "0", "--ask")
    assert result.code == 0
    *_, first, second, third = re.split(r"\n\n(?=.*\?)", result.out)
    assert [line.split()[:4] for line in first.splitlines()[2:]] == [[n, "30", "30", "0"] for n in "12"]
    assert sum(int(line.split()[1]) for line in second.splitlines()[2:]) == 60
    assert len(third.partition("\n\n")[0].splitlines()) == 7  # the verdict is last
    assert " order ID:JDBCSTORE.DEMO-" in third
