"""The bodies of the journal's records: writes as bytes, and back.

Little-endian. A body is a series of operations, each a byte for its kind followed by its fields; records of
XA transactions begin with the transaction's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct, calcsize, pack, unpack_from
from struct import error as StructError  # noqa: N812 - it is an exception class

from jdbcstore.errors import CorruptJournal, StoreError
from jdbcstore.journal.layout import Record
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled._rows_cy import ADDED, read_rows, row_chunks, text_of
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.stores.shared.operations import RecordedOperation
from jdbcstore.stores.shared.rows import EncodedMessage

WRITE, PREPARE, COMMIT, ROLLBACK, FORGET, OPERATE = range(1, 7)
"""Kinds of records. FORGET: a durable subscription was deleted, and its acknowledgements do not count.
OPERATE: an operation, which the backing store has before it gets anything later."""

_ADD, _UPDATE, _REMOVE, _ACKNOWLEDGE, _OPERATION = range(1, 6)
_sequence = Struct("<q")
_remove = Struct("<BII")
"""Operation, length of the container, count."""
_acknowledge = Struct("<BIIII")
"""Operation, lengths of topic, client id and name, count."""
_operation = Struct("<BI")
"""Operation, length of its JSON."""
_xid = Struct("<iBB")
"""Format id, lengths of both parts."""


@dataclass(slots=True)
class RecordedWrites:
    """The writes of one unit of work, with all references resolved."""

    adds: list[EncodedMessage] = field(default_factory=list)
    updates: list[tuple[int, EncodedMessage]] = field(default_factory=list)
    removes: list[tuple[str, Sequence[int]]] = field(default_factory=list)
    """Container and sequences."""
    acknowledgements: list[tuple[SubscriptionKey, Sequence[tuple[int, int]]]] = field(default_factory=list)
    """(sequence, priority) of what each durable subscription has consumed."""
    operation: RecordedOperation | None = None
    """The only content of a record of the kind OPERATE."""


def encode_writes(writes: RecordedWrites) -> tuple[list[bytes], int]:
    """Return the chunks of a body, where each blob is a chunk of its own, and the bytes of all."""
    chunks, size = row_chunks(writes.adds, _ADD)
    if writes.updates or writes.removes or writes.acknowledgements:
        others = _encode_others(writes)
        chunks += others
        size += sum(map(len, others))
    return chunks, size


def _encode_others(writes: RecordedWrites) -> list[bytes]:
    chunks: list[bytes] = []
    for sequence, message in writes.updates:
        chunks += (*row_chunks([message], _UPDATE)[0], _sequence.pack(sequence))
    for container, sequences in writes.removes:
        chunks.append(encode_removal(container, sequences))
    for key, messages in writes.acknowledgements:
        chunks.append(encode_acknowledgement(key, messages))
    return chunks


def encode_add(message: EncodedMessage) -> tuple[list[bytes], int]:
    """As :func:`encode_writes`, for one message that is added."""
    return row_chunks((message,), _ADD)


def blobs_at(adds: Sequence[EncodedMessage], xid: XATransactionId | None) -> Iterator[int]:
    """Yield the offsets of the added messages' blobs in the body of a record."""
    at = 0 if xid is None else len(encode_xid(xid))
    for message in adds:
        at += ADDED.size + len(_bytes(message.container)) + len(_bytes(message.producer))
        yield at
        at += len(message.blob)


def encode_removal(container: str, sequences: Sequence[int]) -> bytes:
    """As :func:`encode_writes`, for messages that are removed."""
    name, count = _bytes(container), len(sequences)
    numbers = _sequence.pack(sequences[0]) if count == 1 else pack(f"<{count}q", *sequences)
    return _remove.pack(_REMOVE, len(name), count) + name + numbers


def encode_acknowledgement(key: SubscriptionKey, messages: Sequence[tuple[int, int]] = ()) -> bytes:
    """Return the messages that a durable subscription has consumed; without any, only the subscription."""
    names = [key.topic.qualified_name.encode(), key.client_id.encode(), key.subscription_name.encode()]
    return b"".join((
        _acknowledge.pack(_ACKNOWLEDGE, *map(len, names), len(messages)),
        *names,
        pack(f"<{len(messages)}q", *(sequence for sequence, _ in messages)),
        pack(f"<{len(messages)}b", *(priority for _, priority in messages)),
    ))  # fmt: skip


