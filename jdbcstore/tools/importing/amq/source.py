"""A tree of folders of ActiveMQ's AMQ message store as a source."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from jdbcstore.message import openwire
from jdbcstore.message.openwire.wire_format import OLD_VERSION
from jdbcstore.tools.importing.amq.journal import data_files
from jdbcstore.tools.importing.amq.store import CONTROL, AmqStore
from jdbcstore.tools.importing.folders import FolderSource
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.source import Findings, NothingToImport

_APART = {"kr-store", "archive"}
"""Folders of the index, and of full data files that the broker has moved away."""


class AmqSource(FolderSource):
    """The AMQ stores of a tree.

    :param folder: one store's, or one above several
    :param progress: called with numbers of bytes of data files that were replayed
    :raises NothingToImport: there is no data file below it
    :raises SourceInUse: a running broker has it
    """

    def __init__(
        self,
        folder: Path,
        progress: Callable[[int], None] = lambda _: None,
        findings: Findings | None = None,
    ) -> None:
        super().__init__(folder, findings)
        self._stores: list[AmqStore] = []
        try:
            found = list(_journals(folder))
            if not found:
                raise NothingToImport(
                    f"{folder} has no data files of the AMQ store, journal/data-1 and so on, and neither have"
                    " the folders below it; name the directory of the broker's persistenceAdapter, or one"
                    " above it"
                )
            controls = {journal / CONTROL for journal in found}
            self._begin(self._locks(found, "lock") | controls)
            for journal in found:
                store = AmqStore(journal, self.replay, self._files, self.findings)
                self._stores.append(store)
                store.run(progress)
            self.replay.end()
            for topic, key in sorted(self.replay.unknown, key=str):
                client_id, name = key.split("\0")
                self.findings.note(
                    f"the subscription {name} of {client_id} to {topic} has acknowledged messages, and is not"
                    " known"
                )
            if count := self.replay.out_of_order():
                self.findings.note(
                    f"{count} messages were acknowledged before they were added: data files are missing, or"
                    " have each other's names"
                )
            self.findings.note("the AMQ store has no checksums: damage inside a message may not be noticed")
        except BaseException:
            self._resources.close()
            raise

    def _body(self, place: BodyPlace) -> bytes:
        """Return the bytes of a message, once all of it was decoded: nothing else tells of damage."""
        blob = super()._body(place)
        message = openwire.decode(blob, version=OLD_VERSION)
        _ = message.properties, message.body
        return blob

    def facts(self) -> Mapping[str, int]:
        """Return the numbers of folders, files, commands and transactions in doubt."""
        return {
            "folders": len(self._stores),
            "files": sum(len(store.files) for store in self._stores),
            "commands": sum(store.commands for store in self._stores),
            "in_doubt": len(self.replay.branches()),
        }


def has_journal(folder: Path) -> bool:
    """Return whether there are data files of an AMQ store in a folder, or below it."""
    return next(_journals(folder), None) is not None


def _journals(folder: Path) -> Iterator[Path]:
    for name, names, _ in os.walk(folder):
        names[:] = sorted(one for one in names if one not in _APART)
        path = Path(name)
        if (path / CONTROL).exists() and data_files(path):
            yield path
