"""Messages of the cases: filled destinations, and their contents in few words."""

from __future__ import annotations

from collections.abc import Iterable

from jdbcstore import Message, MessageId, MessageReference, MessageStore, ProducerId, pages
from jdbcstore.abc import Recoverable

PRODUCER = ProducerId("ID:machine-1-1:1", 1, 1)


def message_id(number: int, producer: ProducerId = PRODUCER) -> MessageId:
    return MessageId(producer, number)


def fill(destination: MessageStore, *bodies: str, **headers: object) -> list[MessageReference]:
    """Add one text message for each body, in one commit."""
    return destination.add_messages([Message(body, **headers) for body in bodies])  # type: ignore[arg-type]


def bodies(messages: Iterable[Message]) -> list[object]:
    return [message.body for message in messages]


def content(source: Recoverable, limit: int = 500) -> list[object]:
    """Return the bodies of everything, in delivery order, read in pages."""
    return [message.body for page in pages(source, limit) for message in page]


def sequences(source: Recoverable) -> list[int | None]:
    return [message.sequence for page in pages(source) for message in page]
