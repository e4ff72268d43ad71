"""Messages on their way into the store: those of one turn of the loop are one write."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, cast

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


class Commit(NamedTuple):
    """A transaction that is to be committed once something else is done."""

    ready: Future[None]
    submit: Callable[[], None]


class Outbox:
    """Collects letters over a turn of the loop, and writes them in their order, and that of commits.

    They are written together and fail alone: after a write that failed for what is in it, each is
    written by itself.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting: deque[Letter | Commit] = deque()

    def add(self, letter: Letter) -> None:
        if not self._waiting:
            self._parts.touch(self)
        self._waiting.append(letter)

    @property
    def waits(self) -> bool:
        """Whether something was not handed over yet."""
        return bool(self._waiting)

    def commit(self, ready: Future[None], submit: Callable[[], None]) -> None:
        """Call ``submit`` behind what was added before, and not before ``ready`` is done, which cannot fail.

        What is added later waits behind it.
        """
        self._waiting.append(Commit(ready, submit))
        self.turn()

    def turn(self) -> None:
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, Letter):
                self._write(self._take_letters())
            elif first.ready.done():
                waiting.popleft()
                first.submit()
            else:
                first.ready.add_done_callback(self._go_on)
                return

    def _take_letters(self) -> list[Letter]:
        """Those that come before the next commit, as many as are one write."""
        letters: list[Letter] = []
        waiting = self._waiting
        while waiting and len(letters) < _MOST and isinstance(waiting[0], Letter):
            letters.append(cast(Letter, waiting.popleft()))
        return letters

    def _go_on(self, _: Future[None]) -> None:
        self.turn()

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
