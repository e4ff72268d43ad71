"""A tree of folders of ActiveMQ's LevelDB store as a source, with the job scheduler's beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from jdbcstore.tools.importing.folders import FolderSource
from jdbcstore.tools.importing.leveldb.store import LevelDbStore, has_index
from jdbcstore.tools.importing.logged import Reading


class LevelDbSource(FolderSource):
    """The LevelDB stores of a tree; of a node of ``replicatedLevelDB``, too.

    The folder may also be one above those of its logs and its index.
    """

    WHAT = "logs of the LevelDB store, 0000000000000000.log and so on"
    LOCKS = ("lock", "dirty.index/LOCK", "plist.index/LOCK")
    """The broker's own, and of the LevelDB that it has open, the only ones of a replicated node."""
    APART = re.compile(r"stash|.*\.index")
    """Among them the earlier content of a replicated node that follows another."""
    STORE = LevelDbStore

    def find(self) -> list[Path]:
        paths = super().find()
        self._indexes = [path for path in self.walk(self.folder) if has_index(path)]
        # With a logDirectory, the index is elsewhere.
        apart = [path for path in self._indexes if path not in paths]
        self._elsewhere = apart if len(apart) == len(paths) == 1 else []
        return paths

    def locks(self, paths: Iterable[Path]) -> set[Path]:
        return super().locks([*paths, *self._indexes])

    def open_store(self, path: Path, reading: Reading) -> LevelDbStore:
        [index] = [path] if path in self._indexes else self._elsewhere or [path]
        store = LevelDbStore(path, reading, index)
        self._resources.callback(store.state.close)
        return store
