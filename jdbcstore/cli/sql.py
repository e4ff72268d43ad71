"""``sql`` and ``report``: queries of the messages, one by one or from an interactive shell."""

from __future__ import annotations

import csv
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from jdbcstore.cli.engines import DIALECTS, Answer, SqlEngine, default_engine, engine_of, spark_views
from jdbcstore.cli.output import as_text, counted, note, print_json, print_table, write_line
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.cli.spark_options import SparkOptions, spark_or_remote_options
from jdbcstore.errors import QueryFailed

Show = Callable[[Answer], None]

_MAX_ROWS = 1000
"""Most rows of a table in human-readable output; --json, --csv and --output have all of them."""
_HELP = """A query ends with a semicolon at the end of a line; a named query is run by its name.
.tables   list the views; DESCRIBE messages_decoded; shows its columns
.list     list the named queries
.help     show this help; also: help, ?
\\q        quit; also: quit, exit, .quit and Ctrl-D. Ctrl-C discards the input, or stops the query"""
_archives = click.option(
    "--archive", "archives", metavar="FOLDER", multiple=True,
    help="An archive, or the folder of a journal, to include in the view history. Repeatable.",
)  # fmt: skip
_SHORT_NAME = re.compile(
    r"\b(?:destination|container|original_destination)\s*(?:=|\bIN\s*\()\s*'([^':%/]+)'", re.IGNORECASE
)
_SYNONYMS = {"help": ".help", "?": ".help", "quit": "\\q", "exit": "\\q", ".quit": "\\q", ".exit": "\\q"}
"""Other names of commands, valid before a query has begun."""


@click.command(cls=CliCommand)
@click.argument("query", required=False)
@click.option(
    "--list", "listing", is_flag=True, help="List the named queries; QUERY may be one of the names."
)
@click.option("--engine", type=click.Choice([*DIALECTS]),
              help="SQL engine. [default: duckdb if it is installed and no option needs Spark]")  # fmt: skip
@click.option("--shell", is_flag=True, help="Start an interactive shell; .help shows its commands.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@click.option("-o", "--output", metavar="FOLDER.parquet", type=click.Path(path_type=Path),
              help="Write Parquet files instead of printing.")  # fmt: skip
@_archives
@spark_or_remote_options
@click.pass_obj
def sql(
    settings: Settings,
    query: str | None,
    listing: bool,
    engine: str | None,
    shell: bool,
    as_csv: bool,
    output: Path | None,
    archives: tuple[str, ...],
    spark: SparkOptions,
) -> None:
    """Query messages with DuckDB or Spark SQL.

    QUERY is a SELECT statement or the name of a named query, for example 'SELECT destination, count(*) FROM
    messages GROUP BY 1'. The views are messages, messages_decoded, destinations, subscriptions, in_doubt and
    lock. All views show the same moment if the database supports that.
    """
    from jdbcstore.analytics.questions import named, purpose

    engine = engine or default_engine(spark, archives)
    queries = named(DIALECTS[engine])
    show = _print_json if settings.json else _print_csv if as_csv else print_rows
    if listing:
        answers = [(name, purpose(text)) for name, text in queries.items()]
        if settings.json:
            print_json({"name": name, "answers": text} for name, text in answers)
        else:
            print_table("Named queries: jdbcstore sql NAME", ("name", "answers"), [*answers])
    elif shell:
        if query is not None or output is not None:
            raise click.UsageError("--shell cannot be combined with a query or --output")
        with engine_of(engine, settings.configuration(), spark, archives) as views:
            _run_shell(views, show)
    else:
        text = _chosen(query, queries)
        if output is not None:
            from jdbcstore.tools.archive.folders import refuse_url

            if spark.remote is not None:
                raise click.UsageError("--output is a folder of this machine; with --remote, use --csv")
            if output.suffix != ".parquet":
                raise click.UsageError(f"{output} must end in .parquet, the only format")
            refuse_url(output)
        with (
            engine_of(engine, settings.configuration(), spark, archives) as views,
            views.answer(text) as answer,
        ):
            if output is not None:
                answer.write(output)
            else:
                show(answer)
        _note_short_names(text)


def _chosen(query: str | None, queries: dict[str, str]) -> str:
    """Return the query itself, or the named query."""
    if query is None:
        raise click.UsageError("give a query, --list or --shell")
    if query.replace("-", "").isalnum() and query not in queries:
        raise click.UsageError(f"there is no query named {query}; see: jdbcstore sql --list")
    return queries.get(query, query)


@click.command(cls=CliCommand)
@click.option("-o", "--output", metavar="FILE.html", default="report.html", show_default=True,
              type=click.Path(dir_okay=False, path_type=Path),
              help="File to write; an existing one is replaced.")  # fmt: skip
