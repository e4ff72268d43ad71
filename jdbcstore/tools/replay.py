"""Replay of past messages, from any :class:`MessageHistory` to any store, as new messages.

The new messages have properties with the original message id and times.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from jdbcstore.abc import Progress, Store, pages
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.selector import Selector
from jdbcstore.message.values import Long
from jdbcstore.tools.pages import bounded

MARKS = Destination.queue("JDBCSTORE.REPLAY")
"""Queue with one message per unfinished replay, which records the position to continue at."""


class Historic(NamedTuple):
    """A message of a history, or the reason why it cannot be decoded."""

    position: str
    """Its position, meaningful to its history only."""
    destination: Destination
    """Its original destination."""
    message: Message | CorruptMessage
    size: int
    """In bytes."""

    @classmethod
    def read(cls, position: str, container: str, sequence: int, blob: bytes) -> Self:
        """Decode the columns CONTAINER, ID and MSG of a message."""
        message: Message | CorruptMessage
        try:
            message = openwire.decode(blob, sequence=sequence, container=container)
        except CorruptMessage as error:
            message = error
        return cls(position, Destination.parse(container), message, len(blob))


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """Messages by destination and time; by default all."""

    destinations: tuple[DestinationPattern, ...] = ()
    """Patterns, one of which must match; empty for all destinations."""
    since_ms: int | None = None
    """Only messages whose time is this or later."""
    until_ms: int | None = None
    """Only messages whose time is before this."""

    @property
    def facts(self) -> list[object]:
        """The same for equal selections, as JSON values."""
        return [
            sorted(str(pattern.destination) for pattern in self.destinations),
            self.since_ms,
            self.until_ms,
        ]

    def has_destination(self, container: str) -> bool:
        """Return whether messages of this destination, given as in CONTAINER, are selected."""
        destination = Destination.parse(container)
        return not self.destinations or any(pattern.matches(destination) for pattern in self.destinations)

    def has_time(self, time_ms: int | None) -> bool:
        """Return whether messages of this time are selected; without a time, only if no bound is set."""
        if time_ms is None:
            return self.since_ms is None and self.until_ms is None
        return self.overlaps(time_ms, time_ms + 1)

    def overlaps(self, first_ms: int, end_ms: int) -> bool:
        """Return whether a time from the first up to, but not including, the last is selected."""
        return (self.since_ms is None or self.since_ms < end_ms) and (
            self.until_ms is None or first_ms < self.until_ms
        )


EVERYTHING = ReplaySelection()


class MessageHistory(Protocol):
    """Past messages in a fixed order."""

    @property
    def name(self) -> str:
        """Identifies the selected messages: the same selection always has the same name."""

    def messages(self, after: str | None) -> Iterator[Historic]:
        """Yield all messages, or those after a position from an earlier call."""


@dataclass(slots=True)
class Replayed:
    """Result of a replay, as numbers of messages."""

    messages: int = 0
    before: int = 0
    """Replayed by earlier calls that were interrupted."""
    corrupt: int = 0
    """Skipped because they cannot be decoded."""


def replay(
    history: MessageHistory,
    store: Store,
    to: Destination,
    *,
    selector: Selector | None = None,
    progress: Progress | None = None,
    on_corrupt: Callable[[Historic, CorruptMessage], None] | None = None,
) -> Replayed:
    """Store past messages as new ones, each exactly once, in the order of the history.

    Each transaction stores at most 1,000 messages and the position reached, in :data:`MARKS`. A killed
    replay therefore continues when it is called again with the same arguments, even if its messages have been
    consumed since. A finished replay leaves no mark, and starts from the beginning when called again.

    :param selector: only messages that match it, in their original form
    :param progress: called with numbers of messages of the history
    :param on_corrupt: called with each message that cannot be decoded
    :raises InvalidMessage: a message is too large for the store
    """
    mark = _Mark(store, [history.name, str(to), selector.text if selector is not None else ""])
    result = Replayed(before=mark.count)
    # An archive has marks if it was written during a replay.
    messages = (message for message in history.messages(mark.position) if message.destination != MARKS)
    for page in bounded(messages, lambda historic: historic.size):
        fresh = []
        for historic in page:
            try:
                message = historic.message
                if isinstance(message, CorruptMessage):
                    raise message
                if selector is None or selector.matches(message):
                    fresh.append(renewed(message, historic.destination, to))
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


def renewed(message: Message, origin: Destination, to: Destination) -> Message:
    """Return the same content as a new message without message id, timestamp and expiration.

    The original values become properties with ActiveMQ's names: ``originalMessageID``, ``originalTimestamp``
    and ``originalExpiration``. Those of an earlier replay are kept.
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
"""Fields that belong to one delivery, with the values of a new message."""


class _Mark:
    """The position of one replay, stored in the target store."""

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
        """Number of messages replayed up to the position."""
        return 0 if self._message is None else int(str(self._message.properties["replayed"]))

    def commit(self, fresh: list[Message], to: Destination, position: str) -> None:
        """Store messages and the new position in one transaction."""
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
                # Not an update: the two queues may be in different stores, as in a distributed transaction.
                marks.acknowledge(self._message)
            target = transaction.topic(to) if to.is_topic else transaction.queue(to)
            for message in fresh:
                target.add_message(message)
        self._message = mark

    def remove(self) -> None:
        if self._message is not None:
            self._store.queue(MARKS).acknowledge(self._message)
