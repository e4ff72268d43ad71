"""Forms of operations, which confirm and run them, then report on the page where they were opened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import NamedTuple

from aiohttp import web

from jdbcstore.broker.console.actions import Action, kind_of
from jdbcstore.broker.console.confirmations import NotConfirmed, check, chosen_by
from jdbcstore.broker.console.database import ConsoleSource
from jdbcstore.broker.console.exports import form_of
from jdbcstore.broker.console.frame import PageFrame
from jdbcstore.broker.console.rendering import url
from jdbcstore.broker.console.request_context import RequestContext
from jdbcstore.broker.management.performing import Affected
from jdbcstore.broker.operations import NotARequest, status_of
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import DestinationKind

_MOMENT = 1.0
"""Seconds to wait for the end of an operation."""


class Offer(NamedTuple):
    """An operation, and the function that runs it for a request."""

    action: Action
    run: Callable[[RequestContext], Coroutine[None, None, tuple[str, str]]]
    affected: Callable[[RequestContext], Awaitable[Affected | None]]


class OperationForms:
    """The forms of one source.

    :param offers: the operations, by their names in addresses
    """

    def __init__(self, source: ConsoleSource, frame: PageFrame, offers: Mapping[str, Offer]) -> None:
        self._source = source
        self._frame = frame
        self._offers = offers
        self._tasks: set[asyncio.Task[tuple[str, str]]] = set()

    async def ask(self, ctx: RequestContext) -> web.Response:
        """Return the form of an operation."""
        return await self._confirmation(ctx)

    async def do(self, ctx: RequestContext) -> web.Response:
        """Run the operation of a form, or ask for confirmation."""
        offer = self._offer(ctx)
        if ctx.text("chosen") and not ctx.form.get("id"):
            raise NotARequest("no message is selected; go back and select some")
        if ctx.text("confirmed") != "yes":
            return await self._confirmation(ctx)
        try:
            check(offer.action.typed, ctx, await offer.affected(ctx))
            text, where = await self._carry_out(offer, ctx)
        except NotConfirmed as error:
            return await self._confirmation(ctx, question=str(error))
        except (StoreError, TimeoutError) as error:
            status = status_of(error) if isinstance(error, StoreError) else 503
            return await self._confirmation(
                ctx, error=str(error) or "the operation took too long", status=status
            )
        key = self._frame.notices.add(ctx.actor, text)
        joint = "&" if "?" in where else "?"
        raise web.HTTPSeeOther(f"{where}{joint}notice={key}")

    async def _carry_out(self, offer: Offer, ctx: RequestContext) -> tuple[str, str]:
        """Run the operation of a form; return the report and the next page.

        A long operation continues in the background, and is shown on the page Operations.
        """
        if not offer.action.is_long:
            return await offer.run(ctx)
        task = asyncio.create_task(offer.run(ctx), name="jdbcstore-console-operation")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        done, _ = await asyncio.wait({task}, timeout=_MOMENT)
        if done:
            return task.result()
        return "The operation is running; this page shows its progress and can stop it.", url("operations")

    def _ended(self, task: asyncio.Task[tuple[str, str]]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the page Operations shows it

    def _offer(self, ctx: RequestContext) -> Offer:
        offer = self._offers.get(ctx.request.match_info["action"])
        if offer is None:
            raise web.HTTPNotFound(text="there is no such operation")
        return offer

    async def _confirmation(
        self, ctx: RequestContext, *, question: str | None = None, error: str | None = None, status: int = 200
    ) -> web.Response:
        name = ctx.request.match_info["action"]
        offer = self._offer(ctx)
        action, counted, prefilled = offer.action, None, {}
        if name == "send" and ctx.text("from") and ctx.request.method == "GET":
            message = await self._source.message(ctx.destination(), ctx.text("from"))
            prefilled = form_of(message)
        with suppress(StoreError):  # errors are reported when the form is confirmed
            counted = await offer.affected(ctx)
        template = "send.html" if name == "send" else "confirm.html"
        return await self._frame.page(
            ctx,
            template,
            status=status,
            action=action,
            name=ctx.text("name"),
            kind="topic" if kind_of(ctx) is DestinationKind.TOPIC else "queue",
            ids=ctx.form.get("id", []),
            back=action.page_before(ctx),
            affected=counted,
            counted_for=chosen_by(ctx),
            question=question,
            error=error,
            given=lambda field: prefilled.get(field, ctx.text(field)),
        )
