"""``archive`` and ``restore``: messages kept as Parquet, and put back."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from jdbcstore.cli.answers import spark_session
from jdbcstore.cli.failures import ExitCode
from jdbcstore.cli.options import (
    DEFAULT_FILE,
    DEFAULT_URL,
    Command,
    DestinationType,
    Settings,
    make_folder,
)
from jdbcstore.cli.output import counted, note, printable, progress, size, write_json, write_line
from jdbcstore.message.destination import Destination

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_destinations = click.argument("destinations", metavar="[DEST]...", nargs=-1, type=DestinationType())
_folder = click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False))


class AgeType(click.ParamType[float]):
    """Seconds, as ``90s``, ``15min``, ``12h`` or ``30d``."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d)", value)
        if found is None:
            self.fail(f"{value!r} is no age; write 90s, 15min, 12h or 30d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


@click.command(cls=Command)
@_folder
@_destinations
@click.option("--older-than", type=AgeType(), metavar="AGE", help="Only what is older: 90s, 15min, 12h, 30d.")
@click.option(
    "--acknowledged",
    is_flag=True,
    help="Only topic messages that every durable subscription has acknowledged.",
)
@click.option("--delete", is_flag=True, help="Then remove from the store what is in the archive.")
@click.pass_obj
def archive(
    settings: Settings,
    folder: Path,
    destinations: tuple[Destination, ...],
    older_than: float | None,
    acknowledged: bool,
    delete: bool,
) -> int:
    """Keep messages as Parquet in FOLDER, each once, for Spark and to be restored.

    Of DEST, or of all destinations. It can be run again after whatever stopped it, and again with more.
    With --delete nothing leaves the store that is not in the archive, byte for byte.
    """
    from jdbcstore.tools import archive as archives

    if older_than is None and not acknowledged:
        raise click.UsageError("say which messages: --older-than, --acknowledged, or both")
    window = archives.Window.of(older_than, acknowledged=acknowledged, destinations=destinations)
    configuration = settings.configuration()
    with progress("archiving") as done:
        written = archives.write(spark_session(), configuration, folder, window, progress=done)
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
            note(f"{counted(removed.changed)} changed after being archived, and stayed in the store")
    if settings.json:
        write_json(facts)
    return ExitCode.DONE


@click.command(cls=Command)
@_folder
@_destinations
@click.option(
    "--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Of this day (UTC) or later."
)
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Before this day (UTC).")
@click.pass_obj
def restore(
    settings: Settings,
    folder: Path,
    destinations: tuple[Destination, ...],
    since: datetime | None,
    until: datetime | None,
) -> int:
    """Put messages of the archive in FOLDER back into a store, as they were: any store of any vendor.

    Of DEST, or of all destinations. What is there is not stored again.
    """
    from jdbcstore.tools import archive as archives

    if not archives.Archive.is_one(folder):
        raise click.UsageError(f"{folder} is no archive")
    configuration = settings.configuration()
    if configuration.data_source.url == DEFAULT_URL:
        make_folder(DEFAULT_FILE.parent)
    with progress("restoring") as done:
        restored = archives.restore(
            folder,
            configuration,
            destinations=destinations,
            since_ms=_milliseconds(since),
            until_ms=_milliseconds(until),
            progress=done,
        )
    if settings.json:
        write_json(
            {"restored": restored.messages, "present": restored.present, "conflicts": restored.conflicts}
        )
    else:
        write_line(f"restored {counted(restored.messages)}; {restored.present} were there")
    if restored.conflicts:
        note(f"{counted(restored.conflicts)} left out: another message has the ID; restore to another store")
    return ExitCode.FAILED if restored.conflicts else ExitCode.DONE


def _milliseconds(day: datetime | None) -> int | None:
    return None if day is None else round(day.replace(tzinfo=UTC).timestamp() * 1000)
