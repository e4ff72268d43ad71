"""The management over HTTP, as JSON under ``/api``."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from aiohttp import web

from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.management import MAX_BROWSED, Management
from jdbcstore.broker.management.messages import Consumed, MessageChoice, defect_of
from jdbcstore.broker.management.requests import Fields, NotARequest, destination_of, message_of, position
from jdbcstore.config.users import BROWSE, MANAGE, VIEW
from jdbcstore.errors import (
    CorruptMessage,
    DestinationFull,
    DestinationNotFound,
    InvalidDestination,
    InvalidMessage,
    InvalidSelector,
    InvalidSubscription,
    MessageNotFound,
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
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.facts import facts_of

log = logging.getLogger(__name__)

MAX_BODY = 1024 * 1024
"""Bytes of a request's body at most."""
_BODY_TIMEOUT = 30.0
_NAME = re.compile(r"\{(\w+)\}")
"""A name in a path."""
_PAGE = 100
_LARGEST_PAGE = 1000
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (NotARequest, 400),
    (DestinationNotFound, 404),
    (MessageNotFound, 404),
    (SubscriptionNotFound, 404),
    (TransactionNotFound, 404),
    (TransactionError, 400),
    (SubscriptionExists, 409),
    (SubscriptionInUse, 409),
    (InvalidDestination, 400),
    (InvalidMessage, 400),
    (InvalidSelector, 400),
    (InvalidSubscription, 400),
    (DestinationFull, 503),
    (NotMaster, 503),
    (StoreClosed, 503),
    (StoreUnavailable, 503),
    (TimeoutError, 503),
)
_SORTS = (
    *("name", "size", "enqueued", "dequeued", "dispatched", "in_flight", "consumers", "producers", "dead"),
    "average_wait",
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Answer = Callable[["_Call"], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Call:
    """A request that is allowed."""

    request: web.Request
    actor: Actor
    fields: Fields
    """The body, or the query."""

    def destination(self, kind: DestinationKind = DestinationKind.QUEUE) -> Destination:
        return Destination(kind, self.request.match_info["name"])


class Api:
    """The routes of the management."""

    def __init__(self, management: Management, guard: Guard) -> None:
        self._management = management
        self._guard = guard

    def application(self) -> web.Application:
        """An application to be mounted under ``/api``."""
        application = web.Application(middlewares=[as_json], client_max_size=MAX_BODY)
        # A name may have anything but a slash, which is encoded; without a pattern, not braces either.
        for method, path, role, answer in self._routes():
            application.router.add_route(method, _NAME.sub(r"{\1:[^/]+}", path), self._handler(role, answer))
        return application

    def _routes(self) -> list[tuple[str, str, str, _Answer]]:
        queue, topic = "/queues/{name}", "/topics/{name}"
        return [
            ("GET", "/broker", VIEW, self._broker),
            ("GET", "/destinations", VIEW, self._destinations),
            ("GET", queue, VIEW, self._queue),
            ("GET", topic, VIEW, self._topic),
            ("GET", "/connections", VIEW, self._connections),
            ("GET", "/subscriptions", VIEW, self._subscriptions),
            ("GET", "/transactions", VIEW, self._transactions),
            ("GET", "/lock", VIEW, self._lock),
            ("GET", "/lock/history", VIEW, self._lock_history),
            ("GET", "/journal", VIEW, self._journal),
            ("GET", "/store", VIEW, self._store),
            ("GET", f"{queue}/messages", BROWSE, self._messages),
            ("GET", f"{queue}/messages/{{id}}", BROWSE, self._message),
            ("GET", f"{queue}/pages", BROWSE, self._page),
            ("POST", f"{queue}/messages", MANAGE, self._send_to_queue),
            ("POST", f"{topic}/messages", MANAGE, self._send_to_topic),
            ("POST", f"{queue}/purge", MANAGE, self._purge),
            ("POST", f"{topic}/purge", MANAGE, self._purge_topic),
            ("POST", f"{queue}/remove", MANAGE, self._remove),
            ("POST", f"{queue}/change", MANAGE, self._change),
            ("POST", f"{queue}/consume", MANAGE, self._consume),
            ("POST", "/consumed/{token}/acknowledge", MANAGE, self._acknowledge),
            ("POST", f"{queue}/move", MANAGE, self._move),
            ("POST", f"{queue}/copy", MANAGE, self._copy),
            ("POST", f"{queue}/retry", MANAGE, self._retry),
            ("POST", f"{queue}/pause", MANAGE, self._pause),
            ("POST", f"{queue}/resume", MANAGE, self._resume),
            ("POST", f"{queue}/reset-counters", MANAGE, self._reset_queue),
            ("POST", f"{topic}/reset-counters", MANAGE, self._reset_topic),
            ("POST", "/reset-counters", MANAGE, self._reset),
            ("DELETE", queue, MANAGE, self._delete_queue),
            ("DELETE", topic, MANAGE, self._delete_topic),
            ("DELETE", "/connections/{id}", MANAGE, self._drop),
            ("POST", "/subscriptions/{client}/{name}", MANAGE, self._subscribe),
            ("DELETE", "/subscriptions/{client}/{name}", MANAGE, self._unsubscribe),
            ("POST", "/subscriptions/{client}/{name}/purge", MANAGE, self._purge_subscription),
            (
                "POST",
                "/subscriptions/{client}/{name}/consume",
                MANAGE,
                self._consume_subscription,
            ),
            ("POST", "/transactions/{xid}/commit", MANAGE, self._commit),
            ("POST", "/transactions/{xid}/roll-back", MANAGE, self._roll_back),
            ("POST", "/cleanup", MANAGE, self._cleanup),
            ("POST", "/checkpoint", MANAGE, self._checkpoint),
            ("POST", "/hand-over", MANAGE, self._hand_over),
        ]

    def _handler(self, role: str, answer: _Answer) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            actor = await self._guard.admit(request, role)
            values = await body_of(request) if request.method == "POST" else dict(request.query)
            fields = Fields(values)
            found = await answer(_Call(request, actor, fields))
            return web.json_response(found, dumps=_dumps)

        return handle

    # Views

    async def _broker(self, call: _Call) -> Any:
        call.fields.end()
        return self._management.broker()

    async def _destinations(self, call: _Call) -> Any:
        kind = call.fields.one_of("kind", ("queue", "topic"))
        search = (call.fields.text("search") or "").lower()
        sort = call.fields.one_of("sort", _SORTS) or "name"
        descending = call.fields.one_of("order", ("asc", "desc")) == "desc"
        offset = call.fields.number("offset", least=0) or 0
        limit = call.fields.number("limit", least=1, most=_LARGEST_PAGE) or _PAGE
        ages = call.fields.one_of("ages", ("true", "false")) == "true"
        call.fields.end()
        found = [
            view
            for view in await self._management.destinations()
            if (kind is None or view.is_topic == (kind == "topic")) and search in view.name.lower()
        ]
        found.sort(key=lambda view: getattr(view, sort) or (0 if sort != "name" else ""), reverse=descending)
        page = found[offset : offset + limit]
        if ages:
            page = await self._management.with_ages(page)
        return {"total": len(found), "destinations": page}

    async def _queue(self, call: _Call) -> Any:
        call.fields.end()
        return await self._management.destination(call.destination())

    async def _topic(self, call: _Call) -> Any:
        call.fields.end()
        return await self._management.destination(call.destination(DestinationKind.TOPIC))

    async def _connections(self, call: _Call) -> Any:
        call.fields.end()
        return self._management.connections()

    async def _subscriptions(self, call: _Call) -> Any:
        pending = call.fields.one_of("pending", ("true", "false")) == "true"
        call.fields.end()
        return await self._management.subscriptions(pending=pending)

    async def _transactions(self, call: _Call) -> Any:
        call.fields.end()
        return await self._management.transactions()

    async def _lock(self, call: _Call) -> Any:
        call.fields.end()
        return self._management.lock()

    async def _lock_history(self, call: _Call) -> Any:
        call.fields.end()
        return self._management.lock_history()

    async def _journal(self, call: _Call) -> Any:
        call.fields.end()
        return await self._management.journal()

    async def _store(self, call: _Call) -> Any:
        call.fields.end()
        return await self._management.store()

    # Messages

    async def _messages(self, call: _Call) -> Any:
        selector = call.fields.text("selector")
        limit = call.fields.number("limit", least=1, most=MAX_BROWSED) or _PAGE
        call.fields.end()
        found = await self._management.browse(
            call.destination(), MessageChoice(selector=selector), limit=limit
        )
        return [_facts(message) for message in found]

    async def _page(self, call: _Call) -> Any:
        choice = MessageChoice(selector=call.fields.text("selector"), origin=call.fields.origin())
        after, limit = call.fields.cursor("after"), call.fields.number("limit", least=1, most=MAX_BROWSED)
        call.fields.end()
        try:
            page = await self._management.page(call.destination(), choice, after=after, limit=limit or _PAGE)
        except StoreError:
            raise
        except ValueError as error:
            raise NotARequest(str(error)) from None
        defects = [defect_of(message) for message in page.messages]
        return {
            "messages": [
                _facts(each) for each, defect in zip(page.messages, defects, strict=True) if not defect
            ],
            "damaged": [str(one) for one in (*page.damaged, *defects) if one is not None],
            "next": position(page.next),
            "transient": page.transient,
        }

    async def _message(self, call: _Call) -> Any:
        call.fields.end()
        return _facts(await self._management.message(call.destination(), call.request.match_info["id"]))

    async def _send_to_queue(self, call: _Call) -> Any:
        return await self._send(call, DestinationKind.QUEUE)

    async def _send_to_topic(self, call: _Call) -> Any:
        return await self._send(call, DestinationKind.TOPIC)

    async def _send(self, call: _Call, kind: DestinationKind) -> Any:
        destination = destination_of(call.request.match_info["name"], kind)
        return await self._management.send(call.actor, [message_of(call.fields, destination)])

    async def _purge(self, call: _Call) -> Any:
        expired = call.fields.flag("expired") or False
        call.fields.end()
        return await self._management.purge(call.actor, call.destination(), expired=expired)

    async def _purge_topic(self, call: _Call) -> Any:
        call.fields.end()
        return await self._management.purge(call.actor, call.destination(DestinationKind.TOPIC))

    async def _consume(self, call: _Call) -> Any:
        choice = call.fields.choice()
        call.fields.end()
        return _consumed(await self._management.consume(call.actor, call.destination(), choice))

    async def _consume_subscription(self, call: _Call) -> Any:
        limit = call.fields.number("limit", least=1) or MAX_BROWSED
        call.fields.end()
        client, name = call.request.match_info["client"], call.request.match_info["name"]
        found = await self._management.consume_subscription(call.actor, client, name, limit=limit)
        return _consumed(found)

    async def _acknowledge(self, call: _Call) -> Any:
        call.fields.end()
        return await self._management.acknowledge(call.actor, call.request.match_info["token"])

    async def _change(self, call: _Call) -> Any:
        choice = call.fields.choice()
        priority = call.fields.number("priority", least=0, most=9)
        ttl_ms = call.fields.number("ttl_ms", least=0, most=1 << 53)
        call.fields.end()
        expiration_ms = ttl_ms and time.time_ns() // 1_000_000 + ttl_ms
        return await self._management.change(
            call.actor, call.destination(), choice, priority=priority, expiration_ms=expiration_ms
        )

    async def _remove(self, call: _Call) -> Any:
        choice = call.fields.choice()
        call.fields.end()
        return await self._management.remove(call.actor, call.destination(), choice)

    async def _move(self, call: _Call) -> Any:
        choice, to = call.fields.choice(), call.fields.destination("to")
        call.fields.end()
        return await self._management.move(call.actor, call.destination(), choice, to)

    async def _copy(self, call: _Call) -> Any:
        choice, to = call.fields.choice(), call.fields.destination("to")
        call.fields.end()
        return await self._management.copy(call.actor, call.destination(), choice, to)

    async def _retry(self, call: _Call) -> Any:
        choice = call.fields.choice()
        call.fields.end()
        return await self._management.retry(call.actor, call.destination(), choice)

    # Other operations

    async def _pause(self, call: _Call) -> Any:
        call.fields.end()
        self._management.pause(call.actor, call.destination())
        return {}

    async def _resume(self, call: _Call) -> Any:
        call.fields.end()
        self._management.resume(call.actor, call.destination())
        return {}

    async def _reset_queue(self, call: _Call) -> Any:
        call.fields.end()
        self._management.reset(call.actor, call.destination())
        return {}

    async def _reset_topic(self, call: _Call) -> Any:
        call.fields.end()
        self._management.reset(call.actor, call.destination(DestinationKind.TOPIC))
        return {}

    async def _reset(self, call: _Call) -> Any:
        call.fields.end()
        self._management.reset(call.actor)
        return {}

    async def _delete_queue(self, call: _Call) -> Any:
        return await self._management.delete(call.actor, call.destination())

    async def _delete_topic(self, call: _Call) -> Any:
        return await self._management.delete(call.actor, call.destination(DestinationKind.TOPIC))

    async def _drop(self, call: _Call) -> Any:
        self._management.drop_connection(call.actor, call.request.match_info["id"])
        return {}

    async def _subscribe(self, call: _Call) -> Any:
        topic, selector = call.fields.destination("topic"), call.fields.text("selector")
        retroactive = call.fields.flag("retroactive") or False
        call.fields.end()
        names = call.request.match_info["client"], call.request.match_info["name"]
        pending = await self._management.subscribe(
            call.actor, topic, *names, selector=selector, retroactive=retroactive
        )
        return {"pending": pending}

    async def _unsubscribe(self, call: _Call) -> Any:
        client, name = call.request.match_info["client"], call.request.match_info["name"]
        await self._management.destroy_subscription(call.actor, client, name)
        return {}

    async def _purge_subscription(self, call: _Call) -> Any:
        call.fields.end()
        client, name = call.request.match_info["client"], call.request.match_info["name"]
        return await self._management.purge_subscription(call.actor, client, name)

    async def _commit(self, call: _Call) -> Any:
        return await self._end_transaction(call, commit=True)

    async def _roll_back(self, call: _Call) -> Any:
        return await self._end_transaction(call, commit=False)

    async def _end_transaction(self, call: _Call, *, commit: bool) -> Any:
        call.fields.end()
        await self._management.end_transaction(call.actor, call.request.match_info["xid"], commit=commit)
        return {}

    async def _cleanup(self, call: _Call) -> Any:
        call.fields.end()
        return await self._management.cleanup(call.actor)

    async def _checkpoint(self, call: _Call) -> Any:
        call.fields.end()
        await self._management.checkpoint(call.actor)
        return {}

    async def _hand_over(self, call: _Call) -> Any:
        call.fields.end()
        self._management.hand_over(call.actor)
        return {}


@web.middleware
async def as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as JSON, without what only the log may have."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        return _error(error.status, error.text or error.reason, error.headers)
    except StoreError as error:
        return _error(status_of(error), str(error), kind=_kind_of(error))
    except TimeoutError:
        return _error(503, "it took too long; try again later")
    except ValueError as error:  # of a name that no text can have, such as a lone surrogate
        log.debug("a request cannot be understood", exc_info=error)
        return _error(400, "the request cannot be understood")
    except Exception:
        log.exception("a request for %s has failed", request.path)
        return _error(500, "an unexpected error, which is in the broker's log")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def status_of(error: StoreError) -> int:
    """The status of an answer that reports an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _kind_of(error: StoreError) -> str | None:
    """What clients tell errors of the same status apart by: a class of :mod:`jdbcstore.errors`."""
    found = next((kind for kind, _ in _STATUS if isinstance(error, kind)), NotARequest)
    return None if found is NotARequest else found.__name__


def _error(
    status: int, text: str, headers: Mapping[str, str] | None = None, kind: str | None = None
) -> web.Response:
    kept = {name: value for name, value in (headers or {}).items() if name in ("WWW-Authenticate", "Allow")}
    answer = {"error": text} if kind is None else {"error": text, "type": kind}
    return web.json_response(answer, status=status, headers=kept)


async def body_of(request: web.Request) -> Any:
    """The JSON object in a request; an empty body is an empty one.

    :raises NotARequest: it is something else
    """
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            data = await request.read()
    except TimeoutError:
        raise NotARequest("the body did not arrive in time; send it at once") from None
    try:
        return json.loads(data) if data else {}
    except (ValueError, RecursionError):
        raise NotARequest("the body is not JSON; send an object, such as {}") from None


def _facts(message: Any) -> dict[str, Any]:
    origin = message.original_destination
    try:
        return {**facts_of(message), "original_destination": None if origin is None else str(origin)}
    except CorruptMessage as error:
        return {"message_id": str(message.message_id), "id": message.sequence, "error": str(error)}


def _consumed(found: Consumed) -> dict[str, Any]:
    return {
        "token": found.token,
        "messages": [_facts(message) for message in found.messages],
        "damaged": [*map(str, found.damaged)],
    }


def _dumps(value: Any) -> str:
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
