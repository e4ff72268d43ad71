"""``replay``: historic messages delivered anew."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, Unpack

import click

import jdbcstore
from jdbcstore.cli.failures import ExitCode
from jdbcstore.cli.moving import PlaceType, refuse_url
from jdbcstore.cli.options import Command, DestinationType, SelectorType, Settings, changing_nothing, guarded
from jdbcstore.cli.output import (
    READING_JOURNAL,
    counted,
    note,
    printable,
    progress,
    progress_if_any,
    write_json,
    write_line,
)
from jdbcstore.config import Configuration
from jdbcstore.errors import CorruptJournal, CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.selector import Selector
from jdbcstore.tools.replay import MARKS, Historic, History
from jdbcstore.tools.replay import replay as replay_history

_SHOWN = 20
"""Messages that do not decode and are told of one by one."""


class TimeType(click.ParamType[int]):
    """A day, or a time of day; in UTC unless it says otherwise. Becomes epoch milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no time; write 2026-11-21 or 2026-11-21T14:30+01:00", param, ctx)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


@click.command(cls=Command)
@click.argument("folder", metavar="[FOLDER", required=False, type=click.Path(path_type=Path, file_okay=False))
@click.argument("target", metavar="DST]", required=False, type=PlaceType())
@click.option("--to-destination", "to", type=DestinationType(takes_messages=True), metavar="DEST",
              required=True, help="Where the messages go.")  # fmt: skip
@click.option("--from", "since", type=TimeType(), metavar="TIME",
              help="Only messages of this time (UTC) or later: 2026-11-21, 2026-11-21T14:30.")  # fmt: skip
@click.option("--to", "until", type=TimeType(), metavar="TIME", help="Only messages before this time.")
@click.option("--destination", "patterns", type=DestinationType(), metavar="PATTERN", multiple=True,
              help="Only messages that were there; may have * and >. May be repeated.")  # fmt: skip
@click.option("--filter", "selector", type=SelectorType(), metavar="SELECTOR",
              help="Only messages that this JMS selector selects.")  # fmt: skip
@click.pass_obj
def replay(
    settings: Settings,
    folder: Path | None,
    target: Configuration | None,
    to: Destination,
    since: int | None,
    until: int | None,
    patterns: tuple[Destination, ...],
    selector: Selector | None,
) -> int:
    """Deliver messages of the past anew: as new messages of DEST in the store DST.

    FOLDER is an archive, or the folder of a journal, which has what was sent lately; DST is a URL or a
    configuration file. Without them the configured journal's messages go into its own store. They keep body,
    headers and properties, and say what they were. It can be run again after whatever stopped it, and goes on
    where it was.
    """
    told = _Teller()
    wanted = [DestinationPattern(member) for pattern in patterns for member in pattern.members]
    if folder is None:
        target = settings.configuration()
        history = _of_configuration(target, told, destinations=wanted, since_ms=since, until_ms=until)
    elif target is None:
        raise click.UsageError("name the store DST, too: a URL or a configuration file")
    else:
        refuse_url(settings)
        history = _of_folder(folder, told, destinations=wanted, since_ms=since, until_ms=until)
    with changing_nothing(), progress_if_any(READING_JOURNAL) as read:
        store = jdbcstore.open(guarded(target).replace(cleanup_period=0.0), lock_timeout=0.0, progress=read)
    with store, progress("replaying") as done:
        result = replay_history(history, store, to, selector=selector, progress=done, on_corrupt=told)
    told.finish()
    if settings.json:
        found = {"replayed": result.messages, "before": result.before, "corrupt": result.corrupt}
        write_json({**found, "damaged": told.files})
    else:
        write_line(f"replayed {counted(result.messages)} to {printable(str(to))}")
        if result.before:
            write_line(f"{result.before} more had been when it was stopped, as {MARKS} said")
    return ExitCode.CORRUPT if result.corrupt or told.files else ExitCode.DONE


class _Which(TypedDict):
    """Of the messages of a history."""

    destinations: list[DestinationPattern]
    since_ms: int | None
    until_ms: int | None


def _of_folder(folder: Path, told: _Teller, **which: Unpack[_Which]) -> History:
    from jdbcstore.journal import inspection
    from jdbcstore.tools import archive

    if archive.Archive.is_one(folder):
        return archive.ArchiveHistory(folder, **which)
    if folder.is_dir() and inspection.segments(folder):
        from jdbcstore.tools.journal_history import JournalHistory

        return JournalHistory(folder, on_damage=told.damaged, **which)
    raise click.UsageError(f"{folder} is neither an archive nor the folder of a journal")


def _of_configuration(configuration: Configuration, told: _Teller, **which: Unpack[_Which]) -> History:
    from jdbcstore.tools.journal_history import JournalHistory

    journal = configuration.journal
    if journal is None:
        raise click.UsageError(
            "no journal is configured; name the FOLDER of an archive or a journal, and DST"
        )
    return JournalHistory(
        journal.directory, archive=journal.journal_archive_directory, on_damage=told.damaged, **which
    )


class _Teller:
    """Says which messages do not decode, and which files of a journal are damaged."""

    def __init__(self) -> None:
        self._told = 0
        self.files = 0

    def damaged(self, error: CorruptJournal) -> None:
        """The rest of a file is left out."""
        self.files += 1
        note(f"what follows in this file was left out: {error}")

    def __call__(self, historic: Historic, error: CorruptMessage) -> None:
        self._told += 1
        if self._told <= _SHOWN:
            note(f"a message of {historic.destination} does not decode and was left out: {error.reason}")

    def finish(self) -> None:
        if self._told > _SHOWN:
            note(f"{self._told - _SHOWN} more do not decode and were left out")