def encode_operation(operation: RecordedOperation) -> bytes:
    data = operation.encode()
    return _operation.pack(_OPERATION, len(data)) + data


def encode_xid(xid: XATransactionId) -> bytes:
    globally, branch = xid.global_transaction_id, xid.branch_qualifier
    return _xid.pack(xid.format_id, len(globally), len(branch)) + globally + branch


def decode_record(record: Record) -> tuple[XATransactionId | None, RecordedWrites]:
    """Return the XA transaction that a record belongs to, if any, and its writes.

    :raises CorruptJournal: this version cannot read it
    """
    reader = _Reader(record.body)
    try:
        if not WRITE <= record.kind <= OPERATE:
            raise ValueError(f"there is no kind {record.kind}")
        xid = reader.xid() if PREPARE <= record.kind <= ROLLBACK else None
        return xid, reader.writes()
    except (ValueError, StructError, StoreError) as error:
        raise CorruptJournal(
            f"record {record.number} was not written by this version or an earlier one: {error}; where"
            " another broker is of a later one, upgrade this",
            segment=record.segment,
            offset=record.offset,
        ) from error


def decode_writes(body: bytes) -> RecordedWrites:
    """Return the writes that :func:`encode_writes` encoded; :class:`ValueError` if the body is invalid."""
    try:
        return _Reader(body).writes()
    except StructError as error:
        raise ValueError(str(error)) from error


class _Reader:
    """Reads a body, and checks every length against its size."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def writes(self) -> RecordedWrites:
        writes, body = RecordedWrites(), self._body
        while self._at < len(body):
            operation = body[self._at]
            if operation == _ADD:
                writes.adds += self._messages(_ADD, len(body))
            elif operation == _UPDATE:
                [message] = self._messages(_UPDATE, 1)
                writes.updates.append((self._unpack(_sequence)[0], message))
            elif operation == _REMOVE:
                _, length, count = self._unpack(_remove)
                writes.removes.append((self._string(length), self._numbers("q", count)))
            elif operation == _ACKNOWLEDGE:
                writes.acknowledgements.append(self._acknowledgement())
            elif operation == _OPERATION:
                writes.operation = RecordedOperation.decode(self._take(self._unpack(_operation)[1]))
            else:
                raise ValueError(f"there is no operation {operation}")
        return writes

    def xid(self) -> XATransactionId:
        format_id, of_global, of_branch = self._unpack(_xid)
        return XATransactionId(format_id, self._take(of_global), self._take(of_branch))

    def _messages(self, operation: int, most: int) -> list[EncodedMessage]:
        rows, self._at = read_rows(self._body, self._at, operation, most)
        return rows

    def _acknowledgement(self) -> tuple[SubscriptionKey, list[tuple[int, int]]]:
        _, of_topic, of_client, of_name, count = self._unpack(_acknowledge)
        topic = Destination.parse(self._string(of_topic), DestinationKind.TOPIC)
        key = SubscriptionKey(topic, self._string(of_client), self._string(of_name))
        sequences = self._numbers("q", count)
        return key, list(zip(sequences, self._numbers("b", count), strict=True))

    def _numbers(self, kind: str, count: int) -> tuple[int, ...]:
        # Checked before a format is built from the count, which may be anything.
        if count * calcsize("<" + kind) > len(self._body) - self._at:
            raise ValueError(f"it ends before {count} numbers")
        layout = f"<{count}{kind}"
        numbers = unpack_from(layout, self._body, self._at)
        self._at += calcsize(layout)
        return numbers

    def _unpack(self, struct: Struct) -> tuple[int, ...]:
        fields = struct.unpack_from(self._body, self._at)
        self._at += struct.size
        return fields

    def _string(self, length: int) -> str:
        return text_of(self._take(length))

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._body):
            raise ValueError(f"it ends before {length} bytes")
        taken = self._body[self._at : end]
        self._at = end
        return taken


@lru_cache(maxsize=4096)
def _bytes(string: str) -> bytes:
    return string.encode()
