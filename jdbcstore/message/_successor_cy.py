"""Messages that a producer sends one after the other, with the same headers."""

from __future__ import annotations

from typing import Any

from jdbcstore.message.ids import MESSAGE_ID_FIELDS, MessageId, ProducerId
from jdbcstore.message.message import Message, MessageFields
from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled
from jdbcstore.util.core.plain import new, places, read

_MESSAGE: Any = cython.declare(object, Message)
_FIELDS_CLASS: Any = cython.declare(object, MessageFields)
_FIELDS: Any = cython.declare(object, places(MessageFields, MessageFields.__slots__))
_ID_AT, _BODY_AT, _TIME_AT, _IN_TIME_AT = [
    MessageFields.__slots__.index(name)
    for name in ("message_id", "_body", "timestamp_ms", "broker_in_time_ms")
]
_ID_CLASS: Any = cython.declare(object, MessageId)
_ID: Any = cython.declare(object, places(MessageId, MESSAGE_ID_FIELDS))


def successor(message: Message, producer: ProducerId, number: int, body: str | bytes, now_ms: int) -> Message:
    """Copy a message with another ID, body of the same type, and times."""
    values: list[Any] = [*read(message, _FIELDS)]
    values[_ID_AT] = new(_ID_CLASS, _ID, (producer, number, 0, None))
    values[_BODY_AT] = body
    values[_TIME_AT] = values[_IN_TIME_AT] = now_ms
    made: Any = new(_FIELDS_CLASS, _FIELDS, tuple(values))
    made.__class__ = _MESSAGE
    return made  # type: ignore[no-any-return]


use_compiled(globals())
