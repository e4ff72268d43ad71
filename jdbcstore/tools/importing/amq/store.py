"""The replay of one AMQ store: its journal in order, with transactions, as its broker would after a crash.

Two things are done otherwise than there. The reference store tells which durable subscriptions there are: the
journal does not have their end, and after some time not their beginning. And a message of a topic is there
until each subscription has acknowledged it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from jdbcstore.message.ids import TransactionId, XATransactionId
from jdbcstore.tools.importing.amq import commands
from jdbcstore.tools.importing.amq.commands import (
    AckedMessage,
    AddedMessage,
    Command,
    Ended,
    Subscribed,
    read_command,
)
from jdbcstore.tools.importing.amq.journal import DataFileReader, DataRecord, data_files, last_written
from jdbcstore.tools.importing.amq.subscriptions import STATE, KnownSubscriptions, read_subscriptions
from jdbcstore.tools.importing.protobuf import MalformedLog
from jdbcstore.tools.importing.replay import BodyPlace, Replay
from jdbcstore.tools.importing.source import BodyFiles, Findings, NothingToImport

CONTROL = "data-control"

_Operation = tuple[AddedMessage | AckedMessage, BodyPlace]


class AmqStore:
    """One store, replayed into ``replay``.

    :param journal: the folder of its data files
    :param files: numbers them, for the places of bodies
    """

    def __init__(self, journal: Path, replay: Replay, files: BodyFiles, findings: Findings) -> None:
        self._journal = journal
        self._replay = replay
        self._files = files
        self._first = len(files.paths)
        self._findings = findings
        self.files = data_files(journal)
        self.commands = 0
        self._open: dict[TransactionId, list[_Operation]] = {}
        self._prepared: dict[XATransactionId, list[_Operation]] = {}
        self._known = read_subscriptions(journal.parent)
        self._from_the_first: set[str] = set()
        """Subscriptions of which no creation was read yet."""
        self._latest = 0
        """When the latest of the first messages of the files was taken."""
        self._checksums: dict[int, Path] = {}

    def run(self, progress: Callable[[int], None]) -> None:
        """Replay everything.

        :raises NothingToImport: a folder before has the same messages
        """
        self._note_gaps()
        self._findings.find_empty(data.path for data in self.files)
        if self._known is None:
            self._findings.note(
                f"{self._journal.parent / STATE} is missing or damaged: subscriptions that were deleted may"
                " be back, and those are missing whose creation was in a data file that is gone"
            )
        else:
            for subscribed in self._known.present.values():
                self._replay.subscribe(subscribed.key, subscribed.info)
                self._from_the_first.add(subscribed.key)
        ends: dict[int, int] = {}
        for data in self.files:
            number = self._files.number(data.path)

            def damaged(offset: int, length: int, reason: str, path: Path = data.path) -> None:
                self._findings.damage(path, offset, length, reason)

            reader = DataFileReader(data.path, damaged)
            is_first = True
            for entry in reader.entries():
                command = self._read(entry, damaged)
                if is_first and isinstance(command, AddedMessage):
                    self._note_order(data.path, command)
                    is_first = False
                if command is not None:
                    self._apply(command, BodyPlace(number, entry.at, len(entry.command)))
            self._note_copy(data.path, reader)
            ends[data.number] = reader.end
            progress(data.path.stat().st_size)
        self._check_end(ends)
        if self._known is not None:
            self._unsubscribe(self._known)
        self._leave_in_doubt()

    def _note_gaps(self) -> None:
        for before, after in pairwise([0, *(data.number for data in self.files)]):
            if after - before > 1:
                between = f"data-{before + 1}" + (f" to data-{after - 1}" if after - before > 2 else "")
                self._findings.note(
                    f"{self._journal} does not have {between}: the broker removes those that it does not"
                    " need, so nothing is missing unless somebody else removed them"
                )

    def _check_end(self, ends: dict[int, int]) -> None:
        """Report a file that is shorter than the control file says."""
        noted = last_written(self._journal / CONTROL)
        if noted is None:
            return
        number, offset = noted
        path = self._journal / f"data-{number}"
        if number not in ends:
            if number > max(ends):
                self._findings.damage(path, 0, 0, f"it is missing, and {CONTROL} has noted it")
        elif offset >= ends[number] and not self._findings.is_damaged(path):
            self._findings.damage(path, ends[number], 0, f"{CONTROL} has noted a record at {offset}")

    def _read(self, entry: DataRecord, damaged: Callable[[int, int, str], None]) -> Command | None:
        try:
            command = read_command(entry.command)
        except MalformedLog as error:
            damaged(entry.at, len(entry.command), str(error))
            return None
        self.commands += 1
        return command

    def _note_order(self, path: Path, first: AddedMessage) -> None:
        """Report a file whose first message is older than that of a file before."""
        if first.taken_ms < self._latest:
            self._findings.note(
                f"{path} begins with an older message than a file before it: their names may be wrong, or the"
                " clock was put back"
            )
        self._latest = max(self._latest, first.taken_ms)

    def _note_copy(self, path: Path, reader: DataFileReader) -> None:
        """Report a file that is a copy of another."""
        other = self._checksums.setdefault(reader.checksum, path)
        if other != path and reader.checksum:
            self._findings.damage(path, 0, reader.end, f"it has the content of {other.name}")

    def _apply(self, command: Command, place: BodyPlace) -> None:
        match command:
            case Subscribed():
                self._subscribe(command)
            case Ended():
                self._end(command)
            case AddedMessage() | AckedMessage() if command.transaction is not None:
                self._open.setdefault(command.transaction, []).append((command, place))
            case AddedMessage() | AckedMessage():
                self._carry_out(command, place)

    def _subscribe(self, command: Subscribed) -> None:
        if command.key in self._from_the_first:
            # It is created here, and gets what is sent from now on.
            self._from_the_first.discard(command.key)
            self._replay.unsubscribe(command.info.destination, command.key)
        self._replay.subscribe(command.key, command.info)

    def _unsubscribe(self, known: KnownSubscriptions) -> None:
        """Remove the subscriptions that were deleted."""
        for topic, subscriptions in self._replay.topics().items():
            for one in subscriptions:
                key = commands.key_of(one.info.client_id, one.info.subscription_name)
                if key in known.gone:
                    self._replay.unsubscribe(topic, key)
        for topic, key in [*self._replay.unknown]:
            if key in known.gone:
                self._replay.unsubscribe(topic, key)

    def _end(self, command: Ended) -> None:
        transaction = command.transaction
        operations = self._open.pop(transaction, None)
        if operations is None and isinstance(transaction, XATransactionId):
            operations = self._prepared.pop(transaction, None)
        if operations is None:
            return
        if command.how == commands.PREPARE and isinstance(transaction, XATransactionId):
            self._prepared[transaction] = operations
        elif command.how in (commands.XA_COMMIT, commands.LOCAL_COMMIT):
            for operation in operations:
                self._carry_out(*operation)

    def _carry_out(self, command: AddedMessage | AckedMessage, place: BodyPlace) -> None:
        if command.destination.is_temporary:
            reason = "messages of temporary destinations end with their connections; left out"
            self._findings.note(reason)
            if isinstance(command, AddedMessage):
                path, raw = self._files.paths[place.file], partial(self._files.read, *place)
                self._findings.leave_out(path, place.at, raw, reason, command.destination)
        elif isinstance(command, AddedMessage):
            if not self._replay.add(command.destination, command.name, place):
                self._refuse_copy(command)
        elif command.key is None:
            # Of a topic, each subscription has acknowledged it; or one has before the index had it, and the
            # broker has removed it for all.
            if not command.destination.is_topic:
                self._replay.remove(command.destination, command.name)
        else:
            self._replay.acknowledge(command.destination, command.name, command.key)

    def _refuse_copy(self, command: AddedMessage) -> None:
        """Raise if the message that is there is of another folder.

        :raises NothingToImport: it is
        """
        place = self._replay.find(command.destination, command.name)
        if place is not None and place.file < self._first:
            other = self._files.paths[place.file].parent
            raise NothingToImport(
                f"{other} and {self._journal} both have the message {command.name} of"
                f" {command.destination}: one is a copy of the other; name the folder that the broker used"
                " last"
            )

    def _leave_in_doubt(self) -> None:
        """Add what is still prepared; what is only begun is rolled back."""
        for xid, operations in self._prepared.items():
            for command, place in operations:
                if isinstance(command, AddedMessage):
                    self._replay.add_prepared(xid, command.destination, command.name, place, None)
                else:
                    self._replay.remove_prepared(xid, command.destination, command.name, command.key)
