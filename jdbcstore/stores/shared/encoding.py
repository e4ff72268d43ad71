"""From a message to a row: ids, checks against the columns' limits, and the OpenWire blob."""

from __future__ import annotations

from collections.abc import Callable

from jdbcstore.errors import InvalidMessage, MessageTooLarge
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.shared.checks import fits
from jdbcstore.stores.shared.naming import MessageNamer
from jdbcstore.stores.shared.units import EncodedMessage
from jdbcstore.util.clock import Clock


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
        self._namer = MessageNamer(clock, max_producer_length)

    def encode(self, message: Message, destination: Destination, *, prioritized: bool) -> EncodedMessage:
        """The row of a message in this destination, all but its ID.

        :raises InvalidMessage: it does not fit the columns, or what the database takes
        """
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
