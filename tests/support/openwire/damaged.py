"""A blob that may be damaged, and what must hold of it."""

from __future__ import annotations

from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import Message
from jdbcstore.message.openwire import decode, encode


def look_into(blob: bytes) -> Message | None:
    """The message if there is one, everything in it read; nothing but CorruptMessage may come out."""
    message = None
    errors = []
    try:
        message = decode(blob, sequence=5, container="queue://Q")
        for part in ("body", "properties"):
            try:
                getattr(message, part)
            except CorruptMessage as error:
                errors.append(error)
    except CorruptMessage as error:
        errors.append(error)
    for raised in errors:
        assert (raised.blob, raised.sequence, raised.container) == (blob, 5, "queue://Q")
        assert len(str(raised)) < 1000
    if message is None:
        return None
    assert "sequence=5" in repr(message)
    assert encode(message, version=message._source.version) == blob
    assert decode(encode(message.replace(command_id=1, sequence=None))) is not None
    return message
