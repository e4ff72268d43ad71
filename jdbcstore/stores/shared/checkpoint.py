"""What a journal in front of a store needs of it: writes under sequences given before, and a mark.

A journal gives messages their sequences when they are written to it, and long before they are in the
tables, if they ever are. A checkpoint writes what is left of them in several transactions, and may be cut
short after any of them. The mark says how far it came; it is written in the transaction that it speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from jdbcstore.abc import MessageStore, Reference, Store, TopicMessageStore
from jdbcstore.config import StoreConfig
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.encoding import EncodedMessage


@dataclass(frozen=True, slots=True)
class JournalMark:
    """How much of a journal is in the store behind it."""

    journal: int
    """The journal's own number, positive; 0 when no journal has anything that the store has not."""
    applied: int
    """All its records up to this number are in the store."""
    written: int
    """Its messages up to this sequence are in the store, if they are still wanted: those of a checkpoint that
    was not finished, too."""
    referred: int = 0
    """From this sequence on the store may have references to messages in the journal's files; 0: none."""
    store: int = 0
    """The store's own identity, made by chance when first a journal is in front of it; 0: it has none yet, or
    the one that it has stays."""


class SubscriptionKey(NamedTuple):
    topic: Destination
    client_id: str
    subscription_name: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What one transaction of a checkpoint does, together with its mark."""

    mark: JournalMark
    adds: Sequence[tuple[int, EncodedMessage]] = ()
    """Sequence and message, in the order of sequences, all higher than any in the store."""
    updates: Sequence[tuple[int, EncodedMessage]] = ()
    """New contents of messages of the store, by their sequence; one that is gone is left out."""
    removes: Sequence[tuple[str, int]] = ()
    """Container and sequence of messages to remove; one that is gone, or elsewhere, is no error."""
    acknowledgements: Mapping[SubscriptionKey, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """(sequence, priority) of what durable subscriptions have consumed; one that is gone is left out."""
    bodies: Sequence[tuple[int, bytes]] = ()
    """What MSG is to be where the store has a reference; one that is gone is left out."""


FindBody = Callable[[bytes, int, str], bytes]
"""What MSG would be, of the reference that stands there, the sequence and the container.

It raises :class:`CorruptMessage` if it is not where the reference says, and :class:`StoreUnavailable` if that
cannot be read now."""


class Referring(NamedTuple):
    """A message of which the store behind has a reference."""

    sequence: int
    container: str
    reference: bytes


class CheckpointedDestination(MessageStore, Protocol):
    """A destination of a store that can have a journal in front of it."""

    def encode(self, message: Message) -> EncodedMessage:
        """The message's row, checked as :meth:`add_message` checks it.

        :raises InvalidMessage: it cannot be stored
        """
        ...

    def resolve(self, message: Reference, *, with_priority: bool = False) -> list[tuple[int, int]]:
        """(sequence, priority) of every stored message that is meant; a sequence that says so itself need not
        be looked up, and need not be there. The priority is 0 unless asked for."""
        ...

    def present(self, sequences: Sequence[int]) -> dict[int, int]:
        """Of these, those that are stored here and not in doubt, and the bytes of each."""
        ...


class CheckpointedTopic(CheckpointedDestination, TopicMessageStore, Protocol):
    def in_doubt(self) -> set[int]:
        """Messages that a prepared transaction acknowledges for a durable subscription."""
        ...


@runtime_checkable
class CheckpointedStore(Store, Protocol):
    """A store that can have a journal in front of it, and then has no other writer."""

    @property
    def config(self) -> StoreConfig: ...

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    @property
    def audit(self) -> DuplicateAudit | None:
        """What has seen the messages that are stored, with ``enable_audit``; the journal asks it instead."""
        ...

    def queue(
        self, name: str | Destination, *, prioritized: bool | None = None
    ) -> CheckpointedDestination: ...

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> CheckpointedTopic: ...

    def journal_mark(self) -> JournalMark | None:
        """What the last checkpoint has written, None if there never was a journal."""
        ...

    def journal_left(self, journal: int) -> int | None:
        """Up to which record of a journal everything was in the store when another, or none, came in its
        place; None if it never was in front of this store, or still is."""
        ...

    def unsaved(self) -> int | None:
        """Messages from this sequence on are gone when the process ends, whatever was applied; None: what is
        applied outlives it."""
        ...

    def find_bodies(self, find: FindBody) -> None:
        """Where a reference stands in place of a message, readers are given what ``find`` makes of it."""
        ...

    def referring(self, after: int, up_to: int, limit: int) -> list[Referring]:
        """The next messages behind a sequence and up to another of which there is a reference only."""
        ...

    def apply(self, changes: Changes) -> None:
        """Do it all in one transaction, or nothing.

        It may be given again what was done already, by a caller that does not know: messages up to the
        stored mark's ``written`` are not stored a second time, all else is idempotent. From then on the
        store's own sequences are behind ``mark.written``.

        :raises StoreUnavailable: nothing was written
        :raises OutcomeUnknown: it was done, or it was not; give it again
        :raises LockLost: another is the master
        :raises JournalPending: the stored mark is another journal's; a mark with journal 0 ends that one
        """
        ...
