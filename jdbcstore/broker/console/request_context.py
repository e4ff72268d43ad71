"""Allowed requests with their forms and tokens, and notices for the next page."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

from aiohttp import web

from jdbcstore.broker.console.rendering import ROOT, url
from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.requests import Fields
from jdbcstore.broker.operations import NotARequest
from jdbcstore.config.users import BROWSE, MANAGE, ROLES
from jdbcstore.message.destination import Destination, DestinationKind

MAX_FORM = 1024 * 1024
"""The most bytes of a form."""
_MOST_FIELDS = 2000
_BODY_TIMEOUT = 30.0
_MOST_NOTICES = 200
_PAGE = re.compile(rf"{ROOT}(?:/([a-z-]+))?")
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """An allowed request."""

    request: web.Request
    actor: Actor
    role: str
    form: dict[str, list[str]]
    """The fields of a form, or of the query."""

    def text(self, name: str) -> str:
        """Return the first value of a field, empty if it is absent."""
        return self.form.get(name, [""])[0]

    def number(self, name: str, *, least: int, most: int) -> int | None:
        """Return an integer.

        :raises NotARequest: it is not an integer
        """
        return Fields({name: self.text(name).strip() or None}).number(name, least=least, most=most)

    def destination(self, kind: DestinationKind = DestinationKind.QUEUE, name: str = "name") -> Destination:
        """Return the queue or topic of a name.

        :raises NotARequest: the name is missing
        :raises InvalidDestination: it is not a name
        """
        text = self.text(name)
        if not text:
            raise NotARequest("the address has no name; go back and select a destination")
        return Destination(kind, text)

    def came_from(self, default: str) -> str:
        """Return the page that a form was opened from, with its search and position.

        :param default: for a browser that does not send it, or a page that may no longer have the message
        """
        try:
            parts = urlsplit(self.text("back") or self.request.headers.get("Referer", ""))
        except ValueError:
            return default
        page = _PAGE.fullmatch(parts.path)
        if page is None or page[1] in ("message", "state"):
            return default
        query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "notice"]
        text = urlencode(query, quote_via=quote, errors="replace")
        return f"{url(page[1] or '')}{f'?{text}' if text else ''}"

    def may(self, role: str) -> bool:
        """Return whether the user has a role."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def may_browse(self) -> bool:
        """Whether messages are shown."""
        return self.may(BROWSE)

    @property
    def may_manage(self) -> bool:
        """Whether operations are offered."""
        return self.may(MANAGE)


class ConsoleGate:
    """Admits requests by the rules of the management, and forms by a token of their user.

    A page of another site may link here, but cannot embed a page or send a form, because it cannot read the
    token.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._key = secrets.token_bytes(32)

    async def admit(self, request: web.Request, role: str) -> RequestContext:
        """Return the context of a request by a user with a role.

        :raises web.HTTPException: the request is rejected
        :raises NotARequest: the form cannot be read
        """
        site, mode = request.headers.get("Sec-Fetch-Site"), request.headers.get("Sec-Fetch-Mode")
        is_read = request.method in ("GET", "HEAD")
        if site in ("cross-site", "same-site") and not (is_read and mode == "navigate"):
            raise self._guard.refused(
                request, "requests from pages of other sites are not allowed", header="Sec-Fetch-Site"
            )
        actor, own = await self._guard.identify(request, role)
        text = request.rel_url.raw_query_string if is_read else await self._body(request)
        try:
            form = parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise NotARequest("the form has too many fields; select fewer messages") from None
        ctx = RequestContext(request, actor, own, form)
        if not is_read and not hmac.compare_digest(ctx.text("token").encode(), self.token(actor).encode()):
            text = (
                "the broker was restarted since this form was opened: reload the page, and send the form "
                "again"
            )
            raise self._guard.refused(request, text)
        return ctx

    async def _body(self, request: web.Request) -> str:
        if request.content_type != _FORM:
            raise self._guard.refused(request, f"a form needs the content type {_FORM}", status=415)
        try:
            async with asyncio.timeout(_BODY_TIMEOUT):
                return (await request.read()).decode(errors="replace")
        except TimeoutError:
            raise NotARequest("the form did not arrive in time; send it without pauses") from None

    def token(self, actor: Actor) -> str:
        """Return the CSRF token of a user's forms, which is valid in this process."""
        return hmac.digest(self._key, actor.user.encode(errors="surrogatepass"), "sha256").hex()


class PageNotices:
    """Results of operations, each shown once on the next page; only the latest are kept."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def add(self, actor: Actor, text: str) -> str:
        """Keep a result for a user; returns its key."""
        key = secrets.token_urlsafe(9)
        self._texts[key] = actor.user, text
        while len(self._texts) > _MOST_NOTICES:
            self._texts.popitem(last=False)
        return key

    def take(self, actor: Actor, key: str) -> str | None:
        """Return the text of a key, and forget it."""
        user, text = self._texts.get(key, (None, None))
        if user != actor.user:
            return None
        del self._texts[key]
        return text
