"""FolderSource: the stores of a tree of folders of an ActiveMQ as a source."""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from jdbcstore.tools.importing.logged import LoggedStore, Reading
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.rows import ReplayedRows
from jdbcstore.tools.importing.source import BodyFiles, Findings, NothingToImport, SharedLocks


class FolderSource(ReplayedRows):
    """The stores of one kind in a tree of folders; a context manager that closes their files.

    :param folder: one store's, or one above several
    :param progress: called with numbers of bytes of files that were replayed
    :raises NothingToImport: there is no store below it
    :raises SourceInUse: a running broker has it
    """

    WHAT: ClassVar[str]
    """The files of a store, and the names of the first ones."""
    LOCKS: ClassVar[tuple[str, ...]] = ("lock",)
    """Files that a running broker has locked, beside its store or above it."""
    APART: ClassVar[re.Pattern[str]]
    """Names of folders in which there is no store."""
    STORE: ClassVar[type[LoggedStore]]
    """The kind."""

    def __init__(
        self,
        folder: Path,
        progress: Callable[[int], None] = lambda _: None,
        findings: Findings | None = None,
    ) -> None:
        super().__init__(findings)
        self.folder, self.place = folder, str(folder)
        self.stores: list[LoggedStore] = []
        self._files = BodyFiles()
        self._resources.callback(self._files.close)
        try:
            self._run(progress)
        except BaseException:
            self._resources.close()
            raise

    @classmethod
    def recognises(cls, folder: Path) -> bool:
        """Return whether there is a store in a folder, or below it."""
        return any(cls.STORE.is_in(path) for path in cls.walk(folder))

    @classmethod
    def walk(cls, folder: Path) -> Iterator[Path]:
        """Yield the folders of a tree by name, without those ``APART``."""
        for path, names, _ in os.walk(folder):
            names[:] = sorted(name for name in names if not cls.APART.fullmatch(name))
            yield Path(path)

    def find(self) -> list[Path]:
        """Return the folders with a store."""
        return [path for path in self.walk(self.folder) if self.STORE.is_in(path)]

    def open_store(self, path: Path, reading: Reading) -> LoggedStore:
        """Return the store of a folder."""
        return self.STORE(path, reading)

    def _run(self, progress: Callable[[int], None]) -> None:
        paths = self.find()
        if not paths and self.findings.damages:
            raise NothingToImport(str(self.findings.damages[0]))
        if not paths:
            raise NothingToImport(
                f"{self.folder} has no {self.WHAT}, and neither have the folders below it; name the directory"
                " of the broker's persistenceAdapter, or one above it"
            )
        self.shares = self._resources.enter_context(SharedLocks(sorted(self.locks(paths))))
        replay = self.replay
        self.replay_all(paths, Reading(replay, self._files, self.findings, progress))
        for store in self.stores:
            store.leave_in_doubt()
        replay.end()
        for topic, key in sorted(replay.unknown, key=str):
            self.findings.note(
                f"the subscription {self.STORE.name_of(key)} to {topic} has acknowledged messages, and is not"
                f" known: it was deleted, or the {self.STORE.FILE} is missing in which it was created"
            )
        if count := replay.out_of_order():
            self.findings.note(
                f"{count} messages were acknowledged before they were added: they were sent a second time"
                f" under the same id, or data {self.STORE.FILE}s are missing, or have each other's names"
            )

    def locks(self, paths: Iterable[Path]) -> set[Path]:
        """Return the lock files of these folders, and of those above that may be a broker's."""
        folders = {path for folder in paths for path in (folder, *folder.parents)}
        inside = {path for path in folders if self.folder in (path, *path.parents)}
        return {path / name for path in (*inside, self.folder.absolute().parent) for name in self.LOCKS}

    def replay_all(self, paths: Iterable[Path], reading: Reading) -> None:
        """Replay the stores of these folders."""
        for path in paths:
            store = self.open_store(path, reading)
            self.stores.append(store)
            store.run()

    def read(self, place: BodyPlace) -> bytes:
        following = bisect(self.stores, place.file, key=lambda store: store.first)
        return self.stores[following - 1].body(place)

    def on_damage(self, place: BodyPlace, reason: str) -> None:
        self.findings.damage(self._files.paths[place.file], place.at, place.size, reason)

    def facts(self) -> Mapping[str, int]:
        """Return the numbers of folders, files, commands and transactions in doubt."""
        return {
            "folders": len(self.stores),
            f"{self.STORE.FILE}s": sum(store.file_count for store in self.stores),
            f"{self.STORE.COMMAND}s": sum(store.commands for store in self.stores),
            "in_doubt": len(self.replay.branches()),
        }
