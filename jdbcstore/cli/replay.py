"""``replay``: past messages from an archive or a journal, sent again as new ones."""

from __future__ import annotations

from pathlib import Path

import click

import jdbcstore
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.options import DESTINATION, FOLDER, SELECTOR, STORE, TARGET, TIME, refuse_store_options
from jdbcstore.cli.output import counted, journal_progress, note, printable, progress
from jdbcstore.cli.settings import CliCommand, Settings, advising_on_master, with_locker
from jdbcstore.cli.spark_options import WITHOUT_SPARK, SparkOptions, spark_options
from jdbcstore.config import Configuration
from jdbcstore.errors import CorruptJournal, CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.selector import Selector
from jdbcstore.tools.replay import MARKS, Historic, MessageHistory, ReplaySelection
from jdbcstore.tools.replay import replay as replay_history

_SHOWN = 20
"""The most corrupt messages that are reported one by one."""


@click.command(cls=CliCommand)
@click.argument("folder", metavar="[FOLDER", required=False, type=FOLDER)
@click.argument("target", metavar="DST]", required=False, type=STORE)
@click.option("--to-destination", "to", type=TARGET, metavar="DEST",
              required=True, help="Destination of the new messages.")  # fmt: skip
@click.option("--from", "since", type=TIME, metavar="TIME",
              help="Only messages of this time (UTC) or later: 2026-11-21, 2026-11-21T14:30.")  # fmt: skip
@click.option("--to", "until", type=TIME, metavar="TIME", help="Only messages before this time.")
@click.option("--destination", "patterns", type=DESTINATION, metavar="PATTERN", multiple=True,
              help="Only messages of this destination; may contain * and >. Repeatable.")  # fmt: skip
@click.option("--filter", "selector", type=SELECTOR, metavar="SELECTOR",
              help="Only messages that match this JMS selector.")  # fmt: skip
@spark_options
@click.pass_obj
def replay(
    settings: Settings,
    folder: Path | str | None,
    target: Configuration | None,
    to: Destination,
    since: int | None,
    until: int | None,
    patterns: tuple[Destination, ...],
    selector: Selector | None,
    spark: SparkOptions,
) -> int:
    """Send messages from an archive or a journal again, as new messages.

    They are sent to DEST in the store DST. FOLDER is an archive, or the folder of a journal with recent
    messages. DST is a URL or a configuration file. By default, messages from the configured journal are sent
    to the configured store. Body, headers and properties are kept; the original message id and times become
    properties. Run an interrupted replay again to continue it.
    """
    corrupt = _Corrupt()
    members = (member for pattern in patterns for member in pattern.members)
    selection = ReplaySelection(tuple(map(DestinationPattern, members)), since, until)
    if not isinstance(folder, str):
        spark.refuse(WITHOUT_SPARK)
    if folder is None:
        target = settings.configuration()
        history = _of_configuration(target, corrupt, selection)
    elif target is None:
        raise click.UsageError("also name the store DST: a URL or a configuration file")
    else:
        refuse_store_options(settings)
        history = _of_folder(folder, corrupt, selection, spark)
    configuration = with_locker(target).replace(cleanup_period=0.0)
    with advising_on_master(), journal_progress() as read:
        store = jdbcstore.open(configuration, lock_timeout=0.0, progress=read)
    with store, progress("replaying") as done:
        result = replay_history(
            history, store, to, selector=selector, progress=done, on_corrupt=corrupt.message
        )
    corrupt.finish()
    earlier = f"\n{result.before} more were replayed before the interruption, according to {MARKS}"
    settings.print(
        {
            "replayed": result.messages,
            "before": result.before,
            "corrupt": result.corrupt,
            "damaged": corrupt.files,
        },
        f"replayed {counted(result.messages)} to {printable(str(to))}{earlier if result.before else ''}",
    )
    return ExitCode.CORRUPT if result.corrupt or corrupt.files else ExitCode.DONE


def _of_folder(
    folder: Path | str, corrupt: _Corrupt, selection: ReplaySelection, spark: SparkOptions
) -> MessageHistory:
    from jdbcstore.journal import inspection
    from jdbcstore.tools import archive

    if isinstance(folder, str):
        from jdbcstore.cli.engines import spark_session

        spark_session(spark)
    if archive.Archive.is_one(folder):
        return archive.ArchiveHistory(folder, selection)
    if isinstance(folder, Path) and folder.is_dir() and inspection.segments(folder):
        from jdbcstore.tools.journal_history import JournalHistory

        return JournalHistory(folder, selection, on_damage=corrupt.file)
    raise click.UsageError(f"{folder} is neither an archive nor the folder of a journal")


def _of_configuration(
    configuration: Configuration, corrupt: _Corrupt, selection: ReplaySelection
) -> MessageHistory:
    from jdbcstore.tools.journal_history import JournalHistory

    journal = configuration.journal
    if journal is None:
        raise click.UsageError(
            "no journal is configured; name the FOLDER of an archive or a journal, and DST"
        )
    if journal.stream is not None:
        raise click.UsageError(
            f"the journal is in {journal.place}, which does not keep messages that are in the "
            "database; archive them with jdbcstore archive, and replay the archive"
        )
    archive = journal.journal_archive_directory
    return JournalHistory(journal.directory, selection, archive=archive, on_damage=corrupt.file)


class _Corrupt:
    """Reports of messages that cannot be decoded, and of damaged files of a journal."""

    def __init__(self) -> None:
        self._messages = 0
        self.files = 0

    def file(self, error: CorruptJournal) -> None:
        """Report a damaged file, whose rest is skipped."""
        self.files += 1
        note(f"the rest of a file was skipped: {error}")

    def message(self, historic: Historic, error: CorruptMessage) -> None:
        self._messages += 1
        if self._messages <= _SHOWN:
            note(f"skipped a message of {historic.destination} that cannot be decoded: {error.reason}")

    def finish(self) -> None:
        if self._messages > _SHOWN:
            note(f"skipped {self._messages - _SHOWN} more that cannot be decoded")
