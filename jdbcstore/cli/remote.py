"""The management of a broker that is the master, as commands use it instead of the store."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

from jdbcstore.errors import (
    DestinationFull,
    DestinationNotFound,
    InvalidDestination,
    InvalidMessage,
    InvalidSubscription,
    MessageNotFound,
    NotAuthorized,
    NotMaster,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    SubscriptionExists,
    SubscriptionInUse,
    SubscriptionNotFound,
    TransactionError,
    TransactionNotFound,
)
from jdbcstore.message.destination import Destination

MANAGEMENT = "management"
"""The kind of its address, among those that a store announces."""
NAME = "name"
"""The kind of the broker's name, which is unique, among them."""
NO_BROKER = (
    "no broker with a management serves this store; start one with jdbcstore broker --health HOST:PORT, or"
    " see jdbcstore status"
)
LOGIN_VARIABLE = "JDBCSTORE_BROKER_LOGIN"
"""The environment variable with ``USER:PASSWORD`` for brokers that have users."""
_TIMEOUT = 600.0
"""Seconds for an answer: a purge of millions of messages takes minutes."""
_LOOK = 5.0
_READ = 30.0
"""Seconds for a reading: a broker under load may be slow, and its watcher wants to leave."""
_KINDS: dict[str, type[StoreError]] = {
    kind.__name__: kind
    for kind in (
        *(DestinationFull, DestinationNotFound, InvalidDestination, InvalidMessage, MessageNotFound),
        *(NotMaster, StoreClosed, StoreUnavailable, SubscriptionExists, SubscriptionInUse),
        *(InvalidSubscription, SubscriptionNotFound, TransactionError, TransactionNotFound),
    )
}
"""Errors of a broker, by what it calls them."""
_BY_STATUS: dict[int, type[StoreError]] = {400: InvalidDestination, 503: NotMaster}
"""Those of requests that are refused before they are an operation."""


@dataclass(frozen=True, slots=True)
class Acted:
    """What an operation has done."""

    count: int
    left: int
    """Messages that stayed: consumers or transactions have them, or a dead letter's origin is unknown."""


