"""The collections of a LevelDB store and their entries, in a private SQLite file; positions, not bodies.

A collection is a queue, a topic, a durable subscription, or a prepared transaction. An entry of a queue or a
topic is the position of a message, in the order of their numbers; one of a transaction, that of a message
that it adds, or a reference to the entry that it acknowledges. A subscription has one entry: up to which
number of its topic it has acknowledged.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jdbcstore.abc import SubscriptionInfo
from jdbcstore.database.statements import leveldb as sql
from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.openwire.decoder import Reader
from jdbcstore.message.openwire.wire_format import VERSION, XA_TRANSACTION_ID
from jdbcstore.message.openwire.wire_format import Malformed as NotOpenWire
from jdbcstore.tools.importing.leveldb import logs
from jdbcstore.tools.importing.leveldb.logs import LogRecord
from jdbcstore.tools.importing.leveldb.tables import Written
from jdbcstore.tools.importing.protobuf import BYTES, VARINT, FieldReader, MalformedLog, read_varint
from jdbcstore.tools.importing.replay import PrivateFile

_QUEUE, _TOPIC, _TRANSACTION, _SUBSCRIPTION = range(1, 5)
_POSITION = b"p"
_LONG = struct.Struct(">q")
_ACKNOWLEDGED = struct.Struct(">qiqqq")
_NOBODY = -1
_COLLECTION_KEY, _ENTRY_KEY = ord("c"), ord("e")


def _keys(*fields: tuple[int, int]) -> tuple[int, ...]:
    return tuple(number << 3 | kind for number, kind in fields)


_OF_COLLECTION = _keys((1, VARINT), (2, VARINT), (3, BYTES))
_OF_ENTRY = _keys((1, VARINT), (2, BYTES), (3, VARINT), (4, VARINT), (6, BYTES))
_OF_SUBSCRIPTION = _keys((1, VARINT), *((number, BYTES) for number in range(2, 7)))


class DurableKey(NamedTuple):
    """A durable subscription to the topic of a collection."""

    topic: int
    info: SubscriptionInfo


Collection = Destination | DurableKey | XATransactionId


class StoredEntry(NamedTuple):
    """An entry of a queue, a topic or a transaction."""

    number: int
    position: int | None
    """Of its message; None if it acknowledges one."""
    acknowledges: Acknowledged | None


class Acknowledged(NamedTuple):
    """An acknowledgement by a prepared transaction: of a queue's entry, or a topic's for a subscription."""

    collection: int
    number: int
    subscription: int | None


class LevelDbState(PrivateFile):
    """Collections and entries."""

    def __init__(self) -> None:
        super().__init__(sql.STATE_TABLES)
        self.collections: dict[int, Collection] = {}
        self.acknowledged: dict[int, int] = {}
        """The number up to which each subscription has acknowledged."""

    # The index

    def add_indexed(self, written: Written) -> None:
        """Add the index's value of a key, unless a newer one is known."""
        if written.key[:1] in b"ce":
            self._run(sql.ADD_INDEXED, written)

    def end_index(self, damaged: Callable[[str], None]) -> None:
        """Make collections and entries of the index."""
        for key, value in self._database.execute(sql.FIND_INDEXED):
            try:
                if len(key) < 9:
                    raise MalformedLog("its key is too short", 0)
                collection = _LONG.unpack_from(key, 1)[0]
                if key[0] == _COLLECTION_KEY:
                    self.collections[collection] = _read_collection(value)[1]
                else:
                    self._set(collection, key[9:], FieldReader(value, (0, len(value))))
            except (MalformedLog, InvalidDestination) as error:
                damaged(f"the entry {key.hex()} of the index: {error}")
        self._run(sql.REMOVE_INDEXED)

    # The logs

    def apply(self, record: LogRecord) -> None:
        """Apply a record.

        :raises MalformedLog: its content is not what its kind says
        """
        content = record.content
        match record.kind:
            case logs.ADD_COLLECTION:
                key, collection = _read_collection(content)
                self.collections[key] = collection
            case logs.REMOVE_COLLECTION:
                key, end = read_varint(content, 0, len(content))
                if end != len(content):
                    raise MalformedLog("more bytes follow the number of the collection", end)
                self._remove_collection(key)
            case logs.ADD_ENTRY | logs.UPDATE_ENTRY | logs.REMOVE_ENTRY:
                fields = FieldReader(content, (0, len(content)))
                fields.only(*_OF_ENTRY)
                self._change(record.kind, fields.number(1), fields.binary(2), fields)
            case logs.DATA:
                if len(content) < _LEAST_MESSAGE:
                    raise MalformedLog("it is too short for a message", 0)
            case logs.TRACE:
                if not content.isascii() or b"\0" in content:
                    raise MalformedLog("it is not a string", 0)

    def _remove_collection(self, key: int) -> None:
        self._run(sql.REMOVE_COLLECTION, (key,))
        self.collections.pop(key, None)
        self.acknowledged.pop(key, None)

    def _change(self, kind: int, collection: int, key: bytes, fields: FieldReader) -> None:
        if kind != logs.REMOVE_ENTRY:
            self._set(collection, key, fields)
            return
        if len(key) != _LONG.size:
            raise MalformedLog("it removes an entry without a number", 0)
        self._run(sql.REMOVE_ENTRY, (collection, _LONG.unpack(key)[0]))

    def _set(self, collection: int, key: bytes, fields: FieldReader) -> None:
        """Keep an entry of a collection."""
        if key == _POSITION:
            self.acknowledged[collection] = fields.number(3, 0)
            return
        if len(key) != _LONG.size:
            raise MalformedLog("an entry has no number", 0)
        meta = fields.binary(6) if fields.span(6) is not None else None
        size = fields.number(4, -1)
        if size < 0 and (meta is None or len(meta) < _ACKNOWLEDGED.size):
            raise MalformedLog("an entry has no message", 0)
        self._run(sql.SET_ENTRY, (collection, _LONG.unpack(key)[0], fields.number(3, 0), size, meta))

    # The remaining messages

    def entry_collections(self) -> list[int]:
        """Return the collections that have entries, in their order."""
        return [collection for (collection,) in self._run(sql.FIND_COLLECTIONS)]

    def entries(self, collection: int) -> Iterator[StoredEntry]:
        """Yield the entries of a collection in their order."""
        for number, at, size, meta in self._database.execute(sql.FIND_ENTRIES, (collection,)):
            if size >= 0:
                yield StoredEntry(number, at, None)
            else:
                _, _, queue, of_queue, subscription = _ACKNOWLEDGED.unpack_from(meta)
                key = None if subscription == _NOBODY else subscription
                yield StoredEntry(number, None, Acknowledged(queue, of_queue, key))

    def position(self, collection: int, number: int) -> int | None:
        """Return where the message of an entry is; None if there is no such entry."""
        row = self._run(sql.FIND_ENTRY, (collection, number)).fetchone()
        return None if row is None else int(row[0])


