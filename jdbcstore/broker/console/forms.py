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
from jdbcstore.broker.console.visits import Visit
from jdbcstore.broker.management.performing import Affected
from jdbcstore.broker.operations import NotARequest, status_of
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import DestinationKind

_MOMENT = 1.0
"""Seconds to wait for the end of an operation."""


class Offer(NamedTuple):
    """An operation, and the function that runs it for a visit."""

    action: Action
    run: Callable[[Visit], Coroutine[None, None, tuple[str, str]]]
    affected: Callable[[Visit], Awaitable[Affected | None]]


class OperationForms:
    """The forms of one source.

    :param offers: the operations, by their names in addresses
    """

    def __init__(self, source: ConsoleSource, frame: PageFrame, offers: Mapping[str, Offer]) -> None:
        self._source = source
        self._frame = frame
        self._offers = offers
        self._tasks: set[asyncio.Task[tuple[str, str]]] = set()

    async def ask(self, visit: Visit) -> web.Response:
        """Return the form of an operation."""
        return await self._confirmation(visit)

    async def do(self, visit: Visit) -> web.Response:
        """Run the operation of a form, or ask for confirmation."""
        offer = self._offer(visit)
        if visit.text("chosen") and not visit.form.get("id"):
            raise NotARequest("no message is selected; go back and select some")
        if visit.text("confirmed") != "yes":
            return await self._confirmation(visit)
        try:
            check(offer.action.typed, visit, await offer.affected(visit))
            text, where = await self._carry_out(offer, visit)
        except NotConfirmed as error:
            return await self._confirmation(visit, question=str(error))
        except (StoreError, TimeoutError) as error:
            status = status_of(error) if isinstance(error, StoreError) else 503
            return await self._confirmation(
                visit, error=str(error) or "the operation took too long", status=status
            )
        key = self._frame.notices.add(visit.actor, text)
        joint = "&" if "?" in where else "?"
        raise web.HTTPSeeOther(f"{where}{joint}notice={key}")

    async def _carry_out(self, offer: Offer, visit: Visit) -> tuple[str, str]:
        """Run the operation of a form; return the report and the next page.

        A long operation continues in the background, and is shown on the page Operations.
        """
        if not offer.action.is_long:
            return await offer.run(visit)
        task = asyncio.create_task(offer.run(visit), name="jdbcstore-console-operation")
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

    def _offer(self, visit: Visit) -> Offer:
        offer = self._offers.get(visit.request.match_info["action"])
        if offer is None:
            raise web.HTTPNotFound(text="there is no such operation")
        return offer

    async def _confirmation(
        self, visit: Visit, *, question: str | None = None, error: str | None = None, status: int = 200
    ) -> web.Response:
        name = visit.request.match_info["action"]
        offer = self._offer(visit)
        action, counted, prefilled = offer.action, None, {}
        if name == "send" and visit.text("from") and visit.request.method == "GET":
            message = await self._source.message(visit.destination(), visit.text("from"))
            prefilled = form_of(message)
        with suppress(StoreError):  # errors are reported when the form is confirmed
            counted = await offer.affected(visit)
        template = "send.html" if name == "send" else "confirm.html"
        return await self._frame.page(
            visit,
            template,
            status=status,
            action=action,
            name=visit.text("name"),
            kind="topic" if kind_of(visit) is DestinationKind.TOPIC else "queue",
            ids=visit.form.get("id", []),
            back=action.page_before(visit),
            affected=counted,
            counted_for=chosen_by(visit),
            question=question,
            error=error,
            given=lambda field: prefilled.get(field, visit.text(field)),
        )
