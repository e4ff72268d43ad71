"""Tables of the console: columns, search, order and pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, TypeVar

from jdbcstore.broker.console.request_context import RequestContext
from jdbcstore.broker.management.lists import arranged
from jdbcstore.broker.operations import NotARequest

ROWS = 100
"""Lines of a table on a page."""
DESTINATIONS = (
    ("name", "Name", ""),
    ("size", "Messages", "number"),
    ("in_flight", "In flight", "number"),
    ("consumers", "Consumers", "number"),
    ("producers", "Producers", "number"),
    ("enqueued_per_second", "In", "rate"),
    ("dispatched_per_second", "Delivered", "rate"),
    ("dequeued_per_second", "Out", "rate"),
    ("idle", "Idle", "duration"),
    ("enqueued", "Arrived", "number"),
    ("dead", "Dead", "number"),
)
"""The columns of queues and topics: field, title, and the filter that shows it."""
SUBSCRIBERS = (
    ("destination", "Destination", ""),
    ("client_id", "Client, subscription", ""),
    ("selector", "Selector", ""),
    ("prefetch", "Prefetch", "number"),
    ("in_flight", "In flight", "number"),
    ("dispatched", "Delivered", "number"),
    ("pending", "Pending", "number"),
    ("idle", "Idle", "duration"),
    ("is_active", "State", ""),
)
CONNECTIONS = (
    ("client_id", "Client", ""),
    ("peer", "From", ""),
    ("user", "User", ""),
    ("protocol", "Protocol", ""),
    ("age", "Since", "duration"),
    ("consumers", "Consumers", "number"),
    ("in_flight", "In flight", "number"),
    ("sends_to", "Sends to", ""),
    ("is_slow", "State", ""),
)
T = TypeVar("T")


def listed(
    ctx: RequestContext, views: Sequence[T], columns: Sequence[tuple[str, str, str]], said: Callable[[T], str]
) -> dict[str, Any]:
    """Return the requested page of a list, as the context of its template.

    :param said: returns the text of a view to search
    :raises NotARequest: the conditions, the column or the page number is invalid
    """
    search, where = ctx.text("search"), ctx.text("where")
    sort, is_descending = ctx.text("sort") or columns[0][0], ctx.text("order") == "desc"
    if sort not in (name for name, _, _ in columns):
        raise NotARequest(f"sort must be one of {', '.join(name for name, _, _ in columns)}")
    rows = [view for view in views if search.lower() in said(view).lower()]
    rows = arranged(rows, where=where, sort=sort, is_descending=is_descending)
    asked = {"search": search, "where": where, "sort": sort, "order": "desc" if is_descending else "asc"}
    pages = max(ceil(len(rows) / ROWS), 1)
    number = min(ctx.number("page", least=1, most=1 << 31) or 1, pages)
    return {
        "rows": rows[(number - 1) * ROWS : number * ROWS],
        "total": len(rows),
        "number": number,
        "pages": pages,
        "columns": columns,
        "asked": asked,
    }
