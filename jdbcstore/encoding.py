"""From a message to a row: ids, checks against the columns' limits, and the OpenWire blob."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Callable

from jdbcstore import openwire
from jdbcstore.clock import Clock
from jdbcstore.destination import Destination
from jdbcstore.errors import InvalidMessage, MessageTooLarge
from jdbcstore.ids import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.names import fits
from jdbcstore.units import EncodedMessage


class MessageEncoder:
    """Makes rows, in the caller's thread; names messages that come without an id."""

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
        started = f"{os.getpid()}-{clock.now_ms()}-{secrets.token_hex(4)}"
        room = max(0, min(64, max_producer_length - len(f"ID:-{started}:1:1:1")))
        host = (socket.gethostname().replace(":", "-") or "localhost")[:room]
        self._producer = ProducerId(f"ID:{host}-{started}:1", 1, 1)
        self._sequences = itertools.count(1)

    def encode(self, message: Message, destination: Destination, *, prioritized: bool) -> EncodedMessage:
        """The row of a message in this destination, all but its ID.

        :raises InvalidMessage: it does not fit the columns, or what the database takes
        """
        if message.destination is not None and message.destination != destination:
            original = message.original_destination or message.destination
            message = message.replace(destination=destination, original_destination=original)
        message_id = message.message_id
        if message_id is None:
            message_id = MessageId(self._producer, next(self._sequences))
        elif message_id.producer_id is None:
            # An id that another system chose: it is kept beside one that the columns can hold.
            message_id = MessageId(self._producer, next(self._sequences), 0, message_id.text_view)
            message = message.replace(message_id=message_id)
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
