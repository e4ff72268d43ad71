"""The replay of one LevelDB store: its last index, and what its logs have from there on, as its broker would.

Two things are done otherwise than there. Removals of collections, and acknowledgements of prepared
transactions, are read from the logs, too, on which ActiveMQ's own recovery stops, or which it loses. And
where there is no index, or it is damaged, the logs are read from the first on; the broker removes those
without messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import CorruptMessage, InvalidDestination
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.tools.importing.leveldb import snappy
from jdbcstore.tools.importing.leveldb.logs import RecordLogs, log_paths
from jdbcstore.tools.importing.leveldb.state import DurableKey, LevelDbState, StoredEntry
from jdbcstore.tools.importing.leveldb.tables import TableSet, Written
from jdbcstore.tools.importing.logged import (
    AckedMessage,
    AddedMessage,
    Ended,
    LoggedStore,
    Outcome,
    Reading,
    Subscribed,
)
from jdbcstore.tools.importing.protobuf import MalformedLog
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.rows import name_of

_CLOSED = (b":dirty", b"false")
"""The last write of a broker to an index that it is about to copy."""
_INDEX = re.compile(r"([0-9a-f]{16})\.index")


class _Found(NamedTuple):
    """A message that was read."""

    place: BodyPlace
    name: str
    message: Message


class LevelDbStore(LoggedStore):
    """One store, of the folder of its logs.

    :param indexes: that of its index, which may be another one
    """

    COMMAND = "record"

    def __init__(self, folder: Path, reading: Reading, indexes: Path) -> None:
        super().__init__(folder, reading)
        self._indexes = indexes
        self.logs = RecordLogs(folder, self.files, self.findings.damage)
        self.file_count = len(self.logs.logs)
        self.state = LevelDbState()

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        return bool(log_paths(folder))

    def body(self, place: BodyPlace) -> bytes:
        return unpacked(self.logs.read(place))

    def run(self) -> None:
        start = self._read_index()
        if self.logs.end() < start:
            self.findings.damage(
                self.logs.logs[-1].path, self.logs.logs[-1].size, 0,
                f"the index was written at the position {start:016x}, and the logs end before",
            )  # fmt: skip
        for unit in self.logs.units(start, self.progress):
            for record in unit:
                try:
                    self.state.apply(record)
                except (MalformedLog, InvalidDestination) as error:
                    place = self.logs.place_of(record.position)
                    self.findings.damage(*place, len(record.content), str(error))
        self.commands = self.logs.records
        self._fill()

    def _read_index(self) -> int:
        """Read the last index; returns the position from which on the logs have to be read."""
        files = sorted((int(name[1], 16), path) for path, name in _names(self._indexes))
        is_complete = self.logs.is_complete()
        if not files:
            if not is_complete:
                self.findings.note(
                    f"{self._indexes} has no index, and logs of {self.folder} are missing, which ActiveMQ"
                    " removes when no message is in them: messages acknowledged there may reappear"
                )
            return self.logs.logs[0].position
        position, path = files[-1]
        before = len(self.findings.damages)
        last = Written(b"", -1, None)
        for written in TableSet(path, self.findings.damage).read():
            self.state.add_indexed(written)
            last = max(last, written, key=lambda mark: mark.sequence)
        if last[::2] != _CLOSED:
            self.findings.damage(path, 0, 0, "the index does not end with what its broker writes last")
        if len(self.findings.damages) == before:
            self.state.end_index(lambda reason: self.findings.damage(path, 0, 0, reason))
            return position
        if not is_complete:
            self.state.end_index(lambda reason: self.findings.damage(path, 0, 0, reason))
            self.findings.note(
                f"{path} is damaged, and logs of {self.folder} are missing, which ActiveMQ removes when no"
                " message is in them: messages acknowledged there may reappear"
            )
        return self.logs.logs[0].position

    # The remaining messages

    def _fill(self) -> None:
        """Add the rest to the replay: subscriptions, messages in order, prepared transactions."""
        collections = self.state.collections
        subscriptions: dict[int, dict[str, int]] = {}
        for number, collection in sorted(collections.items()):
            if isinstance(collection, DurableKey):
                self._subscribe(number, collection, subscriptions)
        in_doubt = []
        for number in self.state.entry_collections():
            kept = collections.get(number)
            if isinstance(kept, Destination):
                self._add_all(number, kept, subscriptions.get(number, {}))
            elif isinstance(kept, XATransactionId):
                in_doubt.append((number, kept))
            else:
                self._add_unknown(number)
        for number, xid in in_doubt:
            self._add_prepared(number, xid)

    def _subscribe(
        self, number: int, subscription: DurableKey, subscriptions: dict[int, dict[str, int]]
    ) -> None:
        topic = self.state.collections.get(subscription.topic)
        if not isinstance(topic, Destination) or not topic.is_topic:
            self.findings.note(
                f"the subscription {subscription.info.subscription_name} of {subscription.info.client_id} is"
                f" left out: {subscription.info.destination} has been removed"
            )
            return
        key = _key(number)
        self.apply(Subscribed(key, subscription.info))
        subscriptions.setdefault(subscription.topic, {})[key] = self.state.acknowledged.get(number, 0)

    def _add_all(self, collection: int, destination: Destination, acknowledged: dict[str, int]) -> None:
        is_unwanted = destination.is_topic and not (acknowledged or destination.is_temporary)
        done = min(acknowledged.values(), default=-1)
        for entry in self.state.entries(collection):
            if is_unwanted or entry.number <= done:
                continue
            message = self._read(entry, destination)
            if message is None:
                continue
            self.apply(AddedMessage(destination, message.name, message.place))
            for key, number in acknowledged.items():
                if entry.number <= number:
                    self.apply(AckedMessage(destination, message.name, key))

    def refuse_copy(self, destination: Destination, name: str) -> None:
        super().refuse_copy(destination, name)
        self.findings.note(f"{destination} has the message {name} twice; it is there once")

    def _add_unknown(self, collection: int) -> None:
        """Add messages of a collection that is in no log any more to the queues that they were sent to."""
        count = 0
        for entry in self.state.entries(collection):
            message = self._read(entry, f"the collection {collection}")
            destination = None if message is None else message.message.destination
            if message is not None and destination is not None and not destination.is_topic:
                self.apply(AddedMessage(destination, message.name, message.place))
            else:
                count += 1
                if message is not None:
                    self.leave_out(
                        message.place, f"the name of the collection {collection} is gone", destination
                    )
        self.findings.damage(
            self.folder, 0, 0,
            f"the name of the collection {collection} was in a log or an index that is gone: its messages are"
            f" in the queues that they were sent to, and {count} are left out",
        )  # fmt: skip

    def _add_prepared(self, collection: int, xid: XATransactionId) -> None:
        for entry in self.state.entries(collection):
            if entry.acknowledges is None:
                message = self._read(entry, str(xid))
                if message is not None and message.message.destination is not None:
                    self.apply(AddedMessage(message.message.destination, message.name, message.place, xid))
                continue
            queue, number, subscription = entry.acknowledges
            acknowledged = self.state.collections.get(queue)
            if not isinstance(acknowledged, Destination):
                self.findings.damage(
                    self.folder,
                    0,
                    0,
                    f"{xid} acknowledges a message of the collection {queue}, which is gone",
                )
            elif subscription is None:
                self._acknowledge(xid, queue, acknowledged, number)
            else:
                self._acknowledge_up_to(xid, queue, acknowledged, number, subscription)
        self.apply(Ended(xid, Outcome.PREPARED))

    def _acknowledge(self, xid: XATransactionId, queue: int, destination: Destination, number: int) -> None:
        position = self.state.position(queue, number)
        if position is None:
            return
        message = self._read(StoredEntry(number, position, None), destination)
        if message is not None:
            self.apply(AckedMessage(destination, message.name, None, xid))

    def _acknowledge_up_to(
        self, xid: XATransactionId, topic: int, destination: Destination, number: int, subscription: int
    ) -> None:
        done = self.state.acknowledged.get(subscription, 0)
        for entry in self.state.entries(topic):
            if done < entry.number <= number:
                message = self._read(entry, destination)
                if message is not None:
                    self.apply(AckedMessage(destination, message.name, _key(subscription), xid))

    # Messages

    def _read(self, entry: StoredEntry, whose: object) -> _Found | None:
        """Return the message of an entry; report an unreadable one."""
        assert entry.position is not None  # noqa: S101
        try:
            place, content = self.logs.locate(entry.position)
            message = openwire.decode(unpacked(content))
            if message.message_id is None:
                raise CorruptMessage("it has no id")
            return _Found(place, name_of(message.message_id), message)
        except OSError as error:
            reason = f"it cannot be read: {error.strerror}"
        except CorruptMessage as error:
            reason = error.reason
        self.findings.damage(
            *self.logs.place_of(entry.position), 0, f"message {entry.number} of {whose}: {reason}"
        )
        return None


def unpacked(content: bytes) -> bytes:
    """Return a message as it was before its log compressed it, if that is so.

    :raises CorruptMessage: it is damaged
    :raises ConfigurationError: the library that can do it is not installed
    """
    if int.from_bytes(content[:4]) == len(content) - 4:
        return content
    try:
        return snappy.decompress(content)
    except MalformedLog as error:
        raise CorruptMessage(str(error)) from error


def has_index(folder: Path) -> bool:
    """Return whether a folder has an index of a LevelDB store."""
    return next(_names(folder), None) is not None


def _names(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in folder.iterdir():
        name = _INDEX.fullmatch(path.name)
        if name and path.is_dir():
            yield path, name


def _key(subscription: int) -> str:
    return str(subscription)