@_archives
@spark_or_remote_options
@click.pass_obj
def report(settings: Settings, output: Path, archives: tuple[str, ...], spark: SparkOptions) -> None:
    """Write an HTML report with plots of the named queries.

    The report is one self-contained file. "jdbcstore sql --list" lists the queries. All plots show the same
    moment if the database supports that.
    """
    configuration = settings.configuration()
    with spark_views(configuration, spark, archives) as views, views.picture():
        from datetime import UTC, datetime

        from jdbcstore.analytics.report import page, sections

        time = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        taken = [*sections(views.spark)]
    text = page(taken, str(configuration.data_source.masked().url), time)
    output.write_text(text, encoding="utf-8")
    facts = {"file": str(output), "rows": {section.name: len(section.rows) for section in taken}}
    settings.print(facts, f"wrote {output} with {counted(len(taken), 'plot')}")


def _print_json(answer: Answer) -> None:
    print_json(answer.rows())


def _print_csv(answer: Answer) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows(itertools.chain([answer.columns], _strings(answer)))


def print_rows(answer: Answer, title: str = "") -> None:
    """Print the first 1,000 rows as a table."""
    rows = list(itertools.islice(_strings(answer), _MAX_ROWS + 1))
    print_table(title, answer.columns, [tuple(row) for row in rows[:_MAX_ROWS]], right=answer.numbers)
    if len(rows) > _MAX_ROWS:
        note(f"only the first {_MAX_ROWS} rows are shown; use --json, --csv or -o for all of them")


def _strings(answer: Answer) -> Iterator[list[str]]:
    """Yield the values of each row as strings: null is empty, nested values are JSON."""
    for values in answer.rows():
        yield [as_text(values[name]) for name in answer.columns]


def _run_shell(engine: SqlEngine, show: Show) -> None:
    """Answer queries until the input ends. At a terminal, errors are printed and the shell continues.

    :raises QueryFailed: a query from a pipe failed
    """
    interactive = sys.stdin.isatty()
    lines = prompted([*engine.views, *engine.queries]) if interactive else sys.stdin
    if interactive:
        note(f"{engine.title}; end a query with a semicolon. .help shows the commands, quit ends the shell.")
    for statement in statements(lines, engine.queries):
        if statement == "\\q":
            return
        try:
            _execute(engine, statement, show)
        except QueryFailed as error:
            if not interactive:
                raise
            note(str(error))
        except KeyboardInterrupt:
            if not interactive:
                raise
            note("interrupted")
        sys.stdout.flush()


def statements(lines: Iterable[str | None], names: Iterable[str]) -> Iterator[str]:
    """Split input into queries and one-line commands; None discards an incomplete query."""
    begun: list[str] = []
    for line in lines:
        if line is None:
            begun = []
            continue
        text = line.strip()
        if not begun:
            text = _SYNONYMS.get(text.removesuffix(";").rstrip().lower(), text)
        if not begun and (text.startswith((".", "\\")) or text.removesuffix(";") in names):
            yield text.removesuffix(";")
            continue
        if text or begun:
            begun.append(line.rstrip("\n"))
        if text.endswith(";"):
            yield "\n".join(begun).rstrip().removesuffix(";")
            begun = []
    if begun:
        yield "\n".join(begun)


def prompted(words: list[str]) -> Iterator[str | None]:
    """Yield lines typed at a terminal, until Ctrl-D; None for each Ctrl-C."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory

    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(_history())), completer=WordCompleter(words), complete_while_typing=False
    )
    while True:
        try:
            yield session.prompt("jdbcstore> ")
        except KeyboardInterrupt:
            yield None
        except EOFError:
            return


def _execute(engine: SqlEngine, statement: str, show: Show) -> None:
    if statement == ".tables":
        write_line("\n".join(engine.views))
    elif statement == ".list":
        write_line("\n".join(engine.queries))
    elif statement.startswith((".", "\\")):
        write_line(_HELP)
    else:
        with engine.answer(engine.queries.get(statement, statement)) as answer:
            if answer.columns:  # SET and CREATE VIEW return no rows
                show(answer)
        _note_short_names(statement)


def _note_short_names(query: str) -> None:
    """Note it if a query compares a destination with a name that no destination has."""
    for name in dict.fromkeys(_SHORT_NAME.findall(query)):
        note(f"no destination is named {name!r}: write 'queue://{name}' or 'topic://{name}'")


def _history() -> Path:
    """Return the file of past input, readable only by its owner."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = state / "jdbcstore" / "sql-history"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    return path
