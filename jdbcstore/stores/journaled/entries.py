"""Units of a journaled store: writes that become one entry of the journal, together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import compress
from operator import attrgetter
from typing import Any

from jdbcstore.abc import MessageReference
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.overlay import OVERHEAD, Overlay
from jdbcstore.stores.journaled.records import (
    COMMIT,
    FORGET,
    OPERATE,
    PREPARE,
    ROLLBACK,
    WRITE,
    RecordedWrites,
    blobs_at,
    encode_acknowledgement,
    encode_add,
    encode_operation,
    encode_removal,
    encode_writes,
    encode_xid,
)
from jdbcstore.stores.shared._rows_cy import references
from jdbcstore.stores.shared.audit import with_duplicates
from jdbcstore.stores.shared.encoding import everything
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.futures import Completion

_blob = attrgetter("blob")


class JournalUnit:
    """Writes that become one record, together or not at all; ``result`` makes its result of references."""

    __slots__ = (
        *("chunks", "completion", "cost", "kind", "result"),
        *("sequences", "size", "taken", "writes", "xid"),
    )

    completion: Completion[Any]
    """The caller's future, set by the writer."""
    chunks: Sequence[bytes]
    xid: XATransactionId | None
    cost: int
    """Roughly the bytes in memory that its messages will take."""

    def __init__(
        self,
        writes: RecordedWrites,
        result: Callable[[list[Any]], Any] = everything,
        *,
        kind: int = WRITE,
        xid: XATransactionId | None = None,
        passed: int = 0,
    ) -> None:
        """Start with ``passed``, sequences that no message gets."""
        self.kind = kind
        self.xid = xid
        self.writes = writes
        self.result = result
        self.taken = False
        self.sequences = passed + (len(writes.adds) if kind in (WRITE, COMMIT) else 0)
        chunks: list[bytes] = []
        self.cost = self.size = 0
        if kind == FORGET:
            chunks = [encode_acknowledgement(key) for key, _ in writes.acknowledgements]
            self.size = sum(map(len, chunks))
        elif kind == OPERATE and writes.operation is not None:
            chunks = [encode_operation(writes.operation)]
            self.size = len(chunks[0])
        elif kind != ROLLBACK:
            chunks, self.size = encode_writes(writes)
        if writes.adds:
            self.cost = sum(map(len, map(_blob, writes.adds))) + OVERHEAD * len(writes.adds)
        if xid is not None:
            chunks.insert(0, encode_xid(xid))
            self.size += len(chunks[0])
        self.chunks = chunks

    @property
    def adds(self) -> list[EncodedMessage]:
        return self.writes.adds

    def without_duplicates(self, is_new: Sequence[bool]) -> JournalUnit:
        """Return the unit to write, with the new messages; references of the others have the sequence -1."""
        result, adds, writes = self.result, self.adds, self.writes
        new = replace(writes, adds=[*compress(adds, is_new)])
        if self.kind == PREPARE and not (new.adds or new.removes or new.acknowledgements):
            unit = JournalUnit(new, lambda _: False)
        else:
            unit = JournalUnit(
                new,
                lambda references: result(with_duplicates(adds, is_new, references)),
                kind=self.kind,
                xid=self.xid,
            )
        return self._replaced_by(unit)

    def _replaced_by(self, unit: JournalUnit) -> JournalUnit:
        unit.completion, unit.cost, unit.taken = self.completion, self.cost, True
        return unit

    def apply(self, overlay: Overlay, sequence: int, number: int) -> None:
        """Apply it as the record of this number; the overlay's lock is held."""
        overlay.apply(self.kind, self.xid, self.writes, sequence, number)

    def blobs_at(self) -> Iterable[int]:
        """Offsets in its record of the blobs of messages that get a sequence."""
        return blobs_at(self.adds, self.xid) if self.sequences else ()

    def complete(self, sequence: int) -> None:
        """Set the result for the caller; under no lock."""
        self.completion.set_result(self.result(references(self.adds, sequence)))


class Add(JournalUnit):
    """The most common unit: one message is added. The writer applies consecutive ones together."""

    __slots__ = ("message",)

    kind = WRITE
    sequences = 1

    def __init__(self, message: EncodedMessage) -> None:
        self.chunks, self.size = encode_add(message)
        self.message = message
        self.taken = False
        self.cost = len(message.blob) + OVERHEAD

    @property
    def adds(self) -> list[EncodedMessage]:
        return [self.message]

    def without_duplicates(self, is_new: Sequence[bool]) -> JournalUnit:  # noqa: ARG002
        duplicate = MessageReference(-1, self.message.message_id)
        return self._replaced_by(JournalUnit(RecordedWrites(), lambda _: duplicate))

    def blobs_at(self) -> Iterable[int]:
        return (len(self.chunks[0]),)

    def complete(self, sequence: int) -> None:
        self.completion.set_result(MessageReference(sequence, self.message.message_id))


class Removal(JournalUnit):
    """Messages of one destination are removed, and nothing else."""

    __slots__ = ("container", "removed")

    kind = WRITE
    sequences = 0
    cost = 0

    def __init__(self, container: str, removed: Sequence[int]) -> None:
        self.container = container
        self.removed = removed
        self.taken = False
        chunk = encode_removal(container, removed)
        self.chunks = (chunk,)
        self.size = len(chunk)

    @property
    def adds(self) -> list[EncodedMessage]:
        return []

    def apply(self, overlay: Overlay, _sequence: int, _number: int) -> None:
        overlay.remove(self.container, self.removed)

    def blobs_at(self) -> Iterable[int]:
        return ()

    def complete(self, _sequence: int) -> None:
        self.completion.set_result(None)
