"""The files of a journal, as the commands of ``journal`` go through them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from jdbcstore import Configuration, JdbcStore
from jdbcstore.cli.options import Settings
from jdbcstore.cli.output import note
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, CorruptJournal, JournalPending, StoreError
from jdbcstore.journal import Damage, Known, Record, SegmentFile, journal_of, records, records_of, segments
from jdbcstore.stores.journaled.belonging import check_opens, known_of
from jdbcstore.stores.opening import MEMORY, Opening, with_journals

folder_argument = click.argument(
    "folder", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path, file_okay=False)
)


def directory_of(settings: Settings, folder: Path | None) -> Path:
    """That of the argument, or else of the configuration."""
    return JournalFolder.find(settings, folder).directory


@dataclass(frozen=True, slots=True)
class JournalFolder:
    """A folder of a journal, and the store behind it where the configuration names that."""

    directory: Path
    configuration: Configuration | None
    known: Known | None = None
    """What the store behind has of the journal."""

    @classmethod
    def find(cls, settings: Settings, folder: Path | None, *, asks: bool = False) -> JournalFolder:
        """That of the argument, or else of the configuration; with ``asks``, what its database knows.

        :raises click.UsageError: there is none
        """
        configuration = settings.configuration()
        if folder is None:
            if configuration.journal is None:
                raise click.UsageError("no journal is configured; name the FOLDER of one")
            folder = Path(configuration.journal.directory)
        found = cls(folder, _store_behind(configuration, folder))
        if asks and folder.is_dir():
            found = found.asked()
        if not folder.is_dir() or not (segments(folder) or found.known):
            raise click.UsageError(f"there is no journal in {folder}")
        return found

    def asked(self) -> JournalFolder:
        """With what the database knows now. Where it does not answer, that is noted."""
        journal = journal_of(segments(self.directory)) or 0
        try:
            with self._database() as store:
                known = None if store is None else known_of(store, journal)
        except StoreError as error:
            note(f"the database behind the journal was not asked: {error}")
            return replace(self, configuration=None, known=None)
        return replace(self, known=known)

    def refusal(self) -> StoreError | None:
        """Why it does not open, if so; the files are whole, as far as can be told without the database."""
        configured = self.configuration.journal if self.configuration else None
        config = replace(configured or JournalConfig(), directory=str(self.directory))
        try:
            with self._database() as store:
                check_opens(config, store)
        except (CorruptJournal, JournalPending, ConfigurationError) as error:
            return error
        return None

    @contextlib.contextmanager
    def _database(self) -> Iterator[JdbcStore | None]:
        if self.configuration is None:
            yield None
        else:
            with Opening(
                self.configuration.replace(cleanup_period=0.0), read_only=True
            ).open_database() as store:
                yield store


def _store_behind(configuration: Configuration, folder: Path) -> Configuration | None:
    for one in with_journals(configuration):
        there = Path(one.journal.directory) if one.journal else None
        if there and there.resolve() == folder.resolve() and one.data_source.url not in (None, MEMORY):
            return replace(one, locker=None)
    return None


def everything(
    directory: Path, files: list[SegmentFile], known: Known | None = None
) -> Iterator[tuple[Record | Damage, Path]]:
    """What is in files that are only kept, then what the journal still needs."""
    paths = {file.number: file.path for file in files if not file.kept}
    for file in files:
        if file.kept:
            for found in records_of(file):
                yield found, file.path
    for found in records(directory, known):
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
