"""Selection, reading and moving of messages by operations."""

from __future__ import annotations

import json
import logging
import re
import time
from asyncio import Future
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from jdbcstore.abc import Cursor, MessageStore, Page, Transaction
from jdbcstore.broker.attempts import attempts_of
from jdbcstore.broker.cursors.store import AllPages
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.entry import Entry, size_of
from jdbcstore.broker.operations import NotARequest
from jdbcstore.broker.queues.dead_letters import renamed
from jdbcstore.broker.queues.moves import Staged
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.queues.selection import find_messages
from jdbcstore.broker.subscription import matches
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.dead_letters import ATTEMPTS, CAUSE, restored
from jdbcstore.message.destination import Destination
from jdbcstore.message.facts import facts_of
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.readable import text_of_bytes
from jdbcstore.message.selector import Selector
from jdbcstore.message.values import plain

log = logging.getLogger(__name__)

Run = Callable[[Callable[[], Page]], Awaitable[Page]]

_BATCH = 200
_LONGEST = 300
_WRAPPED = re.compile(r"^java\.lang\.Throwable:\s*")
_PORT = re.compile(r":\d+$")
_TIMES = re.compile(r"\d{9,}")
MOST_SEEN = 5000
"""Messages read for one page."""
_AT_ONCE = 200
"""Messages read in one step; other work runs between steps."""
_MOST_BYTES = 4 * 1024 * 1024
"""Their approximate size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChoice:
    """A selection of messages of a queue for an operation; by default all."""

    ids: tuple[str, ...] | None = None
    """Only messages with these JMSMessageIDs."""
    selector: str | None = None
    """Only messages that match this JMS selector."""
    limit: int | None = None
    """Only the first messages, at most this number."""
    origin: Destination | None = None
    """Only messages with this original destination; may have wildcards."""
    expired: bool = False
    """Only expired messages."""
    group: str | None = None
    """Only dead letters of this group, a name from :func:`group_of`."""
    contains: str | None = None
    """Only messages with this text in the body, a property or an id, ignoring case."""

    def message_ids(self) -> list[MessageId] | None:
        """Return the decoded ids; None if messages are not selected by id."""
        return None if self.ids is None else [MessageId.parse(text) for text in self.ids]

    def wanted(self) -> Callable[[Message], bool]:
        """Return whether a message is selected, ignoring the limit.

        :raises InvalidSelector: the selector is invalid
        """
        tests: list[Callable[[Message], bool]] = []
        if self.ids is not None:
            ids = frozenset(self.ids)
            tests.append(lambda message: str(message.message_id) in ids)
        if self.selector:
            tests.append(partial(matches, Selector(self.selector)))
        if self.expired:
            tests.append(lambda message: 0 < message.expiration_ms < time.time_ns() // 1_000_000)
        if self.origin is not None:
            pattern = DestinationPattern(self.origin)
            tests.append(lambda message: pattern.matches_any(message.original_destination))
        if self.group is not None:
            tests.append(lambda message: group_of(message) == self.group)
        if self.contains:
            tests.append(partial(_has, self.contains.lower()))
        if len(tests) == 1:
            return tests[0]
        return lambda message: all(test(message) for test in tests)


def _has(text: str, message: Message) -> bool:
    """Return whether a lower-case string is in a message; false for a damaged message."""
    try:
        body: object = message.body
        if isinstance(body, bytes):
            body = text_of_bytes(body, len(body))
        values = [body, *message.properties.values(), message.message_id, message.correlation_id]
    except CorruptMessage:
        return False
    return any(
        text in (value if isinstance(value, str) else json.dumps(plain(value), default=str)).lower()
        for value in values
        if value is not None
    )


def reason_of(message: Message) -> str:
    """Return the reason of a dead letter, without parts that differ between messages."""
    try:
        cause = message.properties.get(CAUSE)
    except CorruptMessage:
        return "the properties cannot be decoded"
    if cause is None:
        return "no reason given"
    return _TIMES.sub("…", _WRAPPED.sub("", str(cause)))[:_LONGEST]


def consumer_of(message: Message) -> str:
    """Return the client, user and host of the last attempt to consume a dead letter; empty if unknown."""
    try:
        attempts = attempts_of(message.properties.get(ATTEMPTS, ""))
    except CorruptMessage:
        return ""
    text = attempts[-1].text.partition(" by ")[2] if attempts else ""
    return _PORT.sub("", text.partition(", connection ")[0])


def group_of(message: Message) -> str:
    """Return a short name for all dead letters with a message's origin, reason and consumer."""
    text = f"{message.original_destination}\0{reason_of(message)}\0{consumer_of(message)}"
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Consumed:
    """Messages that are held for an administrator, with a token that removes them."""

    token: str | None
    """None without messages."""
    messages: tuple[Message, ...]
    damaged: tuple[CorruptMessage, ...]
    """An error for each message that cannot be decoded; it stays."""


def defect_of(message: Message) -> CorruptMessage | None:
    """Return the reason why the properties or the body of a message cannot be decoded, or None."""
    try:
        facts_of(message)
    except CorruptMessage as error:
        return error
    return None


