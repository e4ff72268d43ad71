"""The frame of every page: the broker, its role, and the time; and errors as pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import web

from jdbcstore.broker.condition import BrokerState
from jdbcstore.broker.console.database import ConsoleSource
from jdbcstore.broker.console.lookups import Lookups
from jdbcstore.broker.console.rendering import HEADERS, ROOT, Renderer
from jdbcstore.broker.console.request_context import ConsoleGate, PageNotices, RequestContext
from jdbcstore.broker.management.guard import CHANGE_HEADER
from jdbcstore.broker.management.http import reported
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.texts import number
from jdbcstore.broker.management.views import BrokerView
from jdbcstore.util.clock import Clock

NAVIGATION = (
    ("", "Overview"),
    ("queues", "Queues"),
    ("topics", "Topics"),
    ("consumers", "Consumers"),
    ("connections", "Connections"),
    ("dead-letters", "Dead letters"),
    ("scheduled", "Scheduled"),
    ("operations", "Operations"),
    ("transactions", "Transactions"),
    ("broker", "Lock and store"),
    ("database", "Database"),
    ("configuration", "Configuration"),
    ("log", "Log"),
)
CLAIMS = ("claims", "Claims")
_FORMS = ("confirm.html", "send.html")
_PAGE_OF = {"queue": "queues", "topic": "topics", "message": "queues", "client": "connections"}
"""The navigation entry for pages without their own."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Page = Callable[[RequestContext], Awaitable[web.StreamResponse]]


class PageFrame:
    """Puts a page into its frame.

    :param is_live: whether the source is a broker, not a database
    :param may_change: whether operations are available
    :param has_claims: whether there are shared queues
    """

    def __init__(
        self,
        source: ConsoleSource,
        gate: ConsoleGate,
        renderer: Renderer,
        lookups: Lookups,
        clock: Clock,
        *,
        is_live: bool,
        may_change: bool,
        has_claims: bool,
    ) -> None:
        self._source = source
        self._gate = gate
        self._renderer = renderer
        self._lookups = lookups
        self._clock = clock
        self._is_live = is_live
        self._may_change = may_change
        self._has_claims = has_claims
        self._navigation = (*NAVIGATION[:2], CLAIMS, *NAVIGATION[2:]) if has_claims else NAVIGATION
        self.notices = PageNotices()

    async def page(
        self, ctx: RequestContext, template: str, *, status: int = 200, **context: Any
    ) -> web.Response:
        """Return a page with the parts common to all pages."""
        # A confirmation belongs to the page where it was opened.
        path = str(context.get("back", "")) if template in _FORMS else ctx.request.path
        place = path.partition("?")[0].removeprefix(ROOT).strip("/").partition("/")[0]
        broker = self._source.broker()
        common = {
            "ctx": ctx,
            "token": self._gate.token(ctx.actor),
            "navigation": self._navigation,
            "may_change": self._may_change,
            "has_claims": self._has_claims,
            "place": _PAGE_OF.get(place, place),
            "notice": None if status != 200 else self.notices.take(ctx.actor, ctx.text("notice")),
            "now_ms": self._clock.now_ms(),
            "broker": broker,
            "master": await self._lookups.master() if broker.condition.state is BrokerState.WAITING else None,
            "badges": partial(self._badges, broker),
            "is_live": self._is_live,
            "may_manage": ctx.may_manage and self._is_live,
        }
        return self._renderer.page(template, common | context, status=status)

    def _badges(self, broker: BrokerView) -> dict[str, str]:
        """Return the counts in the navigation, by the path of their page."""
        source = self._source
        if not isinstance(source, Views) or not broker.condition.serves:
            return {}
        dead, failing = source.dead_letters(), len(source.failing_consumers())
        counts = {"dead-letters": (dead, number(dead)), "consumers": (failing, f"{failing:,} failing")}
        return {path: text for path, (count, text) in counts.items() if count}

    @web.middleware
    async def errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer rejected requests with a page."""
        try:
            return await handler(request)
        except Exception as error:
            return await self._failed(error, request, None)

    async def answered(self, ctx: RequestContext, page: Page) -> web.StreamResponse:
        """Return a page, or an error page."""
        try:
            return await page(ctx)
        except Exception as error:
            return await self._failed(error, ctx.request, ctx)

    async def _failed(
        self, error: Exception, request: web.Request, ctx: RequestContext | None
    ) -> web.StreamResponse:
        """Return an error as a page, without details that belong only in the log."""
        if not isinstance(error, web.HTTPException):
            return await self._error(ctx, *reported(error, request))
        if error.status < 400:
            error.headers.update(HEADERS)
            raise error
        # The script must not trigger the browser's login dialog.
        kept = ("Allow",) if CHANGE_HEADER in request.headers else ("Allow", "WWW-Authenticate")
        answer = await self._error(ctx, error.status, error.text or error.reason)
        answer.headers.update({name: error.headers[name] for name in kept if name in error.headers})
        return answer

    async def _error(self, ctx: RequestContext | None, status: int, text: str) -> web.Response:
        context = {"code": status, "text": text}
        if ctx is None:  # for a user who may learn nothing about the broker
            return self._renderer.page("error.html", {**context, "layout": "base.html"}, status=status)
        return await self.page(ctx, "error.html", status=status, layout="page.html", **context)
