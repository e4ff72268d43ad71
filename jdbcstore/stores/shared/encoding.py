"""Messages as the rows that every store keeps: ids, column limits and the OpenWire blob."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from jdbcstore.abc import MessageReference, Outcome
from jdbcstore.errors import InvalidDestination, InvalidMessage, MessageTooLarge, StoreError
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.openwire.pieces import body_in_pieces
from jdbcstore.stores.shared._rows_cy import Rows
from jdbcstore.stores.shared.rows import EncodedMessage, MessageNamer, RowLimits, fits
from jdbcstore.util.clock import Clock

T = TypeVar("T")
Name = tuple[str, int]
"""The producer's name for a message: the columns MSGID_PROD and MSGID_SEQ."""
Encode = Callable[[Message], EncodedMessage]
EncodeAll = Callable[[Iterable[Message]], list[EncodedMessage]]
Result = Callable[[list[Any]], Any]
"""Makes the result of a write from the references of its messages."""
_DESTINATIONS = 4096


class MessageEncoder:
    """Encodes messages in the caller's thread, and gives IDs to messages without one."""

    def __init__(
        self,
        clock: Clock,
        max_message_size: int,
        max_producer_length: int,
        sent_size: Callable[[bytes], int] = len,
        *,
        keeps_pieces: bool = False,
    ) -> None:
        """``keeps_pieces``: the store keeps large bodies in pieces."""
        self._clock = clock
        self._keeps_pieces = keeps_pieces
        self._limits = RowLimits(max_message_size, max_producer_length, sent_size)
        self._namer = MessageNamer(clock, max_producer_length)
        self._rows: dict[str, Rows] = {}
        """By CONTAINER, which names one destination: a stored one is not composite."""

    def encode(self, message: Message, destination: Destination, *, prioritized: bool) -> EncodedMessage:
        """Return the row of a message in this destination, all but its ID.

        :raises InvalidMessage: it does not fit the columns, or exceeds the database's limit
        """
        rows = self._rows.get(destination.qualified_name) or self._rows_of(destination)
        row: EncodedMessage | None = rows.row(message, self._clock.now_ms(), prioritized)
        return self._encode_any(message, destination, prioritized) if row is None else row

    def encode_all(
        self, messages: Iterable[Message], destination: Destination, *, prioritized: bool
    ) -> list[EncodedMessage]:
        """As :meth:`encode`, of messages that are stored together."""
        rows = self._rows.get(destination.qualified_name) or self._rows_of(destination)
        now_ms, other = self._clock.now_ms, self._encode_any
        return rows.rows(
            messages, now_ms, prioritized, lambda message: other(message, destination, prioritized)
        )

    def of(self, destination: Destination, *, prioritized: bool) -> tuple[Encode, EncodeAll]:
        """Return both for a destination, each without a call of its own for a message."""
        place: dict[str, Any] = {"destination": destination, "prioritized": prioritized}
        return partial(self.encode, **place), partial(self.encode_all, **place)

    def _rows_of(self, destination: Destination) -> Rows:
        if len(self._rows) >= _DESTINATIONS:
            self._rows.clear()
        rows = self._rows[destination.qualified_name] = Rows(destination, self._namer, self._limits)
        return rows

    def _encode_any(self, message: Message, destination: Destination, prioritized: bool) -> EncodedMessage:
        if not self._keeps_pieces and body_in_pieces(message) is not None:
            raise InvalidMessage(
                f"the body of {message.body_size} bytes is kept in pieces, which this store cannot do;"
                " consume the message from the store that it is in"
            )
        if message.destination is not None and message.destination != destination:
            original = message.original_destination or message.destination
            message = message.replace(destination=destination, original_destination=original)
        message, message_id = self._namer.named(message)
        producer = str(message_id.producer_id)
        if not fits(producer, self._limits.max_producer_length):
            raise InvalidMessage(
                f"the producer id {producer[:40]!r} of the message has {len(producer)} characters, and"
                f" MSGID_PROD holds {self._limits.max_producer_length} of plain text;"
                " use a shorter connection id"
            )
        blob, slot = openwire.encode_for_store(
            message, destination=destination, message_id=message_id, timestamp_ms=self._clock.now_ms()
        )
        if (size := self._limits.sent_size(blob)) > self._limits.max_message_size:
            raise MessageTooLarge(
                size,
                self._limits.max_message_size,
                "split it, compress it, or raise the database's packet limit",
            )
        return EncodedMessage(
            message_id,
            producer,
            message_id.producer_sequence,
            destination.qualified_name,
            message.expiration_ms,
            message.priority if prioritized else 0,
            blob,
            slot,
        )


def encode_each(messages: Iterable[Message], encode: Callable[[Message], T]) -> tuple[list[T], Result]:
    """Encode messages that are stored together and refused individually.

    Returns the messages that ``encode`` accepts, and a function that merges their outcomes with the errors of
    the others, in the order of ``messages``.
    """
    encoded: list[T] = []
    refused: dict[int, StoreError] = {}
    for at, message in enumerate(messages):
        try:
            encoded.append(encode(message))
        except StoreError as error:
            refused[at] = error
    if not refused:
        return encoded, everything
    count = len(encoded) + len(refused)

    def merged(outcomes: list[Outcome]) -> list[Outcome]:
        others = iter(outcomes)
        return [refused.get(at) or next(others) for at in range(count)]

    return encoded, merged


def own_destination(message: Message) -> Destination:
    """Return the destination of a message that is stored by itself.

    :raises InvalidDestination: it has none
    """
    if message.destination is None:
        raise InvalidDestination("a message that is stored by itself needs a destination of its own")
    return message.destination


everything: Result = list
"""The result of a write that returns all references."""

only: Result = itemgetter(0)
"""The result of a write that adds one message."""


def nothing(_references: list[MessageReference]) -> None:
    """Return the result of a write that returns nothing."""
    return
