"""The page of one client: its connection, its consumers, and their messages."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from jdbcstore.broker.console.request_context import RequestContext
from jdbcstore.broker.console.tables import CONSUMERS
from jdbcstore.broker.management.management import Management

_MOST = 20
"""The most unacknowledged messages and log lines."""


async def client_context(management: Management, ctx: RequestContext) -> dict[str, Any]:
    """Return the context of the page of the connection in the address.

    :raises web.HTTPNotFound: it is closed
    """
    views, wanted = management.views, ctx.text("id")
    view = next((view for view in views.connections() if view.id == wanted), None)
    if view is None:
        raise web.HTTPNotFound(text="this connection is closed; its client may have another one")
    consumers = [one for one in await views.subscriptions() if one.connection_id == wanted]
    rates = [one.acknowledged_per_second for one in consumers if one.acknowledged_per_second is not None]
    return {
        "view": view,
        "subscriptions": consumers,
        "columns_of_consumers": CONSUMERS,
        "clients": {view.id: view.client_id},
        "oldest": max((one.oldest_unacknowledged or 0.0 for one in consumers if one.in_flight), default=None),
        "rate": sum(rates) if rates else None,
        "dispatched": sum(one.dispatched for one in consumers),
        "rejected": sum(one.rejected for one in consumers),
        "held": views.unacknowledged(wanted, _MOST),
        "lines": management.inside.log(search=wanted, limit=_MOST) if ctx.may_browse else [],
    }
