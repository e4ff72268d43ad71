"""Historic messages delivered anew: as new messages, which say what they were.

Where they come from is a :class:`History`; where they go is any store.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from jdbcstore.abc import Progress, Store, pages
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector
from jdbcstore.message.values import Long

MARKS = Destination.queue("JDBCSTORE.REPLAY")
"""Has a message for each replay that was begun and not finished: where to go on."""

_PAGE = 1000
_PAGE_BYTES = 8 * 1024 * 1024


class Historic(NamedTuple):
    """A message of a history, or why it does not decode."""

    position: str
    """Where it stands; for the history that gave it."""
    destination: Destination
    """Where it was."""
    message: Message | CorruptMessage
    size: int
    """Bytes."""


class History(Protocol):
    """Messages of the past, in an order that stays."""

    @property
    def name(self) -> str:
        """Says which messages: the same for the same ones, whoever asks, and another for others."""
        ...

    def messages(self, behind: str | None) -> Iterator[Historic]:
        """All of them, or those behind a position that an earlier call has given."""
        ...


@dataclass(slots=True)
class Replayed:
    """What became of a replay."""

    messages: int = 0
    before: int = 0
    """By calls before this one, which were stopped."""
    corrupt: int = 0
    """Do not decode, and were left out."""


def replay(
    history: History,
    store: Store,
    to: Destination,
    *,
    selector: Selector | None = None,
    progress: Progress | None = None,
    on_corrupt: Callable[[Historic, CorruptMessage], None] | None = None,
) -> Replayed:
    """Store messages of the past as new ones, each once, in the order of the history.

    At most 1,000 go in one transaction, which also writes down how far it got, in :data:`MARKS`. So a
    replay can be killed: called again with the same arguments it goes on where it was, whoever has
    consumed what meanwhile. One that came to its end leaves no mark, and begins anew when it is called again.

    :param selector: only messages that fulfil it, as they were
    :param progress: told of messages of the history
    :param on_corrupt: told of messages that do not decode
    :raises InvalidMessage: the store cannot hold one of them
    """
    mark = _Mark(store, [history.name, str(to), selector.text if selector is not None else ""])
    result = Replayed(before=mark.count)
    for page in _pages(history.messages(mark.position)):
        fresh = []
        for historic in page:
            try:
                message = _readable(historic)
                if selector is None or selector.matches(message):
                    fresh.append(anew(message, historic.destination, to))
            except CorruptMessage as error:
                result.corrupt += 1
                if on_corrupt is not None:
                    on_corrupt(historic, error)
        if fresh:
            mark.commit(fresh, to, page[-1].position)
            result.messages += len(fresh)
        if progress is not None:
            progress(len(page))
    mark.remove()
    return result


def anew(message: Message, origin: Destination, to: Destination) -> Message:
    """The same content as a new message, without an id or a time, that never expires.

    What it had stands in properties under the names that ActiveMQ gives to such: ``originalMessageID``,
    ``originalTimestamp`` and ``originalExpiration``. If it was replayed before, they stay.
    """
    properties = dict(message.properties)
    properties.setdefault("originalMessageID", str(message.message_id))
    if message.timestamp_ms:
        properties.setdefault("originalTimestamp", Long(message.timestamp_ms))
    if message.expiration_ms:
        properties.setdefault("originalExpiration", Long(message.expiration_ms))
    return message.replace(
        destination=to,
        original_destination=message.original_destination or (None if origin == to else origin),
        properties=properties,
        **_FRESH,
    )


_NONE = (
    "message_id", "producer_id", "timestamp_ms", "sequence", "transaction_id", "original_transaction_id",
    "broker_path", "cluster", "target_consumer_id",
)  # fmt: skip
_ZERO = (
    "expiration_ms", "redelivery_counter", "arrival_ms", "broker_in_time_ms", "broker_out_time_ms",
    "command_id",
)  # fmt: skip
_FALSE = ("response_required", "received_by_df_bridge", "first_for_consumer")
_FRESH = {**dict.fromkeys(_NONE), **dict.fromkeys(_ZERO, 0), **dict.fromkeys(_FALSE, False)}
"""What belongs to one delivery."""


class _Mark:
    """How far one replay is, kept in the store that it goes to."""

    def __init__(self, store: Store, arguments: list[str]) -> None:
        self._store = store
        self._producer = ProducerId(f"ID:replay-{uuid.uuid4().hex}", 1, 1)
        self._run = hashlib.sha256(json.dumps(arguments).encode()).hexdigest()[:32]
        marks = (mark for page in pages(store.queue(MARKS)) for mark in page)
        self._message = next((mark for mark in marks if mark.correlation_id == self._run), None)

    @property
    def position(self) -> str | None:
        return None if self._message is None else str(self._message.body)

    @property
    def count(self) -> int:
        """Messages replayed until there."""
        return 0 if self._message is None else int(str(self._message.properties["replayed"]))

    def commit(self, fresh: list[Message], to: Destination, position: str) -> None:
        """Store them, and that it was done, in one transaction."""
        count = self.count + len(fresh)
        mark = Message(
            position,
            message_id=MessageId(self._producer, count),
            correlation_id=self._run,
            jms_type="jdbcstore.tools.replay",
            properties={"replayed": Long(count), "to": str(to)},
        )
        with self._store.transaction() as transaction:
            marks = transaction.queue(MARKS)
            marks.add_message(mark)
            if self._message is not None:
                # Not updated: the two may be in different stores, and then this is a distributed transaction.
                marks.acknowledge(self._message)
            target = transaction.topic(to) if to.is_topic else transaction.queue(to)
            for message in fresh:
                target.add_message(message)
        self._message = mark

    def remove(self) -> None:
        if self._message is not None:
            self._store.queue(MARKS).acknowledge(self._message)


def _readable(historic: Historic) -> Message:
    if isinstance(historic.message, CorruptMessage):
        raise historic.message
    return historic.message


def _pages(history: Iterator[Historic]) -> Iterator[list[Historic]]:
    page: list[Historic] = []
    size = 0
    for historic in history:
        if historic.destination == MARKS:
            continue  # an archive has them if it was written while a replay was under way
        if page and (len(page) == _PAGE or size + historic.size > _PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(historic)
        size += historic.size
    if page:
        yield page
