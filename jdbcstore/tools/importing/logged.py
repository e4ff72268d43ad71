"""LoggedStore: a store in files of ActiveMQ, whose log has commands, and the effect of each command.

Each kind of store decodes its files and delivers commands. Transactions, temporary destinations, and copies
of a folder are the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

from jdbcstore.abc import SubscriptionInfo
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import TransactionId, XATransactionId
from jdbcstore.tools.importing.replay import BodyPlace, Replay
from jdbcstore.tools.importing.source import BodyFiles, Findings, NothingToImport


class AddedMessage(NamedTuple):
    """A message is added; or, as an update, its content is replaced."""

    destination: Destination
    name: str
    """Its message id."""
    place: BodyPlace
    transaction: TransactionId | None = None
    priority: int | None = None
    """None if the store does not deliver by priority."""
    is_update: bool = False
    due: tuple[int, int, bool] | None = None
    """Of a scheduled message, as in :class:`~jdbcstore.tools.importing.replay.Left`."""


class AckedMessage(NamedTuple):
    """A message is acknowledged, of a topic for one durable subscription; or its schedule is removed."""

    destination: Destination
    name: str
    subscription: str | None = None
    """The key of the subscription."""
    transaction: TransactionId | None = None


class Outcome(Enum):
    PREPARED = 1
    COMMITTED = 2
    ROLLED_BACK = 3


class Ended(NamedTuple):
    """A transaction is prepared, committed or rolled back."""

    transaction: TransactionId
    outcome: Outcome


class Subscribed(NamedTuple):
    """A durable subscription is created."""

    key: str
    info: SubscriptionInfo
    is_retroactive: bool = False


class Unsubscribed(NamedTuple):
    """A durable subscription is deleted."""

    topic: Destination
    key: str


class DestinationRemoved(NamedTuple):
    """A destination is deleted with its messages."""

    destination: Destination


class Rescheduled(NamedTuple):
    """A scheduled message is due again."""

    destination: Destination
    name: str
    due_ms: int
    times: int
    """Its repetitions until then."""


class DueRemoved(NamedTuple):
    """All scheduled messages are removed that are due between two times, both inclusive."""

    destination: Destination
    from_ms: int
    to_ms: int


Command = (
    AddedMessage
    | AckedMessage
    | Ended
    | Subscribed
    | Unsubscribed
    | DestinationRemoved
    | Rescheduled
    | DueRemoved
)


class Reading(NamedTuple):
    """The parts of a source that all of its stores use."""

    replay: Replay
    files: BodyFiles
    findings: Findings
    progress: Callable[[int], None]
    """Called with the bytes of each file that was read."""


class LoggedStore:
    """One store, replayed as its broker would after a crash.

    :param folder: that of its files
    """

    FILE: ClassVar[str] = "log"
    COMMAND: ClassVar[str] = "command"
    """The words of this kind for a file, and for a record of it."""

    def __init__(self, folder: Path, reading: Reading) -> None:
        self.folder = folder
        self.replay, self.files, self.findings, self.progress = reading
        self.first = len(self.files.paths)
        """The number of its first file among all files."""
        self.file_count = 0
        """Files of its log."""
        self.commands = 0
        self.prepared: dict[TransactionId, list[AddedMessage | AckedMessage]] = {}
        self.open: dict[TransactionId, list[AddedMessage | AckedMessage]] = {}

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        """Return whether a folder has a store."""
        raise NotImplementedError

    @staticmethod
    def name_of(subscription: str) -> str:
        """Return the name of a durable subscription with this key, for people."""
        return subscription

    def run(self) -> None:
        """Replay all files. Afterwards ``prepared`` has the transactions in doubt.

        :raises NothingToImport: a folder before has the same messages
        """
        raise NotImplementedError

    def body(self, place: BodyPlace) -> bytes:
        """Return the bytes of a message.

        :raises OSError: they cannot be read
        :raises CorruptMessage: they are damaged
        """
        return self.files.read(*place)

    def apply(self, command: Command) -> None:
        """Apply a command; in a transaction, at its commit."""
        match command:
            case AddedMessage() | AckedMessage() if command.transaction is not None:
                self.open.setdefault(command.transaction, []).append(command)
            case AddedMessage() | AckedMessage():
                self._change(command)
            case Ended():
                self._end(*command)
            case Subscribed() if not command.info.destination.is_temporary:
                self.replay.subscribe(command.key, command.info, retroactive=command.is_retroactive)
            case Unsubscribed():
                self.replay.unsubscribe(*command)
            case DestinationRemoved():
                self.replay.remove_all(command.destination)
            case Rescheduled():
                self.replay.reschedule(*command)
            case DueRemoved():
                self.replay.remove_due(*command)

    def _end(self, transaction: TransactionId, outcome: Outcome) -> None:
        changes = self.prepared.pop(transaction, []) + self.open.pop(transaction, [])
        if outcome is Outcome.PREPARED and changes:
            self.prepared[transaction] = changes
        elif outcome is Outcome.COMMITTED:
            for change in changes:
                self._change(change)

    def leave_in_doubt(self) -> None:
        """Add prepared transactions to the replay, and roll back unprepared ones."""
        for xid, changes in self.prepared.items():
            for change in changes:
                if isinstance(xid, XATransactionId):
                    self._change(change, xid)

    def _change(self, change: AddedMessage | AckedMessage, xid: XATransactionId | None = None) -> None:
        """Add or acknowledge a message; in doubt if there is an ``xid``."""
        destination, name = change.destination, change.name
        if destination.is_temporary:
            reason = "messages of temporary destinations end with their connections; left out"
            self.findings.note(reason)
            if isinstance(change, AddedMessage):
                self.leave_out(change.place, reason, destination)
        elif isinstance(change, AddedMessage):
            if xid is not None:
                self.replay.add_prepared(xid, destination, name, change.place, change.priority)
            elif change.is_update:
                self.replay.update(destination, name, change.place, change.priority)
            elif not self.replay.add(destination, name, change.place, change.priority, due=change.due):
                self.refuse_copy(destination, name)
        elif xid is not None:
            self.replay.remove_prepared(xid, destination, name, change.subscription)
        elif change.subscription is None:
            self.replay.remove(destination, name)
        else:
            self.replay.acknowledge(destination, name, change.subscription)

    def leave_out(self, place: BodyPlace, reason: str, of: object) -> None:
        """Keep the bytes of a message that is left out, if there is a folder for them."""
        raw = partial(self.files.read, *place)
        self.findings.leave_out(self.files.paths[place.file], place.at, raw, reason, of)

    def refuse_copy(self, destination: Destination, name: str) -> None:
        """Raise if the message of this name, which is there already, is of another folder.

        :raises NothingToImport: it is
        """
        place = self.replay.find(destination, name)
        if place is not None and place.file < self.first:
            other = self.files.paths[place.file].parent
            raise NothingToImport(
                f"{other} and {self.folder} both have the message {name} of {destination}: one is a copy of"
                " the other; name the folder that the broker used last"
            )
