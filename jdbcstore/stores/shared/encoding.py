"""Messages as the rows that every store keeps: ids, column limits and the OpenWire blob."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from jdbcstore.abc import MessageReference, Outcome
from jdbcstore.database.adapters.sql import Row
from jdbcstore.errors import InvalidDestination, InvalidMessage, MessageTooLarge, StoreError
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MESSAGE_ID_SHAPE, MessageId, ProducerId
from jdbcstore.message.message import RARE, BodyType, Message
from jdbcstore.message.openwire.encoder import encode_body, encode_destination, encode_map, encode_producer_id
from jdbcstore.message.openwire.wire_format import MESSAGE_TYPES
from jdbcstore.util.clock import Clock
from jdbcstore.util.core import core

T = TypeVar("T")
Name = tuple[str, int]
"""The producer's name for a message: the columns MSGID_PROD and MSGID_SEQ."""
Result = Callable[[list[Any]], Any]
"""Makes what a write returns of the references of the messages that it added."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_USUAL = core.Usual(Message(b""), RARE)
_KINDS = {kind: number for kind, number in MESSAGE_TYPES.items() if kind is not BodyType.BLOB}
_DESTINATIONS = 4096


class EncodedMessage(NamedTuple):
    """A row of ACTIVEMQ_MSGS without its ID; ``slot`` is where the blob holds the broker sequence."""

    message_id: MessageId
    producer: str
    producer_sequence: int
    container: str
    expiration_ms: int
    priority: int
    blob: bytes
    slot: int

    def row(self, sequence: int, xid: str | None = None) -> Row:
        """The row with this ID, which becomes the broker sequence inside the blob as well."""
        return (
            sequence,
            self.container,
            self.producer,
            self.producer_sequence,
            self.expiration_ms,
            self.blob_for(sequence),
            self.priority,
            xid,
        )

    def blob_for(self, sequence: int) -> bytes:
        return openwire.set_broker_sequence(self.blob, self.slot, sequence)


class MessageNamer:
    """Gives ids to messages that come without one, as one ActiveMQ producer would. Thread-safe."""

    def __init__(self, clock: Clock, max_producer_length: int) -> None:
        started = f"{os.getpid()}-{clock.now_ms()}-{secrets.token_hex(4)}"
        room = max(0, min(64, max_producer_length - len(f"ID:-{started}:1:1:1")))
        host = (socket.gethostname().replace(":", "-") or "localhost")[:room]
        self.producer = ProducerId(f"ID:{host}-{started}:1", 1, 1)
        self.sequences = itertools.count(1)
        """The numbers of messages that come without an id."""

    def named(self, message: Message) -> tuple[Message, MessageId]:
        """The message, and an id that the columns can hold.

        An id that another system chose is kept inside the message beside the one given here.
        """
        message_id = message.message_id
        if message_id is None:
            return message, MessageId(self.producer, next(self.sequences))
        if message_id.producer_id is None:
            message_id = MessageId(self.producer, next(self.sequences), 0, message_id.text_view)
            return message.replace(message_id=message_id), message_id
        return message, message_id


class MessageEncoder:
    """Encodes messages in the caller's thread, and names those that come without an id."""

    def __init__(
        self,
        clock: Clock,
        max_message_size: int,
        max_producer_length: int,
        sent_size: Callable[[bytes], int] = len,
    ) -> None:
        self._clock = clock
        self._max_producer_length = max_producer_length
        self._max_message_size = max_message_size
        self._sent_size = sent_size
        self._namer = MessageNamer(clock, max_producer_length)
        self._rows: dict[Destination, core.Rows] = {}

    def encode(self, message: Message, destination: Destination, *, prioritized: bool) -> EncodedMessage:
        """The row of a message in this destination, all but its ID.

        :raises InvalidMessage: it does not fit the columns, or exceeds what the database accepts
        """
        rows = self._rows.get(destination) or self._rows_of(destination)
        row: EncodedMessage | None = rows.row(message, self._clock.now_ms(), prioritized)
        return self._encode_any(message, destination, prioritized) if row is None else row

    def encode_all(
        self, messages: Iterable[Message], destination: Destination, *, prioritized: bool
    ) -> list[EncodedMessage]:
        """As :meth:`encode`, of messages that are stored together."""
        rows = self._rows.get(destination) or self._rows_of(destination)
        now_ms, other = self._clock.now_ms(), self._encode_any
        return rows.rows(messages, now_ms, prioritized, lambda one: other(one, destination, prioritized))

    def _rows_of(self, destination: Destination) -> core.Rows:
        if len(self._rows) >= _DESTINATIONS:
            self._rows.clear()
        rows = self._rows[destination] = core.Rows(
            _USUAL,
            MESSAGE_ID_SHAPE,
            EncodedMessage,
            destination=destination,
            openwire=encode_destination(destination),
            container=destination.qualified_name,
            kinds=_KINDS,
            bytes_kind=BodyType.BYTES,
            text_kind=BodyType.TEXT,
            producer=self._namer.producer,
            numbers=self._namer.sequences,
            named=self._named,
            contents=lambda body, kind: encode_body(body, kind, False),
            maps=encode_map,
            sent_size=self._sent_size,
            largest=self._max_message_size,
        )
        return rows

    def _named(self, producer_id: ProducerId) -> bytes | None:
        """The OpenWire bytes of a producer id that the column holds."""
        if fits(str(producer_id), self._max_producer_length):
            return encode_producer_id(producer_id)
        return None

    def _encode_any(self, message: Message, destination: Destination, prioritized: bool) -> EncodedMessage:
        if message.destination is not None and message.destination != destination:
            original = message.original_destination or message.destination
            message = message.replace(destination=destination, original_destination=original)
        message, message_id = self._namer.named(message)
        producer = str(message_id.producer_id)
        if not fits(producer, self._max_producer_length):
            raise InvalidMessage(
                f"the producer id {producer[:40]!r} of the message has {len(producer)} characters, and"
                f" MSGID_PROD holds {self._max_producer_length} of plain text; use a shorter connection id"
            )
        blob, slot = openwire.encode_for_store(
            message, destination=destination, message_id=message_id, timestamp_ms=self._clock.now_ms()
        )
        if (size := self._sent_size(blob)) > self._max_message_size:
            raise MessageTooLarge(
                size,
                self._max_message_size,
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

    Returns those that ``encode`` accepts, and a function that merges their outcomes with the errors of the
    others, in the order of ``messages``.
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
    """The destination of a message that is stored by itself.

    :raises InvalidDestination: it has none
    """
    if message.destination is None:
        raise InvalidDestination("a message that is stored by itself needs a destination of its own")
    return message.destination


def everything(references: list[T]) -> list[T]:
    """The result of a write that returns all references."""
    return references


only: Result = itemgetter(0)
"""The result of a write that adds one message."""


def nothing(_references: list[MessageReference]) -> None:
    """The result of a write that returns nothing."""
    return


def fits(text: str, length: int) -> bool:
    """Whether a name column holds the string: not too long, no NUL, no unpaired surrogate."""
    return len(text) <= length and _is_plain(text)


@lru_cache(maxsize=1024)
def _is_plain(text: str) -> bool:
    return "\0" not in text and not _SURROGATES.search(text)
