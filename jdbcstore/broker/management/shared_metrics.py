"""Metrics of a database that is only looked at: its state, and the queues that processes share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import GaugeMetricFamily, Metric

from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.metrics import of_checkup, text_of
from jdbcstore.config.users import VIEW
from jdbcstore.util.checkup import Checkup

_MOST = 500
"""Queues with labels of their own: those with the most claims."""


class QueueNumbers(Protocol):
    """The numbers of one queue that processes share."""

    @property
    def queue(self) -> str: ...
    @property
    def claimed(self) -> int: ...
    @property
    def delayed(self) -> int: ...
    @property
    def failures(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SharedNumbers:
    """The claims of a database at one moment."""

    queues: Sequence[QueueNumbers]
    free: dict[str, int]
    """The messages of a queue that are neither claimed nor delayed, where they were counted."""
    workers: int
    """Processes whose lease is running."""
    left: int
    """Claims of processes that have ended without closing, and that nobody has claimed again."""


class SharedMetrics:
    """The page of metrics of a database.

    :param numbers: reads the claims
    """

    def __init__(
        self,
        checkup: Callable[[], Awaitable[Checkup | None]],
        numbers: Callable[[], Awaitable[SharedNumbers]],
        guard: Guard,
    ) -> None:
        self._checkup = checkup
        self._numbers = numbers
        self._guard = guard

    def application(self) -> web.Application:
        """Return an application to be mounted under ``/metrics``."""
        application = web.Application()
        application.router.add_get("", self._answer)
        return application

    async def _answer(self, request: web.Request) -> web.Response:
        await self._guard.admit(request, VIEW)
        numbers, checkup = await asyncio.gather(self._numbers(), self._checkup())
        body = await text_of([*_of_claims(numbers), *of_checkup(checkup)])
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _of_claims(numbers: SharedNumbers) -> Iterator[Metric]:
    queues = sorted(numbers.queues, key=lambda one: -one.claimed)[:_MOST]
    for field, text in (
        ("claimed", "Messages of a queue that processes have claimed."),
        ("delayed", "Messages that can be claimed later only."),
        ("failures", "Claims of messages that are there which were rejected, or left by a dead process."),
    ):
        gauge = GaugeMetricFamily(f"jdbcstore_claims_{field}", text, labels=["queue"])
        for one in queues:
            gauge.add_metric([one.queue], getattr(one, field))
        yield gauge
    free = GaugeMetricFamily(
        "jdbcstore_claims_free", "Messages that are neither claimed nor delayed.", labels=["queue"]
    )
    for one in queues:
        if one.queue in numbers.free:
            free.add_metric([one.queue], numbers.free[one.queue])
    yield free
    text = "Processes that claim messages, and whose lease is running."
    yield GaugeMetricFamily("jdbcstore_claims_workers", text, value=numbers.workers)
    text = "Claims of processes that have ended without closing."
    yield GaugeMetricFamily("jdbcstore_claims_left", text, value=numbers.left)
