"""Taking out of the store what the archive has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.database.connection import Connection
from jdbcstore.tools.archive.layout import Archive, Manifest
from jdbcstore.tools.archive.reading import ArchivedName, names
from jdbcstore.tools.archive.window import Window
from jdbcstore.tools.transfer import MessageRow, Target


@dataclass(slots=True)
class Removed:
    """What became of removing."""

    messages: int = 0
    changed: int = 0
    """Left in the store, because their bytes are not the archive's any more."""


def remove(
    store: Configuration, folder: str | Path, window: Window, progress: Progress | None = None
) -> Removed:
    """Remove from the store those messages of the window that are in the archive, and nothing else.

    A file's checksum is checked before anything of it is removed, and each message's in the transaction that
    removes it: it is the same message, its bytes are those in the archive, and where the window asks
    for that, every durable subscription has acknowledged it. At most 1,000 go in one transaction.

    :param progress: told of messages of the archive
    :raises NotMaster: another may write to the store, or writes to the archive
    :raises StoresDiffer: a file of the archive is gone or damaged; nothing that it holds was removed
    """
    archive, result = Archive(folder), Removed()
    with archive.writing(), Target(store) as target:
        remover = _Remover(target, window, result)
        for manifest in archive.manifests():
            if not archive.is_removed(manifest) and remover.remove(archive, manifest, progress):
                archive.note_removed(manifest)
    return result


class _Remover:
    def __init__(self, target: Target, window: Window, result: Removed) -> None:
        self._target = target
        self._window = window
        self._result = result

    def remove(self, archive: Archive, manifest: Manifest, progress: Progress | None) -> bool:
        """Remove what is meant of one batch; whether nothing of it is left in the store."""
        gone = True
        for file in manifest.files:
            for page in names(archive.check(manifest, file)):
                meant = [row for row in page if self._window.has(row.container, row.time_ms)]
                gone &= len(meant) == len(page)
                for container, rows in groupby(meant, lambda row: row.container):
                    gone &= self._remove_page(container, [*rows])
                if progress is not None:
                    progress(len(page))
        return gone

    def _remove_page(self, container: str, page: list[ArchivedName]) -> bool:
        with self._target.transaction() as connection:
            there = {row.id: row for row in self._there(connection, container, page)}
            same = [row.id for row in page if row.id in there and _is_same(there[row.id], row)]
            allowed = same
            if self._window.acknowledged:
                acknowledged = self._acknowledged(connection, container, page)
                allowed = [id_ for id_ in same if id_ in acknowledged]
            removed = connection.remove_messages([(container, id_) for id_ in allowed])
        self._result.messages += removed
        self._result.changed += len(there) - len(same)
        return removed == len(there)

    def _there(
        self, connection: Connection, container: str, page: list[ArchivedName]
    ) -> Iterator[MessageRow]:
        """Those of a page's messages that the store still has, perhaps with other bytes."""
        archived = {row.name for row in page}
        for row in self._between(connection, self._target.rows.find_here, container, page):
            message = MessageRow(*row)
            if message.name in archived:
                yield message

    def _acknowledged(self, connection: Connection, container: str, page: list[ArchivedName]) -> set[int]:
        find = self._target.rows.find_acknowledged_here
        return {row[0] for row in self._between(connection, find, container, page)}

    @staticmethod
    def _between(
        connection: Connection, find: Any, container: str, page: list[ArchivedName]
    ) -> Iterator[Any]:
        after, up_to = page[0].id - 1, page[-1].id
        while after < up_to:
            found = connection.fetch(find, container=container, after=after, up_to=up_to, limit=len(page))
            yield from found
            after = found[-1][0] if len(found) == len(page) else up_to


def _is_same(stored: MessageRow, archived: ArchivedName) -> bool:
    return hashlib.sha256(stored.msg).hexdigest() == archived.msg_sha256
