"""The broker over HTTP: its health at ``/live`` and ``/ready``, and its management under ``/api``."""

from __future__ import annotations

import asyncio
import logging
import math
from asyncio import Task
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from jdbcstore.broker.condition import BrokerCondition, BrokerState
from jdbcstore.config.broker import Address

log = logging.getLogger(__name__)


def _is_defect(record: logging.LogRecord) -> bool:
    """Return whether an error is the server's. Others are not logged, because input that is not HTTP may
    contain secrets."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


log.addFilter(_is_defect)

_CONSOLE = "/console"
Shortage = Callable[[], Awaitable[str | None]]
"""The reason why a serving broker cannot store messages now; None if it can."""
MAX_CONNECTIONS = 500
"""The most connections of clients; beyond it, the longest idle connections are closed."""
_IDLE_TIMEOUT = 30.0
_LOOK = 0.5
"""Seconds between two looks at the condition while a request is answered."""
_MOST_UNSENT = 128 * 1024 * 1024
"""The most unread bytes of answers; beyond it, the clients without progress for the longest time are
dropped."""


class HealthServer:
    """``/live`` is 200 while the event loop runs. ``/ready`` is 200 while the broker serves and its store is
    writable, otherwise 503 with the reason.

    A slave is live but not ready, so a load balancer finds the master, and a supervisor does not restart the
    slave.

    :param parts: further applications, by their paths
    :param idle_timeout: the seconds in which a request must arrive on a connection, up to its body, and in
        which a part of its answer must be read
    """

    def __init__(
        self,
        address: Address,
        condition: Callable[[], BrokerCondition],
        parts: Mapping[str, web.Application] | None = None,
        *,
        shortage: Shortage | None = None,
        idle_timeout: float = _IDLE_TIMEOUT,
    ) -> None:
        self._idle_timeout = idle_timeout
        self._idle_since: dict[object, float] = {}
        """The connections at the last check."""
        self._busy: set[object] = set()
        """The connections whose request is being answered."""
        self._unsent: dict[object, int] = {}
        """The unread bytes of each client at the last check."""
        self._sweeping: Task[None] | None = None
        self._address = address
        self._condition = condition
        self._shortage = shortage
        self._parts = parts or {}
        self._runner: web.AppRunner | None = None

    async def start(self) -> Address:
        """Listen; return the address with the actual port.

        :raises OSError: it cannot listen at the address
        """
        application = web.Application(middlewares=[self._tracked, self._unhung])
        application.on_response_prepare.append(_name_no_versions)
        application.router.add_get("/live", _live)
        application.router.add_get("/ready", self._ready)
        if _CONSOLE in self._parts:
            application.router.add_get("/", _to_console)
        for path, part in self._parts.items():
            application.add_subapp(path, part)
        runner = web.AppRunner(application, access_log=None, handle_signals=False, logger=log)
        await runner.setup()
        site = web.TCPSite(runner, self._address.host, self._address.port)
        try:
            await site.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self._sweeping = asyncio.create_task(self._sweep())
        return Address(*runner.addresses[0][:2])

    @web.middleware
    async def _tracked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._busy.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(request.protocol)
            self._idle_since[request.protocol] = asyncio.get_running_loop().time()
            self._drop_unread()

    @web.middleware
    async def _unhung(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request that only reads once more if the broker stops serving meanwhile.

        The first answer may wait for a database that does not answer, the second one says so.
        """
        if request.method != "GET" or not self._condition().serves:
            return await handler(request)
        answering = asyncio.ensure_future(handler(request))
        try:
            while not answering.done():
                await asyncio.wait({answering}, timeout=_LOOK)
                if not self._condition().serves and not request.writer.output_size:
                    break
            if answering.done():
                return answering.result()
        finally:
            answering.cancel()
        return await handler(request)

    async def _sweep(self) -> None:
        """Close the connections of clients that do not complete a request, are idle, or do not read an
        answer."""
        while True:
            await asyncio.sleep(self._idle_timeout / 3)
            server = None if self._runner is None else self._runner.server
            if not isinstance(server, web.Server):
                continue
            now = asyncio.get_running_loop().time()
            unsent = {client: _unsent(client.transport) for client in server.connections}
            self._idle_since = {
                client: now if 0 < count != self._unsent.get(client) else self._idle_since.get(client, now)
                for client, count in unsent.items()
            }
            self._unsent = {client: count for client, count in unsent.items() if count}
            idle = [client for client in server.connections if client not in self._busy]
            idle.sort(key=self._idle_since.__getitem__)
            excess = len(server.connections) - MAX_CONNECTIONS
            for number, client in enumerate(idle):
                if number < excess or now - self._idle_since[client] > self._idle_timeout:
                    if client.transport is not None and unsent[client]:
                        client.transport.abort()  # a graceful close would wait for the client
                    else:
                        client.force_close()
            self._drop_unread()

    def _drop_unread(self) -> None:
        """Drop the clients without progress for the longest time, if too many bytes are unread."""
        server = None if self._runner is None else self._runner.server
        if not isinstance(server, web.Server):
            return
        unsent = {client: count for client in server.connections if (count := _unsent(client.transport))}
        total = sum(unsent.values())
        if total <= _MOST_UNSENT:
            return
        # The last one stays, because one answer alone may be larger.
        for client in sorted(unsent, key=lambda client: self._idle_since.get(client, math.inf))[:-1]:
            if total > _MOST_UNSENT and client.transport is not None:
                client.transport.abort()
                total -= unsent[client]

    async def stop(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _ready(self, _request: web.Request) -> web.Response:
        condition = self._condition()
        obstacle = None if condition.state is BrokerState.SERVING else str(condition)
        if obstacle is None and self._shortage is not None:
            obstacle = await self._shortage()
        if obstacle is None:
            return web.Response(text="ready\n")
        return web.Response(status=503, text=f"{obstacle}\n")


async def _to_console(_request: web.Request) -> web.Response:
    raise web.HTTPFound(_CONSOLE)


def _unsent(transport: asyncio.Transport | None) -> int:
    return 0 if transport is None else transport.get_write_buffer_size()


async def _name_no_versions(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "jdbcstore"


async def _live(_request: web.Request) -> web.Response:
    return web.Response(text="live\n")
