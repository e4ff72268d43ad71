"""Recorded messages made again from their parts."""

from __future__ import annotations

from typing import Any

from jdbcstore.message.message import HEADERS, Message


def rebuilt(message: Message) -> Message:
    """The message of the same values, without the bytes they were decoded from."""
    headers: dict[str, Any] = {name: getattr(message, name) for name in HEADERS}
    return Message(message.body, properties=message.properties, **headers)
