"""A message in the broker's memory, which is also what a consumer gets."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jdbcstore.abc import Transaction
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

if TYPE_CHECKING:
    from jdbcstore.broker.memory import MemoryUsage
    from jdbcstore.broker.queues.concurrent import Writing
    from jdbcstore.broker.subscription import BaseSubscription

_OVERHEAD = 1536
"""Roughly what a message takes in memory beside what is in it."""
ENTRY_SIZE = 512
"""Roughly what one takes whose message is not, or is another's, with what its consumer knows of it."""


class Source(Protocol):
    """Where entries come from: a queue, or what a topic keeps for a subscriber."""

    @property
    def destination(self) -> Destination:
        """Without wildcards."""

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        """They are consumed; done once that is durable."""

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        """Add their acknowledgement to a transaction of the store; False if nothing is to be written."""

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        """What was staged is committed."""

    def reject(self, entries: Sequence[Entry], subscription: BaseSubscription) -> Future[None]:
        """They could not be consumed: redeliver them, or make dead letters of them."""

    def retain(self, entries: Sequence[Entry]) -> None:
        """Their acknowledgement, or their move, has failed: they are to be delivered again."""

    def give_back(self, entries: Sequence[Entry]) -> None:
        """They are nobody's again: deliver them to somebody else, in their place."""

    def given(self, entry: Entry) -> None:
        """A consumer has it, and needs its message no more: what can be had again may be dropped."""

    def has_room(self, subscription: BaseSubscription) -> None:
        """The subscription can take entries which it could not take before."""

    def leave(self, subscription: BaseSubscription) -> None:
        """The subscription is closed. It is called before ``give_back``."""


class Entry:
    """One message of one source; a :class:`jdbcstore.broker.api.Delivery`.

    ``sequence`` orders the entries of a cursor: the store's sequence where the entry is ``stored``,
    else a number that counts. ``holder`` is the subscription it is with.
    """

    __slots__ = (
        "holder",
        "is_hollow",
        "message",
        "redelivered",
        "returned",
        "sequence",
        "shared",
        "size",
        "source",
        "stored",
        "transaction",
        "writing",
    )

    def __init__(
        self,
        message: Message,
        source: Source,
        sequence: int,
        *,
        stored: bool,
        redelivered: bool = False,
        shared: Shared | None = None,
    ) -> None:
        self.message = message
        self.source = source
        self.sequence = sequence
        self.stored = stored
        self.redelivered = redelivered
        self.returned = False
        """Whether it was with a consumer of this broker before."""
        self.shared = shared
        """The message as others have it too: its bytes are counted there, once for all."""
        self.size = size_of(message) if shared is None else ENTRY_SIZE
        self.is_hollow = False
        """Whether its message was dropped: the store has it, or nobody."""
        self.holder: BaseSubscription | None = None
        self.writing: Writing | None = None
        """While it is not known to be stored, though it is with a consumer."""
        self.transaction: Any = None
        """The transaction that acknowledges it, once it is committed."""

    @property
    def destination(self) -> Destination:
        return self.source.destination

    @property
    def whole_size(self) -> int:
        """Bytes of the entry with its message."""
        return self.size if self.shared is None else self.shared.size

    def hollow(self, memory: MemoryUsage) -> None:
        """Drop the message, but for what the broker has to know while a consumer has it."""
        memory.let_go([self])
        message = self.message
        self.message = Message(
            destination=message.destination,
            priority=message.priority,
            persistent=message.persistent,
            expiration_ms=message.expiration_ms,
            redelivery_counter=message.redelivery_counter,
            sequence=message.sequence,
        )
        self.shared, self.size, self.is_hollow = None, ENTRY_SIZE, True
        memory.hold(self)

    def fill(self, message: Message, memory: MemoryUsage) -> None:
        """The message, after :meth:`hollow`, as the store still has it."""
        memory.let_go([self])
        self.message = message.replace(redelivery_counter=self.message.redelivery_counter)
        self.size, self.is_hollow = size_of(self.message), False
        memory.hold(self)

    def redeliver(self) -> None:
        """It comes again: it says so, and counts."""
        self.redelivered = self.returned = True
        self.message = self.message.replace(redelivery_counter=self.message.redelivery_counter + 1)

    def __repr__(self) -> str:
        return f"<Entry {self.sequence} of {self.source.destination}>"


def size_of(message: Message) -> int:
    """Roughly the bytes that a message takes in memory."""
    return message.memory_size + _OVERHEAD


class Shared:
    """A message that many entries have, counted once: while any of them holds it.

    :param among: where those that are stored and held are found by their sequence
    """

    __slots__ = ("_among", "_references", "memory", "message", "sequence", "size")

    def __init__(
        self, message: Message, memory: MemoryUsage, sequence: int | None, among: dict[int, Shared]
    ) -> None:
        self.message = message
        self.sequence = sequence
        self.size = size_of(message)
        self.memory = memory
        self._among = among
        self._references = 0

    def hold(self) -> None:
        self._references += 1
        if self._references == 1:
            self.memory.take(self.size)
            if self.sequence is not None:
                self._among[self.sequence] = self

    def let_go(self) -> None:
        self._references -= 1
        if not self._references:
            if self.sequence is not None:
                self._among.pop(self.sequence, None)
            self.memory.release(self.size)
