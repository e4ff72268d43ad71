"""Writers of the same commands for the logs of each kind of store."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import (
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    TransactionId,
    XATransactionId,
)
from jdbcstore.message.message import Message
from jdbcstore.message.openwire import encode
from jdbcstore.message.openwire.encoder import encode_structure
from jdbcstore.message.openwire.wire_format import OLD_VERSION, VERSION
from jdbcstore.tools.importing.amq import commands
from jdbcstore.tools.importing.leveldb import logs
from tests.support.importing import writer
from tests.support.importing.writer import PRODUCER, binary, number, varint

LOCAL = LocalTransactionId(ConnectionId("ID:written"), 1)
XID = XATransactionId(86, b"global", b"branch")


class LogWriter:
    """The log of one store. The n-th message has the number n in its id, and the body ``body n``.

    :param folder: that of the store
    """

    SCHEME: ClassVar[str]
    APART: ClassVar[str]
    """The name of a folder in which there is no store."""
    COUNTED: ClassVar[tuple[str, str]]
    """The facts that count files and records."""
    MARK: ClassVar[bytes]
    """The bytes with which the record of a message begins, or which follow soon."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[list[bytes]] = [[]]

    def send(self, name: str, n: int, transaction: TransactionId | None = None, sent_ms: int = 1) -> None:
        raise NotImplementedError

    def receive(self, name: str, n: int, transaction: TransactionId | None = None) -> None:
        """Acknowledge a message; of a topic, for the subscription ``s`` of the client ``c``."""
        raise NotImplementedError

    def subscribe(self, topic: str, name: str = "s") -> None:
        """Create a subscription of the client ``c``."""
        raise NotImplementedError

    def prepare(self, transaction: TransactionId) -> None:
        raise NotImplementedError

    def commit(self, transaction: TransactionId) -> None:
        raise NotImplementedError

    def roll_back(self, transaction: TransactionId) -> None:
        raise NotImplementedError

    def next_file(self) -> None:
        """Continue in another file."""
        self.files.append([])

    def write(self) -> list[Path]:
        """Write the files; returns them."""
        raise NotImplementedError


class KahaDbWriter(LogWriter):
    SCHEME, APART, COUNTED = "kahadb", "data-archive", ("logs", "commands")
    MARK = b"WRITE BATCH"

    def send(self, name: str, n: int, transaction: TransactionId | None = None, sent_ms: int = 1) -> None:
        self._add(writer.add(name, n, transaction=_known(transaction), sent_ms=sent_ms))

    def receive(self, name: str, n: int, transaction: TransactionId | None = None) -> None:
        key = "c:s" if Destination.parse(name).is_topic else None
        self._add(writer.remove(name, n, key, _known(transaction)))

    def subscribe(self, topic: str, name: str = "s") -> None:
        self._add(writer.subscribe(topic, "c", name))

    def prepare(self, transaction: TransactionId) -> None:
        self._add(writer.outcome(3, _known(transaction)))

    def commit(self, transaction: TransactionId) -> None:
        self._add(writer.outcome(4, _known(transaction)))

    def roll_back(self, transaction: TransactionId) -> None:
        self._add(writer.outcome(5, _known(transaction)))

    def write(self) -> list[Path]:
        return [writer.write_log(self.folder, n, records) for n, records in enumerate(self.files, 1)]

    def _add(self, command: bytes) -> None:
        self.files[-1].append(command)


def _known(transaction: TransactionId | None) -> writer.Transaction:
    if isinstance(transaction, LocalTransactionId):
        return str(transaction.connection_id), transaction.value
    return transaction


