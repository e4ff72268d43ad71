"""``report``: the answers of the named questions as a page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from jdbcstore.cli.answers import asked
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import counted, write_json, write_line


@click.command(cls=Command)
@click.option(
    "-o",
    "--output",
    metavar="FILE.html",
    default="report.html",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page; one that is there is replaced.",
)
@click.pass_obj
def report(settings: Settings, output: Path) -> None:
    """Write an HTML page with plots of what the named questions answer; see jdbcstore sql --list.

    The page is one file that loads nothing. All of it shows one moment where the database can do that.
    """
    configuration = settings.configuration()
    with asked(configuration) as views, views.picture():
        from jdbcstore.analytics.report import page, sections

        time = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        taken = [*sections(views.spark)]
    text = page(taken, str(configuration.data_source.shown().url), time)
    output.write_text(text, encoding="utf-8")
    if settings.json:
        write_json({"file": str(output), "rows": {section.name: len(section.rows) for section in taken}})
    else:
        write_line(f"{output} has {counted(len(taken), 'answer')}")