class RemoteBroker:
    """One broker, by the URL of its management."""

    def __init__(self, url: str) -> None:
        self.url = url
        # The broker refuses what comes through a proxy.
        self._opener = build_opener(ProxyHandler({}))
        self._headers = {"Content-Type": "application/json", "X-Requested-By": "jdbcstore"}
        login = os.environ.get(LOGIN_VARIABLE)
        if login:
            self._headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"

    def is_master(self, name: str) -> bool:
        """Whether it answers under this name, and serves: another broker may have the address now.

        :raises NotAuthorized: it needs a login
        """
        try:
            found = self._ask("GET", "/api/broker", timeout=_LOOK)
        except StoreUnavailable:
            return False
        return bool(found["name"] == name and found["obstacle"] is None)

    def send(self, destination: Destination, **message: Any) -> None:
        """Have a message sent; it is durable when this returns."""
        self._ask("POST", _path(destination, "messages"), message)

    def act(self, operation: str, queue: Destination, **choice: Any) -> Acted:
        """Have the chosen messages of a queue removed, or retried; returns how many were, and were not."""
        chosen = {name: value for name, value in choice.items() if value is not None}
        try:
            found = self._ask("POST", _path(queue, operation), chosen)
        except DestinationNotFound:  # the broker does not know the queue: it is empty
            return Acted(0, 0)
        return Acted(int(found["count"]), int(found["left"]))

    def consume(self, queue: Destination, count: int) -> dict[str, Any]:
        """Have the first messages of a queue held; returns them, and the ``token`` that removes them."""
        try:
            found: dict[str, Any] = self._ask("POST", _path(queue, "consume"), {"limit": count})
        except DestinationNotFound:
            return {"token": None, "messages": [], "damaged": []}
        return found

    def consume_subscription(
        self, topic: Destination, client_id: str, subscription: str, count: int
    ) -> dict[str, Any]:
        """As :meth:`consume`, for a durable subscription, which must be one to this topic.

        :raises InvalidDestination: it is to another topic, or to topics with a wildcard
        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        for one in self.subscriptions():
            if (one["client_id"], one["name"]) == (client_id, subscription) and one["destination"] != str(
                topic
            ):
                raise InvalidDestination(
                    f"{subscription} of {client_id} subscribes to {one['destination']}; name that"
                )
        path = f"{_subscription_path(client_id, subscription)}/consume"
        found: dict[str, Any] = self._ask("POST", path, {"limit": count})
        return found

    def acknowledge(self, token: str) -> None:
        """Remove messages that were consumed.

        :raises MessageNotFound: it took too long, and they are delivered again
        """
        self._ask("POST", f"/api/consumed/{token}/acknowledge", {})

    def subscribe(self, topic: Destination, client_id: str, subscription: str, **how: Any) -> int:
        """As :meth:`jdbcstore.broker.management.Management.subscribe`."""
        fields = {"topic": str(topic), **how}
        return int(self._ask("POST", _subscription_path(client_id, subscription), fields)["pending"])

    def unsubscribe(self, client_id: str, subscription: str) -> None:
        """As :meth:`jdbcstore.broker.management.Management.destroy_subscription`."""
        self._ask("DELETE", _subscription_path(client_id, subscription))

    def look(self, view: str) -> Any:
        """A view of ``/api``, such as ``broker``."""
        return self._ask("GET", f"/api/{view}", timeout=_READ)

    def messages(self, queue: Destination, count: int) -> list[dict[str, Any]]:
        """The first messages of a queue, which stay where they are; none if the broker does not know it."""
        try:
            found: list[dict[str, Any]] = self._ask("GET", f"{_path(queue, 'messages')}?limit={count}")
        except DestinationNotFound:
            return []
        return found

    def pages(
        self, queue: Destination, count: int, selector: str | None = None, origin: Destination | None = None
    ) -> Iterator[dict[str, Any]]:
        """All messages of a queue that match, which stay where they are, in pages of about ``count``.

        A page has ``messages`` and, in ``damaged``, an error for each that cannot be decoded.
        """
        asked = {"limit": str(count)}
        asked |= {} if selector is None else {"selector": selector}
        asked |= {} if origin is None else {"origin": str(origin)}
        while True:
            try:
                page = self._ask("GET", f"{_path(queue, 'pages')}?{urlencode(asked)}")
            except DestinationNotFound:  # the broker does not know the queue: it is empty
                return
            yield page
            if page["next"] is None:
                return
            asked["after"] = page["next"]

    def transactions(self) -> list[dict[str, Any]]:
        """The XA transactions in doubt."""
        found: list[dict[str, Any]] = self.look("transactions")
        return found

    def subscriptions(self) -> list[dict[str, Any]]:
        """The consumers, and the durable subscriptions without one."""
        found: list[dict[str, Any]] = self.look("subscriptions")
        return found

    def pause(self, queue: Destination) -> None:
        """Stop the deliveries of a queue; its producers go on."""
        self._ask("POST", _path(queue, "pause"), {})

    def resume(self, queue: Destination) -> None:
        """Start the deliveries of a queue again."""
        self._ask("POST", _path(queue, "resume"), {})

    def connections(self) -> list[dict[str, Any]]:
        """The clients that have logged in."""
        found: list[dict[str, Any]] = self.look("connections")
        return found

    def drop(self, connection: str) -> None:
        """Close the connection of a client.

        :raises MessageNotFound: there is none with this id
        """
        self._ask("DELETE", f"/api/connections/{quote(connection, safe='')}")

    def end_transaction(self, xid: str, *, commit: bool) -> None:
        """Commit a prepared XA transaction, or roll it back.

        :raises TransactionNotFound: it is not prepared
        """
        path = f"/api/transactions/{quote(xid, safe='')}/{'commit' if commit else 'roll-back'}"
        self._ask("POST", path, {})

    def do(self, operation: str) -> dict[str, Any]:
        """Have an operation done that is for no destination: ``checkpoint``, ``cleanup`` or ``hand-over``."""
        found: dict[str, Any] = self._ask("POST", f"/api/{operation}", {})
        return found

    def queues(self) -> list[Destination]:
        """The queues that it knows."""
        return [Destination.parse(one["name"]) for one in self.destinations() if not one["is_topic"]]

    def destinations(self) -> list[dict[str, Any]]:
        """The queues and topics that it knows."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.look(f"destinations?limit=1000&offset={len(found)}")
            found += page["destinations"]
            if len(found) >= page["total"] or not page["destinations"]:
                return found

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = _TIMEOUT,
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, self._headers, method=method)  # noqa: S310 - a broker's URL
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise self._error(error) from error
        except (URLError, OSError, ValueError) as error:
            raise StoreUnavailable(
                f"no answer from the broker at {self.url}; look if it has done it, and try again: {error}"
            ) from error

    def _error(self, error: HTTPError) -> StoreError:
        try:
            answer = json.load(error)
            text, kind = str(answer["error"]), _KINDS.get(answer.get("type"))
        except (ValueError, KeyError, TypeError, AttributeError):
            text, kind = f"it answers {error.code}", None
        if error.code in (401, 403):
            return NotAuthorized(f"{text}; {LOGIN_VARIABLE} is USER:PASSWORD of the user that asks")
        if kind is None and error.code == HTTPStatus.NOT_FOUND:
            return StoreUnavailable(
                f"{self.url} is not the management of a broker of this version: {text}; see jdbcstore status"
            )
        return (kind or _BY_STATUS.get(error.code, StoreError))(text)


def _path(destination: Destination, what: str) -> str:
    kind = "topics" if destination.is_topic else "queues"
    return f"/api/{kind}/{quote(destination.name, safe='')}/{what}"


def _subscription_path(client_id: str, subscription: str) -> str:
    return "/api/subscriptions/" + "/".join(quote(name, safe="") for name in (client_id, subscription))
