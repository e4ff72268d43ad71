"""A message in the broker's memory, which is also what a consumer gets."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jdbcstore.abc import Transaction
from jdbcstore.destination import Destination
from jdbcstore.message import Message

if TYPE_CHECKING:
    from jdbcstore.broker.concurrent import Writing
    from jdbcstore.broker.subscription import BaseSubscription

_OVERHEAD = 1536
"""Roughly what a message takes in memory beside its body."""


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
        "message",
        "redelivered",
        "returned",
        "sequence",
        "size",
        "source",
        "stored",
        "transaction",
        "writing",
    )

    def __init__(
        self, message: Message, source: Source, sequence: int, *, stored: bool, redelivered: bool = False
    ) -> None:
        self.message = message
        self.source = source
        self.sequence = sequence
        self.stored = stored
        self.redelivered = redelivered
        self.returned = False
        """Whether it was with a consumer of this broker before."""
        self.size = size_of(message)
        self.holder: BaseSubscription | None = None
        self.writing: Writing | None = None
        """While it is not known to be stored, though it is with a consumer."""
        self.transaction: Any = None
        """The transaction that acknowledges it, once it is committed."""

    @property
    def destination(self) -> Destination:
        return self.source.destination

    def redeliver(self) -> None:
        """It comes again: it says so, and counts."""
        self.redelivered = self.returned = True
        self.message = self.message.replace(redelivery_counter=self.message.redelivery_counter + 1)

    def __repr__(self) -> str:
        return f"<Entry {self.sequence} of {self.source.destination}>"


def size_of(message: Message) -> int:
    """Roughly the bytes that a message takes in memory."""
    return message.body_size + _OVERHEAD
