"""The messages of a queue on its page: found by a selector or a string, in queue order or sorted.

A store reads a queue in its order equally fast from any position. Another order would require reading the
whole queue, so only as many messages are sorted as one page may search, and the page says so.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from jdbcstore.broker.console.bodies import preview
from jdbcstore.broker.console.database import ConsoleSource
from jdbcstore.broker.console.request_context import RequestContext
from jdbcstore.broker.management.messages import MOST_SEEN, MessageChoice, MessagePage
from jdbcstore.broker.management.requests import Fields, position
from jdbcstore.broker.management.texts import counted
from jdbcstore.broker.operations import NotARequest
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

_ROWS = 50
_KEYS: dict[str, Callable[[Message], Any]] = {
    "body": lambda message: preview(message).lower(),
    "type": lambda message: message.body_type.name,
    "size": lambda message: message.body_size,
    "priority": lambda message: message.priority,
    "sent": lambda message: message.timestamp_ms or 0,
    "redeliveries": lambda message: message.redelivery_counter,
}
COLUMNS = (
    ("", "Sequence", "n"),
    ("", "Message", ""),
    ("body", "Body", ""),
    ("type", "Type", ""),
    ("size", "Size", "n"),
    ("priority", "Priority", "n"),
    ("redeliveries", "Redelivered", "n"),
    ("sent", "Sent (UTC)", ""),
)
"""Each column: its sort key, title and class; a column without a key cannot be sorted."""


def choice_of(ctx: RequestContext) -> MessageChoice:
    """Return the selection of messages that a page requests."""
    return MessageChoice(
        ids=tuple(ctx.form.get("id", ())) or None,
        selector=ctx.text("selector").strip() or None,
        contains=ctx.text("contains").strip() or None,
        group=ctx.text("group") or None,
    )


def asked_of(ctx: RequestContext) -> dict[str, str]:
    """Return the parameters that the links of a page must keep.

    :raises NotARequest: the sort key is unknown
    """
    sort, order = ctx.text("sort"), ctx.text("order")
    if sort and sort not in _KEYS:
        raise NotARequest(f"sort must be one of {', '.join(_KEYS)}, or absent for the queue's own order")
    return {
        "selector": ctx.text("selector").strip(),
        "contains": ctx.text("contains").strip(),
        "sort": sort,
        "order": order if sort and order == "desc" else "",
    }


async def messages_of(ctx: RequestContext, source: ConsoleSource, queue: Destination) -> dict[str, Any]:
    """Return the requested page of messages, as the context of its template.

    :raises StoreError: the queue cannot be read, or the selector is invalid
    """
    asked, after = asked_of(ctx), Fields({"after": ctx.text("after")}).cursor("after")
    key = _KEYS.get(asked["sort"])
    limit = _ROWS if key is None else MOST_SEEN
    page = await source.page(queue, choice_of(ctx), after=after, limit=limit)
    messages, number, pages, note = [*page.messages], 1, 1, ""
    if key is not None:
        messages.sort(key=key, reverse=asked["order"] == "desc")
        pages = max(ceil(len(messages) / _ROWS), 1)
        number = min(ctx.number("page", least=1, most=1 << 31) or 1, pages)
        note = _sorted_note(
            page, is_first=after is None, is_filtered=bool(asked["selector"] or asked["contains"])
        )
        messages = messages[(number - 1) * _ROWS : number * _ROWS]
    return {
        "page": page,
        "rows": [(message, preview(message)) for message in messages],
        "next": position(page.next),
        "after": ctx.text("after"),
        "number": number,
        "pages": pages,
        "note": note,
    }


def _sorted_note(page: MessagePage, *, is_first: bool, is_filtered: bool) -> str:
    """Return a note about the sorted part of the queue."""
    what = counted(len(page.messages), "matching message" if is_filtered else "message")
    if is_first and page.next is None and not page.transient:
        return f"Sorted: the whole queue, {what}."
    where = "the first" if is_first else "the next"
    matching = f", {what}" if is_filtered else ""
    return f"Sorted: only {where} {counted(page.seen, 'message')} of the queue{matching}."