async def browse(
    engine: Engine, queue: Queue, choice: MessageChoice, most: int | None, *, last: int | None = None
) -> AsyncIterator[Message]:
    """Yield the selected messages of a queue in order, the transient ones last.

    :param last: stored messages after this sequence are omitted
    :raises InvalidSelector: the selector is invalid
    :raises StoreError: the store cannot be read
    """
    wanted, count, store = choice.wanted(), 0, queue.store
    transient = queue.transient_messages()
    if store is not None and choice.ids is not None:
        messages = await engine.loop.run(partial(find_messages, store, [*map(MessageId.parse, choice.ids)]))
        pages: AsyncIterator[Sequence[Message]] = _one_page(messages)
    elif store is not None:
        pages = AllPages(engine.loop.run, store.recover, _BATCH)
    else:
        pages = _one_page([])
    async for page in _then(pages, transient):
        for message in page:
            if count == most:
                return
            if wanted(message) and (last is None or (message.sequence or 0) <= last):
                count += 1
                yield message


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """Consecutive matching messages of a queue, about as many as requested."""

    messages: tuple[Message, ...]
    seen: int
    """The number of messages read for the page."""
    damaged: tuple[CorruptMessage, ...]
    """An error for each message that cannot be decoded."""
    next: Cursor | None
    """The position after which there may be more messages; None at the end."""
    transient: int
    """At the end: the number of further matching messages in memory, which are not on this page."""


async def message_page(
    run: Run,
    store: MessageStore | None,
    transient: Callable[[], Sequence[Message]],
    wanted: Callable[[Message], bool],
    after: Cursor | None,
    most: int,
) -> MessagePage:
    """Read messages after a position, until there are enough or the limit of a page is reached; transient
    ones last.

    :param run: calls a function in a thread
    :raises NotARequest: the position belongs to another kind of queue
    :raises StoreError: the store cannot be read
    """
    if after is not None and store is not None and len(after.positions) != (10 if store.prioritized else 1):
        raise NotARequest("the position belongs to another kind of queue; begin at the first message")
    messages: list[Message] = []
    damaged: list[CorruptMessage] = []
    seen = size = 0
    if store is not None:
        async for page in AllPages(run, store.recover, min(most, _AT_ONCE), after):
            seen += len(page)
            damaged += page.corrupt
            for message in page:
                try:
                    chosen = wanted(message)
                except CorruptMessage as error:
                    damaged.append(error)
                    continue
                if chosen:
                    messages.append(message)
                    size += size_of(message)
            if not page.at_end and (len(messages) >= most or seen >= MOST_SEEN or size >= _MOST_BYTES):
                return MessagePage(
                    messages=(*messages,), seen=seen, damaged=(*damaged,), next=page.cursor, transient=0
                )
    rest = [message for message in transient() if wanted(message)]
    messages += rest[:most]
    return MessagePage(
        messages=(*messages,), seen=seen, damaged=(*damaged,), next=None, transient=max(len(rest) - most, 0)
    )


async def _one_page(messages: Sequence[Message]) -> AsyncIterator[Sequence[Message]]:
    yield messages


async def _then(
    pages: AsyncIterator[Sequence[Message]], last: Sequence[Message]
) -> AsyncIterator[Sequence[Message]]:
    async for page in pages:
        yield page
    yield last


def addressed(engine: Engine, message: Message, to: Destination) -> Message:
    """Return the message addressed to another destination."""
    return message.replace(
        destination=to,
        original_destination=message.original_destination or message.destination,
        redelivery_counter=0,
        sequence=None,
        message_id=renamed(message.message_id) if engine.options.audited else message.message_id,
    )


def move(engine: Engine, source: Queue, to: Destination | None, entries: Sequence[Entry]) -> Future[None]:
    """Move entries; entries with damaged messages go back."""
    return _replace(engine, source, entries, lambda message: _moved(engine, message, to))


def change(
    engine: Engine, source: Queue, entries: Sequence[Entry], priority: int | None, expiration_ms: int | None
) -> Future[None]:
    """Replace entries by new messages with these headers, at the end of the queue.

    None keeps a header. Entries with damaged messages go back.
    """

    def changed(message: Message) -> list[Message]:
        new = message.replace(sequence=None, message_id=None, redelivery_counter=0)
        if priority is not None:
            new = new.replace(priority=priority)
        return [new if expiration_ms is None else new.replace(expiration_ms=expiration_ms)]

    return _replace(engine, source, entries, changed)


def _replace(
    engine: Engine,
    source: Queue,
    entries: Sequence[Entry],
    replaced: Callable[[Message], Sequence[Message]],
) -> Future[None]:
    damaged: list[Entry] = []

    def stage(written: Transaction) -> tuple[Sequence[Entry], Staged]:
        staged: Staged = []
        for entry in entries:
            try:
                messages = replaced(entry.message)
            except CorruptMessage as error:
                log.error("a message cannot be moved and stays in its queue: %s", error)
                damaged.append(entry)
                continue
            for target, each in [place for message in messages for place in engine.router.route(message, "")]:
                staged.append((target, each, target.stage(written, each)))
        return [entry for entry in entries if entry not in damaged] if damaged else entries, staged

    done = engine.moves.move(source.pending, entries, stage, "messages")
    if damaged:
        source.pending.give_back(damaged)
    return done


def _moved(engine: Engine, message: Message, to: Destination | None) -> list[Message]:
    if to is not None:
        return [addressed(engine, message, to)]
    origin = message.original_destination
    messages = [restored(message, member) for member in (() if origin is None else origin.members)]
    if engine.options.audited:
        messages = [each.replace(message_id=renamed(each.message_id)) for each in messages]
    return messages
