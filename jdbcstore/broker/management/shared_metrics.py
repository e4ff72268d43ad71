"""Metrics of a database that is only looked at: its state, and the queues that processes share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily, Metric

from jdbcstore.broker.management.metrics import of_checkup, text_of
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


async def shared_page(
    read_checkup: Callable[[], Awaitable[Checkup | None]],
    read_numbers: Callable[[], Awaitable[SharedNumbers]],
) -> bytes:
    """Return the metrics of a database in the text format."""
    checkup, numbers = await asyncio.gather(read_checkup(), read_numbers())
    return await text_of([*_of_claims(numbers), *of_checkup(checkup)])


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
