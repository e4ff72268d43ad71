"""A tree of KahaDB folders as a source: one store, those of mKahaDB, and the job scheduler's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from jdbcstore.message.ids import XATransactionId
from jdbcstore.tools.importing.folders import FolderSource
from jdbcstore.tools.importing.kahadb.commands import (
    CommitCommand,
    PrepareCommand,
    Transaction,
    read_command,
)
from jdbcstore.tools.importing.kahadb.index import JOBS, MESSAGES, has_old_jobs
from jdbcstore.tools.importing.kahadb.logs import LogFile, LogReader, log_files, split
from jdbcstore.tools.importing.kahadb.replaying import LogFolder
from jdbcstore.tools.importing.protobuf import MalformedLog
from jdbcstore.tools.importing.source import Findings, NothingToImport

LOCAL_FORMAT = 61616
"""The format id that mKahaDB gives to transactions of its own over several stores."""
_TRANSACTIONS = "txStore"
_ARCHIVES = {"data-archive", "legacySchedulerStore"}
"""Folders of what the broker has moved away."""
_SPILLED = "tmpDB.data"
"""The index of messages that are not persistent."""


class KahaDbSource(FolderSource):
    """The KahaDB folders of a tree.

    :param folder: one store's, or one above several; archives of full logs in it are left out
    :param progress: called with numbers of bytes of logs that were replayed
    :raises NothingToImport: there is no data log below it
    :raises SourceInUse: a running broker has it
    """

    def __init__(
        self,
        folder: Path,
        progress: Callable[[int], None] = lambda _: None,
        findings: Findings | None = None,
    ) -> None:
        super().__init__(folder, findings)
        self._stores: list[LogFolder] = []
        try:
            found = dict(self._found())
            if not found and self.findings.damages:
                raise NothingToImport(str(self.findings.damages[0]))
            if not found:
                raise NothingToImport(
                    f"{folder} has no data logs of KahaDB, db-1.log and so on, and neither have the folders"
                    " below it; name the directory of the broker's persistenceAdapter, or one above it"
                )
            self._begin(self._locks(found, "lock"))
            self._replay(found, progress)
        except BaseException:
            self._resources.close()
            raise

    @property
    def folders(self) -> list[Path]:
        """The folders that have data logs."""
        return [store.logs[0].path.parent for store in self._stores]

    def _found(self) -> Iterator[tuple[Path, list[LogFile]]]:
        """Yield the folders with data logs, by name."""
        if not self._folder.is_dir():
            return
        for path, names, _ in _walk(self._folder):
            names[:] = sorted(name for name in names if name not in _ARCHIVES)
            if (path / _SPILLED).exists():
                self.findings.note(f"{path} has messages that are not persistent; left out")
                continue
            if has_old_jobs(path):
                self.findings.damage(
                    path / JOBS, 0, 0,
                    "scheduled messages of ActiveMQ before 5.11 are not read: start a later one once, which"
                    " converts them",
                )  # fmt: skip
            elif logs := log_files(path):
                yield path, logs
            elif any((path / name).exists() for name in (MESSAGES, JOBS)):
                self.findings.damage(path / "db-1.log", 0, 0, "there is an index, and no data log")

    def _replay(self, found: Mapping[Path, list[LogFile]], progress: Callable[[int], None]) -> None:
        decided, is_sound, has_decisions = set[Transaction](), True, False
        for path, logs in found.items():
            self._note_gaps(logs)
            self.findings.find_empty(log.path for log in logs)
            if path.name == _TRANSACTIONS:
                has_decisions = True
                is_sound &= self._read_decisions(logs, decided)
                continue
            store = LogFolder(logs, self.replay, self._files, self.findings, progress)
            store.run()
            self._stores.append(store)
        for store in self._stores:
            for xid in [xid for xid in store.prepared if _is_local(xid)]:
                if not has_decisions or not is_sound:
                    self.findings.note(
                        f"{xid} is a transaction over several stores of mKahaDB, and {_TRANSACTIONS} does not"
                        " tell its outcome: it is left in doubt"
                    )
                    continue
                store.decide(xid, commit=xid in decided)
            store.leave_in_doubt()
        self.replay.end()
        for topic, key in sorted(self.replay.unknown, key=str):
            self.findings.note(
                f"the subscription {key} to {topic} has acknowledged messages, and is not known: it was"
                " deleted, or the log is missing in which it was created"
            )
        if count := self.replay.out_of_order():
            self.findings.note(
                f"{count} messages were acknowledged before they were added: they were sent a second time"
                " under the same id, or data logs are missing, or have each other's names"
            )

    def _note_gaps(self, logs: list[LogFile]) -> None:
        folder = logs[0].path.parent
        for before, after in pairwise([0, *(log.number for log in logs)]):
            if after - before > 1:
                between = f"db-{before + 1}.log"
                if after - before > 2:
                    between += f" to db-{after - 1}.log"
                self.findings.note(
                    f"{folder} does not have {between}: the broker removes those that it does not need, so"
                    " nothing is missing unless somebody else removed them"
                )

    def _read_decisions(self, logs: list[LogFile], decided: set[Transaction]) -> bool:
        """Add the transactions that mKahaDB has decided to commit; False if the logs are damaged."""
        before = len(self.findings.damages)
        for log in logs:

            def damaged(offset: int, length: int, reason: str, log: LogFile = log) -> None:
                self.findings.damage(log.path, offset, length, reason)

            for batch in LogReader(log.path, damaged).batches():
                try:
                    for start, end in split(batch.records):
                        command = read_command(batch.records, start, end)
                        if isinstance(command, PrepareCommand):
                            decided.add(command.transaction)
                        elif isinstance(command, CommitCommand):
                            decided.discard(command.transaction)
                        elif command is not None:
                            raise MalformedLog("a command that does not belong here", start)
                except MalformedLog as error:
                    damaged(batch.offset + error.at, len(batch.records) - error.at, str(error))
        return len(self.findings.damages) == before

    def facts(self) -> Mapping[str, int]:
        """Return the numbers of folders, logs, commands and transactions in doubt."""
        return {
            "folders": len(self._stores),
            "logs": sum(len(store.logs) for store in self._stores),
            "commands": sum(store.commands for store in self._stores),
            "in_doubt": len(self.replay.branches()),
        }


def has_logs(folder: Path) -> bool:
    """Return whether there are data logs in a folder, or below it."""
    return any(log_files(path) for path, _, _ in _walk(folder))


def _is_local(transaction: object) -> bool:
    return isinstance(transaction, XATransactionId) and transaction.format_id == LOCAL_FORMAT


def _walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    for path, names, files in os.walk(folder):
        yield Path(path), names, files
