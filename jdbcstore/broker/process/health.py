"""The broker over HTTP: its health at ``/live`` and ``/ready``, and its management under ``/api``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from jdbcstore.config.broker import Address

Obstacle = Callable[[], str | None]
"""Why the broker is not serving; None if it is."""


class HealthServer:
    """``/live`` is 200 while the event loop runs; ``/ready`` while the broker serves, else 503 and why.

    A slave is alive and not ready: a load balancer finds the master, and no supervisor restarts the slave.

    :param parts: further applications, by the paths that they are mounted under
    """

    def __init__(
        self, address: Address, obstacle: Obstacle, parts: Mapping[str, web.Application] | None = None
    ) -> None:
        self._address = address
        self._obstacle = obstacle
        self._parts = parts or {}
        self._runner: web.AppRunner | None = None

    async def start(self) -> Address:
        """Listen; returns the address, with the port that was chosen.

        :raises OSError: the address cannot be listened at
        """
        application = web.Application()
        application.router.add_get("/live", _live)
        application.router.add_get("/ready", self._ready)
        for path, part in self._parts.items():
            application.add_subapp(path, part)
        runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await runner.setup()
        site = web.TCPSite(runner, self._address.host, self._address.port)
        try:
            await site.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        return Address(*runner.addresses[0][:2])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _ready(self, _request: web.Request) -> web.Response:
        obstacle = self._obstacle()
        if obstacle is None:
            return web.Response(text="ready\n")
        return web.Response(status=503, text=f"{obstacle}\n")


async def _live(_request: web.Request) -> web.Response:
    return web.Response(text="live\n")
