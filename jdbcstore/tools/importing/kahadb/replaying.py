"""The replay of one KahaDB folder: its logs in order, with transactions, as its broker would without index.

Two things are done otherwise than there. Acknowledgements that a compaction has copied are applied in place
of the log that is gone, and not where they are now: a message that was sent a second time under its old id
is not lost. And what is damaged is passed over and reported.
"""

from __future__ import annotations

from functools import partial
from itertools import dropwhile, takewhile
from pathlib import Path

from jdbcstore.errors import InvalidDestination
from jdbcstore.message.ids import TransactionId
from jdbcstore.message.jobs import JOBS
from jdbcstore.tools.importing.kahadb import index, logs
from jdbcstore.tools.importing.kahadb.commands import Rewritten, read_command
from jdbcstore.tools.importing.logged import (
    AckedMessage,
    AddedMessage,
    Command,
    Ended,
    Outcome,
    Reading,
    Rescheduled,
)
from jdbcstore.tools.importing.numbered import FileReader, LogFile, NumberedStore
from jdbcstore.tools.importing.protobuf import MalformedLog
from jdbcstore.tools.importing.replay import BodyPlace


class LogFolder(NumberedStore):
    """The logs of one folder."""

    NAME = "db-{}.log"
    WITNESS = "the index"

    def __init__(self, folder: Path, reading: Reading) -> None:
        super().__init__(folder, reading)
        self._compacted: dict[LogFile, int] = {}
        """The logs that begin with the acknowledgements of an earlier one, and the number of that."""
        self._late: dict[int, list[Ended]] = {}
        """Commits in the copied part of a log whose transactions were not known there."""
        self._rescheduled: dict[str, int] = {}
        self._has_jobs = self._has_messages = False
        self._marked = False
        self._unchecked = 0

    def noted(self) -> list[tuple[int, int]]:
        return index.noted(self.folder)

    def reader(self, path: Path) -> logs.LogReader:
        return logs.LogReader(path, partial(self.findings.damage, path), marked=self._marked)

    def read(self, content: bytes, place: BodyPlace) -> Command | None:
        command = read_command(content)
        if isinstance(command, AddedMessage):
            _, at, size = command.place
            return command._replace(place=BodyPlace(place.file, place.at + at, size))
        return None if isinstance(command, Rewritten) else command

    def run(self) -> None:
        self.find_missing()
        for log, is_copied in self._parts():
            commands = self.commands_of(log)
            if is_copied:
                for command in takewhile(_is_copied, commands):
                    self._apply_copied(log, command)
                continue
            for commit in self._late.pop(log.number, ()):
                self.apply(commit)
            for command in dropwhile(_is_copied, commands) if log in self._compacted else commands:
                self.apply(command)
            self.progress(log.path.stat().st_size)
        if self._has_messages and (self._has_jobs or (self.folder / index.JOBS).exists()):
            self.findings.note(f"{self.folder} has logs of messages and logs of the job scheduler")
        if self._unchecked:
            self.findings.note(
                f"{self.folder}: {self._unchecked} batches have no checksum"
                " (checksumJournalFiles is off), so that damage in a body may not be noticed"
            )

    def _parts(self) -> list[tuple[LogFile, bool]]:
        """Return the logs in order; copied acknowledgements are where their source was, if that is gone."""
        for log in self.logs:
            source = _source_of(log)
            if source is not None:
                self._compacted[log] = source
        there = {log.number for log in self.logs}
        parts = [((log.number, 0), log, False) for log in self.logs]
        gone = [(log, source) for log, source in self._compacted.items() if source not in there]
        parts += [((source, 1), log, True) for log, source in gone]
        return [(log, is_copied) for _, log, is_copied in sorted(parts)]

    def end_file(self, log: LogFile, reader: FileReader) -> None:
        super().end_file(log, reader)
        assert isinstance(reader, logs.LogReader)  # noqa: S101
        self._marked = reader.marked
        self._unchecked += reader.unchecked

    def _apply_copied(self, log: LogFile, command: Command) -> None:
        if isinstance(command, Ended) and command.transaction not in self.open | self.prepared:
            self._late.setdefault(log.number, []).append(command)
        else:
            self.apply(command)

    def apply(self, command: Command) -> None:
        """Apply a command; in a transaction, at its commit."""
        is_job = getattr(command, "destination", None) == JOBS
        self._has_jobs |= is_job
        self._has_messages |= not is_job
        if isinstance(command, Rescheduled):
            # One before may have been in a log that is gone.
            more = command.times - self._rescheduled.get(command.name, 0)
            self._rescheduled[command.name] = command.times
            command = command._replace(times=max(more, 0))
        elif isinstance(command, AddedMessage | AckedMessage) and is_job:
            self._rescheduled.pop(command.name, None)
        super().apply(command)


class Decisions(LogFolder):
    """The logs in which mKahaDB has the outcomes of transactions over several stores."""

    def __init__(self, folder: Path, reading: Reading) -> None:
        super().__init__(folder, reading)
        self.committed = set[TransactionId]()

    def read(self, content: bytes, place: BodyPlace) -> Command | None:
        command = super().read(content, place)
        if command is not None and not (
            isinstance(command, Ended) and command.outcome in (Outcome.PREPARED, Outcome.COMMITTED)
        ):
            raise MalformedLog("a command that does not belong here", 0)
        return command

    def apply(self, command: Command) -> None:
        assert isinstance(command, Ended)  # noqa: S101
        if command.outcome is Outcome.PREPARED:
            self.committed.add(command.transaction)
        else:
            self.committed.discard(command.transaction)


def _is_copied(command: Command) -> bool:
    return isinstance(command, AckedMessage) or (
        isinstance(command, Ended) and command.outcome is Outcome.COMMITTED
    )


def _source_of(log: LogFile) -> int | None:
    """Return the log whose acknowledgements this one begins with; None if it is not a compaction."""
    first = next(logs.LogReader(log.path, lambda *_: None).records(), None)
    try:
        command = None if first is None else read_command(first.content)
    except (MalformedLog, InvalidDestination):
        return None
    return command.log if isinstance(command, Rewritten) else None
