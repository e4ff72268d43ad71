"""A question's way to Spark, and its answer as a table, JSON or CSV."""

from __future__ import annotations

import csv
import itertools
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jdbcstore.cli.output import note, print_table, write_line
from jdbcstore.errors import IN_JOURNAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jdbcstore import Configuration
    from jdbcstore.analytics import Analytics

_SHOWN = 1000
"""Rows of a table; who wants more wants a file."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def spark_session() -> SparkSession:
    """With a bar on a terminal."""
    from jdbcstore import analytics

    root = logging.getLogger()
    if not root.handlers:
        # py4j logs a traceback there for each call that a Ctrl-C interrupts.
        root.addHandler(logging.NullHandler())
    return analytics.session(**{"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()})


@contextmanager
def asked(where: str | Configuration) -> Iterator[Analytics]:
    """The views of a store, in a session whose progress a terminal shows on stderr."""
    from jdbcstore import analytics

    with analytics.connect(spark_session(), where) as views:
        if views.has_journal:
            note(IN_JOURNAL)
        yield views


@contextmanager
def answer(views: Analytics, query: str) -> Iterator[DataFrame]:
    """The frame of a query; what is wrong with it, or goes wrong with it, is one line."""
    from jdbcstore import analytics

    with views.picture(), analytics.explained():
        yield views.spark.sql(query)


def json_rows(frame: DataFrame) -> Iterator[str]:
    """One object a row, in ASCII, which Spark's own JSON is not."""
    from jdbcstore.analytics import as_json

    return (json.dumps(json.loads(row)) for row in as_json(frame))


def print_json(frame: DataFrame) -> None:
    for row in json_rows(frame):
        write_line(row)


def print_csv(frame: DataFrame) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in texts(frame):
        writer.writerow(row)


def print_rows(frame: DataFrame, title: str = "") -> None:
    """The first rows, as a table for people."""
    rows = list(itertools.islice(texts(frame), _SHOWN + 1))
    numbers = {name for name, kind in frame.dtypes if kind.partition("(")[0] in _NUMBERS}
    columns = {name: "right" if name in numbers else "left" for name in frame.columns}
    print_table(title, columns, [tuple(row) for row in rows[:_SHOWN]])
    if len(rows) > _SHOWN:
        note(f"there are more than these {_SHOWN} rows; use --json, --csv or -o")


def texts(frame: DataFrame) -> Iterator[list[str]]:
    """Each row's values for people: nothing for null, the JSON of what has parts."""
    from jdbcstore.analytics import as_json

    for row in as_json(frame):
        values = json.loads(row)
        yield [_text(values[name]) for name in frame.columns]


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
