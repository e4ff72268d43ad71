"""Checks of the names by which callers refer to destinations and messages."""

from __future__ import annotations

from typing import TypeVar

from jdbcstore.abc import MessageReference, MessageStore, Reference
from jdbcstore.config.store import NameLengths
from jdbcstore.errors import (
    InvalidDestination,
    InvalidMessage,
    MessageNotFound,
    SchemaError,
)
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message

MAX_SEQUENCE = 2**63 - 1
"""The largest value of the column ID."""
_S = TypeVar("_S", bound=MessageStore)


def destination_named(name: str | Destination, kind: DestinationKind, lengths: NameLengths) -> Destination:
    """Return the queue or topic of a name.

    :raises InvalidDestination: it is of the other kind, or the column cannot hold its name
    """
    parsed = name if isinstance(name, Destination) else Destination.named(name, kind)
    destination = check_length(parsed, "CONTAINER", lengths.container)
    if destination.is_topic is not (kind is DestinationKind.TOPIC):
        actual = "topic" if destination.is_topic else "queue"
        raise InvalidDestination(f"{destination} is a {actual}; use {actual}()")
    return destination


def check_length(destination: Destination, column: str, length: int) -> Destination:
    """Return the destination, if a column of this length can hold it.

    :raises InvalidDestination: it is too long, or composite
    """
    if destination.is_composite:
        raise InvalidDestination(
            f"{destination} names several destinations; store the message in each of destination.members"
        )
    if len(destination.qualified_name) > length:
        raise InvalidDestination(
            f"{destination.qualified_name[:40]!r}... has {len(destination.qualified_name)} characters,"
            f" and {column} holds {length}; choose a shorter name"
        )
    return destination


def agreed(store: _S, prioritized: bool | None) -> _S:
    """Return the store; :class:`SchemaError` if ``prioritized`` contradicts it."""
    if prioritized is not None and store.prioritized is not prioritized:
        raise SchemaError(
            f"{store.destination} is in use with prioritized={store.prioritized};"
            " set it when the destination is first used"
        )
    return store


def name_of(message: Reference) -> MessageId | int:
    """Return the sequence in a reference, or else its message id."""
    match message:
        case Message(sequence=int(sequence)) | MessageReference(sequence=sequence) if sequence >= 0:
            return sequence
        case Message(message_id=MessageId() as message_id) | MessageReference(message_id=message_id):
            return message_id
        case Message():
            raise InvalidMessage(
                "a message without an id cannot be found again; use a recovered message, or a reference"
            )
        case _:
            return message


def message_not_found(name: MessageId | int, destination: Destination) -> MessageNotFound:
    return MessageNotFound(f"no message {name} in {destination}; it may have been acknowledged")


def sequences_used_up(last: int) -> SchemaError:
    """Return the error for an ID or a mark that leaves no room for another message after it."""
    return SchemaError(
        f"the highest ID or LAST_ACKED_ID in the tables is {last}, and a message behind it would have one"
        f" beyond {MAX_SEQUENCE}: give that row another number, or acknowledge the message, and open the"
        " store again"
    )
