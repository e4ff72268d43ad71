"""``sql``: a question to Spark, and its answer as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import note, print_table, write_json, write_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN = 1000
"""Rows of a table; who wants more wants a file."""


@click.command(cls=Command)
@click.argument("query", required=False)
@click.option("--list", "listing", is_flag=True, help="The questions that have a name, which is a QUERY too.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a line of names.")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER.parquet",
    type=click.Path(path_type=Path),
    help="Write Parquet, and print nothing.",
)
@click.pass_obj
def sql(settings: Settings, query: str | None, listing: bool, as_csv: bool, output: Path | None) -> None:
    """Ask Spark SQL about the messages: 'SELECT ... FROM messages', or a question by its name.

    The views are messages, messages_decoded, destinations, subscriptions, in_doubt and lock. All are read
    as of one moment where the database can do that.
    """
    from jdbcstore.analytics.named import named, purpose

    questions = named()
    if listing:
        _list({name: purpose(text) for name, text in questions.items()}, as_json=settings.json)
        return
    if query is None:
        raise click.UsageError("give a query, or --list")
    if output is not None and output.suffix != ".parquet":
        raise click.UsageError(f"{output} should end in .parquet, which is what is written")
    if query.replace("-", "").isalnum() and query not in questions:
        raise click.UsageError(f"no question is called {query}; see: jdbcstore sql --list")
    with _answer(settings, questions.get(query, query)) as frame:
        if output is not None:
            frame.write.parquet(str(output.absolute()))
        elif settings.json:
            _print_json(frame)
        elif as_csv:
            _print_csv(frame)
        else:
            _print_table(frame)


@contextmanager
def _answer(settings: Settings, query: str) -> Iterator[DataFrame]:
    """The frame of a query; what is wrong with it, or goes wrong with it, is one line."""
    from jdbcstore import analytics

    bar = str(sys.stderr.isatty()).lower()
    spark = analytics.session(**{"spark.ui.showConsoleProgress": bar})
    with analytics.connect(spark, settings.configuration()) as views, views.picture(), analytics.explained():
        yield spark.sql(query)


def _list(purposes: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        for name, text in purposes.items():
            write_json({"name": name, "answers": text})
        return
    print_table("Ask by name: jdbcstore sql NAME", {"name": "left", "answers": "left"}, [*purposes.items()])


def _print_json(frame: DataFrame) -> None:
    """One object a row, in ASCII, which Spark's own JSON is not."""
    from jdbcstore.analytics import as_json

    for row in as_json(frame):
        write_line(json.dumps(json.loads(row)))


def _print_csv(frame: DataFrame) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in _texts(frame):
        writer.writerow(row)


def _print_table(frame: DataFrame) -> None:
    rows = list(itertools.islice(_texts(frame), _SHOWN + 1))
    numbers = {name for name, kind in frame.dtypes if kind in ("bigint", "int", "double")}
    columns = {name: "right" if name in numbers else "left" for name in frame.columns}
    print_table("", columns, [tuple(row) for row in rows[:_SHOWN]])
    if len(rows) > _SHOWN:
        note(f"there are more than these {_SHOWN} rows; use --json, --csv or -o")


def _texts(frame: DataFrame) -> Iterator[list[str]]:
    """Each row's values for people: nothing for null, the JSON of what has parts."""
    from jdbcstore.analytics import as_json

    for text in as_json(frame):
        row = json.loads(text)
        yield [_text(row[name]) for name in frame.columns]


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
