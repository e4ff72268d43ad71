"""The files of a journal, as the commands of ``journal`` go through them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from jdbcstore.cli.options import Settings
from jdbcstore.journal import Damage, Record, SegmentFile, records, records_of, segments

folder_argument = click.argument(
    "folder", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path, file_okay=False)
)


def directory_of(settings: Settings, folder: Path | None) -> Path:
    """That of the argument, or else of the configuration."""
    if folder is None:
        configured = settings.configuration().journal
        if configured is None:
            raise click.UsageError("no journal is configured; name the FOLDER of one")
        folder = Path(configured.directory)
    if not folder.is_dir() or not segments(folder):
        raise click.UsageError(f"there is no journal in {folder}")
    return folder


def everything(directory: Path, files: list[SegmentFile]) -> Iterator[tuple[Record | Damage, Path]]:
    """What is in files that are only kept, then what the journal still needs."""
    paths = {file.number: file.path for file in files if not file.kept}
    for file in files:
        if file.kept:
            for found in records_of(file):
                yield found, file.path
    for found in records(directory):
        yield found, paths.get(found.segment, directory)


def said(damage: Damage) -> str:
    """One line about it, for people."""
    where = f"segment {damage.segment} at {damage.offset}: {damage.reason}"
    if damage.torn:
        return f"{where}; nothing that was acknowledged is lost, and it is cut when the journal is opened"
    if not damage.number:
        return f"{where}; nobody knows how many records are lost"
    if damage.next_number is None:
        return f"{where}; lost from record {damage.number} on"
    last = damage.next_number - 1
    if last < damage.number:
        return where
    return f"{where}; lost: " + (
        f"record {last}" if last == damage.number else f"records {damage.number} to {last}"
    )
