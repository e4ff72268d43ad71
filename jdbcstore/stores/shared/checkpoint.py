"""The contract between a journal and its backing store: checkpoints, and the mark of their progress.

A journal assigns sequences when messages are written to it, long before they are in the tables, if they ever
are. A checkpoint writes the remaining messages in several transactions, and may be interrupted after any of
them. The mark says how far it came, and is written in the same transaction as the changes it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from jdbcstore.abc import MessageStore, Reference, Store, TopicMessageStore
from jdbcstore.config import StoreConfig
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.operations import RecordedOperation
from jdbcstore.stores.shared.rows import EncodedMessage


@dataclass(frozen=True, slots=True)
class JournalMark:
    """A mark of how much of a journal is in its backing store."""

    journal: int
    """The number of the journal, positive; 0 if no journal has records that the store lacks."""
    applied: int
    """All records of the journal up to this number are in the store."""
    written: int
    """Messages up to this sequence are in the store unless they were removed, including those of a checkpoint
    that did not finish."""
    referred: int = 0
    """From this sequence on, the store may have references to bodies in the journal's files; 0: none."""
    store: int = 0
    """The identity of the store, a random number chosen by its first journal; 0: it has none yet, or keeps
    the one it has."""
    writer: int = 0
    """The process that wrote the record ``applied``, by its number in the stream that several databases
    follow; 0: that is not known, or it is the same as before."""


class SubscriptionKey(NamedTuple):
    topic: Destination
    client_id: str
    subscription_name: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one transaction of a checkpoint, with its mark."""

    mark: JournalMark
    adds: Sequence[tuple[int, EncodedMessage]] = ()
    """Sequence and message, in the order of sequences, all higher than any in the store."""
    updates: Sequence[tuple[int, EncodedMessage]] = ()
    """New contents of stored messages, by sequence; missing ones are skipped."""
    removes: Sequence[tuple[str, int]] = ()
    """Container and sequence of messages to remove; missing and moved ones are skipped."""
    acknowledgements: Mapping[SubscriptionKey, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """(sequence, priority) of messages consumed by durable subscriptions; missing ones are skipped."""
    bodies: Sequence[tuple[int, bytes]] = ()
    """New values of MSG where the store has a reference; a message that is gone is skipped."""
    operation: RecordedOperation | None = None
    """An operation that follows all that; it is done once, as the mark shows."""


FindBody = Callable[[bytes, int, str], bytes]
"""Resolves the reference in MSG to its value, given the sequence and the container.

It raises :class:`CorruptMessage` if the journal does not have it there, and :class:`StoreUnavailable` if the
journal cannot be read now."""


class Referring(NamedTuple):
    """A message of which the backing store has only a reference."""

    sequence: int
    container: str
    reference: bytes


class CheckpointedDestination(MessageStore, Protocol):
    """A destination of a store that can have a journal in front of it."""

    def encode(self, message: Message, /) -> EncodedMessage:
        """Return the message's row, checked as :meth:`add_message` checks it.

        :raises InvalidMessage: it cannot be stored
        """

    def encode_all(self, messages: Iterable[Message], /) -> list[EncodedMessage]:
        """As :meth:`encode`, of messages that are stored together."""

    def resolve(self, message: Reference, *, with_priority: bool = False) -> list[tuple[int, int]]:
        """(sequence, priority) of every message that a reference identifies.

        A sequence is not necessarily looked up, and may be gone. The priority is 0 unless asked for.
        """

    def present(self, sequences: Sequence[int]) -> dict[int, int]:
        """Return the size in bytes of each of these messages that is stored here and not in doubt."""


class CheckpointedTopic(CheckpointedDestination, TopicMessageStore, Protocol):
    def in_doubt(self) -> set[int]:
        """Messages that a prepared transaction acknowledges for a durable subscription."""


@runtime_checkable
class CheckpointedStore(Store, Protocol):
    """A store that can be the backing store of a journal, which is then its only writer."""

    @property
    def config(self) -> StoreConfig:
        """The options of the store."""

    @property
    def place(self) -> str:
        """Its location, for messages to people."""

    @property
    def audit(self) -> DuplicateAudit | None:
        """The ids of stored messages, for the journal to check; None without ``enable_audit``."""

    def queue(
        self, name: str | Destination, *, prioritized: bool | None = None
    ) -> CheckpointedDestination: ...

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> CheckpointedTopic: ...

    def drop_record(self, queue: Destination) -> None:
        """Undo ``record_queue``, if that was called."""

    def journal_mark(self) -> JournalMark | None:
        """Return the mark of the last checkpoint; None if there never was a journal."""

    def journal_left(self, journal: int) -> int | None:
        """Return the last record that was applied of a journal when it was detached from this store.

        None if it never was in front of this store, or still is.
        """

    def begin_journal(self) -> None:
        """Have nothing take effect any more that an earlier process has sent and that is not there yet.

        Call it once the journal's directory is locked, before you read the offset or anything else that the
        process may have changed. Its transactions under way are waited for.

        :raises StoreUnavailable: it is still under way after ``reconnect_timeout``
        :raises NotMaster: messages are being claimed in the tables
        """

    def consumed_by_all(self) -> Iterator[tuple[str, list[int]]]:
        """Yield messages that all subscriptions of their topic have consumed: container and sequences."""

    def unsaved(self) -> int | None:
        """Messages from this sequence on are lost when the process ends; None if applying is durable."""

    def find_bodies(self, find: FindBody) -> None:
        """Have readers resolve references with ``find``."""

    def referring(self, after: int, up_to: int, limit: int) -> list[Referring]:
        """Return the next messages after a sequence, up to another, of which there is only a reference."""

    def apply(self, changes: Changes) -> None:
        """Apply all changes in one transaction, or none.

        It may be called again with changes that were applied: messages up to the stored mark's ``written``
        are not stored a second time, and everything else is idempotent. Afterwards the store assigns
        sequences only after ``mark.written``.

        :raises StoreUnavailable: nothing was written
        :raises OutcomeUnknown: it was applied, or it was not; apply it again
        :raises LockLost: another process is the master, or has begun with the journal since
        :raises JournalPending: the stored mark is another journal's; a mark with journal 0 ends that one
        """
