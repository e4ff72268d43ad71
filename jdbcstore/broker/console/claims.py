"""The page of shared queues without a broker."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from jdbcstore.broker.console.request_context import RequestContext
from jdbcstore.broker.management.claims import SharedQueues
from jdbcstore.errors import DestinationNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.util.shared_queues import ClaimNumbers

_MOST_HELD = 100
"""The most claimed or delayed messages on the page of a queue."""


async def claims_of(shared: SharedQueues, queue: Destination) -> ClaimNumbers | None:
    """Return the numbers of a queue; None if it has neither messages nor settings."""
    numbers = await asyncio.to_thread(shared.numbers)
    return next((candidate for candidate in numbers.queues if candidate.queue == queue.name), None)


async def claims_context(shared: SharedQueues, ctx: RequestContext) -> dict[str, Any]:
    """Return the context of the page: all queues, or the queue in the address.

    :raises DestinationNotFound: the queue has neither messages nor settings
    """
    numbers = await asyncio.to_thread(shared.numbers, ctx.text("name") or None)
    may_act = ctx.may_manage and shared.may_change
    context: dict[str, Any] = {"numbers": numbers, "one": None, "held": (), "may_act": may_act}
    if not ctx.text("name"):
        return context
    queue = ctx.destination()
    shown = next((candidate for candidate in numbers.queues if candidate.queue == queue.name), None)
    if shown is None:
        raise DestinationNotFound(f"{queue} has neither messages nor claims; see all queues")
    held = await asyncio.to_thread(partial(shared.held, queue, _MOST_HELD))
    return context | {"one": shown, "held": held}
