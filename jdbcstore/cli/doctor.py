"""``doctor``: a check of the installed drivers and tools."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from jdbcstore.cli.exit_codes import ExitCode, exit_code
from jdbcstore.cli.output import print_table, write_line
from jdbcstore.cli.settings import Command, Settings

if TYPE_CHECKING:
    from jdbcstore.tools.doctor import Finding


@click.command(cls=Command)
@click.pass_obj
def doctor(settings: Settings) -> int:
    """Check which drivers and tools are installed, and how to install the others.

    Exits with 0 if the selected store can be used, whatever else is missing; otherwise with the exit code
    of any other command: 3 if its driver is missing, 4 if it is not reachable.
    """
    from jdbcstore.tools.doctor import examine, examine_store

    store, error = examine_store(settings.configuration())
    findings = [store, *examine()]
    settings.print_each(map(asdict, findings), lambda: _print(findings))
    return ExitCode.DONE if error is None else exit_code(error)


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
