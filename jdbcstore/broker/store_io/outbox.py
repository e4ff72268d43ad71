"""Messages on their way into the store: those of one turn of the loop are one write."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import NamedTuple, Protocol, cast

from jdbcstore.abc import MessageReference, Outcome
from jdbcstore.broker.entry import size_of
from jdbcstore.broker.parts import Parts
from jdbcstore.errors import OutcomeUnknown
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

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
    connection_id: str
    promise: Future[None]


class Commit(NamedTuple):
    """A transaction that is to be committed once something else is done."""

    ready: Future[None]
    submit: Callable[[], None]


class Outbox:
    """Collects letters over a turn of the loop, and writes them in their order, and that of commits.

    They are written together and fail alone.
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
                first.ready.add_done_callback(self._parts.guarded(self._go_on))
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
        messages = [letter.message for letter in letters]
        self._parts.line.submit(
            partial(self._parts.store.add_each_async, messages),
            sum(map(size_of, messages)),
            partial(self._written, letters),
        )

    def _written(
        self, letters: list[Letter], outcomes: list[Outcome] | None, error: BaseException | None
    ) -> None:
        settle = self._parts.settle
        for letter, outcome in zip(letters, outcomes or repeat(error), strict=False):
            if isinstance(outcome, MessageReference):
                settle(letter.promise, None)  # whoever has sent it may be the one who gets it
                letter.receiver.arrive(letter.message, outcome, letter.connection_id)
            else:
                if isinstance(outcome, OutcomeUnknown):
                    letter.receiver.lose_sight()
                settle(letter.promise, outcome)