class AmqWriter(LogWriter):
    SCHEME, APART, COUNTED = "amq", "archive", ("files", "commands")
    MARK = b"SOR"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.deleted: list[tuple[str, str]] = []
        """Subscriptions of the client ``c`` that the reference store had: the topic and the name."""

    def send(self, name: str, n: int, transaction: TransactionId | None = None, sent_ms: int = 1) -> None:
        message = Message(
            f"body {n}", destination=Destination.parse(name), message_id=MessageId(PRODUCER, n),
            transaction_id=transaction, timestamp_ms=1, broker_in_time_ms=sent_ms,
        )  # fmt: skip
        self._record(encode(message, version=OLD_VERSION))

    def receive(self, name: str, n: int, transaction: TransactionId | None = None) -> None:
        place, name_ = _nested(Destination.parse(name)), _nested(MessageId(PRODUCER, n))
        if Destination.parse(name).is_topic:
            names = _string("s") + _string("c")
            self._command(50, place + name_ + struct.pack(">q", 1) + names + _nested(transaction))
            return
        head = struct.pack(">BBi?", 1, 22, 0, False)
        consumer = _nested(ConsumerId("ID:written", 1, 1))
        ack = head + place + _nested(transaction) + consumer + b"\2" + name_ + name_
        self._command(52, place + ack + struct.pack(">i", 1))

    def subscribe(self, topic: str, name: str = "s") -> None:
        self._record(writer.subscription(topic, "c", name))

    def prepare(self, transaction: TransactionId) -> None:
        self.end(commands.PREPARE, transaction)

    def commit(self, transaction: TransactionId) -> None:
        is_local = isinstance(transaction, LocalTransactionId)
        self.end(commands.LOCAL_COMMIT if is_local else commands.XA_COMMIT, transaction)

    def roll_back(self, transaction: TransactionId) -> None:
        is_local = isinstance(transaction, LocalTransactionId)
        self.end(commands.LOCAL_ROLLBACK if is_local else commands.XA_ROLLBACK, transaction)

    def end(self, how: int, transaction: TransactionId) -> None:
        """Prepare, commit or roll back, as ``how`` says."""
        self._command(54, _nested(transaction) + bytes((how, 0)))

    def write(self) -> list[Path]:
        journal = self.folder / "journal"
        journal.mkdir(parents=True)
        (journal / "data-control").write_bytes(b"")
        state = self.folder / "kr-store" / "state"
        state.mkdir(parents=True)
        (state / "index-kaha").write_bytes(struct.pack(">2s?qqiqiiqi", b"zU", False, *[-1] * 8))
        infos = [writer.subscription(topic, "c", name) for topic, name in self.deleted]
        values = (struct.pack(">bii", 1, len(info) + 4, len(info)) + info for info in infos)
        (state / "data-kaha-1").write_bytes(b"".join(values))
        paths = [journal / f"data-{n}" for n, _ in enumerate(self.files, 1)]
        for path, records in zip(paths, self.files, strict=True):
            path.write_bytes(b"".join(records))
        return paths

    def _command(self, kind: int, fields: bytes) -> None:
        self._record(struct.pack(">iB", 1 + len(fields), kind) + fields)

    def _record(self, command: bytes) -> None:
        head = struct.pack(">ib21s3s", len(command) + 32, 1, bytes(21), b"SOR")
        self.files[-1].append(head + command + b"EOR")


def _nested(structure: Any) -> bytes:
    return encode_structure(structure, OLD_VERSION)


def _string(value: str) -> bytes:
    return b"\1" + struct.pack(">H", len(value)) + value.encode()


