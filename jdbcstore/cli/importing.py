"""``import``: messages of another broker's files or tables, into the selected store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.output import counted, note, print_table, printable, progress, size, write_line
from jdbcstore.cli.settings import CliCommand, Settings, advising_on_master, make_default_folder, with_locker
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.lockers.shared_file import LOCK_FILE
from jdbcstore.tools import transfer
from jdbcstore.tools.importing.keeping import KeptRecords
from jdbcstore.tools.importing.kinds import open_source
from jdbcstore.tools.importing.replay import Count
from jdbcstore.tools.importing.rows import ReplayedRows
from jdbcstore.tools.importing.source import Findings

_SHOWN = 20
"""Most damages in human-readable output; --json has all."""


@click.command("import", cls=CliCommand)
@click.argument("source", metavar="SOURCE")
@click.option("--dry-run", is_flag=True, help="Read the whole source and show its contents; write nothing.")
@click.option(
    "--keep",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Copy damaged records to this folder, with a list of them: index.jsonl.",
)
@click.pass_obj
def import_(settings: Settings, source: str, dry_run: bool, keep: Path | None) -> int:
    """Import the messages of a stopped ActiveMQ or Artemis.

    SOURCE is one of: kahadb:FOLDER, leveldb:FOLDER or amq:FOLDER, the folder of the persistenceAdapter or of
    the job scheduler, or a parent folder of several stores; artemis:FOLDER, the data folder; artemis:URL, the
    database with Artemis's tables. The prefix of a folder may be omitted. The store must be empty. Run an
    interrupted import again to continue it; rows are never overwritten, and the source is only read. Damaged
    records are skipped and listed; the exit code is then 7.
    """
    with ExitStack() as stack:
        kept = None if keep is None else stack.enter_context(KeptRecords(keep))
        reading = stack.enter_context(progress("reading the logs"))
        opened = stack.enter_context(open_source(source, reading, Findings(kept=kept)))
        counts, total = opened.replay.counts(), opened.replay.message_count()
        if dry_run:
            with progress("reading the messages", total) as done:
                read = sum(_counted(page, done) for page in opened.messages())
            return _finish(settings, opened, counts, read, None)
        configuration = settings.configuration()
        make_default_folder(configuration)
        configuration = with_locker(configuration)
        if isinstance(configuration.locker, SharedFileLockerConfig):
            # ActiveMQ has its files and its lock in the directory of an activemq.xml.
            directory = configuration.locker.directory or settings.database().lock_directory
            opened.shares.release(Path(directory or "", LOCK_FILE))
        with advising_on_master(), progress("importing and comparing", 2 * total) as done:
            copied = transfer.copy_rows(opened, configuration, done)
        return _finish(settings, opened, counts, copied.comparison.left.messages, copied)


def _counted(page: Sequence[object], done: Any) -> int:
    done(len(page))
    return len(page)


def _finish(
    settings: Settings,
    source: ReplayedRows,
    counts: list[Count],
    messages: int,
    copied: transfer.Copied | None,
) -> int:
    findings = source.findings
    settings.print(
        {
            "source": source.place,
            "imported": 0 if copied is None else copied.messages,
            "messages": messages,
            "same": None if copied is None else copied.comparison.same,
            **source.facts(),
            "destinations": [{**count._asdict(), "destination": str(count.destination)} for count in counts],
            "damages": [damage._asdict() for damage in findings.damages],
            "more_damages": findings.more_damages,
            "notes": findings.notes,
            "kept": 0 if findings.kept is None else findings.kept.count,
        },
        lambda: _print(source, counts, messages, copied),
    )
    _tell(findings)
    if copied is not None and not copied.comparison.same:
        return ExitCode.FAILED
    return ExitCode.CORRUPT if findings.damages else ExitCode.DONE


def _print(source: ReplayedRows, counts: list[Count], messages: int, copied: transfer.Copied | None) -> None:
    columns = ("destination", "messages", "bytes", "prepared", "subscriptions")
    rows: list[tuple[str, ...]] = [
        (
            str(count.destination),
            str(count.messages),
            size(count.size),
            str(count.in_doubt),
            str(count.subscriptions),
        )
        for count in counts
    ]
    print_table("", columns, rows, right=columns[1:])
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in source.facts().items())
    write_line(f"\n{printable(source.place)}: {facts}")
    if copied is None:
        write_line(f"{counted(messages)} can be imported; nothing was written")
    else:
        place = printable(copied.comparison.right.place)
        state = "compared" if copied.comparison.same else "NOT identical to the source"
        write_line(f"imported {counted(copied.messages)} to {place}; {counted(messages)} {state}")


def _tell(findings: Findings) -> None:
    for text in findings.notes:
        note(text)
    if findings.kept is not None:
        count = findings.kept.count
        records = "1 skipped record is" if count == 1 else f"{count} skipped records are"
        note(f"{records} in {findings.kept.folder}")
    for damage in findings.damages[:_SHOWN]:
        note(f"not imported: {damage}")
    hidden = len(findings.damages) - _SHOWN + findings.more_damages
    if hidden > 0:
        note(f"{hidden} more damages are not shown; use --json for all of them")