_LEAST_MESSAGE = 24
"""Less than the headers of a message have, compressed."""


def _read_collection(content: bytes) -> tuple[int, Collection]:
    fields = FieldReader(content, (0, len(content)))
    fields.only(*_OF_COLLECTION)
    kind, meta = fields.number(2), fields.binary(3)
    try:
        if kind in (_QUEUE, _TOPIC):
            wanted = DestinationKind.QUEUE if kind == _QUEUE else DestinationKind.TOPIC
            return fields.number(1), Destination.parse(fields.string(3), wanted)
        if kind == _TRANSACTION:
            return fields.number(1), _read_xid(meta)
        if kind == _SUBSCRIPTION:
            return fields.number(1), _read_subscription(meta)
    except (InvalidDestination, NotOpenWire, IndexError, struct.error) as error:
        raise MalformedLog(f"a collection cannot be decoded: {error}", 0) from error
    raise MalformedLog(f"there is no collection of type {kind}", 0)


def _read_xid(blob: bytes) -> XATransactionId:
    if len(blob) < 5 or blob[4] != XA_TRANSACTION_ID:
        raise MalformedLog("it is not an XATransactionId", 0)
    reader = Reader(b"\1" + blob[4:], 0, VERSION)
    xid = reader.transaction_id()
    if not isinstance(xid, XATransactionId) or reader.at != len(reader.data):
        raise MalformedLog("it is not an XATransactionId", 0)
    return xid


def _read_subscription(meta: bytes) -> DurableKey:
    fields = FieldReader(meta, (0, len(meta)))
    fields.only(*_OF_SUBSCRIPTION)

    def optional(number: int) -> str | None:
        return fields.string(number) if fields.span(number) is not None else None

    destination, subscribed = optional(5), optional(6)
    name = destination or subscribed
    if name is None:
        raise MalformedLog("a subscription has no topic", 0)
    topic = Destination.parse(name, DestinationKind.TOPIC)
    info = SubscriptionInfo(
        fields.string(2), fields.string(3), topic,
        Destination.parse(subscribed or name, DestinationKind.TOPIC), optional(4),
    )  # fmt: skip
    return DurableKey(fields.number(1), info)
