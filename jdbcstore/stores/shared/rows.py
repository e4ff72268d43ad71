"""A message as a row without its ID, and the limits of the columns."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from jdbcstore.message import openwire
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.util.clock import Clock

StoredRow = tuple[Any, ...]
"""The columns of a stored message, in the order of a statement."""
_SURROGATES = re.compile("[\ud800-\udfff]")


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

    def row(self, sequence: int, xid: str | None = None) -> StoredRow:
        """Return the row with this ID, which becomes the broker sequence inside the blob as well."""
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
        """Return the message, and an id that the columns can hold.

        An id that another system chose is kept inside the message beside the one given here.
        """
        message_id = message.message_id
        if message_id is None:
            return message, MessageId(self.producer, next(self.sequences))
        if message_id.producer_id is None:
            message_id = MessageId(self.producer, next(self.sequences), 0, message_id.text_view)
            return message.replace(message_id=message_id), message_id
        return message, message_id


@dataclass(frozen=True, slots=True)
class RowLimits:
    """The limits of a table: ``sent_size`` is what counts of a blob, in most databases its length."""

    max_message_size: int
    max_producer_length: int
    sent_size: Callable[[bytes], int] = len

    def holds(self, producer_id: ProducerId) -> bool:
        """Return whether the column holds the id of a producer."""
        return fits(str(producer_id), self.max_producer_length)


def fits(text: str, length: int) -> bool:
    """Return whether a name column holds the string: not too long, no NUL, no unpaired surrogate."""
    return len(text) <= length and _is_plain(text)


@lru_cache(maxsize=1024)
def _is_plain(text: str) -> bool:
    return "\0" not in text and not _SURROGATES.search(text)
