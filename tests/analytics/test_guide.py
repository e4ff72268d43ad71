"""The examples of the pages about Spark, in their order; they run here because the session is here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jdbcstore.analytics.vendors import VENDORS, find_jar
from tests.support import ROOT
from tests.support.docs.pages import Page
from tests.support.require import unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def driver() -> None:
    if find_jar(VENDORS["sqlite"]) is None:
        unavailable("spark", "no JDBC driver for SQLite")


def test_the_notebook(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From top to bottom, in this process: a kernel of its own would start a Spark of its own."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs" / "spark.ipynb").read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)  # noqa: S102
    assert namespace["spark"] is spark
    assert sum(row.messages for row in namespace["kinds"]) == 531
    printed = capsys.readouterr().out
    assert "java.lang.RuntimeException: table 13" in printed
    assert "reader" in printed
    assert "java.lang.RuntimeException: burnt" in printed
    assert [row.dish for row in namespace["dishes"]] == ["pie", "stew"]
    assert sum(row.messages for row in namespace["dishes"]) == 17


def test_the_examples(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pages = [Page(ROOT / "docs" / f"{name}.md") for name in ("spark", "spark-views", "spark-streams")]
    examples = [(page.name, example) for page in pages for example in page.examples("py")]
    namespace: dict[str, Any] = {"__name__": "example"}
    asked = []
    namespace["input"] = lambda _: asked.append(_ask_through_thrift(spark, namespace["server"]))
    # Where the server's database, which is in memory, writes its log.
    java: Any = spark._jvm
    java.java.lang.System.setProperty("derby.system.home", str(tmp_path))
    for name, example in examples:
        # Spark looks for files from where it was started.
        code = re.sub(
            r"([\"'])(sqlite:///)?(mq\.db|archive|checkpoint)\1",
            rf"\1\2{tmp_path}/\3\1",
            example.code,
        )
        code = code.replace('"10000"', '"0"')  # any port that is free
        exec(compile(code, name, "exec"), namespace)  # noqa: S102
        printed = capsys.readouterr().out
        for line in re.findall(r"^ *print\(.*\)  # (.*)$", example.code, re.MULTILINE):
            assert line in printed.splitlines()
    assert namespace["spark"] is spark
    assert asked == [["2 beer", "3 beer"]]
    assert len(examples) == 10


def _ask_through_thrift(spark: SparkSession, server: Any) -> list[str]:
    """Ask Spark's Thrift server, through Hive's JDBC driver, for what the page's first example shows."""
    java: Any = spark._jvm
    [port] = [each.getPortNumber() for each in server.getServices() if each.getName().startswith("Thrift")]
    url = f"jdbc:hive2://127.0.0.1:{port}/;auth=noSasl"
    connection = java.org.apache.hive.jdbc.HiveDriver().connect(url, java.java.util.Properties())
    try:
        query = "SELECT concat(id, ' ', body_text) FROM messages_decoded"
        query += " WHERE properties['pints'].long > 1 ORDER BY id"
        rows = connection.createStatement().executeQuery(query)
        found = []
        while rows.next():
            found.append(str(rows.getString(1)))
        return found
    finally:
        connection.close()
