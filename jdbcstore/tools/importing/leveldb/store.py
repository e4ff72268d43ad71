"""The replay of one LevelDB store: its last index, and what its logs have from there on, as its broker would.

Two things are done otherwise than there. Removals of collections, and acknowledgements of prepared
transactions, are read from the logs, too, on which ActiveMQ's own recovery stops, or which it loses. And
where there is no index, or it is damaged, the logs are read from the first on; the broker removes those
without messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
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
from jdbcstore.tools.importing.protobuf import MalformedLog
from jdbcstore.tools.importing.replay import BodyPlace, Replay
from jdbcstore.tools.importing.source import BodyFiles, Findings, NothingToImport

_CLOSED = (b":dirty", b"false")
"""The last write of a broker to an index that it is about to copy."""
_INDEX = re.compile(r"([0-9a-f]{16})\.index")


class _Found(NamedTuple):
    """A message that was read."""

    place: BodyPlace
    name: str
    message: Message


class LevelDbStore:
    """One store, replayed into ``replay``.

    :param folder: that of its logs
    :param indexes: that of its index, which may be another one
    :param files: numbers the logs, for the places of bodies
    """

    def __init__(
        self, folder: Path, indexes: Path, replay: Replay, files: BodyFiles, findings: Findings
    ) -> None:
        self.folder = folder
        self._indexes = indexes
        self._replay = replay
        self._files = files
        self._first = len(files.paths)
        self._findings = findings
        self.logs = RecordLogs(folder, files, findings.damage)
        self.numbers = range(self._first, len(files.paths))
        """The numbers of its logs among all files."""
        self._state = LevelDbState()

    def close(self) -> None:
        """Remove what was written for the replay."""
        self._state.close()

    def run(self, progress: Callable[[int], None]) -> None:
        """Replay everything.

        :raises NothingToImport: a folder before has the same messages
        """
        start = self._read_index()
        if self.logs.end() < start:
            self._findings.damage(
                self.logs.logs[-1].path, self.logs.logs[-1].size, 0,
                f"the index was written at the position {start:016x}, and the logs end before",
            )  # fmt: skip
        for unit in self.logs.units(start, progress):
            for record in unit:
                try:
                    self._state.apply(record)
                except (MalformedLog, InvalidDestination) as error:
                    place = self.logs.place_of(record.position)
                    self._findings.damage(*place, len(record.content), str(error))
        self._fill()

    def _read_index(self) -> int:
        """Read the last index; returns the position from which on the logs have to be read."""
        found = sorted((int(name[1], 16), path) for path, name in _names(self._indexes))
        is_complete = self.logs.is_complete()
        if not found:
            if not is_complete:
                self._findings.note(
                    f"{self._indexes} has no index, and logs of {self.folder} are missing, which ActiveMQ"
                    " removes when no message is in them: what was acknowledged there may be there again"
                )
            return self.logs.logs[0].position
        position, path = found[-1]
        before = len(self._findings.damages)
        last = Written(b"", -1, None)
        for written in TableSet(path, self._findings.damage).read():
            self._state.add_indexed(written)
            last = max(last, written, key=lambda one: one.sequence)
        if last[::2] != _CLOSED:
            self._findings.damage(path, 0, 0, "the index does not end with what its broker writes last")
        if len(self._findings.damages) == before:
            self._state.end_index(lambda reason: self._findings.damage(path, 0, 0, reason))
            return position
        if not is_complete:
            self._state.end_index(lambda reason: self._findings.damage(path, 0, 0, reason))
            self._findings.note(
                f"{path} is damaged, and logs of {self.folder} are missing, which ActiveMQ removes when no"
                " message is in them: what was acknowledged there may be there again"
            )
        return self.logs.logs[0].position

    # What is left

    def _fill(self) -> None:
        """Add what is left to the replay: subscriptions, messages in their order, what is in doubt."""
        collections = self._state.collections
        subscriptions: dict[int, dict[str, int]] = {}
        for number, collection in sorted(collections.items()):
            if isinstance(collection, DurableKey):
                self._subscribe(number, collection, subscriptions)
        in_doubt = []
        for number in self._state.entry_collections():
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
        topic = self._state.collections.get(subscription.topic)
        if not isinstance(topic, Destination) or not topic.is_topic:
            self._findings.note(
                f"the subscription {subscription.info.subscription_name} of {subscription.info.client_id} is"
                f" left out: {subscription.info.destination} has been removed"
            )
            return
        key = _key(number)
        self._replay.subscribe(key, subscription.info)
        subscriptions.setdefault(subscription.topic, {})[key] = self._state.acknowledged.get(number, 0)

    def _add_all(self, collection: int, destination: Destination, acknowledged: dict[str, int]) -> None:
        if destination.is_temporary:
            reason = "messages of temporary destinations end with their connections; left out"
            self._findings.note(reason)
            for entry in self._state.entries(collection):
                if (found := self._read(entry, destination)) is not None:
                    self._leave_out(found, reason, destination)
            return
        done = min(acknowledged.values(), default=0)
        for entry in self._state.entries(collection):
            if destination.is_topic and (not acknowledged or entry.number <= done):
                continue
            found = self._read(entry, destination)
            if found is None or not self._add(destination, found):
                continue
            for key, number in acknowledged.items():
                if entry.number <= number:
                    self._replay.acknowledge(destination, found.name, key)

    def _add(self, destination: Destination, found: _Found) -> bool:
        """Add a message; False if there is one of the same id.

        :raises NothingToImport: that is of another folder
        """
        if self._replay.add(destination, found.name, found.place):
            return True
        before = self._replay.find(destination, found.name)
        if before is not None and before.file < self._first:
            other = self._files.paths[before.file].parent
            raise NothingToImport(
                f"{other} and {self.folder} both have the message {found.name} of {destination}: one is a"
                " copy of the other; name the folder that the broker used last"
            )
        self._findings.note(f"{destination} has the message {found.name} twice; it is there once")
        return False

    def _leave_out(self, found: _Found, reason: str, of: object) -> None:
        path, raw = self._files.paths[found.place.file], partial(self.logs.read, found.place)
        self._findings.leave_out(path, found.place.at, raw, reason, of)

    def _add_unknown(self, collection: int) -> None:
        """Add messages of a collection that is in no log any more to the queues that they were sent to."""
        count = 0
        for entry in self._state.entries(collection):
            found = self._read(entry, f"the collection {collection}")
            destination = None if found is None else found.message.destination
            if found is not None and destination is not None and not destination.is_topic:
                self._add(destination, found)
            else:
                count += 1
                if found is not None:
                    self._leave_out(found, f"the name of the collection {collection} is gone", destination)
        self._findings.damage(
            self.folder, 0, 0,
            f"the name of the collection {collection} was in a log or an index that is gone: its messages are"
            f" in the queues that they were sent to, and {count} are left out",
        )  # fmt: skip

    def _add_prepared(self, collection: int, xid: XATransactionId) -> None:
        for entry in self._state.entries(collection):
            if entry.acknowledges is None:
                found = self._read(entry, str(xid))
                if found is not None and found.message.destination is not None:
                    destination = found.message.destination
                    self._replay.add_prepared(xid, destination, found.name, found.place, None)
                continue
            queue, number, subscription = entry.acknowledges
            acknowledged = self._state.collections.get(queue)
            if not isinstance(acknowledged, Destination):
                self._findings.damage(
                    self.folder,
                    0,
                    0,
                    f"{xid} acknowledges a message of the collection {queue}, which is gone",
                )
            elif subscription is None:
                self._acknowledge(xid, queue, acknowledged, number)
            else:
                self._acknowledge_up_to(xid, queue, acknowledged, number, subscription)

    def _acknowledge(self, xid: XATransactionId, queue: int, destination: Destination, number: int) -> None:
        position = self._state.position(queue, number)
        if position is None:
            return
        found = self._read(StoredEntry(number, position, None), destination)
        if found is not None:
            self._replay.remove_prepared(xid, destination, found.name)

    def _acknowledge_up_to(
        self, xid: XATransactionId, topic: int, destination: Destination, number: int, subscription: int
    ) -> None:
        done = self._state.acknowledged.get(subscription, 0)
        for entry in self._state.entries(topic):
            if done < entry.number <= number:
                found = self._read(entry, destination)
                if found is not None:
                    self._replay.remove_prepared(xid, destination, found.name, _key(subscription))

    # Messages

    def _read(self, entry: StoredEntry, whose: object) -> _Found | None:
        """Return the message of an entry; one that cannot be read is reported."""
        assert entry.position is not None  # noqa: S101
        try:
            place, content = self.logs.locate(entry.position)
            message = openwire.decode(unpacked(content))
            if message.message_id is None:
                raise CorruptMessage("it has no id")
            name = f"{message.message_id.producer_id}:{message.message_id.producer_sequence}"
            return _Found(place, name, message)
        except OSError as error:
            reason = f"it cannot be read: {error.strerror}"
        except CorruptMessage as error:
            reason = error.reason
        self._findings.damage(
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


def has_store(folder: Path) -> bool:
    """Return whether a folder has logs of a LevelDB store."""
    return bool(log_paths(folder))


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
