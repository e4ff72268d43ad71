"""How callers name destinations, subscriptions and messages: the checks that every store makes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeVar

from jdbcstore.abc import MessageReference, MessageStore, Reference, SubscriptionInfo
from jdbcstore.destination import Destination, DestinationKind
from jdbcstore.errors import (
    InvalidDestination,
    InvalidMessage,
    InvalidSubscription,
    MessageNotFound,
    SchemaError,
    SubscriptionExists,
    SubscriptionNotFound,
)
from jdbcstore.message import Message, MessageId

NAME_LENGTH = 250
"""Characters that CONTAINER, MSGID_PROD, CLIENT_ID, SUB_NAME, SUB_DEST and SELECTOR hold."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_S = TypeVar("_S", bound=MessageStore)


def queue_named(name: str | Destination) -> Destination:
    """The queue that a caller means; :class:`InvalidDestination` if it is none, or no row can hold it."""
    destination = _check(name if isinstance(name, Destination) else Destination.parse(name))
    if destination.is_topic:
        raise InvalidDestination(f"{destination} is a topic; use topic()")
    return destination


def topic_named(name: str | Destination) -> Destination:
    """The topic that a caller means; :class:`InvalidDestination` if it is none, or no row can hold it."""
    parsed = name if isinstance(name, Destination) else Destination.parse(name, DestinationKind.TOPIC)
    destination = _check(parsed)
    if not destination.is_topic:
        raise InvalidDestination(f"{destination} is a queue; use queue()")
    return destination


def _check(destination: Destination) -> Destination:
    if destination.is_composite:
        raise InvalidDestination(
            f"{destination} names several destinations; store the message in each of destination.members"
        )
    if len(destination.qualified_name) > NAME_LENGTH:
        raise InvalidDestination(
            f"{destination.qualified_name[:40]!r}... has {len(destination.qualified_name)} characters,"
            f" and CONTAINER holds {NAME_LENGTH}; choose a shorter name"
        )
    return destination


def agreed(store: _S, prioritized: bool | None) -> _S:
    """The store, if it is what ``prioritized`` says; :class:`SchemaError` if not."""
    if prioritized is not None and store.prioritized is not prioritized:
        raise SchemaError(
            f"{store.destination} is in use with prioritized={store.prioritized};"
            " say it when the destination is first used"
        )
    return store


def check_subscription(info: SubscriptionInfo) -> None:
    """:class:`InvalidSubscription` if a name or the selector is not what a row can hold."""
    _check(info.subscribed_destination)
    texts = {"client_id": info.client_id, "subscription_name": info.subscription_name}
    for what, value in texts.items():
        if not value:
            raise InvalidSubscription(f"the {what} of a durable subscription must not be empty")
    for what, value in (texts | {"selector": info.selector or ""}).items():
        if not fits(value):
            raise InvalidSubscription(
                f"the {what} {value[:40]!r} has {len(value)} characters; the tables hold {NAME_LENGTH}"
                " of plain text"
            )


def fits(text: str) -> bool:
    """Whether a name column holds the text: not too long, no NUL, no half of a surrogate pair."""
    return len(text) <= NAME_LENGTH and _is_plain(text)


@lru_cache(maxsize=1024)
def _is_plain(text: str) -> bool:
    return "\0" not in text and not _SURROGATES.search(text)


def name_of(message: Reference) -> MessageId | int:
    """The sequence that a reference holds, or else the id."""
    match message:
        case Message(sequence=int(sequence)) | MessageReference(sequence=sequence) if sequence >= 0:
            return sequence
        case Message(message_id=MessageId() as message_id) | MessageReference(message_id=message_id):
            return message_id
        case Message():
            raise InvalidMessage(
                "a message without an id cannot be found again; use one that was recovered, or a reference"
            )
        case _:
            return message


def message_not_found(name: MessageId | int, destination: Destination) -> MessageNotFound:
    return MessageNotFound(f"no message {name} in {destination}; it may have been acknowledged")


def subscription_not_found(
    client_id: str, subscription_name: str, destination: Destination | str
) -> SubscriptionNotFound:
    return SubscriptionNotFound(
        f"client {client_id!r} has no durable subscription {subscription_name!r}"
        f" on {destination}; subscribe first"
    )


def subscription_exists(existing: SubscriptionInfo) -> SubscriptionExists:
    return SubscriptionExists(
        f"the subscription {existing.subscription_name!r} of client {existing.client_id!r} exists with"
        f" selector {existing.selector!r} on {existing.subscribed_destination}; unsubscribe it first"
    )
