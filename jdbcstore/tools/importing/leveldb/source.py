"""A tree of folders of ActiveMQ's LevelDB store as a source, with the job scheduler's beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from jdbcstore.tools.importing.folders import FolderSource
from jdbcstore.tools.importing.leveldb.store import LevelDbStore, has_index, has_store, unpacked
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.source import Findings, NothingToImport

_LOCKS = ("lock", "dirty.index/LOCK", "plist.index/LOCK")
"""Lock files: the broker's own, and of the LevelDB that it has open, the only ones of a replicated node."""
_STASH = "stash"
"""A folder with what a replicated node had before it followed another."""


class LevelDbSource(FolderSource):
    """The LevelDB stores of a tree.

    :param folder: one store's, also a node's of ``replicatedLevelDB``; or one above several, or above the
        folders of its logs and its index
    :param progress: called with numbers of bytes of logs that were replayed
    :raises NothingToImport: there is no log below it
    :raises SourceInUse: a running broker has it
    """

    def __init__(
        self,
        folder: Path,
        progress: Callable[[int], None] = lambda _: None,
        findings: Findings | None = None,
    ) -> None:
        super().__init__(folder, findings)
        self._stores: list[LevelDbStore] = []
        try:
            stores, indexes = _find(folder)
            if not stores:
                raise NothingToImport(
                    f"{folder} has no logs of the LevelDB store, 0000000000000000.log and so on, and neither"
                    " have the folders below it; name the directory of the broker's persistenceAdapter, or"
                    " one above it"
                )
            self._begin(self._locks([*stores, *indexes], *_LOCKS))
            # With a logDirectory, the index is elsewhere.
            apart = [path for path in indexes if path not in stores]
            for path in stores:
                index = apart[0] if path not in indexes and len(apart) == len(stores) == 1 else path
                store = LevelDbStore(path, index, self.replay, self._files, self.findings)
                self._stores.append(store)
                self._resources.callback(store.close)
                store.run(progress)
            self.replay.end()
        except BaseException:
            self._resources.close()
            raise

    def _body(self, place: BodyPlace) -> bytes:
        [store] = [one for one in self._stores if place.file in one.numbers]
        return unpacked(store.logs.read(place))

    def facts(self) -> Mapping[str, int]:
        """Return the numbers of folders, logs, records that were read and transactions in doubt."""
        return {
            "folders": len(self._stores),
            "logs": sum(len(store.logs.logs) for store in self._stores),
            "records": sum(store.logs.records for store in self._stores),
            "in_doubt": len(self.replay.branches()),
        }


def has_logs(folder: Path) -> bool:
    """Return whether there are logs of a LevelDB store in a folder, or below it."""
    return bool(_find(folder)[0])


def _find(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders with logs, and those with an index, by name."""
    stores, indexes = [], []
    for path in _walk(folder):
        if has_store(path):
            stores.append(path)
        if has_index(path):
            indexes.append(path)
    return stores, indexes


def _walk(folder: Path) -> Iterator[Path]:
    for path, names, _ in os.walk(folder):
        names[:] = sorted(name for name in names if name != _STASH and not name.endswith(".index"))
        yield Path(path)
