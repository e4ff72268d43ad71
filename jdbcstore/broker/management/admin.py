"""ActiveMQ's console pages for programs: ``queues.jsp``, ``topics.jsp``, ``subscribers.jsp``."""

from __future__ import annotations

from functools import partial
from xml.etree.ElementTree import Element, SubElement, tostring

from aiohttp import web

from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.http import as_json
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.texts import bare
from jdbcstore.config.users import VIEW

_CONTROL = dict.fromkeys(range(32)) | dict.fromkeys((0xFFFE, 0xFFFF))
"""Characters that XML does not allow."""


class AdminPages:
    """The pages of one broker, for Telegraf and netdata."""

    def __init__(self, views: Views, guard: Guard) -> None:
        self._views = views
        self._guard = guard

    def application(self) -> web.Application:
        """Return an application to be mounted under ``/admin/xml``."""
        application = web.Application(middlewares=[as_json])
        application.router.add_get("/queues.jsp", partial(self._destinations, kind="queue"))
        application.router.add_get("/topics.jsp", partial(self._destinations, kind="topic"))
        application.router.add_get("/subscribers.jsp", self._subscribers)
        return application

    async def _destinations(self, request: web.Request, kind: str) -> web.Response:
        await self._guard.admit(request, VIEW)
        page = Element(f"{kind}s")
        for view in await self._views.destinations():
            if view.is_topic == (kind == "topic"):
                element = SubElement(page, kind, name=_text(bare(view.name)))
                numbers = {
                    "size": view.size or 0,
                    "consumerCount": view.consumers,
                    "enqueueCount": view.enqueued,
                    "dequeueCount": view.dequeued,
                }
                SubElement(element, "stats", {name: str(number) for name, number in numbers.items()})
        return _page(page)

    async def _subscribers(self, request: web.Request) -> web.Response:
        """Answer with the durable subscriptions of topics, like ActiveMQ."""
        await self._guard.admit(request, VIEW)
        page = Element("subscribers")
        for view in await self._views.subscriptions(pending=True):
            if view.name is None:
                continue
            names = {
                "clientId": view.client_id or "",
                "subscriptionName": view.name,
                "connectionId": view.connection_id or "NOTSET",
                "destinationName": bare(view.destination),
                "selector": view.selector or "",
                "active": "yes" if view.is_active else "no",
            }
            element = SubElement(page, "subscriber", {name: _text(value) for name, value in names.items()})
            pending = max((view.pending or 0) - view.in_flight, 0)
            numbers = {
                "pendingQueueSize": pending,
                "dispatchedQueueSize": view.in_flight,
                "dispatchedCounter": view.dispatched,
                "enqueueCounter": view.dispatched + pending,
                "dequeueCounter": view.dispatched - view.in_flight,
            }
            SubElement(element, "stats", {name: str(number) for name, number in numbers.items()})
        return _page(page)


def _text(value: str) -> str:
    return value.translate(_CONTROL).encode("utf-8", "replace").decode()


def _page(root: Element) -> web.Response:
    return web.Response(body=tostring(root, "utf-8"), content_type="text/xml", charset="utf-8")
