"""``doctor``: a check of the installed drivers and tools."""

from __future__ import annotations

import itertools
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jdbcstore.cli.exit_codes import ExitCode, exit_code
from jdbcstore.cli.output import note, print_table, write_line
from jdbcstore.cli.settings import CliCommand, Settings

if TYPE_CHECKING:
    from jdbcstore.tools.doctor import Finding


@click.command(cls=CliCommand)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write a report for an issue to this new file: versions, options, drivers; no secrets, "
                   "hosts or users.")  # fmt: skip
@click.pass_obj
def doctor(settings: Settings, report: Path | None) -> int:
    """Check which drivers and tools are installed, and how to install the others.

    Exits with 0 if the selected store can be used, whatever else is missing; otherwise with the exit code
    of any other command: 3 if its driver is missing, 4 if it is not reachable.
    """
    from jdbcstore.tools.doctor import examine, examine_store

    configuration = settings.configuration()
    store, error = examine_store(configuration)
    findings = [store, *examine()]
    if report is not None:
        from jdbcstore import __version__
        from jdbcstore.tools.report import issue_report
        from jdbcstore.util.versions import versions

        text = issue_report(versions(__version__), configuration, store, error, findings[1:], os.environ)
        _write_new(report, text)
        note(f"wrote {report}: read it, then attach it to the issue")
    settings.print_each(map(asdict, findings), lambda: _print(findings))
    return ExitCode.DONE if error is None else exit_code(error)


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists; remove it, or choose another file") from error


def _print(findings: list[Finding]) -> None:
    columns = ("", "what", "for", "found, or how to install it")
    for group, members in itertools.groupby(findings, lambda finding: finding.group):
        print_table(group, columns, [_row(finding) for finding in members])
    missing = sum(finding.found is None for finding in findings)
    write_line("")
    write_line(f"{len(findings) - missing} found, {missing} missing; install only what you use")


def _row(finding: Finding) -> tuple[str, ...]:
    mark = "ok" if finding.found is not None else "missing"
    known = [text for text in (finding.found, finding.cure) if text]
    return mark, finding.name, finding.purpose, "; ".join(known)
