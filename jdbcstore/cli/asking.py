"""``sql``: a question to Spark, and its answer as a table, JSON, CSV or Parquet."""

from __future__ import annotations

from pathlib import Path

import click

from jdbcstore.cli.answers import answer, asked, print_csv, print_json, print_rows
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import print_table, write_json
from jdbcstore.cli.shell import converse


@click.command(cls=Command)
@click.argument("query", required=False)
@click.option("--list", "listing", is_flag=True, help="The questions that have a name, which is a QUERY too.")
@click.option("--shell", is_flag=True, help="Ask one question after another; .help says how.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a line of names.")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER.parquet",
    type=click.Path(path_type=Path),
    help="Write Parquet, and print nothing.",
)
@click.pass_obj
def sql(
    settings: Settings, query: str | None, listing: bool, shell: bool, as_csv: bool, output: Path | None
) -> None:
    """Ask Spark SQL about the messages: a SELECT of your own, or a question by its name.

    Such as 'SELECT destination, count(*) FROM messages GROUP BY 1'. The views are messages, messages_decoded,
    destinations, subscriptions, in_doubt and lock. All are read as of one moment where the database can do
    that.
    """
    from jdbcstore.analytics.named import named, purpose

    questions = named()
    show = print_json if settings.json else print_csv if as_csv else print_rows
    if listing:
        _list({name: purpose(text) for name, text in questions.items()}, as_json=settings.json)
    elif shell:
        if query is not None or output is not None:
            raise click.UsageError("--shell goes without a query and without --output")
        with asked(settings.configuration()) as views:
            converse(views, questions, show)
    else:
        text = _chosen(query, questions)
        if output is not None and output.suffix != ".parquet":
            raise click.UsageError(f"{output} should end in .parquet, which is what is written")
        if output is not None:
            from jdbcstore.tools.archive.layout import refuse_url

            refuse_url(output)
        with asked(settings.configuration()) as views, answer(views, text) as frame:
            if output is not None:
                frame.write.parquet(str(output.absolute()))
            else:
                show(frame)


def _chosen(query: str | None, questions: dict[str, str]) -> str:
    """The question itself, or the one of this name."""
    if query is None:
        raise click.UsageError("give a query, --list or --shell")
    if query.replace("-", "").isalnum() and query not in questions:
        raise click.UsageError(f"no question is called {query}; see: jdbcstore sql --list")
    return questions.get(query, query)


def _list(purposes: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        for name, text in purposes.items():
            write_json({"name": name, "answers": text})
        return
    print_table("Ask by name: jdbcstore sql NAME", {"name": "left", "answers": "left"}, [*purposes.items()])
