"""The examples of the pages about Spark, in their order; they run here because the session is here."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib import pyplot

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


@pytest.mark.filterwarnings("ignore:The locs attribute")  # pandas 2 with Matplotlib 3.11
def test_the_notebook(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From top to bottom, in this process: a kernel of its own would start a Spark of its own.

    Each cell's committed outputs have the columns that it prints, the words that it returns, and its plot."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs" / "spark.ipynb").read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    everything = ""
    for cell in cells:
        if cell["cell_type"] == "code":
            shown = _run_cell("".join(cell["source"]), cell["id"], namespace)
            printed = capsys.readouterr().out
            everything += printed
            plotted = bool(pyplot.get_fignums())
            pyplot.close("all")
            assert _committed(cell) == (_headers(printed), _words(shown), plotted), cell["id"]
    assert namespace["spark"] is spark
    assert sum(row.messages for row in namespace["kinds"]) == 531
    assert "java.lang.RuntimeException: table 13" in everything
    assert "reader" in everything
    assert "java.lang.RuntimeException: burnt" in everything
    assert [row.dish for row in namespace["dishes"]] == ["pie", "stew"]
    assert sum(row.messages for row in namespace["dishes"]) == 17


def _run_cell(source: str, name: str, namespace: dict[str, Any]) -> str:
    """Run a cell; return the text of its last line's value, if a notebook shows it."""
    *lines, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        lines.append(last)
    exec(compile(ast.Module(lines, []), name, "exec"), namespace)  # noqa: S102
    if not isinstance(last, ast.Expr):
        return ""
    value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307
    return "" if value is None or source.endswith(";") else repr(value)


def _committed(cell: dict[str, Any]) -> tuple[list[str], set[str], bool]:
    """Return the headers and words of a cell's outputs, and whether one is a plot."""
    printed = "".join("".join(each["text"]) for each in cell["outputs"] if each["output_type"] == "stream")
    data = [each["data"] for each in cell["outputs"] if each["output_type"] != "stream"]
    returned = "".join("".join(each["text/plain"]) for each in data if "image/png" not in each)
    return _headers(printed), _words(returned), any("image/png" in each for each in data)


def _headers(text: str) -> list[str]:
    """Return the columns of each table that Spark has printed; its rows change with the time."""
    headers = re.findall(r"^\+[-+]+\n(\|.*)\n\+", text, re.MULTILINE)
    return [" ".join(re.findall(r"\w+", header)) for header in headers]


def _words(text: str) -> set[str]:
    return {*re.findall(r"[A-Za-z_]{2,}", text)}


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
