"""Views in DuckDB, and ``jdbcstore sql``: the answers of Spark, without Spark."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet  # noqa: E402

import jdbcstore  # noqa: E402
from jdbcstore import Message  # noqa: E402
from jdbcstore.analytics import duck  # noqa: E402
from jdbcstore.analytics.duck import DuckViews, as_rows  # noqa: E402
from jdbcstore.analytics.questions import named, purpose  # noqa: E402
from jdbcstore.cli import main  # noqa: E402
from jdbcstore.errors import IN_JOURNAL, QueryFailed, SchemaError, StoreUnavailable, installation  # noqa: E402
from jdbcstore.testing.polling import wait_until  # noqa: E402
from tests.support.analytics.corpus import corpus, pad  # noqa: E402
from tests.support.analytics.questions import QUESTIONS, plain  # noqa: E402
from tests.support.cli.command_line import Result  # noqa: E402
from tests.support.databases import Database  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.analytics import Analytics

every_vendor = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
MOVING = {"oldest_seconds", "oldest_age", "dwell"}
"""Columns that depend on the time of the query."""


@pytest.fixture
def views(database: Database) -> Iterator[DuckViews]:
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    with duck.connect(database.url) as views:
        yield views


def rows(views: DuckViews, query: str) -> list[dict[str, Any]]:
    with views.picture(), views.explained():
        reader = views.query(query)
        assert reader is not None
        return [{name: value for name, value in row.items() if name not in MOVING} for row in as_rows(reader)]


@pytest.mark.backends("postgresql", "mariadb")
def test_a_name_in_a_char_column_has_no_blanks_behind_it(database: Database) -> None:
    xid = pad(database)
    with duck.connect(database.url) as views:
        [found] = rows(views, "FROM subscriptions WHERE client_id = 'ann' AND destination = 'topic://NEWS'")
        assert found["subscription_name"] == "all"
        assert len(rows(views, f"FROM in_doubt WHERE xid = '{xid}'")) == 1
        for view in ("messages", "messages_decoded", "destinations"):
            assert len(rows(views, f"FROM {view} WHERE destination = 'queue://ORDERS'")) == 1


@pytest.fixture
def with_history(database: Database) -> None:
    """The table of removed messages, before anyone connects."""
    jdbcstore.open(database.url, cleanup_period=0.0, history_retention=60.0).close()


@every_vendor
@pytest.mark.whole("postgresql", "mariadb", "mysql")
@pytest.mark.usefixtures("with_history")
def test_the_answers_are_those_of_spark(database: Database, recorded: Analytics, spark: SparkSession) -> None:
    from jdbcstore.analytics import as_json

    with jdbcstore.open(database.url, cleanup_period=0.0, history_retention=60.0) as store:
        for number in range(8):
            store.queue("ORDERS").add_message(Message("beer", properties={"table": number, "x": 0.5}))
        store.queue("ORDERS").acknowledge(*[*store.queue("ORDERS").recover()][-5:-2])
        store.topic("news").subscribe("ann", "all", selector="table = 1")
    asked = named() | {
        "messages": "SELECT * FROM messages ORDER BY id",
        "messages_decoded": "SELECT * FROM messages_decoded ORDER BY id",
        "in_doubt": "SELECT * FROM in_doubt ORDER BY id",
        "lock": "SELECT * FROM lock",
        "history": "SELECT * FROM history ORDER BY id, state",
        "what is gone": "SELECT id, dwell > 0 AS later FROM history WHERE removed > produced ORDER BY id",
        "subscriptions": "SELECT * FROM subscriptions ORDER BY ALL",
        "pending": "SELECT * FROM pending ORDER BY ALL",
        "destinations": "SELECT * FROM destinations ORDER BY destination",
        "a property": "SELECT id, properties['table'].long AS n FROM messages_decoded"
        " WHERE properties['table'].long > 0 ORDER BY id",
        "a destination": "SELECT count(*) AS n FROM messages WHERE destination = 'queue://ORDERS'",
        "nulls first": "SELECT DISTINCT jms_type FROM messages_decoded ORDER BY jms_type",
        "nulls last": "SELECT DISTINCT jms_type FROM messages_decoded ORDER BY jms_type DESC",
    }
    different = {}
    with duck.connect(database.url) as views:
        for name, query in asked.items():
            theirs = [json.loads(row) for row in as_json(recorded.spark.sql(query))]
            theirs = [{key: value for key, value in row.items() if key not in MOVING} for row in theirs]
            ours = rows(views, named("duckdb").get(name, query))
            if repr(ours) != repr(theirs):
                different[name] = [
                    (one, other) for one, other in zip(ours, theirs, strict=False) if one != other
                ]
    assert different == {}
    assert spark is recorded.spark


def test_the_answers_are_those_of_a_plain_decode(stores: dict[str, Database]) -> None:
    said = plain(corpus())
    different = {}
    for store, database in stores.items():
        with duck.connect(database.url) as views:
            for name, question in QUESTIONS.items():
                with views.picture(), views.explained():
                    reader = views.query(question.asked_of_duckdb())
                    assert reader is not None
                    found = question.normal(row.values() for row in as_rows(reader))
                if found != (right := question.answer(said)):
                    different[store, name] = found, right
    assert different == {}


def test_queries_of_its_own_replace_those_with_the_same_names() -> None:
    queries, own = named(), named("duckdb")
    assert [*queries] == [*own]
    changed = {name for name in queries if queries[name] != own[name]}
    assert changed == {"properties"}
    assert all(purpose(queries[name]) == purpose(own[name]) for name in queries)


@every_vendor
def test_queries_read_what_is_there(database: Database, views: DuckViews) -> None:
    assert rows(views, "SELECT count(*) AS n FROM messages") == [{"n": 0}]
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for name in ("ORDERS", "orders"):
            store.queue(name).add_message(Message("pint", properties={"table": 7}))
    joined = (
        "SELECT a.id, b.body_text FROM messages a JOIN messages_decoded b USING (id)"
        " WHERE a.destination = 'queue://orders' AND b.timestamp > now() - INTERVAL 1 HOUR"
    )
    assert rows(views, joined) == [{"id": 2, "body_text": "pint"}]
    totals = rows(views, "SELECT destination, depth FROM destinations WHERE depth > 0 ORDER BY 1")
    assert [(row["destination"], row["depth"]) for row in totals] == [
        ("queue://ORDERS", 1),
        ("queue://orders", 1),
    ]
    views.close()
    wait_until(lambda: database.connections() == 0)


@pytest.mark.backends("postgresql")
def test_all_views_of_a_picture_show_one_moment(database: Database, views: DuckViews) -> None:
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        store.queue("A").add_message(Message("x"))
        with views.picture():
            before = views.query("SELECT count(*) AS n FROM messages")
            assert before is not None
            assert [*as_rows(before)] == [{"n": 1}]
            store.queue("A").add_message(Message("y"))
            for query in (
                "SELECT count(*) AS n FROM messages_decoded",
                "SELECT depth AS n FROM destinations",
            ):
                found = views.query(query)
                assert found is not None
                assert [*as_rows(found)] == [{"n": 1}]
        assert rows(views, "SELECT count(*) AS n FROM messages") == [{"n": 2}]


@pytest.mark.backends("sqlite")
def test_what_is_wrong_is_said(database: Database, views: DuckViews) -> None:
    for query in ("SELECT (", "SELECT nothing FROM messages", "SELECT error('oh dear')"):
        with pytest.raises(QueryFailed, match=r"syntax error|nothing|oh dear"), views.explained():
            assert views.query(query) is not None
    assert views.query("CREATE VIEW mine AS SELECT 1 AS one") is None
    database.rename("ACTIVEMQ_MSGS", "ELSEWHERE")
    with pytest.raises(SchemaError, match="jdbcstore init"):
        rows(views, "SELECT * FROM messages")


@pytest.mark.backends("sqlite")
def test_suggestions_are_kept(views: DuckViews) -> None:
    for query in ("SELECT * FROM mesages", "SELECT destnation FROM messages"):
        with pytest.raises(QueryFailed, match=r'"messages"|"destination"') as failed, views.explained():
            views.query(query)
        assert "\n" not in str(failed.value)
        assert "LINE" not in str(failed.value)


@pytest.mark.backends("sqlite")
def test_parameters(database: Database, views: DuckViews) -> None:
    with jdbcstore.open(database.url) as store:
        store.queue("O'RDERS").add_messages([Message("x"), Message("y")])
    name, query = "queue://O'RDERS", "SELECT id FROM messages WHERE destination = {} AND id > {}"
    for places, parameters in ((("?", "?"), [name, 1]), (("$name", "$after"), {"name": name, "after": 1})):
        answer = views.query(query.format(*places), parameters)
        assert answer is not None
        assert answer.read_all().to_pylist() == [{"id": 2}]


@pytest.mark.backends("postgresql")
def test_a_database_that_does_not_answer(server: Any, views: DuckViews) -> None:
    server.stop()
    try:
        with pytest.raises(StoreUnavailable):
            rows(views, "SELECT * FROM messages")
    finally:
        server.start()


Invoke = Callable[..., Result]


@pytest.fixture
def shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Invoke, str]:
    """Runs ``jdbcstore sql`` on a file with two messages, without Spark; and its URL."""
    url = f"sqlite:///{tmp_path}/mq.db"
    with jdbcstore.open(url) as store:
        for number in (1, 2):
            store.queue("ORDERS").add_message(Message(b"\xff", properties={"table": number}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JDBCSTORE_URL", url)

    def invoke(*arguments: str) -> Result:
        capsys.readouterr()
        code = main(["sql", *arguments])
        return Result(code, *capsys.readouterr())

    return invoke, url


def test_an_answer_in_every_form(shown: tuple[Invoke, str], tmp_path: Path) -> None:
    invoke, _ = shown
    query = "SELECT id, properties, body_bytes, sum(id) OVER () AS total FROM messages_decoded ORDER BY id"
    value = {"type": "int", "text": "1", "boolean": None, "long": 1, "double": None, "bytes": None}
    first = {"id": 1, "properties": {"table": value}, "body_bytes": "/w==", "total": 3}
    assert invoke("--json", query).lines[0] == first
    table = [*csv.DictReader(io.StringIO(invoke("--csv", query).out))]
    assert [row["id"] for row in table] == ["1", "2"]
    assert json.loads(table[0]["properties"]) == first["properties"]
    plain = invoke("SELECT destination, depth FROM destinations")
    assert plain == Result(0, "destination     depth\nqueue://ORDERS      2\n", "")
    assert invoke("-o", "answer.parquet", query) == Result(0, "", "")
    assert pyarrow.parquet.read_table(tmp_path / "answer.parquet")["id"].to_pylist() == [1, 2]
    again = invoke("-o", "answer.parquet", query)
    assert (again.code, again.err.count("\n")) == (1, 1)
    assert "exists already" in again.err


def test_every_named_query(shown: tuple[Invoke, str]) -> None:
    invoke, _ = shown
    assert [line["name"] for line in invoke("--list", "--json").lines] == [*named()]
    for name in named():
        result = invoke("--json", name)
        assert (result.code, result.err) == (0, ""), name
    assert invoke("--json", "properties").lines[0]["messages"] == 2


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("nonsense", 2, "there is no query named nonsense"),
        ("SELECT * FROM nowhere", 1, "nowhere"),
        ("SELECT (", 1, "syntax error"),
        ("SELECT error('oh dear')", 1, "oh dear"),
        ("SELECT pints FROM messages_decoded", 1, "a property is read by properties['pints'].text"),
        ("SELECT m.pints FROM messages_decoded m", 1, "a property is read by properties['pints'].text"),
    ],
)
def test_what_is_wrong_is_one_line(shown: tuple[Invoke, str], query: str, code: int, said: str) -> None:
    result = shown[0](query)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert ("(DuckDB; for Spark SQL: --engine spark)" in result.err) == (code == 1)
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("condition", ["destination = 'ORDERS'", "container IN ('ORDERS', 'x')"])
def test_a_short_name_of_a_destination_is_noticed(shown: tuple[Invoke, str], condition: str) -> None:
    result = shown[0]("--json", f"SELECT count(*) AS n FROM messages WHERE {condition}")
    assert (result.code, json.loads(result.out)) == (0, {"n": 0})
    assert "no destination is named 'ORDERS': write 'queue://ORDERS' or 'topic://ORDERS'" in result.err
    found = shown[0]("--json", "SELECT count(*) AS n FROM messages WHERE destination = 'queue://ORDERS'")
    assert found.err == ""


def test_a_shell(shown: tuple[Invoke, str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ".tables\nCREATE VIEW two AS SELECT * FROM messages\nWHERE id = 2;\nSELECT id FROM two;\nlag\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    result = shown[0]("--shell", "--json")
    tables, answer = result.out.split("lock\n")
    assert (result.code, tables.split()) == (0, [*duck.VIEWS[:-1]])
    assert [json.loads(line) for line in answer.splitlines()] == [{"id": 2}]


def test_a_process_of_its_own_prints_the_answer_and_nothing_else(shown: tuple[Invoke, str]) -> None:
    command = [sys.executable, "-m", "jdbcstore", "sql", "--engine", "duckdb", "--json"]
    query = "SELECT max(properties['table'].long) AS n FROM messages_decoded"
    done = subprocess.run([*command, query, "--url", shown[1]], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ('{"n": 2}\n', "")


def test_a_journal_that_may_have_more(shown: tuple[Invoke, str]) -> None:
    from sqlalchemy import create_engine, text

    engine = create_engine(shown[1])
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO JDBCSTORE_STATE (NAME, NUMBER) VALUES ('journal', 7)"))
    engine.dispose()
    assert IN_JOURNAL in shown[0]("SELECT 1").err


def test_without_duckdb_an_error_says_what_to_install(shown: tuple[Invoke, str]) -> None:
    code = (
        "import sys; sys.modules['duckdb'] = None; from jdbcstore.cli import main\n"
        f"sys.exit(main(['sql', '--engine', 'duckdb', '--url', {shown[1]!r}, 'SELECT 1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "DuckDB is not installed; run: pip install 'duckdb>=1.4' " in done.stderr


@pytest.mark.parametrize("missing", ["pyarrow", "numpy"])
def test_without_arrow_an_error_says_what_to_install(shown: tuple[Invoke, str], missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from jdbcstore.cli import main\n"
        f"sys.exit(main(['sql', '--engine', 'duckdb', '--url', {shown[1]!r}, 'SELECT 1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == f"jdbcstore: {missing} is not installed; run: {installation('duckdb')}\n"


def test_spark_is_not_loaded() -> None:
    code = "import sys, jdbcstore.analytics.duck; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pyspark", "py4j"}.isdisjoint(done.stdout.split())
