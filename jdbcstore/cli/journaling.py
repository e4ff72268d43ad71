"""``journal check``, ``dump``, ``repair``, ``replay``: the files of a journal, for operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

import jdbcstore
from jdbcstore.cli.failures import ExitCode
from jdbcstore.cli.journal_dump import dump
from jdbcstore.cli.journal_files import JournalFolder, everything, folder_argument, said
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import (
    READING_JOURNAL,
    counted,
    print_table,
    printable,
    progress,
    progress_if_any,
    size,
    write_json,
    write_line,
)
from jdbcstore.cli.refusing import drop, refused, retry
from jdbcstore.errors import StoreError
from jdbcstore.journal import Damage, Record, SegmentFile, records, segments
from jdbcstore.journal import repair as repair_journal
from jdbcstore.stores.journaled.refused import Refused


@click.group()
def journal() -> None:
    """Look at the files of a journal, repair them, and take them into the database.

    FOLDER is the journal's; without it, that of the configuration.
    """


for command in (dump, refused, retry, drop):
    journal.add_command(command)


@dataclass(slots=True)
class _Checked:
    """One file, and what is in it."""

    file: SegmentFile
    records: int = 0
    first: int = 0
    last: int = 0
    damages: list[Damage] = field(default_factory=list)

    def add(self, found: Record | Damage) -> None:
        if isinstance(found, Record):
            self.records += 1
            self.first = self.first or found.number
            self.last = found.number
        else:
            self.damages.append(found)

    @property
    def state(self) -> str:
        if any(not damage.torn for damage in self.damages):
            return "damaged"
        return "torn" if self.damages else "kept" if self.file.kept else "sound"


@journal.command(cls=Command)
@folder_argument
@click.pass_obj
def check(settings: Settings, folder: Path | None) -> int:
    """Read every file, and say what is wrong: exit code 1 if there is damage, or it does not open.

    The database behind is asked how much it has, where the configuration names it: only then is it known
    whether the files begin and end where they should. Changes nothing. While a broker writes, the end may
    look torn.
    """
    place = JournalFolder.find(settings, folder, asks=True)
    directory = place.directory
    checked, lost = _check(place)
    if any(not damage.torn for damage in lost):
        # Once more: a writer may have been under way between two looks.
        place = place.asked()
        checked, lost = _check(place)
    damage = [one for one in lost if not one.torn]
    refusal = None if damage else place.refusal() and place.refusal()
    aside = len(Refused(directory).every())
    if settings.json:
        for one in checked:
            write_json(_file_facts(one))
        write_json(
            {
                "directory": str(directory),
                "records": sum(one.records for one in checked if not one.file.kept),
                "sound": not damage and refusal is None,
                "torn": next((_damage_facts(one) for one in lost if one.torn), None),
                "damage": [_damage_facts(one) for one in damage],
                "refusal": None if refusal is None else str(refusal),
                **({"aside": aside} if aside else {}),
            }
        )
    else:
        _print_checked(directory, checked, lost, refusal)
        if aside:
            write_line(
                f"beside them: {counted(aside, 'message')} that the database refused;"
                " jdbcstore journal refused lists them"
            )
    return ExitCode.DONE if refusal is None and not damage else ExitCode.FAILED


def _check(place: JournalFolder) -> tuple[list[_Checked], list[Damage]]:
    """Every file, and what is wrong, with what belongs to no file there is."""
    directory = place.directory
    files = {file.path: _Checked(file) for file in segments(directory)}
    lost: list[Damage] = []
    with progress(f"checking {directory}", len(files)) as done:
        for found, path in everything(directory, [one.file for one in files.values()], place.known):
            if path in files:
                if not files[path].records and not files[path].damages:
                    done(1)
                files[path].add(found)
            if isinstance(found, Damage):
                lost.append(found)
    return [*files.values()], lost


def _print_checked(
    directory: Path, checked: list[_Checked], lost: list[Damage], refusal: StoreError | None
) -> None:
    columns = {"file": "left", "records": "right", "first": "right", "last": "right", "size": "right",
               "state": "left"}  # fmt: skip
    rows: list[tuple[str, ...]] = [
        (one.file.path.name, str(one.records), str(one.first or "-"), str(one.last or "-"),
         size(one.file.size), one.state)
        for one in checked
    ]  # fmt: skip
    print_table("", columns, rows)
    for damage in lost:
        write_line(printable(said(damage)))
    count = counted(sum(one.records for one in checked if not one.file.kept), "record")
    damaged = {damage.path for damage in lost if not damage.torn}
    kept = {one.file.path for one in checked if one.file.kept}
    if damaged - kept:
        verdict = f"{count}, and damage; jdbcstore journal repair makes it one that opens"
    elif damaged:
        verdict = f"{count}, all sound; of what is only kept, a replay gets no further than the damage"
    elif refusal is not None:
        verdict = f"{count}, all sound, and it does not open: {printable(str(refusal))}"
    else:
        verdict = f"{count}, all sound"
    write_line(f"{printable(str(directory))}: {verdict}")


def _damage_facts(damage: Damage) -> dict[str, Any]:
    return {
        "file": damage.path.name,
        "segment": damage.segment,
        "offset": damage.offset,
        "first_record": damage.number or None,
        "next_record": damage.next_number,
        "lost": damage.lost,
        "torn": damage.torn,
        "reason": damage.reason,
    }


def _file_facts(one: _Checked) -> dict[str, Any]:
    return {
        "file": one.file.path.name,
        "segment": one.file.number,
        "first_record": one.first or None,
        "last_record": one.last or None,
        "records": one.records,
        "bytes": one.file.size,
        "kept": one.file.kept is not None,
        "state": one.state,
    }


@journal.command(cls=Command)
@folder_argument
@click.option("--cut", is_flag=True, help="Keep nothing of what is behind the first damage.")
@click.pass_obj
def repair(settings: Settings, folder: Path | None, cut: bool) -> int:
    """Make a damaged journal one that opens, with what can still be read.

    What is damaged is left out, and what is behind it kept, unless too little is known of its place: then it
    is cut off, which is told. Where the configuration names the database behind, the journal begins and ends
    where that needs it to. Each file that is changed is copied before. Stop the broker first. It can be run
    again after whatever stopped it. Exit code 1 if it does not open all the same.
    """
    place = JournalFolder.find(settings, folder, asks=True)
    directory = place.directory
    before = _numbers(directory)
    done = repair_journal(directory, cut=cut, known=place.known)
    refusal = place.refusal()
    sound = sorted(before - _numbers(directory)) if done.damages else []
    copies = None if done.copies is None else str(done.copies)
    if settings.json:
        damage = [_damage_facts(one) for one in done.damages]
        cut_off = {"records": len(sound), "first": sound[0], "last": sound[-1]} if sound else None
        write_json(
            {
                "directory": str(directory),
                "records": done.records,
                "damage": damage,
                "cut_off": cut_off,
                "copies": copies,
                "refusal": None if refusal is None else str(refusal),
            }
        )
        return ExitCode.DONE if refusal is None else ExitCode.FAILED
    for one in done.damages:
        write_line(printable(said(one)))
    if sound:
        write_line(f"cut off, though sound: {counted(len(sound), 'record')}, {sound[0]} to {sound[-1]}")
    if copies is not None:
        write_line(f"the files as they were are in {printable(copies)}")
    verdict = "there was nothing to repair" if not done.damages else "repaired"
    write_line(f"{printable(str(directory))}: {verdict}; {counted(done.records, 'record')}")
    if refusal is not None:
        write_line(f"it does not open, which no repair can mend: {printable(str(refusal))}")
    return ExitCode.DONE if refusal is None else ExitCode.FAILED


def _numbers(directory: Path) -> set[int]:
    """Of the records that can be read."""
    return {found.number for found in records(directory) if isinstance(found, Record)}


@journal.command(cls=Command)
@click.pass_obj
def replay(settings: Settings) -> None:
    """Take what the configured journal holds into its database, which then is the whole store.

    As a broker does that starts and stops in order, and nobody is served.
    """
    configuration = settings.configuration()
    if configuration.journal is None and not any(one.journal for one in configuration.stores):
        raise click.UsageError("no journal is configured; name the configuration file with --config")
    records = 0
    with progress_if_any(READING_JOURNAL) as done:

        def count(more: int) -> None:
            nonlocal records
            records += more
            done(more)

        jdbcstore.open(configuration.replace(cleanup_period=0.0), lock_timeout=0.0, progress=count).close()
    if settings.json:
        write_json({"records": records})
    else:
        write_line(f"the database has {counted(records, 'record')} more, and is the whole store")
