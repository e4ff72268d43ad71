"""Records that are to be written, each with whom to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from jdbcstore.abc import MessageReference
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.layers import OVERHEAD
from jdbcstore.stores.journaled.operations import (
    COMMIT,
    FORGET,
    PREPARE,
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
from jdbcstore.stores.shared.audit import with_duplicates
from jdbcstore.stores.shared.encoding import EncodedMessage, everything
from jdbcstore.util.futures import Completion


class Unit:
    """What is written together or not at all; ``result`` makes its result of the references."""

    __slots__ = (
        *("chunks", "completion", "cost", "kind", "result"),
        *("sequences", "size", "taken", "writes", "xid"),
    )

    completion: Completion[Any]
    """Set by the writer."""
    chunks: Sequence[bytes]
    xid: XATransactionId | None
    cost: int
    """Bytes in memory, roughly, that its messages will take."""

    def __init__(
        self,
        writes: Writes,
        result: Callable[[list[Any]], Any] = everything,
        *,
        kind: int = WRITE,
        xid: XATransactionId | None = None,
        passed: int = 0,
    ) -> None:
        """``passed``: sequences that no message gets."""
        self.kind = kind
        self.xid = xid
        self.writes = writes
        self.result = result
        self.taken = False
        self.sequences = passed + (len(writes.adds) if kind in (WRITE, COMMIT) else 0)
        self.cost = sum(len(message.blob) + OVERHEAD for message in writes.adds)
        chunks = [] if self.xid is None else [encode_xid(self.xid)]
        if kind == FORGET:
            chunks += [encode_acknowledgement(key) for key, _ in writes.acknowledgements]
        elif kind != ROLLBACK:
            chunks += encode_writes(writes)
        self.chunks = chunks
        self.size = sum(map(len, chunks))

    @property
    def adds(self) -> list[EncodedMessage]:
        return self.writes.adds

    def without_duplicates(self, is_new: Sequence[bool]) -> Unit:
        """What is written in its place if only these of its messages are new; references of the others have
        the sequence -1."""
        result, adds, writes = self.result, self.adds, self.writes
        new = replace(writes, adds=[*compress(adds, is_new)])
        if self.kind == PREPARE and not (new.adds or new.removes or new.acknowledgements):
            unit = Unit(new, lambda _: False)
        else:
            unit = Unit(
                new,
                lambda references: result(with_duplicates(adds, is_new, references)),
                kind=self.kind,
                xid=self.xid,
            )
        return self._replaced_by(unit)

    def _replaced_by(self, unit: Unit) -> Unit:
        unit.completion, unit.cost, unit.taken = self.completion, self.cost, True
        return unit

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
    def adds(self) -> list[EncodedMessage]:
        return [self.message]

    def without_duplicates(self, is_new: Sequence[bool]) -> Unit:  # noqa: ARG002
        duplicate = MessageReference(-1, self.message.message_id)
        return self._replaced_by(Unit(Writes(), lambda _: duplicate))

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
    def adds(self) -> list[EncodedMessage]:
        return []

    def apply(self, overlay: Overlay, _sequence: int, _number: int) -> None:
        overlay.remove(self.container, self.removed)

    def blobs_at(self) -> Iterable[int]:
        return ()

    def complete(self, _sequence: int) -> None:
        self.completion.set_result(None)
