"""Records that are to be written, each with whom to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from jdbcstore.abc import MessageReference
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.layers import OVERHEAD
from jdbcstore.stores.journaled.operations import (
    COMMIT,
    FORGET,
    ROLLBACK,
    WRITE,
    Writes,
    blobs_at,
    encode_acknowledgement,
    encode_add,
    encode_removal,
    encode_writes,
    encode_xid,
)
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.shared.units import Completion, EncodedMessage, everything


class Unit:
    """What is written together or not at all; ``result`` makes its result of the references."""

    __slots__ = (
        *("adds", "chunks", "completion", "cost", "kind", "passed"),
        *("result", "sequences", "size", "taken", "writes", "xid"),
    )

    completion: Completion[Any]
    """Set by the writer."""
    adds: list[EncodedMessage]
    """Those of ``writes``, until the audit has left some out."""
    chunks: Sequence[bytes]

    def __init__(
        self,
        writes: Writes,
        result: Callable[[list[Any]], Any] = everything,
        *,
        kind: int = WRITE,
        xid: XATransactionId | None = None,
    ) -> None:
        self.kind = kind
        self.xid = xid
        self.writes = writes
        self.adds = writes.adds
        self.result = result
        self.passed = 0
        """Sequences that nobody gets."""
        self.taken = False

    def encoded(self) -> Self:
        """Itself with its record, now that it is known what it writes."""
        writes, kind = self.writes, self.kind
        writes.adds = self.adds
        self.sequences = self.passed + (len(writes.adds) if kind in (WRITE, COMMIT) else 0)
        self.cost = sum(len(message.blob) + OVERHEAD for message in writes.adds)
        chunks = [] if self.xid is None else [encode_xid(self.xid)]
        if kind == FORGET:
            chunks += [encode_acknowledgement(key) for key, _ in writes.acknowledgements]
        elif kind != ROLLBACK:
            chunks += encode_writes(writes)
        self.chunks = chunks
        self.size = sum(map(len, chunks))
        return self

    def apply(self, overlay: Overlay, sequence: int, number: int) -> None:
        """It is written, as the record of this number; the overlay's lock is held."""
        overlay.take(self.kind, self.xid, self.writes, sequence, number)

    def blobs_at(self) -> Iterable[int]:
        """Where in its record the blob of each message begins that gets a sequence."""
        return blobs_at(self.adds, self.xid) if self.sequences else ()

    def complete(self, sequence: int) -> None:
        """Tell the caller, under no lock."""
        added = enumerate(self.adds, sequence)
        self.completion.set_result(
            self.result([MessageReference(number, message.message_id) for number, message in added])
        )


class Add(Unit):
    """The usual one: a message is added, and nothing else."""

    __slots__ = ("head", "message")

    kind = WRITE
    sequences = 1

    def __init__(self, message: EncodedMessage) -> None:
        self.head, blob = encode_add(message)
        size = len(blob)
        self.message = message
        self.taken = False
        self.cost = size + OVERHEAD
        self.size = len(self.head) + size

    @property
    def chunks(self) -> tuple[bytes, bytes]:  # type: ignore[override]
        return self.head, self.message.blob

    @property
    def adds(self) -> list[EncodedMessage]:  # type: ignore[override]
        return [self.message]

    def apply(self, overlay: Overlay, sequence: int, _number: int) -> None:
        overlay.active.add(sequence, self.message)
        overlay.last_sequence = sequence

    def blobs_at(self) -> Iterable[int]:
        return (len(self.head),)

    def complete(self, sequence: int) -> None:
        self.completion.set_result(MessageReference(sequence, self.message.message_id))


class Removal(Unit):
    """The usual end of one: messages of a destination are removed, and nothing else."""

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
    def adds(self) -> list[EncodedMessage]:  # type: ignore[override]
        return []

    def apply(self, overlay: Overlay, _sequence: int, _number: int) -> None:
        overlay.remove(self.container, self.removed)

    def blobs_at(self) -> Iterable[int]:
        return ()

    def complete(self, _sequence: int) -> None:
        self.completion.set_result(None)