class LevelDbWriter(LogWriter):
    """A store keeps what a transaction changes until its outcome, or in a collection once it is prepared."""

    SCHEME, APART, COUNTED = "leveldb", "stash", ("logs", "records")
    MARK = bytes((ord("*"), logs.DATA))
    _QUEUE, _TOPIC, _TRANSACTION, _SUBSCRIPTION = range(1, 5)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._position = self._begun = 0
        self._starts = [0]
        self._collections: dict[object, int] = {}
        self._keys, self._sequence = itertools.count(1), itertools.count(1)
        self._numbers: dict[tuple[str, int], int] = {}
        """The entries of messages by destination and number."""
        self._open: dict[TransactionId, list[Callable[[], None]]] = {}
        self._entries: dict[TransactionId, list[bytes]] = {}

    def send(self, name: str, n: int, transaction: TransactionId | None = None, sent_ms: int = 1) -> None:
        content = writer.body(name, n, sent_ms=sent_ms)
        position = self._record(logs.DATA, content)
        meta = number(3, position) + number(4, len(content))
        if transaction is None:
            self._add(name, n, meta)
            return
        self._end()
        self._open.setdefault(transaction, []).append(lambda: self._add(name, n, meta))
        self._entries.setdefault(transaction, []).append(meta)

    def _add(self, name: str, n: int, meta: bytes) -> None:
        entry = self._numbers[name, n] = next(self._sequence)
        self._entry(self._collection(name), entry, meta)
        self._end()

    def receive(self, name: str, n: int, transaction: TransactionId | None = None) -> None:
        if transaction is None:
            self._remove(name, n)
            return
        self._open.setdefault(transaction, []).append(lambda: self._remove(name, n))
        subscription = self._collections.get((name, "s"), -1)
        fields = (0, 0, self._collection(name), self._numbers[name, n], subscription)
        self._entries.setdefault(transaction, []).append(binary(6, struct.pack(">qiqqq", *fields)))

    def _remove(self, name: str, n: int) -> None:
        entry = self._numbers[name, n]
        if Destination.parse(name).is_topic:
            key = binary(2, b"p") + number(3, entry)
            self._record(logs.ADD_ENTRY, number(1, self._collections[name, "s"]) + key)
        else:
            fields = number(1, self._collection(name)) + binary(2, struct.pack(">q", entry))
            self._record(logs.REMOVE_ENTRY, fields)
        self._end()

    def subscribe(self, topic: str, name: str = "s") -> None:
        names = binary(2, "c") + binary(3, name) + binary(5, topic)
        key = self._new((topic, name), self._SUBSCRIPTION, number(1, self._collection(topic)) + names)
        before = max((entry for (of, _), entry in self._numbers.items() if of == topic), default=0)
        self._record(logs.ADD_ENTRY, number(1, key) + binary(2, b"p") + number(3, before))
        self._end()

    def prepare(self, transaction: TransactionId) -> None:
        if transaction in self._collections:
            return
        xid = bytes(4) + encode_structure(transaction, VERSION)[1:]
        collection = self._new(transaction, self._TRANSACTION, xid)
        for n, fields in enumerate(self._entries.get(transaction, ()), 1):
            self._entry(collection, n, fields)
        self._end()

    def commit(self, transaction: TransactionId) -> None:
        self._forget(transaction)
        for change in self._open.pop(transaction, ()):
            change()

    def roll_back(self, transaction: TransactionId) -> None:
        self._forget(transaction)
        self._open.pop(transaction, None)

    def _forget(self, transaction: TransactionId) -> None:
        collection = self._collections.pop(transaction, None)
        if collection is not None:
            self._record(logs.REMOVE_COLLECTION, varint(collection))
            self._end()

    def next_file(self) -> None:
        super().next_file()
        self._starts.append(self._position)

    def write(self) -> list[Path]:
        self.folder.mkdir(parents=True)
        paths = [self.folder / f"{start:016x}.log" for start in self._starts]
        for path, records in zip(paths, self.files, strict=True):
            path.write_bytes(b"".join(records))
        return paths

    def _collection(self, name: str) -> int:
        known = self._collections.get(name)
        if known is not None:
            return known
        return self._new(
            name, self._TOPIC if Destination.parse(name).is_topic else self._QUEUE, name.encode()
        )

    def _new(self, of: object, kind: int, meta: bytes) -> int:
        key = self._collections[of] = next(self._keys)
        self._record(logs.ADD_COLLECTION, number(1, key) + number(2, kind) + binary(3, meta))
        return key

    def _entry(self, collection: int, entry: int, fields: bytes) -> None:
        self._record(logs.ADD_ENTRY, number(1, collection) + binary(2, struct.pack(">q", entry)) + fields)

    def _record(self, kind: int, content: bytes) -> int:
        position = self._position
        record = struct.pack(">cBII", b"*", kind, zlib.crc32(content), len(content)) + content
        self.files[-1].append(record)
        self._position += len(record)
        return position

    def _end(self) -> None:
        self._record(logs.END, struct.pack(">q", self._begun))
        self._begun = self._position


WRITERS = (KahaDbWriter, LevelDbWriter, AmqWriter)
