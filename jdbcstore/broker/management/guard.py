"""Access control of all HTTP requests.

Without users, only requests from this machine under a name of this machine are answered, so that a web page
cannot get in with a host name that resolves to this machine. With users, each request needs a login with the
required role. A change needs a content type or a header that a form of another site cannot send. Rejected
requests are in the log and the audit log.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from aiohttp import BasicAuth, web

from jdbcstore.broker.management.audit import Actor, log_refused
from jdbcstore.broker.notices import BoundedLog
from jdbcstore.broker.security import AllowAll, Security
from jdbcstore.config.users import MANAGE, ROLES
from jdbcstore.errors import NotAuthorized

log = logging.getLogger(__name__)

CHANGE_HEADER = "X-Requested-By"
"""The required header of a change without a JSON body; any value is accepted."""
_LONGEST_USER = 100
_LONGEST = 200
"""The most characters of a path or a header in the log."""
_FORWARDED = (
    *("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port"),
    *("X-Forwarded-Server", "X-Real-IP", "X-Original-Host", "Via"),
)
"""Headers that reverse proxies add."""
_KINDS = {403: web.HTTPForbidden, 415: web.HTTPUnsupportedMediaType}


class Guard:
    """Checks requests, and logs rejected ones, at most 200 lines of each kind per minute.

    :param name: the configured host of the server
    :param origins: other origins whose pages may send requests
    """

    def __init__(self, security: Security, name: str, origins: Iterable[str] = ()) -> None:
        self._security = security
        self._names = {"localhost", name.lower(), socket.gethostname().lower()}
        self._origins = {origin.lower() for origin in origins}
        # Any client can cause rejected requests, which must not hide wrong logins.
        self._refusals = BoundedLog("rejected HTTP requests")
        self._logins = BoundedLog("rejected HTTP logins")
        self._has_users = not isinstance(security, AllowAll)

    async def admit(self, request: web.Request, role: str) -> Actor:
        """Return the origin of a request that has a role.

        :raises web.HTTPException: it does not
        """
        self.check_origin(request)
        if request.method not in ("GET", "HEAD"):
            is_json = request.content_type == "application/json"
            if not is_json and CHANGE_HEADER not in request.headers:
                text = f"a change needs the content type application/json, or {CHANGE_HEADER}"
                raise self.refused(request, text, status=415)
        return (await self.identify(request, role))[0]

    async def identify(self, request: web.Request, role: str) -> tuple[Actor, str]:
        """Return the origin of a request, and its role, which includes ``role``.

        This does not check whether the request comes from a page of another site.

        :raises web.HTTPException: it is rejected
        """
        peer = request.remote or ""
        if not self._has_users:
            self._check_local(request, peer)
            return Actor("", peer), MANAGE
        name, own = await self._login(request, peer, role)
        return Actor(name, peer), own

    def check_origin(self, request: web.Request) -> None:
        """Reject requests that a page of another site, host or port sends with the user's browser and login.

        Browsers send ``Sec-Fetch-Site`` only to addresses that they trust, and ``Origin`` with each request
        that is not a GET.

        :raises web.HTTPForbidden: the request comes from a page of another origin
        """
        headers = request.headers
        origin = headers.get("Origin")
        if origin is not None and origin.lower() in self._origins:
            return
        own = {headers.get("Host", "").lower(), headers.get("X-Forwarded-Host", "").lower()}
        is_foreign = origin is not None and origin.lower().partition("://")[2] not in own - {""}
        if is_foreign or headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            text = (
                "requests from pages of other sites are not allowed unless management_origins lists the site"
            )
            raise self.refused(request, text, header="Origin")

    def refused(
        self, request: web.Request, text: str, *, status: int = 403, header: str | None = None
    ) -> web.HTTPException:
        """Log a rejected request; return the error to raise.

        :param text: the reason and advice
        :param header: the wrong header, whose value is logged
        """
        try:
            user = BasicAuth.decode(request.headers.get("Authorization", ""), encoding="utf-8").login
        except ValueError:
            user = ""
        actor = Actor(user, request.remote or "")
        why = text if header is None else f"{text} ({header}: {request.headers.get(header, '')[:_LONGEST]!r})"
        self.log_refusal(actor, _shown(request), why)
        return _KINDS[status](text=text)

    def log_refusal(self, actor: Actor, what: str, why: str) -> None:
        """Log that an actor may not perform an operation, also in the audit log."""
        self._log(self._refusals, actor, f"is not allowed {what[:_LONGEST]!r}: {why}", what[:_LONGEST], why)

    def _log(self, lines: BoundedLog, actor: Actor, text: str, what: str, why: str) -> None:
        fields = {"user": actor.user[:_LONGEST_USER], "peer": actor.peer}
        if lines.log(log, logging.WARNING, fields, "user %r of %s %s", *fields.values(), text):
            log_refused(Actor(**fields), what, why)

    def _check_local(self, request: web.Request, peer: str) -> None:
        own = _own_address(request)
        is_here = _is_loopback(peer) or peer == own
        if not is_here or any(name in request.headers for name in _FORWARDED):
            text = "without a users_file only requests from this machine are accepted; configure one"
            raise self.refused(request, text)
        try:
            host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        except ValueError:
            host = ""
        if host not in self._names and host != own and not _is_loopback(host):
            text = "the Host header does not name this machine; use 127.0.0.1 or localhost"
            raise self.refused(request, text, header="Host")

    async def _login(self, request: web.Request, peer: str, role: str) -> tuple[str, str]:
        try:
            given = BasicAuth.decode(request.headers.get("Authorization", ""), encoding="utf-8")
        except ValueError:
            raise _unauthorized("log in with a user of the users file") from None
        try:
            user = await self._security.login(given.login, given.password)
        except NotAuthorized as error:
            actor = Actor(given.login, peer)
            self._log(self._logins, actor, f"failed to log in: {error}", "login", str(error))
            raise _unauthorized(str(error)) from None
        if user.role is None or ROLES.index(user.role) < ROLES.index(role):
            text = f"this user needs the role {role}; set it with jdbcstore passwd --role"
            raise self.refused(request, text)
        return user.name, user.role


def _shown(request: web.Request) -> str:
    """Format a request for the log, without its query, which may contain selectors."""
    return f"{request.method} {request.rel_url.raw_path}"


def _own_address(request: web.Request) -> str:
    """Return the address of this machine that received the request; local clients have the same address."""
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("sockname")
    return str(name[0]) if name else ""


def _unauthorized(text: str) -> web.HTTPException:
    headers = {"WWW-Authenticate": 'Basic realm="jdbcstore", charset="UTF-8"'}
    return web.HTTPUnauthorized(text=text, headers=headers)


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
