"""The management over HTTP, as JSON under ``/api``."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, is_dataclass
from functools import partial
from typing import Any

from aiohttp import web

from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.messages import Consumed, MessagePage, defect_of
from jdbcstore.broker.management.performing import Performing
from jdbcstore.broker.management.requests import Fields, destination_of, position, sequence_of
from jdbcstore.broker.operations import NotARequest, Operation, kind_of, status_of
from jdbcstore.errors import CorruptMessage, StoreError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.facts import facts_of
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

MAX_BODY = 1024 * 1024
"""The most bytes of a request's body."""
_BODY_TIMEOUT = 30.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Api:
    """The operations of the management as resources."""

    def __init__(self, management: Performing, guard: Guard) -> None:
        self._management = management
        self._guard = guard

    def application(self) -> web.Application:
        """Return an application to be mounted under ``/api``."""
        application = web.Application(middlewares=[as_json], client_max_size=MAX_BODY)
        for operation in self._management.operations.values():
            for path, is_topic in operation.routes:
                kind = DestinationKind.TOPIC if is_topic else DestinationKind.QUEUE
                application.router.add_route(operation.method, path, self._handler(operation, kind))
        return application

    def _handler(self, operation: Operation, kind: DestinationKind) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            actor = await self._guard.admit(request, operation.role)
            fields = Fields(await _fields_of(request))
            arguments = fields.arguments(operation.parameters)
            fields.end()
            values = [_path_value(name, request.match_info[name], kind) for name in operation.path_names]
            answer = await self._management.perform(operation, actor, *values, **arguments)
            if answer is None and not operation.only_reads:
                answer = {}
            return web.json_response(answer, dumps=partial(json.dumps, default=_plain))

        return handle


def _path_value(name: str, text: str, kind: DestinationKind) -> Destination | int | str:
    if name == "target":
        return destination_of(text, kind)
    if name == "sequence":
        return sequence_of(text)
    return Destination(kind, text) if name in ("queue", "destination") else text


async def _fields_of(request: web.Request) -> Any:
    if request.method == "POST":
        return await body_of(request)
    return dict(request.query) if request.method == "GET" else {}


@web.middleware
async def as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as JSON, without details that belong only in the log."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        return _error(error.status, error.text or error.reason, error.headers)
    except Exception as error:
        return _error(
            *reported(error, request), kind=kind_of(error) if isinstance(error, StoreError) else None
        )
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def reported(error: Exception, request: web.Request) -> tuple[int, str]:
    """Return the status and the text of an answer, without details that belong only in the log."""
    if isinstance(error, StoreError):
        return status_of(error), str(error)
    if isinstance(error, TimeoutError):
        return 503, "it took too long; try again later"
    if isinstance(error, ValueError):  # from a name that cannot be encoded, such as a lone surrogate
        log.debug("a request is malformed", exc_info=error)
        return 400, "the request is malformed"
    log.error("a request for %s failed", request.path, exc_info=error)
    return 500, "an unexpected error; see the broker's log"


def _error(
    status: int, text: str, headers: Mapping[str, str] | None = None, kind: str | None = None
) -> web.Response:
    kept = {name: value for name, value in (headers or {}).items() if name in ("WWW-Authenticate", "Allow")}
    answer = {"error": text} if kind is None else {"error": text, "type": kind}
    return web.json_response(answer, status=status, headers=kept)


async def body_of(request: web.Request) -> Any:
    """Return the JSON object in a request; an empty body is an empty object.

    :raises NotARequest: it is not JSON
    """
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            data = await request.read()
    except TimeoutError:
        raise NotARequest("the body did not arrive in time; send it without pauses") from None
    try:
        return json.loads(data) if data else {}
    except (ValueError, RecursionError):
        raise NotARequest("the body is not JSON; send an object, such as {}") from None


def facts_or_error(message: Any) -> dict[str, Any]:
    """Return the facts of a message with its original destination, or the reason why it cannot be decoded."""
    origin = message.original_destination
    try:
        return {**facts_of(message), "original_destination": None if origin is None else str(origin)}
    except CorruptMessage as error:
        return {"message_id": str(message.message_id), "id": message.sequence, "error": str(error)}


def _consumed(consumed: Consumed) -> dict[str, Any]:
    return {
        "token": consumed.token,
        "messages": [facts_or_error(message) for message in consumed.messages],
        "damaged": [*map(str, consumed.damaged)],
    }


def _page(page: MessagePage) -> dict[str, Any]:
    defects = [defect_of(message) for message in page.messages]
    return {
        "messages": [
            facts_or_error(message)
            for message, defect in zip(page.messages, defects, strict=True)
            if not defect
        ],
        "damaged": [str(error) for error in (*page.damaged, *defects) if error is not None],
        "next": position(page.next),
        "transient": page.transient,
    }


_SHOWN: dict[type, Callable[[Any], dict[str, Any]]] = {
    Message: facts_or_error,
    Consumed: _consumed,
    MessagePage: _page,
}


def _plain(value: Any) -> Any:
    shown = _SHOWN.get(type(value))
    if shown is not None:
        return shown(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
