"""``doctor``: a check of the database and of the installed drivers and tools."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.broker.condition import BrokerState
from jdbcstore.cli.exit_codes import ExitCode, exit_code
from jdbcstore.cli.output import note, print_table, printable, write_line, write_new
from jdbcstore.cli.readings import condition_line
from jdbcstore.cli.settings import BrokerCommand, Settings
from jdbcstore.errors import NotAuthorized, StoreError

if TYPE_CHECKING:
    from jdbcstore.tools.doctor import Finding
    from jdbcstore.util.checkup import Checkup, Diagnosis

_SERVICES = ("Store", "Broker process", "Journal")
"""The groups of findings that are not packages."""


@click.command(cls=BrokerCommand)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write a report for an issue to this new file: versions, options, drivers; no secrets, "
                   "hosts or users.")  # fmt: skip
@click.pass_obj
def doctor(settings: Settings, report: Path | None) -> int:
    """Check the database, and list the installed drivers and tools.

    Each problem of the database is shown with its cause, such as a session that prevents the vacuum of
    deleted rows, and a statement that helps. If the journal is in a stream, its servers are checked too.
    Nothing is changed.

    Exits with 0 if the selected store can be used and its database has no problem, even if optional tools are
    missing; with 9 if the database has a problem; otherwise with the usual code: 3 if the driver is missing,
    4 if the database is not reachable.
    """
    from jdbcstore.tools.doctor import examine, examine_health, examine_store, examine_streams
    from jdbcstore.util.checkup import Checkup

    configuration = settings.configuration()
    store, error = examine_store(configuration)
    streams = [*examine_streams(configuration)]
    installed = [*examine()]
    broker, problem = _broker(settings, error)
    findings = [store, *broker, *(finding for finding, _ in streams), *installed]
    health = None
    if error is None:
        try:
            health = examine_health(configuration)
        except StoreError as failure:
            note(f"the state of the database could not be read: {failure}")
    if sick := [*problem, *(diagnosis for _, diagnoses in streams for diagnosis in diagnoses)]:
        known = Checkup({}) if health is None else health
        health = Checkup.of(known.figures, [*known.diagnoses, *sick], known.server, known.survives)
    if report is not None:
        from jdbcstore import __version__
        from jdbcstore.tools.report import issue_report
        from jdbcstore.util.versions import versions

        text = issue_report(versions(__version__), configuration, store, error, installed, os.environ)
        write_new(report, text)
        note(f"wrote {report}: read it, then attach it to the issue")
    facts = [*map(asdict, findings), *([] if health is None else _health_facts(health))]
    settings.print_each(facts, lambda: _print(findings, health))
    if error is not None:
        return exit_code(error)
    return ExitCode.SICK if health is not None and health.diagnoses else ExitCode.DONE


def _broker(settings: Settings, error: StoreError | None) -> tuple[list[Finding], list[Diagnosis]]:
    """Return the broker and its state, as far as one can be found, and its problem unless it serves."""
    from jdbcstore.tools.doctor import Finding
    from jdbcstore.util.checkup import BAD, Diagnosis

    try:
        broker = settings.named_broker() or (settings.broker() if error is None else None)
        condition = None if broker is None else broker.condition()
    except NotAuthorized as failure:
        note(f"the state of the broker is unknown: {failure}")
        return [], []
    except StoreError:  # the database has no announcement
        return [], []
    if broker is None:
        return [], []
    if condition is None:
        condition = {"state": "no answer", "what_to_do": "start it, or correct its address"}
        line = f"no answer from the broker at {broker.url}"
    else:
        line = condition_line(condition)
    if condition["state"] in (BrokerState.SERVING, BrokerState.WAITING):
        return [Finding("Broker process", broker.url, "", line)], []
    sick = Diagnosis(
        name=f"the broker: {condition['state']}",
        severity=BAD,
        text=line,
        cure=condition["what_to_do"],
    )
    return [Finding("Broker process", broker.url, "", None, line)], [sick]


def _health_facts(health: Checkup) -> Iterator[dict[str, Any]]:
    """Yield a checkup as JSON values: its figures, then each problem."""
    server = None if health.server is None else asdict(health.server)
    yield {
        "group": "Health",
        "name": "figures",
        "figures": dict(health.figures),
        "server": server,
        "survives": health.survives,
    }
    for diagnosis in health.diagnoses:
        yield {"group": "Health", **asdict(diagnosis)}


def _print_health(health: Checkup) -> None:
    """Print the problems of a database."""
    for diagnosis in health.diagnoses:
        write_line("")
        write_line(printable(f"{diagnosis.severity}: {diagnosis.name}"))
        for what, text in (("", diagnosis.text), ("cause: ", diagnosis.cause), ("cure:  ", diagnosis.cure)):
            if text is not None:
                write_line(f"  {what}{printable(text)}")


def _print(findings: list[Finding], health: Checkup | None) -> None:
    for group, members in itertools.groupby(findings, lambda finding: finding.group):
        last = "state" if group in _SERVICES else "found, or how to install it"
        print_table(group, ("", "what", "for", last), [_row(finding) for finding in members])
    packages = [finding.found is not None for finding in findings if finding.group not in _SERVICES]
    found = sum(packages)
    write_line("")
    write_line(f"{found} found, {len(packages) - found} missing; install only what you use")
    if health is None:
        return
    if health.survives is not None:
        write_line(printable(health.survives))
    if health.diagnoses:
        _print_health(health)
    else:
        write_line("the database has no problems")


def _row(finding: Finding) -> tuple[str, ...]:
    mark = "ok" if finding.found is not None else "bad" if finding.group in _SERVICES else "missing"
    known = [text for text in (finding.found, finding.cure) if text]
    return mark, finding.name, finding.purpose, "; ".join(known)
