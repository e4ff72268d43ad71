"""The messages of a queue as its page lists them: found by a selector or a string, in their order or sorted.

A store reads a queue in its order, after a position, as fast anywhere. It cannot sort by anything else
without reading all of a queue, so what is sorted are as many messages as one page may search, and the page
says so.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from jdbcstore.broker.console.bodies import preview
from jdbcstore.broker.console.database import ConsoleSource
from jdbcstore.broker.console.visits import Visit
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
"""Each column: the key of its order, its title, and its class; without a key it is not sorted by."""


def choice_of(visit: Visit) -> MessageChoice:
    """Return the messages that a page is asked for."""
    return MessageChoice(
        ids=tuple(visit.form.get("id", ())) or None,
        selector=visit.text("selector").strip() or None,
        contains=visit.text("contains").strip() or None,
    )


def asked_of(visit: Visit) -> dict[str, str]:
    """Return what the links of a page have to keep.

    :raises NotARequest: it is sorted by something else
    """
    sort, order = visit.text("sort"), visit.text("order")
    if sort and sort not in _KEYS:
        raise NotARequest(f"sort must be one of {', '.join(_KEYS)}, or absent for the queue's own order")
    return {
        "selector": visit.text("selector").strip(),
        "contains": visit.text("contains").strip(),
        "sort": sort,
        "order": order if sort and order == "desc" else "",
    }


async def messages_of(visit: Visit, source: ConsoleSource, queue: Destination) -> dict[str, Any]:
    """Return the page of messages that was asked for, with what its template needs.

    :raises StoreError: the queue cannot be read, or the selector is invalid
    """
    asked, after = asked_of(visit), Fields({"after": visit.text("after")}).cursor("after")
    key = _KEYS.get(asked["sort"])
    limit = _ROWS if key is None else MOST_SEEN
    page = await source.page(queue, choice_of(visit), after=after, limit=limit)
    found, number, pages, note = [*page.messages], 1, 1, ""
    if key is not None:
        found.sort(key=key, reverse=asked["order"] == "desc")
        pages = max(ceil(len(found) / _ROWS), 1)
        number = min(visit.number("page", least=1, most=1 << 31) or 1, pages)
        note = _sorted_note(
            page, is_first=after is None, is_filtered=bool(asked["selector"] or asked["contains"])
        )
        found = found[(number - 1) * _ROWS : number * _ROWS]
    return {
        "page": page,
        "rows": [(message, preview(message)) for message in found],
        "next": position(page.next),
        "after": visit.text("after"),
        "number": number,
        "pages": pages,
        "note": note,
    }


def _sorted_note(page: MessagePage, *, is_first: bool, is_filtered: bool) -> str:
    """Return what of the queue is sorted."""
    count = counted(len(page.messages), "message")
    what = f"{count} that match" if is_filtered else count
    if is_first and page.next is None and not page.transient:
        return f"Sorted: all of the queue, {what}."
    where = "the first" if is_first else "the next"
    matching = f", {what}" if is_filtered else ""
    return f"Sorted: only {where} {counted(page.seen, 'message')} of the queue{matching}."
