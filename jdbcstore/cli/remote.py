"""The management of a broker that is the master, as commands use it instead of the store."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from jdbcstore.errors import (
    InvalidDestination,
    MessageNotFound,
    NotAuthorized,
    NotMaster,
    StoreError,
    StoreUnavailable,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from jdbcstore.message.destination import Destination

MANAGEMENT = "management"
"""The kind of its address, among those that a store announces."""
NAME = "name"
"""The kind of the broker's name, which is unique, among them."""
LOGIN_VARIABLE = "JDBCSTORE_BROKER_LOGIN"
"""The environment variable with ``USER:PASSWORD`` for brokers that have users."""
_TIMEOUT = 600.0
"""Seconds for an answer: a purge of millions of messages takes minutes."""
_LOOK = 5.0
_READ = 30.0
"""Seconds for a reading: a broker under load may be slow, and its watcher wants to leave."""


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
        except (MessageNotFound, StoreUnavailable):
            return False
        return bool(found["name"] == name and found["obstacle"] is None)

    def send(self, destination: Destination, **message: Any) -> None:
        """Have a message sent; it is durable when this returns."""
        self._ask("POST", _path(destination, "messages"), message)

    def act(self, operation: str, queue: Destination, **choice: Any) -> int:
        """Have the chosen messages of a queue removed, or retried; returns their number."""
        chosen = {name: value for name, value in choice.items() if value is not None}
        try:
            return int(self._ask("POST", _path(queue, operation), chosen)["count"])
        except MessageNotFound:  # the broker does not know the queue: it is empty
            return 0

    def consume(self, queue: Destination, count: int) -> tuple[str | None, list[dict[str, Any]]]:
        """Have the first messages of a queue held; returns them, and the token that removes them."""
        try:
            found = self._ask("POST", _path(queue, "consume"), {"limit": count})
        except MessageNotFound:
            return None, []
        return found["token"], found["messages"]

    def acknowledge(self, token: str) -> None:
        """Remove messages that were consumed.

        :raises MessageNotFound: it took too long, and they are delivered again
        """
        self._ask("POST", f"/api/consumed/{token}/acknowledge", {})

    def unsubscribe(self, client_id: str, subscription: str) -> None:
        """As :meth:`jdbcstore.broker.management.Management.destroy_subscription`."""
        names = "/".join(quote(name, safe="") for name in (client_id, subscription))
        self._ask("DELETE", f"/api/subscriptions/{names}", error_of_404=SubscriptionNotFound)

    def look(self, view: str) -> Any:
        """A view of ``/api``, such as ``broker``."""
        return self._ask("GET", f"/api/{view}", timeout=_READ)

    def messages(self, queue: Destination, count: int) -> list[dict[str, Any]]:
        """The first messages of a queue, which stay where they are; none if the broker does not know it."""
        try:
            found: list[dict[str, Any]] = self._ask("GET", f"{_path(queue, 'messages')}?limit={count}")
        except MessageNotFound:
            return []
        return found

    def pause(self, queue: Destination) -> None:
        """Stop the deliveries of a queue; its producers go on."""
        self._ask("POST", _path(queue, "pause"), {})

    def resume(self, queue: Destination) -> None:
        """Start the deliveries of a queue again."""
        self._ask("POST", _path(queue, "resume"), {})

    def queues(self) -> list[Destination]:
        """The queues that it knows."""
        found: list[Destination] = []
        while True:
            path = f"/api/destinations?kind=queue&limit=1000&offset={len(found)}"
            page = self._ask("GET", path)
            found += [Destination.parse(one["name"]) for one in page["destinations"]]
            if len(found) >= page["total"] or not page["destinations"]:
                return found

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        error_of_404: type[StoreError] = MessageNotFound,
        timeout: float = _TIMEOUT,
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, self._headers, method=method)  # noqa: S310 - a broker's URL
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise _error(error, error_of_404) from error
        except (URLError, OSError, ValueError) as error:
            raise StoreUnavailable(
                f"no answer from the broker at {self.url}; look if it has done it, and try again: {error}"
            ) from error


def _path(destination: Destination, what: str) -> str:
    kind = "topics" if destination.is_topic else "queues"
    return f"/api/{kind}/{quote(destination.name, safe='')}/{what}"


def _error(error: HTTPError, error_of_404: type[StoreError]) -> StoreError:
    try:
        text = str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        text = f"the broker answers {error.code}"
    if error.code in (401, 403):
        return NotAuthorized(f"{text}; {LOGIN_VARIABLE} is USER:PASSWORD of the user that asks")
    kinds: dict[int, type[StoreError]] = {
        400: InvalidDestination,
        404: error_of_404,
        409: SubscriptionInUse,
        503: NotMaster,
    }
    return kinds.get(error.code, StoreError)(text)
