"""Durable subscriptions of every store: a view of a topic, and the checks of their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jdbcstore.abc import Cursor, Page, Reference, SubscriptionInfo
from jdbcstore.config.store import NameLengths
from jdbcstore.errors import InvalidSubscription, SubscriptionExists, SubscriptionNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.stores.shared.checks import check_length
from jdbcstore.stores.shared.encoding import fits
from jdbcstore.util.futures import StoreFuture


class SubscribedTopic(Protocol):
    """A topic, as its durable subscriptions use it."""

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        """The next messages that a subscription has not acknowledged."""
        ...

    def acknowledge_for(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> None:
        """One subscription has consumed these messages; returns once that is committed."""
        ...

    def acknowledge_for_async(
        self, info: SubscriptionInfo, messages: Sequence[Reference]
    ) -> StoreFuture[None]:
        """As :meth:`acknowledge_for`, without waiting."""
        ...

    def count_pending(self, info: SubscriptionInfo) -> int:
        """How many messages a subscription has not acknowledged."""
        ...


class TopicSubscription:
    """One durable subscription's view of its topic; see :class:`jdbcstore.abc.DurableSubscription`."""

    def __init__(self, topic: SubscribedTopic, info: SubscriptionInfo) -> None:
        self._topic = topic
        self._info = info

    @property
    def info(self) -> SubscriptionInfo:
        return self._info

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        return self._topic.recover_pending(self._info, limit, after)

    def acknowledge(self, *messages: Reference) -> None:
        self._topic.acknowledge_for(self._info, messages)

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        return self._topic.acknowledge_for_async(self._info, messages)

    def message_count(self) -> int:
        return self._topic.count_pending(self._info)


def check_subscription(info: SubscriptionInfo, lengths: NameLengths) -> None:
    """Check that the columns can hold the names and the selector.

    :raises InvalidSubscription: they cannot
    """
    length = lengths.string_id
    check_length(info.subscribed_destination, "SUB_DEST", length)
    names = {"client_id": info.client_id, "subscription_name": info.subscription_name}
    for what, value in names.items():
        if not value:
            raise InvalidSubscription(f"the {what} of a durable subscription must not be empty")
    for what, value in (names | {"selector": info.selector or ""}).items():
        if not fits(value, length):
            raise InvalidSubscription(
                f"the {what} {value[:40]!r} has {len(value)} characters; the tables hold {length}"
                " of plain text"
            )


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
