"""Exports of the console: messages as lines of JSON, a body as a file, and the form that sends a message
again."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from aiohttp import web

from jdbcstore.broker.console.bodies import type_of
from jdbcstore.broker.console.database import ConsoleSource
from jdbcstore.broker.console.rendering import HEADERS
from jdbcstore.broker.console.request_context import RequestContext
from jdbcstore.broker.management.http import facts_or_error
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.errors import MessageNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.pieces import body_in_pieces
from jdbcstore.message.readable import text_of_bytes
from jdbcstore.message.values import plain

_PAGE = 200
"""Messages read per iteration of the event loop."""
_FORM = 256 * 1024
"""The most characters of a body in a form."""
_KEPT = frozenset({"string", "int", "long", "double", "boolean"})
_ANOTHER_KIND = {"String": "string", "byte": "int", "short": "int", "float": "double", "char": "string"}
"""Types that a form replaces by others."""


def download(data: bytes, name: str, kind: str) -> web.Response:
    """Return a file, which browsers download instead of showing it."""
    return web.Response(body=data, headers=_headers(name, kind))


def _headers(name: str, kind: str) -> dict[str, str]:
    shown = quote(name, safe="", errors="replace")
    disposition = f"attachment; filename*=UTF-8''{shown}"
    return {**HEADERS, "Content-Type": kind, "Content-Disposition": disposition}


def body_file(message: Message) -> tuple[bytes, str, str]:
    """Return the body of a message as it was sent, with the name and the type of a file for it.

    :raises CorruptMessage: it cannot be decoded
    """
    name, body = str(message.message_id).replace(":", "-"), message.body
    if message.body_type is BodyType.BLOB:
        body = message.remote_blob_url
    if isinstance(body, bytes):
        return body, f"{name}.bin", "application/octet-stream"
    if body is None or isinstance(body, str):
        return (body or "").encode(errors="surrogatepass"), f"{name}.txt", "text/plain; charset=utf-8"
    return json.dumps(plain(body), indent=2).encode(), f"{name}.json", "application/json"


async def exported(
    ctx: RequestContext, source: ConsoleSource, queue: Destination, choice: MessageChoice
) -> web.StreamResponse:
    """Answer with messages as lines of JSON, page by page, like ``jdbcstore browse --json``.

    :raises StoreError: the first messages cannot be read; after a later error the answer is truncated
    """
    if choice.ids is not None:
        messages = []
        for each in choice.ids:
            try:
                messages.append(await source.message(queue, each))
            except MessageNotFound:  # it was consumed meanwhile
                continue
        return download(_lines(messages), f"{queue.name}.jsonl", "application/jsonl")
    page = await source.page(queue, choice, limit=_PAGE)
    answer = web.StreamResponse(headers=_headers(f"{queue.name}.jsonl", "application/jsonl"))
    await answer.prepare(ctx.request)
    while True:
        await answer.write(_lines(page.messages))
        if page.next is None:
            await answer.write_eof()
            return answer
        page = await source.page(queue, choice, after=page.next, limit=_PAGE)


def _lines(messages: Any) -> bytes:
    return "".join(f"{json.dumps(facts_or_error(message), default=str)}\n" for message in messages).encode()


def form_of(message: Message) -> dict[str, str]:
    """Return the fields of the form that sends a copy of a message; ``lost`` describes differences.

    :raises CorruptMessage: it cannot be decoded
    """
    lost: list[str] = []
    lines: list[str] = []
    body = None if body_in_pieces(message) else message.body
    if isinstance(body, bytes) and message.body_type is BodyType.BYTES:
        body = text_of_bytes(body, _FORM)
        lost += ["it is sent as text instead of bytes"]
    if body is not None and (not isinstance(body, str) or len(body) > _FORM):
        body = None
    if body_in_pieces(message):
        lost = ["its body is kept in pieces"]
    elif body is None and message.body is not None:
        lost = ["its body does not fit into a form as text"]
    for name, value in message.properties.items():
        kind = type_of(value)
        kind = _ANOTHER_KIND.get(kind, kind)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if kind not in _KEPT or "\n" in text or set(name) & {"=", ":", "\n"}:
            lost.append(f"the property {name} does not fit on one line")
        else:
            lines.append(f"{name}={text}" if kind == "string" else f"{name}:{kind}={text}")
    return {
        "body": body or "",
        "properties": "\n".join(lines),
        "priority": str(message.priority),
        "persistent": "yes" if message.persistent else "no",
        "jms_type": message.jms_type or "",
        "correlation_id": message.correlation_id or "",
        "reply_to": "" if message.reply_to is None else str(message.reply_to),
        "lost": "; ".join(lost),
    }
