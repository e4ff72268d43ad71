"""``copy`` and ``audit``: copying a store to another database, and comparing stores and archives."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.options import STORE, Parsed, refuse_store_options, store_named
from jdbcstore.cli.output import counted, note, print_table, printable, progress, size, write_json, write_line
from jdbcstore.cli.settings import CliCommand, Settings, advising_on_master, with_locker
from jdbcstore.cli.spark_options import SparkOptions, spark_options
from jdbcstore.config import Configuration
from jdbcstore.config.data_source import is_url
from jdbcstore.database.adapters.registry import is_database
from jdbcstore.tools import transfer
from jdbcstore.tools.transfer import Comparison, Difference, Side

if TYPE_CHECKING:
    from jdbcstore.tools.archive import MessageDifference

_SHOWN = 20
"""Most differences in human-readable output; --json has all of them."""


def _archive_or_store(text: str) -> Configuration | Path | str:
    if Path(text).is_dir():
        return Path(text)
    return text if is_url(text) and not is_database(text) else store_named(text)


@click.command(cls=CliCommand)
@click.argument("source", metavar="SRC", type=STORE)
@click.argument("target", metavar="DST", type=STORE)
@click.pass_obj
def copy(settings: Settings, source: Configuration, target: Configuration) -> int:
    """Copy a store to another database of any vendor, and verify the copy.

    SRC and DST are URLs or configuration files. Stop all programs that write to either. Run an interrupted
    copy again to continue it; rows are never overwritten.
    """
    refuse_store_options(settings)
    with advising_on_master(), progress("copying and comparing") as done:
        copied = transfer.copy(source, with_locker(target), done)
    result = copied.comparison
    if not settings.json:
        write_line(f"copied {counted(copied.messages)} to {printable(result.right.place)}")
    settings.print({"copied": copied.messages, **_facts(result)}, lambda: _print_comparison(result))
    return ExitCode.DONE if result.same else ExitCode.FAILED


@click.command(cls=CliCommand)
@click.argument("left", metavar="LEFT", type=STORE)
@click.argument("right", metavar="RIGHT", type=Parsed("store", _archive_or_store))
@spark_options
@click.pass_obj
def audit(
    settings: Settings, left: Configuration, right: Configuration | Path | str, spark: SparkOptions
) -> int:
    """Compare two stores row by row and byte by byte. Exits with 1 if they differ.

    LEFT and RIGHT are URLs or configuration files; RIGHT may also be the folder or URL of an archive, whose
    messages are compared. Missing rows are only in LEFT, extra rows only in RIGHT.
    """
    refuse_store_options(settings)
    differences = _Differences(settings)
    if isinstance(right, Path | str):
        return _audit_archive(settings, left, right, differences, spark)
    spark.refuse("comparing two stores does not use Spark")
    with progress("comparing") as done:
        result = transfer.compare(left, right, done, differences.print)
    differences.finish()
    settings.print(_facts(result), lambda: _print_comparison(result))
    return ExitCode.DONE if result.same else ExitCode.FAILED


def _audit_archive(
    settings: Settings,
    store: Configuration,
    folder: Path | str,
    differences: _Differences,
    options: SparkOptions,
) -> int:
    from jdbcstore.cli.engines import spark_session
    from jdbcstore.tools import archive

    spark = spark_session(options, store) if isinstance(folder, str) else None  # it reads URLs
    if not archive.Archive.is_one(folder):
        raise click.UsageError(f"{folder} is not an archive")
    result = archive.compare(spark or spark_session(options, store), store, folder, differences.print)
    differences.finish()
    counts = ", ".join(f"{name} {count}" for name, count in asdict(result).items())
    settings.print(
        {"same": result.same, **asdict(result)}, f"{'identical' if result.same else 'different'}\n{counts}"
    )
    return ExitCode.DONE if result.same else ExitCode.FAILED


class _Differences:
    """Printer of differences as they are found."""

    def __init__(self, settings: Settings) -> None:
        self._json = settings.json
        self._count = 0

    def print(self, difference: Difference | MessageDifference) -> None:
        self._count += 1
        if self._json:
            write_json(difference._asdict())
        elif self._count <= _SHOWN:
            write_line(printable(_sentence(difference)))

    def finish(self) -> None:
        if self._count > _SHOWN and not self._json:
            note(f"there are {self._count - _SHOWN} more differences; use --json for all of them")


def _sentence(difference: Difference | MessageDifference) -> str:
    if not isinstance(difference, Difference):
        return f"{difference.difference:9} message {difference.id} of {difference.destination}"
    parts = [difference.difference.ljust(9), difference.what]
    if difference.id is not None:
        parts.append(str(difference.id))
    parts.append(f"of {difference.destination}")
    if difference.client_id is not None:
        parts.append(f"for {difference.subscription_name} of client {difference.client_id}")
    if difference.columns:
        parts.append(f"in {', '.join(difference.columns)}")
    return " ".join(parts)


def _facts(result: Comparison) -> dict[str, Any]:
    counts = {name: getattr(result, name) for name in ("same", "missing", "extra", "different")}
    return {**counts, "left": _side_facts(result.left), "right": _side_facts(result.right)}


def _side_facts(side: Side) -> dict[str, Any]:
    names = ("messages", "message_bytes", "marks", "acknowledged_ahead", "checksum")
    return {"url": side.place, **{name: getattr(side, name) for name in names}}


def _print_comparison(result: Comparison) -> None:
    columns = ("store", "messages", "bytes", "marks", "acknowledged ahead", "checksum")
    rows: list[tuple[str, ...]] = [
        (
            side.place,
            str(side.messages),
            size(side.message_bytes),
            str(side.marks),
            str(side.acknowledged_ahead),
            side.checksum[:16],
        )
        for side in (result.left, result.right)
    ]
    print_table("Identical" if result.same else "Different", columns, rows, right=columns[1:5])
    if not result.same:
        write_line(f"\nmissing {result.missing}, extra {result.extra}, different {result.different}")
