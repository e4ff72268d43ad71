"""Messages as operations choose, read and move them."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from jdbcstore.abc import Transaction
from jdbcstore.broker.cursors.store import AllPages
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.memory import Entry
from jdbcstore.broker.queues.dead_letters import renamed, restored
from jdbcstore.broker.queues.moves import Staged
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.queues.selection import find_messages
from jdbcstore.broker.subscription import matches
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector

log = logging.getLogger(__name__)

_BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The messages of a queue that an operation is for; by default all."""

    ids: tuple[str, ...] | None = None
    """Only those with these JMSMessageIDs."""
    selector: str | None = None
    """Only those that match this JMS selector."""
    limit: int | None = None
    """At most so many, the first ones."""

    def wanted(self) -> Callable[[Message], bool]:
        """Whether a message is one of them, but for the limit.

        :raises InvalidSelector: the selector is invalid
        """
        tests: list[Callable[[Message], bool]] = []
        if self.ids is not None:
            ids = frozenset(self.ids)
            tests.append(lambda message: str(message.message_id) in ids)
        if self.selector:
            tests.append(partial(matches, Selector(self.selector)))
        if len(tests) == 1:
            return tests[0]
        return lambda message: all(test(message) for test in tests)


async def browse(engine: Engine, queue: Queue, choice: Choice, most: int | None) -> AsyncIterator[Message]:
    """The chosen messages of a queue, those with consumers included, in order: the transient ones last.

    :raises InvalidSelector: the selector is invalid
    :raises StoreError: the store cannot be read
    """
    wanted, count, store = choice.wanted(), 0, queue.store
    transient = queue.transient_messages()
    if store is not None and choice.ids is not None:
        found = await engine.run(partial(find_messages, store, [*map(MessageId.parse, choice.ids)]))
        pages: AsyncIterator[Sequence[Message]] = _one_page(found)
    elif store is not None:
        pages = AllPages(engine.run, store.recover, _BATCH)
    else:
        pages = _one_page([])
    async for page in _then(pages, transient):
        for message in page:
            if count == most:
                return
            if wanted(message):
                count += 1
                yield message


async def _one_page(messages: Sequence[Message]) -> AsyncIterator[Sequence[Message]]:
    yield messages


async def _then(
    pages: AsyncIterator[Sequence[Message]], last: Sequence[Message]
) -> AsyncIterator[Sequence[Message]]:
    async for page in pages:
        yield page
    yield last


def addressed(engine: Engine, message: Message, to: Destination) -> Message:
    """The message as it is sent to another destination."""
    return message.replace(
        destination=to,
        original_destination=message.original_destination or message.destination,
        redelivery_counter=0,
        sequence=None,
        message_id=renamed(message.message_id) if engine.is_audited else message.message_id,
    )


def move(engine: Engine, source: Queue, to: Destination | None, entries: Sequence[Entry]) -> Future[None]:
    """Move entries; those whose messages are damaged go back."""
    damaged: list[Entry] = []

    def stage(written: Transaction) -> tuple[Sequence[Entry], Staged]:
        staged: Staged = []
        for entry in entries:
            try:
                messages = _moved(engine, entry.message, to)
            except CorruptMessage as error:
                log.error("a message cannot be moved and stays where it is: %s", error)
                damaged.append(entry)
                continue
            for target, each in [place for message in messages for place in engine.route(message)]:
                staged.append((target, each, target.stage(written, each)))
        return [entry for entry in entries if entry not in damaged] if damaged else entries, staged

    done = engine.moves.move(source, entries, stage, "messages")
    if damaged:
        source.give_back(damaged)
    return done


def _moved(engine: Engine, message: Message, to: Destination | None) -> list[Message]:
    if to is not None:
        return [addressed(engine, message, to)]
    origin = message.original_destination
    messages = [restored(message, member) for member in (() if origin is None else origin.members)]
    if engine.is_audited:
        messages = [each.replace(message_id=renamed(each.message_id)) for each in messages]
    return messages
