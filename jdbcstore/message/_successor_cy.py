"""Messages that a producer sends one after the other, with the same headers."""

from __future__ import annotations

from typing import Any

from jdbcstore.message.ids import MESSAGE_ID_FIELDS, MessageId, ProducerId
from jdbcstore.message.message import Message, MessageFields
from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled
from jdbcstore.util.core.plain import copy, new, places, put

_MESSAGE: Any = cython.declare(object, Message)
_EVERY: Any = cython.declare(object, places(Message, MessageFields.__slots__))
_OWN: Any = cython.declare(
    object, places(Message, ("message_id", "_body", "timestamp_ms", "broker_in_time_ms"))
)
_ID_CLASS: Any = cython.declare(object, MessageId)
_ID: Any = cython.declare(object, places(MessageId, MESSAGE_ID_FIELDS))


def successor(message: Message, producer: ProducerId, number: int, body: str | bytes, now_ms: int) -> Message:
    """Return a message as another one, but for its id, its body of the same type, and its times."""
    made: Message = object.__new__(_MESSAGE)
    copy(made, message, _EVERY)
    put(made, _OWN, 0, new(_ID_CLASS, _ID, (producer, number, 0, None)))
    put(made, _OWN, 1, body)
    put(made, _OWN, 2, now_ms)
    put(made, _OWN, 3, now_ms)
    return made


use_compiled(globals())
