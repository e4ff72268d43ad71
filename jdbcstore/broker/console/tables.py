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
STORED = (("name", "Name", ""), ("size", "Messages", "number"), ("oldest_age", "Oldest", "age"))
"""The columns of queues without a broker: field, title, and the filter that shows it."""
QUEUES = (
    ("name", "Name", ""),
    ("ready", "Ready", "number"),
    ("in_flight", "Unacked", "number"),
    ("oldest_age", "Oldest", "age"),
    ("enqueued_per_second", "In", "rate"),
    ("dequeued_per_second", "Out", "rate"),
    ("history", "10 minutes", ""),
    ("growth_per_second", "Trend", "rate"),
    ("consumers", "Consumers", "number"),
    ("state", "State", ""),
)
TOPICS = (
    ("name", "Name", ""),
    ("consumers", "Consumers", "number"),
    ("producers", "Producers", "number"),
    ("enqueued_per_second", "In", "rate"),
    ("dispatched_per_second", "Delivered", "rate"),
    ("idle", "Idle", "idle"),
    ("enqueued", "Arrived", "number"),
)
MORE = (
    ("size", "Messages", "number"),
    ("utilisation", "In use", "share"),
    ("producers", "Producers", "number"),
    ("dispatched_per_second", "Delivered", "rate"),
    ("idle", "Idle", "idle"),
    ("enqueued", "Arrived", "number"),
    ("dead", "Dead", "number"),
)
"""The other columns of queues."""
UNSORTED = ("oldest_age", "history", "state")
"""Columns that are read for the rows of a page only."""
CONSUMERS = (
    ("destination", "Destination", ""),
    ("client", "Client, subscription", ""),
    ("in_flight", "Unacked", "number"),
    ("oldest_unacknowledged", "Oldest", "age"),
    ("acknowledged_per_second", "Acknowledged", "rate"),
    ("utilisation", "In use", "share"),
    ("dispatched", "Delivered", "number"),
    ("rejected", "Rejected", "number"),
    ("pending", "Pending", "number"),
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
    ctx: RequestContext,
    views: Sequence[T],
    columns: Sequence[tuple[str, str, str]],
    said: Callable[[T], str],
    first: str = "",
    others: Sequence[tuple[str, str, str]] = (),
) -> dict[str, Any]:
    """Return the requested page of a list, as the context of its template.

    :param said: returns the text of a view to search
    :param first: the column whose largest values are first by default
    :param others: columns that are not shown, but can be sorted by
    :raises NotARequest: the conditions, the column or the page number is invalid
    """
    search, where = ctx.text("search"), ctx.text("where")
    sort = ctx.text("sort") or first or columns[0][0]
    is_descending = (ctx.text("order") or ("desc" if sort == first else "asc")) == "desc"
    sorts = [name for name, _, _ in (*columns, *others) if name not in UNSORTED]
    if sort not in sorts:
        raise NotARequest(f"sort must be one of {', '.join(sorts)}")
    rows = [view for view in views if search.lower() in said(view).lower()] if search else views
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
        "unsorted": UNSORTED,
        "asked": asked,
    }
