"""``export``: new messages appended to a Delta or an Iceberg table."""

from __future__ import annotations

import signal
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.options import DESTINATION, Seconds
from jdbcstore.cli.output import counted, printable, progress
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.message.destination import Destination

if TYPE_CHECKING:
    from jdbcstore.analytics.lake import LakeTable


@click.command(cls=CliCommand)
@click.argument("table")
@click.argument("destination", metavar="[DEST]", type=DESTINATION, required=False)
@click.option("--iceberg", is_flag=True, help="TABLE is NAMESPACE.NAME in an Iceberg catalog.")
@click.option("--catalog", default="default", show_default=True, metavar="NAME",
              help="The catalog in pyiceberg's configuration.")  # fmt: skip
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE",
              help="A storage option of Delta, or a property of the catalog; repeatable.")  # fmt: skip
@click.option("--follow", is_flag=True, help="Go on with new messages until interrupted.")
@click.option("--interval", type=Seconds(0.1), default=5.0, show_default=True, metavar="SECONDS",
              help="The pause of --follow when there is no new message.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only count the messages; create and write nothing.")
@click.pass_obj
def export(
    settings: Settings,
    table: str,
    destination: Destination | None,
    iceberg: bool,
    catalog: str,
    options: tuple[str, ...],
    follow: bool,
    interval: float,
    dry_run: bool,
) -> int:
    """Append new messages to a Delta table, or an Iceberg table, each message once.

    TABLE is a folder or a URL, such as s3://bucket/messages. It is created if it is missing. It has the
    columns of the view messages_decoded, and is partitioned by date and destination_name. The table records
    which messages it has, so run the command again for new ones, on any machine. DEST limits it to one
    destination.
    """
    from jdbcstore.analytics.lake import DeltaTable, IcebergTable, LakeExport

    pairs = dict(_pair(option) for option in options)
    name = None if destination is None else destination.qualified_name
    target: LakeTable = (
        IcebergTable(table, catalog, pairs, name) if iceberg else DeltaTable(table, pairs, name)
    )
    with LakeExport(settings.configuration(), target, destination=destination, creates=not dry_run) as lake:
        if dry_run:
            count = lake.pending()
            settings.print({"messages": count}, f"{counted(count)} would be exported")
            return ExitCode.DONE
        with progress("exporting") as done:
            exported = lake.follow(_until_interrupted(), interval, done) if follow else lake.run(done)
    commits = counted(exported.commits, "commit")
    text = f"exported {counted(exported.messages)} to {printable(table)} in {commits}"
    settings.print(asdict(exported), text)
    return ExitCode.DONE


def _pair(option: str) -> tuple[str, str]:
    name, there, value = option.partition("=")
    if not there or not name:
        raise click.UsageError(f"--option {option!r} is not NAME=VALUE")
    return name, value


def _until_interrupted() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set, so that the current commit is finished."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
