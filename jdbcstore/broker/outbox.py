"""Messages on their way into the store: those of one turn of the loop are one write."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

from jdbcstore.abc import MessageReference, MessageStore, TransactionalStore
from jdbcstore.broker.entry import size_of
from jdbcstore.broker.parts import Parts
from jdbcstore.destination import Destination
from jdbcstore.errors import LockLost, OutcomeUnknown, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.message import Message

_MOST = 256
"""Messages of one write: none waits for a much longer one."""


class Receiver(Protocol):
    """The queue or topic that messages come into."""

    @property
    def destination(self) -> Destination: ...

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:
        """A message is here: committed under this reference, or not stored."""

    def lose_sight(self) -> None:
        """A write may have been committed or not."""


class Letter(NamedTuple):
    """A message, where it goes, and who waits until it is there."""

    message: Message
    receiver: Receiver
    store: MessageStore
    connection_id: str
    promise: Future[None]


class Outbox:
    """Collects letters over a turn of the loop, and writes them in their order.

    They are written together and fail alone: after a write that failed for what is in it, each is
    written by itself.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._letters: list[Letter] = []

    def add(self, letter: Letter) -> None:
        if not self._letters:
            self._parts.touch(self)
        self._letters.append(letter)

    def turn(self) -> None:
        letters, self._letters = self._letters, []
        for first in range(0, len(letters), _MOST):
            self._write(letters[first : first + _MOST])

    def _write(self, letters: list[Letter]) -> None:
        if len(letters) == 1:
            [letter] = letters
            start = partial(letter.store.add_message_async, letter.message)
            self._parts.line.submit(start, size_of(letter.message), partial(self._one_written, letter))
            return
        transaction = self._parts.store.transaction()
        places: dict[int, TransactionalStore] = {}
        written, size = [], 0
        for letter in letters:
            key = id(letter.receiver)
            place = places.get(key)
            if place is None:
                destination = letter.receiver.destination
                of = transaction.topic if destination.is_topic else transaction.queue
                place = places[key] = of(destination)
            try:
                place.add_message(letter.message)
            except StoreError as error:
                self._parts.settle(letter.promise, error)
                continue
            written.append(letter)
            size += size_of(letter.message)
        if written:
            self._parts.line.submit(transaction.commit_async, size, partial(self._written, written))

    def _one_written(
        self, letter: Letter, reference: MessageReference | None, error: BaseException | None
    ) -> None:
        self._written([letter], [reference] if reference else [], error)

    def _written(
        self,
        letters: Sequence[Letter],
        references: Sequence[MessageReference],
        error: BaseException | None,
    ) -> None:
        settle = self._parts.settle
        if error is None:
            for letter, reference in zip(letters, references, strict=True):
                letter.receiver.arrive(letter.message, reference, letter.connection_id)
                settle(letter.promise, None)
        elif len(letters) == 1 or isinstance(error, StoreUnavailable | StoreClosed | LockLost):
            for letter in letters:
                if isinstance(error, OutcomeUnknown):
                    letter.receiver.lose_sight()
                settle(letter.promise, error)
        else:
            for letter in letters:
                self._write([letter])
