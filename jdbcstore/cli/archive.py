"""``archive`` and ``restore``: messages written to Parquet files, and read back into a store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.options import DESTINATION, FOLDER, TIME, Parsed
from jdbcstore.cli.output import counted, note, printable, progress, size, write_json, write_line
from jdbcstore.cli.settings import CliCommand, Settings, make_default_folder
from jdbcstore.cli.spark_options import WITHOUT_SPARK, SparkOptions, spark_options
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationPattern

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_destinations = click.argument("destinations", metavar="[DEST]...", nargs=-1, type=DESTINATION)
_folder = click.argument("folder", metavar="FOLDER", type=FOLDER)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d)", text)
    if match is None:
        raise ValueError(f"{text!r} is not an age; write 90s, 15min, 12h or 30d")
    return float(match[1]) * _UNITS[match[2]]


@click.command(cls=CliCommand)
@_folder
@_destinations
@click.option("--older-than", type=Parsed("age", _seconds), metavar="AGE",
              help="Only messages older than 90s, 15min, 12h, 30d.")  # fmt: skip
@click.option("--acknowledged", is_flag=True,
              help="Only topic messages that every durable subscription has acknowledged.")  # fmt: skip
@click.option("--delete", is_flag=True, help="Then remove the archived messages from the store.")
@spark_options
@click.pass_obj
def archive(
    settings: Settings,
    folder: Path | str,
    destinations: tuple[Destination, ...],
    older_than: float | None,
    acknowledged: bool,
    delete: bool,
    spark: SparkOptions,
) -> int:
    """Archive messages as Parquet files in FOLDER, each message once.

    FOLDER is a local folder, or a URL that Spark can write to, such as s3a://bucket/mq. The archive can be
    queried with Spark and restored. DEST limits this to some destinations. Run an interrupted command again
    to continue it; later runs add to the archive. With --delete, a message is removed from the store only if
    the archive has the same bytes.
    """
    from jdbcstore.cli.engines import spark_session
    from jdbcstore.tools import archive as archives

    if older_than is None and not acknowledged:
        raise click.UsageError("choose messages with --older-than, --acknowledged, or both")
    window = archives.Window.of(older_than, acknowledged=acknowledged, destinations=destinations)
    configuration = settings.configuration()
    with progress("archiving") as done:
        written = archives.write(
            spark_session(spark, configuration), configuration, folder, window, progress=done
        )
    facts: dict[str, Any] = {"archived": written.messages, "bytes": written.bytes, "files": written.files}
    if not settings.json:
        text = f"archived {counted(written.messages)} to {printable(str(folder))}"
        write_line(f"{text}, {size(written.bytes)} in {counted(written.files, 'file')}")
    if delete:
        with progress("removing") as done:
            removed = archives.remove(configuration, folder, window, done)
        facts |= {"removed": removed.messages, "changed": removed.changed}
        if not settings.json:
            write_line(f"removed {counted(removed.messages)} from the store")
        if removed.changed:
            note(f"{counted(removed.changed)} left in the store, because they changed after being archived")
    if settings.json:
        write_json(facts)
    return ExitCode.DONE


@click.command(cls=CliCommand)
@_folder
@_destinations
@click.option("--since", type=TIME, metavar="DATE",
              help="Only messages of this day (UTC) or later.")  # fmt: skip
@click.option("--until", type=TIME, metavar="DATE", help="Only messages before this day (UTC).")
@spark_options
@click.pass_obj
def restore(
    settings: Settings,
    folder: Path | str,
    destinations: tuple[Destination, ...],
    since: int | None,
    until: int | None,
    spark: SparkOptions,
) -> int:
    """Restore messages from the archive in FOLDER, exactly as they were.

    The store may be in a database of any vendor. DEST limits this to some destinations. Messages that are
    already in the store are skipped.
    """
    from jdbcstore.tools import archive as archives
    from jdbcstore.tools.replay import ReplaySelection

    if isinstance(folder, str):
        from jdbcstore.cli.engines import spark_session

        spark_session(spark)
    else:
        spark.refuse(WITHOUT_SPARK)
    if not archives.Archive.is_one(folder):
        raise click.UsageError(f"{folder} is not an archive")
    configuration = settings.configuration()
    make_default_folder(configuration)
    selection = ReplaySelection(tuple(map(DestinationPattern, destinations)), since, until)
    with progress("restoring") as done:
        restored = archives.restore(folder, configuration, selection, progress=done)
    settings.print(
        {"restored": restored.messages, "present": restored.present, "conflicts": restored.conflicts},
        f"restored {counted(restored.messages)}; {restored.present} already present",
    )
    if restored.conflicts:
        conflicts = counted(restored.conflicts)
        note(f"{conflicts} skipped: another message has the same ID; restore to another store")
    return ExitCode.FAILED if restored.conflicts else ExitCode.DONE
