"""FolderSource: the files of a source in the folders of an ActiveMQ, and the locks of its brokers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from jdbcstore.tools.importing.replay import BodyPlace, Replay
from jdbcstore.tools.importing.rows import ReplayedRows
from jdbcstore.tools.importing.source import BodyFiles, Findings, SharedLocks


class FolderSource(ReplayedRows):
    """The stores of a tree of folders; a context manager that closes their files.

    :param folder: one store's, or one above several
    """

    def __init__(self, folder: Path, findings: Findings | None) -> None:
        self.findings = Findings() if findings is None else findings
        self._folder = folder
        self._files = BodyFiles()
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def _begin(self, locks: Iterable[Path]) -> None:
        """Take a share of these locks, as far as they exist, and begin the replay.

        :raises SourceInUse: a running broker has one
        """
        self._shares = self._resources.enter_context(SharedLocks(sorted(locks)))
        replay = self._resources.enter_context(Replay())
        self._resources.callback(self._files.close)
        super().__init__(replay, self._body, self._damaged)

    @property
    def place(self) -> str:
        """The folder."""
        return str(self._folder)

    def _locks(self, found: Iterable[Path], *names: str) -> set[Path]:
        """Return the lock files of these folders, and of those above that may be a broker's."""
        folders = {path for folder in found for path in (folder, *folder.parents)}
        inside = {path for path in folders if self._folder in (path, *path.parents)}
        return {path / name for path in (*inside, self._folder.absolute().parent) for name in names}

    def _body(self, place: BodyPlace) -> bytes:
        """Return the bytes of a message.

        :raises OSError: they cannot be read
        :raises CorruptMessage: they are damaged
        """
        return self._files.read(*place)

    def _damaged(self, place: BodyPlace, reason: str) -> None:
        self.findings.damage(self._files.paths[place.file], place.at, place.size, reason)

    def release_lock(self, path: Path) -> None:
        """Release the share of a lock file, if there is one, which the target locks now."""
        self._shares.release(path)
