"""Durable subscriptions of every store: a view of a topic, and the checks of their names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from jdbcstore.abc import Cursor, Page, Reference, SubscriptionInfo
from jdbcstore.config.store import NameLengths
from jdbcstore.errors import InvalidSubscription, SubscriptionExists, SubscriptionNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.stores.shared.checks import check_length
from jdbcstore.stores.shared.rows import fits
from jdbcstore.stores.shared.writing import UnitWrites
from jdbcstore.util.futures import StoreFuture

U = TypeVar("U")


class SubscribedTopic(UnitWrites[U]):
    """A topic and its durable subscriptions; ``U`` is a unit of work of its store."""

    destination: Destination

    def subscribe(
        self,
        client_id: str,
        subscription_name: str,
        *,
        selector: str | None = None,
        retroactive: bool = False,
        subscribed_destination: Destination | None = None,
    ) -> TopicSubscription:
        pattern = subscribed_destination or self.destination
        info = SubscriptionInfo(client_id, subscription_name, self.destination, pattern, selector)
        self._subscribe(info, retroactive=retroactive)
        return TopicSubscription(self, info)

    def subscription(self, client_id: str, subscription_name: str) -> TopicSubscription:
        return TopicSubscription(self, self._info_of(client_id, subscription_name))

    @abstractmethod
    def _subscribe(self, info: SubscriptionInfo, *, retroactive: bool) -> None:
        """Create a subscription, unless the same one exists."""

    @abstractmethod
    def _info_of(self, client_id: str, subscription_name: str) -> SubscriptionInfo:
        """Return the subscription of these names; :class:`SubscriptionNotFound` if there is none."""

    @abstractmethod
    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        """Return the next messages that a subscription has not acknowledged."""

    @abstractmethod
    def count_pending(self, info: SubscriptionInfo) -> int:
        """Return how many messages a subscription has not acknowledged."""

    @abstractmethod
    def acknowledgement(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> U:
        """Return the unit of work that marks messages as consumed by a subscription."""


class TopicSubscription:
    """One durable subscription's view of its topic; see :class:`jdbcstore.abc.DurableSubscription`."""

    def __init__(self, topic: SubscribedTopic[Any], info: SubscriptionInfo) -> None:
        self._topic = topic
        self.info = info

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        return self._topic.recover_pending(self.info, limit, after)

    def acknowledge(self, *messages: Reference) -> None:
        self._topic.execute(self._topic.acknowledgement(self.info, messages))

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        return self._topic.submit(self._topic.acknowledgement(self.info, messages))

    def message_count(self) -> int:
        return self._topic.count_pending(self.info)


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
