"""The replay of one KahaDB folder: its logs in order, with transactions, as its broker would without index.

Two things are done otherwise than there. Acknowledgements that a compaction has copied are applied in place
of the log that is gone, and not where they are now: a message that was sent a second time under its old id
is not lost. And what is damaged is passed over and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import dropwhile, takewhile
from typing import NamedTuple

from jdbcstore.errors import CorruptMessage, InvalidDestination
from jdbcstore.message import openwire
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.jobs import JOBS
from jdbcstore.tools.importing.kahadb.commands import (
    AddCommand,
    AddJob,
    Command,
    CommitCommand,
    PrepareCommand,
    RemoveCommand,
    RemoveDestination,
    RemoveJob,
    RemoveJobs,
    Reschedule,
    Rewritten,
    RollbackCommand,
    Subscribe,
    Transaction,
    read_command,
)
from jdbcstore.tools.importing.kahadb.index import JOBS as JOBS_INDEX
from jdbcstore.tools.importing.kahadb.index import noted
from jdbcstore.tools.importing.kahadb.logs import LogBatch, LogFile, LogReader, split
from jdbcstore.tools.importing.kahadb.subscription import read_subscription
from jdbcstore.tools.importing.protobuf import MalformedLog
from jdbcstore.tools.importing.replay import BodyPlace, Replay
from jdbcstore.tools.importing.source import BodyFiles, Findings, NothingToImport


class _Entry(NamedTuple):
    """A command, and where its batch is."""

    command: Command
    file: int
    batch: LogBatch


class _Operation(NamedTuple):
    """A change that takes effect when its transaction is committed."""

    command: AddCommand | RemoveCommand
    place: BodyPlace | None


@dataclass(slots=True, eq=False)
class LogFolder:
    """The logs of one folder, replayed into ``replay``.

    :param files: numbers the logs, for the places of bodies
    :param progress: called with the bytes of each log that was read
    """

    logs: list[LogFile]
    replay: Replay
    files: BodyFiles
    findings: Findings
    progress: Callable[[int], None] = lambda _: None
    prepared: dict[Transaction, list[_Operation]] = field(default_factory=dict)
    """In doubt at the end."""
    commands: int = 0
    has_jobs: bool = False
    has_messages: bool = False
    _begun: dict[LogFile, tuple[str, int]] = field(default_factory=dict)
    """The id of the first message in each log, and when its broker took it (epoch ms)."""
    _checksums: dict[LogFile, int] = field(default_factory=dict)
    _noted: list[tuple[int, int]] = field(default_factory=list)
    """Records that the index has noted."""
    _first: int = 0
    """The number of the first file of this folder."""
    _pending: dict[Transaction, list[_Operation]] = field(default_factory=dict)
    _late: dict[int, list[CommitCommand]] = field(default_factory=dict)
    """Commits in the copied part of a log whose transactions were not known there."""
    _marked: bool = False
    _unchecked: int = 0

    def run(self) -> None:
        """Replay all logs. Afterwards ``prepared`` has what is in doubt.

        :raises NothingToImport: a folder before has the same messages
        """
        self._first = len(self.files.paths)
        folder = self.logs[0].path.parent
        self._noted = noted(folder)
        for number in sorted({number for number, _ in self._noted} - {log.number for log in self.logs}):
            self.findings.damage(
                folder / f"db-{number}.log", 0, 0, "it is missing, and the index has noted it"
            )
        for log, is_copied in self._parts():
            entries = self._entries(log, is_copied)
            if is_copied:
                self._apply_copied(log, entries)
            else:
                for commit in self._late.pop(log.number, ()):
                    self._commit(commit.transaction)
                for entry in dropwhile(_is_copied, entries) if log in self._compacted else entries:
                    if log not in self._begun and isinstance(entry.command, AddCommand):
                        self._note_order(log, entry.command, entry.batch)
                    self._apply(entry)
                self.progress(log.path.stat().st_size)
        if self.has_messages and (self.has_jobs or (folder / JOBS_INDEX).exists()):
            self.findings.note(f"{folder} has logs of messages and logs of the job scheduler")
        if self._unchecked:
            self.findings.note(
                f"{folder}: {self._unchecked} batches have no checksum"
                " (checksumJournalFiles is off), so that damage in a body may not be noticed"
            )

    def _parts(self) -> list[tuple[LogFile, bool]]:
        """Return the logs in order; copied acknowledgements are where their source was, if that is gone."""
        self._compacted = {}
        for log in self.logs:
            source = _source_of(log)
            if source is not None:
                self._compacted[log] = source
        there = {log.number for log in self.logs}
        parts = [((log.number, 0), log, False) for log in self.logs]
        gone = [(log, source) for log, source in self._compacted.items() if source not in there]
        parts += [((source, 1), log, True) for log, source in gone]
        return [(log, is_copied) for _, log, is_copied in sorted(parts)]

    _compacted: dict[LogFile, int] = field(default_factory=dict)

    def _entries(self, log: LogFile, is_copied: bool) -> Iterator[_Entry]:
        file = self.files.number(log.path)

        def damaged(offset: int, length: int, reason: str) -> None:
            self.findings.damage(log.path, offset, length, reason)

        reader = LogReader(log.path, damaged, marked=self._marked)
        for batch in reader.batches():
            try:
                for start, end in split(batch.records):
                    command = self._read(batch, start, end, damaged)
                    if command is not None:
                        self.commands += 1
                        yield _Entry(command, file, batch)
            except MalformedLog as error:
                damaged(batch.offset + error.at, len(batch.records) - error.at, str(error))
        if not is_copied:
            self._note_end(log, reader)
        self._marked = reader.marked
        self._unchecked += reader.unchecked

    def _note_end(self, log: LogFile, reader: LogReader) -> None:
        """Report a log that is a copy of another, or shorter than its index says."""
        for other, checksum in self._checksums.items():
            if reader.end and checksum == reader.checksum:
                self.findings.damage(log.path, 0, reader.end, f"it has the content of {other.path.name}")
        self._checksums[log] = reader.checksum
        offset = max((offset for number, offset in self._noted if number == log.number), default=-1)
        if offset >= reader.end and not self.findings.is_damaged(log.path):
            self.findings.damage(log.path, reader.end, 0, f"the index has noted a record at {offset}")

    def _note_order(self, log: LogFile, command: AddCommand, batch: LogBatch) -> None:
        """Report a log whose first message is older than that of the log before, or the same as one's."""
        if command.is_update:
            return
        try:
            message = openwire.decode(batch.records[slice(*command.body)])
        except CorruptMessage:
            return
        begun = command.name, message.broker_in_time_ms or 0
        for other, (name, _) in self._begun.items():
            if name == command.name:
                self.findings.note(f"{log.path} begins with the same message as {other.path.name}")
        last = max(self._begun.values(), key=lambda found: found[1], default=begun)
        if begun[1] < last[1]:
            self.findings.note(
                f"{log.path} begins with an older message than a log before it: their names may be wrong, or"
                " the clock was put back"
            )
        self._begun[log] = begun

    @staticmethod
    def _read(
        batch: LogBatch, start: int, end: int, damaged: Callable[[int, int, str], None]
    ) -> Command | None:
        try:
            return read_command(batch.records, start, end)
        except (MalformedLog, InvalidDestination) as error:
            damaged(batch.offset + start, end - start, str(error))
            return None

    def _apply_copied(self, log: LogFile, entries: Iterator[_Entry]) -> None:
        for entry in takewhile(_is_copied, entries):
            command = entry.command
            if isinstance(command, CommitCommand) and not self._knows(command.transaction):
                self._late.setdefault(log.number, []).append(command)
            else:
                self._apply(entry)

    def _knows(self, transaction: Transaction) -> bool:
        return transaction in self._pending or transaction in self.prepared

    def _apply(self, entry: _Entry) -> None:
        command = entry.command
        is_job = isinstance(command, AddJob | Reschedule | RemoveJob | RemoveJobs)
        self.has_jobs |= is_job
        self.has_messages |= not is_job
        match command:
            case AddCommand():
                start, end = command.body
                place = BodyPlace(entry.file, entry.batch.offset + start, end - start)
                self._do(_Operation(command._replace(body=(0, 0)), place))
            case RemoveCommand():
                self._do(_Operation(command, None))
            case PrepareCommand():
                self._prepare(command.transaction)
            case CommitCommand():
                self._commit(command.transaction)
            case RollbackCommand():
                if self._pending.pop(command.transaction, None) is None:
                    self.prepared.pop(command.transaction, None)
            case RemoveDestination():
                self.replay.remove_all(command.destination)
            case Subscribe():
                self._subscribe(command, entry)
            case Rewritten():
                pass
            case _:
                self._schedule(command, entry)

    def _prepare(self, transaction: Transaction) -> None:
        operations = self._pending.pop(transaction, None)
        if operations is not None:
            self.prepared[transaction] = operations

    def _commit(self, transaction: Transaction) -> None:
        operations = self._pending.pop(transaction, None)
        if operations is None:
            operations = self.prepared.pop(transaction, ())  # type: ignore[arg-type]
        for operation in operations or ():
            self._carry_out(operation)

    def _do(self, operation: _Operation) -> None:
        transaction = operation.command.transaction
        if transaction is None:
            self._carry_out(operation)
        else:
            self._pending.setdefault(transaction, []).append(operation)

    def _carry_out(self, operation: _Operation) -> None:
        command, place, replay = operation.command, operation.place, self.replay
        if command.destination.is_temporary:
            reason = "messages of temporary destinations end with their connections; left out"
            self.findings.note(reason)
            if place is not None:
                path, raw = self.files.paths[place.file], partial(self.files.read, *place)
                self.findings.leave_out(path, place.at, raw, reason, command.destination)
        elif isinstance(command, RemoveCommand):
            if command.subscription is None:
                replay.remove(command.destination, command.name)
            else:
                replay.acknowledge(command.destination, command.name, command.subscription)
        elif place is not None and command.is_update:
            replay.update(command.destination, command.name, place, command.priority)
        elif place is not None and not replay.add(command.destination, command.name, place, command.priority):
            self._refuse_copy(command)

    def _refuse_copy(self, command: AddCommand) -> None:
        """Raise if the message that is there is of another folder.

        :raises NothingToImport: it is
        """
        place = self.replay.find(command.destination, command.name)
        if place is not None and place.file < self._first:
            other, here = self.files.paths[place.file].parent, self.logs[0].path.parent
            raise NothingToImport(
                f"{other} and {here} both have the message {command.name} of {command.destination}: one is a"
                " copy of the other; name the folder that the broker used last"
            )

    def _subscribe(self, command: Subscribe, entry: _Entry) -> None:
        if command.destination.is_temporary:
            return
        if command.info is None:
            self.replay.unsubscribe(command.destination, command.key)
            return
        start, end = command.info
        blob = entry.batch.records[start:end]
        try:
            info = read_subscription(command.destination, blob)
        except MalformedLog as error:
            path = self.files.paths[entry.file]
            self.findings.damage(path, entry.batch.offset + start, end - start, f"a subscription: {error}")
            return
        self.replay.subscribe(command.key, info, retroactive=command.retroactive)

    def _schedule(self, command: AddJob | Reschedule | RemoveJob | RemoveJobs, entry: _Entry) -> None:
        match command:
            case AddJob():
                start, end = command.body
                place = BodyPlace(entry.file, entry.batch.offset + start, end - start)
                due = (command.at_ms, command.repeats, bool(command.cron))
                self.replay.add(JOBS, command.job_id, place, due=due)
                self._rescheduled.pop(command.job_id, None)
            case Reschedule():
                # One before may have been in a log that is gone.
                times = command.times - self._rescheduled.get(command.job_id, 0)
                self._rescheduled[command.job_id] = command.times
                self.replay.reschedule(JOBS, command.job_id, command.at_ms, max(times, 0))
            case RemoveJob():
                self.replay.remove(JOBS, command.job_id)
                self._rescheduled.pop(command.job_id, None)
            case RemoveJobs():
                self.replay.remove_due(JOBS, command.from_ms, command.to_ms)

    _rescheduled: dict[str, int] = field(default_factory=dict)

    def leave_in_doubt(self) -> None:
        """Add what is still prepared to the replay, in doubt; what is only begun is rolled back."""
        for xid, operations in self.prepared.items():
            assert isinstance(xid, XATransactionId)  # noqa: S101
            for command, place in operations:
                if isinstance(command, RemoveCommand):
                    self.replay.remove_prepared(xid, command.destination, command.name, command.subscription)
                elif place is not None:
                    self.replay.add_prepared(xid, command.destination, command.name, place, command.priority)

    def decide(self, transaction: Transaction, *, commit: bool) -> None:
        """Commit or roll back a prepared transaction."""
        if commit:
            self._commit(transaction)
        else:
            self.prepared.pop(transaction, None)


def _is_copied(entry: _Entry) -> bool:
    return isinstance(entry.command, Rewritten | RemoveCommand | CommitCommand)


def _source_of(log: LogFile) -> int | None:
    """Return the log whose acknowledgements this one begins with; None if it is not a compaction."""
    reader = LogReader(log.path, lambda *_: None)
    for batch in reader.batches():
        try:
            start, end = next(split(batch.records))
            command = read_command(batch.records, start, end)
        except (MalformedLog, InvalidDestination, StopIteration):
            return None
        return command.log if isinstance(command, Rewritten) else None
    return None
