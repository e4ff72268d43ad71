"""``doctor``: what is there, what is missing, and the cure."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from jdbcstore.cli.failures import ExitCode, exit_code
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import print_table, write_json, write_line

if TYPE_CHECKING:
    from jdbcstore.tools.doctor import Finding


@click.command(cls=Command)
@click.pass_obj
def doctor(settings: Settings) -> int:
    """Say what is installed for each database and for Spark, what is missing, and how to get it.

    Ends with 0 when the store of --url or the configuration can be used, whatever else is missing; else with
    what another command would end with: 3 without its driver, 4 when it does not answer.
    """
    # It looks at Spark, which takes longer to import than other commands take to run.
    from jdbcstore.tools.doctor import examine, examine_store

    store, error = examine_store(settings.configuration())
    findings = [store, *examine()]
    if settings.json:
        for finding in findings:
            write_json(asdict(finding))
    else:
        _print(findings)
    return ExitCode.DONE if error is None else exit_code(error)


def _print(findings: list[Finding]) -> None:
    columns = {"": "left", "what": "left", "for": "left", "found, or how to get it": "left"}
    for group, members in itertools.groupby(findings, lambda finding: finding.group):
        print_table(group, columns, [_row(finding) for finding in members])
    missing = sum(finding.found is None for finding in findings)
    write_line("")
    write_line(f"{len(findings) - missing} there, {missing} missing; only what you use is needed")


def _row(finding: Finding) -> tuple[str, ...]:
    mark = "ok" if finding.found is not None else "missing"
    known = [text for text in (finding.found, finding.cure) if text]
    return mark, finding.name, finding.purpose, "; ".join(known)
