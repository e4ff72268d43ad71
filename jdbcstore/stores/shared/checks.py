"""How callers name destinations, subscriptions and messages: the checks that every store makes."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from jdbcstore.abc import MessageReference, MessageStore, Reference, SubscriptionInfo
from jdbcstore.config.types import NameLengths
from jdbcstore.errors import (
    InvalidDestination,
    InvalidMessage,
    InvalidSubscription,
    MessageNotFound,
    SchemaError,
    SubscriptionExists,
    SubscriptionNotFound,
    TransactionError,
    TransactionNotFound,
)
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.message import Message, MessageId, XATransactionId
from jdbcstore.stores.shared.encoding import fits

MAX_SEQUENCE = 2**63 - 1
"""What the column ID can hold."""
_S = TypeVar("_S", bound=MessageStore)


def queue_named(name: str | Destination, lengths: NameLengths) -> Destination:
    """The queue that a caller means; :class:`InvalidDestination` if it is none, or no row can hold it."""
    parsed = name if isinstance(name, Destination) else Destination.named(name)
    destination = _check(parsed, "CONTAINER", lengths.container)
    if destination.is_topic:
        raise InvalidDestination(f"{destination} is a topic; use topic()")
    return destination


def topic_named(name: str | Destination, lengths: NameLengths) -> Destination:
    """The topic that a caller means; :class:`InvalidDestination` if it is none, or no row can hold it."""
    parsed = name if isinstance(name, Destination) else Destination.named(name, DestinationKind.TOPIC)
    destination = _check(parsed, "CONTAINER", lengths.container)
    if not destination.is_topic:
        raise InvalidDestination(f"{destination} is a queue; use queue()")
    return destination


def _check(destination: Destination, column: str, length: int) -> Destination:
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
    """The store, if it is what ``prioritized`` says; :class:`SchemaError` if not."""
    if prioritized is not None and store.prioritized is not prioritized:
        raise SchemaError(
            f"{store.destination} is in use with prioritized={store.prioritized};"
            " say it when the destination is first used"
        )
    return store


def check_subscription(info: SubscriptionInfo, lengths: NameLengths) -> None:
    """:class:`InvalidSubscription` if a name or the selector is not what a row can hold."""
    length = lengths.string_id
    _check(info.subscribed_destination, "SUB_DEST", length)
    texts = {"client_id": info.client_id, "subscription_name": info.subscription_name}
    for what, value in texts.items():
        if not value:
            raise InvalidSubscription(f"the {what} of a durable subscription must not be empty")
    for what, value in (texts | {"selector": info.selector or ""}).items():
        if not fits(value, length):
            raise InvalidSubscription(
                f"the {what} {value[:40]!r} has {len(value)} characters; the tables hold {length}"
                " of plain text"
            )


def check_xid(xid: XATransactionId, lengths: NameLengths) -> None:
    """:class:`TransactionError` if it is no XID, or one that the XID columns cannot hold."""
    globally, branch = xid.global_transaction_id, xid.branch_qualifier
    if not (1 <= len(globally) <= 64 and len(branch) <= 64 and -(1 << 31) <= xid.format_id < 1 << 31):
        raise TransactionError(
            f"{xid} is no XID: it has a format id of 32 bits, a global transaction id of 1 to 64 bytes"
            " and a branch qualifier of at most 64"
        )
    # Base64 of 16 bytes more.
    if 4 * ((16 + len(globally) + len(branch) + 2) // 3) > lengths.string_id:
        raise TransactionError(
            f"{xid} does not fit the XID columns, which hold {lengths.string_id} characters;"
            " choose shorter ids"
        )


def xid_order(xid: XATransactionId) -> tuple[int, bytes, bytes]:
    """What XIDs are sorted by."""
    return xid.format_id, xid.global_transaction_id, xid.branch_qualifier


def prepared_before(xid: XATransactionId) -> TransactionError:
    return TransactionError(f"{xid} is prepared already; commit it or roll it back")


def not_prepared(xid: XATransactionId) -> TransactionNotFound:
    return TransactionNotFound(
        f"{xid} is not prepared: it has been committed or rolled back, or it never was"
    )


def refuse_update() -> NoReturn:
    """An XA transaction cannot keep an update until it is decided."""
    raise TransactionError(
        "an XA transaction adds and acknowledges; update the message outside it, or in a local transaction"
    )


def refuse_removal() -> NoReturn:
    """An XA transaction cannot give a message back to all subscriptions of a topic."""
    raise TransactionError(
        "an XA transaction acknowledges a topic's message for one subscription; use acknowledge_subscription"
    )


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


def sequences_used_up(last: int) -> SchemaError:
    """Somebody has written an ID, or a mark, that none can come behind."""
    return SchemaError(
        f"the highest ID or LAST_ACKED_ID in the tables is {last}, and a message behind it would have one"
        f" beyond {MAX_SEQUENCE}: give that row another number, or acknowledge the message, and open the"
        " store again"
    )


def subscription_taken_for(
    info: SubscriptionInfo, container: str, client_id: str, name: str, table: str
) -> SchemaError:
    """A database whose key compares without regard to case, say, has room for one of two only."""
    return SchemaError(
        f"the key of {table} takes the subscription {info.subscription_name!r} of client"
        f" {info.client_id!r} on {info.destination} for {name!r} of {client_id!r} on {container}, which"
        " exists: its collation knows no difference. Choose another name, or give the columns CONTAINER,"
        " CLIENT_ID and SUB_NAME a binary collation, there and in JDBCSTORE_ACKS",
    )


def subscription_exists(existing: SubscriptionInfo) -> SubscriptionExists:
    return SubscriptionExists(
        f"the subscription {existing.subscription_name!r} of client {existing.client_id!r} exists with"
        f" selector {existing.selector!r} on {existing.subscribed_destination}; unsubscribe it first"
    )
