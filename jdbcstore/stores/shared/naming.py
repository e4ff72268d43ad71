"""Ids for messages that come without one."""

from __future__ import annotations

import itertools
import os
import secrets
import socket

from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.util.clock import Clock


class MessageNamer:
    """A producer of this process, as ActiveMQ would name it. For any number of threads."""

    def __init__(self, clock: Clock, max_producer_length: int) -> None:
        started = f"{os.getpid()}-{clock.now_ms()}-{secrets.token_hex(4)}"
        room = max(0, min(64, max_producer_length - len(f"ID:-{started}:1:1:1")))
        host = (socket.gethostname().replace(":", "-") or "localhost")[:room]
        self._producer = ProducerId(f"ID:{host}-{started}:1", 1, 1)
        self._sequences = itertools.count(1)

    def named(self, message: Message) -> tuple[Message, MessageId]:
        """The message, and an id that the columns can hold.

        An id that another system chose is kept beside one.
        """
        message_id = message.message_id
        if message_id is None:
            return message, MessageId(self._producer, next(self._sequences))
        if message_id.producer_id is None:
            message_id = MessageId(self._producer, next(self._sequences), 0, message_id.text_view)
            return message.replace(message_id=message_id), message_id
        return message, message_id
