"""A client of the master's management, which commands use instead of the store."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from jdbcstore.broker.condition import SERVES
from jdbcstore.broker.operations import OPERATIONS, STATUS, OperationOutcome
from jdbcstore.config.users import VIEW
from jdbcstore.errors import (
    DestinationNotFound,
    InvalidDestination,
    NotAuthorized,
    NotMaster,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.message.destination import Destination

MANAGEMENT = "management"
"""The kind of the management address among the announced addresses of a store."""
NAME = "name"
"""The kind of the broker's unique name among them."""
NO_BROKER = (
    "no broker with a management API serves this store; start one with jdbcstore broker "
    "--health HOST:PORT, or see jdbcstore status"
)
LOGIN_VARIABLE = "JDBCSTORE_BROKER_LOGIN"
"""The environment variable with ``USER:PASSWORD`` for brokers that have users."""
_TIMEOUT = 600.0
"""Timeout of an operation in seconds: a purge of millions of messages takes minutes."""
_LOOK = 5.0
_READ = 30.0
"""Timeout of a reading in seconds. A broker under load may be slow, but the user must be able to quit."""
_KINDS = {kind.__name__: kind for kind, _ in STATUS}
"""Error classes by the names in the broker's answers."""
_BY_STATUS: dict[int, type[StoreError]] = {400: InvalidDestination, 503: NotMaster}
"""Error classes of requests that are rejected before they reach an operation, by status."""


class RemoteBroker:
    """One broker at the URL of its management."""

    def __init__(self, url: str) -> None:
        self.url = url
        # The broker rejects requests through a proxy.
        self._opener = build_opener(ProxyHandler({}))
        self._headers = {"Content-Type": "application/json", "X-Requested-By": "jdbcstore"}
        login = os.environ.get(LOGIN_VARIABLE)
        if login:
            self._headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"

    def is_master(self, name: str) -> bool:
        """Return whether the named broker answers and serves: another broker may have the address now.

        :raises NotAuthorized: it needs a login
        """
        try:
            view = self.call("broker", timeout=_LOOK)
        except StoreUnavailable:
            return False
        return bool(view["name"] == name and view["condition"]["state"] in SERVES)

    def condition(self) -> dict[str, Any] | None:
        """Return the broker's condition; None if it does not answer.

        :raises NotAuthorized: it needs a login
        """
        try:
            found: dict[str, Any] = self.call("broker", timeout=_LOOK)["condition"]
        except StoreUnavailable:
            return None
        return found

    def call(self, name: str, *values: Any, timeout: float | None = None, **fields: Any) -> Any:
        """Run an operation of :data:`jdbcstore.broker.operations.OPERATIONS` on the broker; return its
        answer.

        :param values: parameters of its path
        :param fields: fields of its request; None values are omitted
        :param timeout: seconds for an answer; the operation's by default
        :raises StoreError: the errors of the operation
        :raises NotAuthorized: it needs a login, or another role
        :raises StoreUnavailable: there is no answer
        """
        operation = OPERATIONS[name]
        asked = {
            key: str(value) if isinstance(value, Destination) else value
            for key, value in fields.items()
            if value is not None
        }
        url, data = f"{self.url}{operation.url(*values)}", None
        if operation.method == "POST":
            data = json.dumps(asked).encode()
        elif asked:
            url = f"{url}?{urlencode(asked)}"
        request = Request(url, data, self._headers, method=operation.method)  # noqa: S310 - a broker's URL
        timeout = timeout or (_READ if operation.role == VIEW else _TIMEOUT)
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise self._error(error) from error
        except (URLError, OSError, HTTPException, ValueError) as error:
            raise StoreUnavailable(
                f"no answer from the broker at {self.url}; check whether the operation is done, then try "
                f"again: {error}"
            ) from error

    def on_queue(self, name: str, queue: Destination, unknown: Any, **fields: Any) -> Any:
        """Run an operation on a queue; return ``unknown`` if the broker does not know the queue.

        Such a queue is empty.
        """
        try:
            return self.call(name, queue, **fields)
        except DestinationNotFound:
            return unknown

    def act(self, operation: str, queue: Destination, **choice: Any) -> OperationOutcome:
        """Remove, move, copy or retry the selected messages of a queue."""
        outcome = self.on_queue(operation, queue, {"count": 0, "left": 0}, **choice)
        return OperationOutcome(**outcome)

    def consume(self, queue: Destination, count: int) -> dict[str, Any]:
        """Hold the first messages of a queue; return them, and the ``token`` that removes them."""
        nothing: dict[str, Any] = {"token": None, "messages": [], "damaged": []}
        held: dict[str, Any] = self.on_queue("consume", queue, nothing, limit=count)
        return held

    def consume_subscription(
        self, topic: Destination, client_id: str, subscription: str, count: int
    ) -> dict[str, Any]:
        """Hold the first messages of a durable subscription, like :meth:`consume`.

        :raises InvalidDestination: it subscribes to another topic, or has a wildcard
        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        for view in self.call("subscriptions"):
            known = (view["client_id"], view["name"]) == (client_id, subscription)
            if known and view["destination"] != str(topic):
                raise InvalidDestination(
                    f"{subscription} of {client_id} subscribes to {view['destination']}; name that topic"
                )
        held: dict[str, Any] = self.call("consume_subscription", client_id, subscription, limit=count)
        return held

    def pages(
        self, queue: Destination, count: int, selector: str | None = None, origin: Destination | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield all matching messages of a queue, in pages of about ``count``, without removing them.

        A page has ``messages`` and, in ``damaged``, an error for each that cannot be decoded.
        """
        chosen, after = {"limit": count, "selector": selector, "origin": origin}, None
        while page := self.on_queue("page", queue, None, after=after, **chosen):
            yield page
            after = page["next"]
            if after is None:
                return

    def destinations(self) -> list[dict[str, Any]]:
        """Return the queues and topics of the broker."""
        views: list[dict[str, Any]] = []
        while True:
            page = self.call("destinations", limit=1000, offset=len(views))
            views += page["destinations"]
            if len(views) >= page["total"] or not page["destinations"]:
                return views

    def _error(self, error: HTTPError) -> StoreError:
        try:
            answer = json.load(error)
            text, kind = str(answer["error"]), _KINDS.get(answer.get("type"))
        except (ValueError, KeyError, TypeError, AttributeError):
            text, kind = f"the answer is {error.code}", None
        if error.code in (401, 403):
            return NotAuthorized(f"{text}; {LOGIN_VARIABLE} is the USER:PASSWORD of this command")
        if kind is None and error.code == HTTPStatus.NOT_FOUND:
            return StoreUnavailable(
                f"{self.url} is not the management of a broker of this version: {text}; see jdbcstore status"
            )
        return (kind or _BY_STATUS.get(error.code, StoreError))(text)
