"""Metrics of a database that is only looked at: its state, and the queues that processes share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from jdbcstore.broker.management.metrics import of_checkup, text_of
from jdbcstore.util.checkup import Checkup
from jdbcstore.util.shared_queues import SharedNumbers

_COUNTS = (
    ("free", "free", "Messages that are neither claimed nor delayed, as far as they are counted."),
    ("claimed", "claimed", "Messages that processes have claimed."),
    ("delayed", "delayed", "Messages that can be claimed later only."),
    (
        "redeliveries",
        "redeliveries",
        "Claims of messages that are there which were rejected, or left by a dead process.",
    ),
)
"""The ends of names, the numbers of a queue and of a key, and what each is."""
_GAUGES = (
    *_COUNTS,
    ("oldest_free_seconds", "oldest_free", "Seconds since the first free message was sent."),
    ("oldest_claimed_seconds", "oldest_claimed", "Seconds since the first claimed message was sent."),
)
"""Likewise, of queues only."""


async def shared_page(
    read_checkup: Callable[[], Awaitable[Checkup | None]],
    read_numbers: Callable[[], Awaitable[SharedNumbers]],
) -> bytes:
    """Return the metrics of a database in the text format."""
    checkup, numbers = await asyncio.gather(read_checkup(), read_numbers())
    return await text_of([*_of_claims(numbers), *of_checkup(checkup)])


def _of_claims(numbers: SharedNumbers) -> Iterator[Metric]:
    queues = numbers.queues
    for name, field, text in _GAUGES:
        gauge = GaugeMetricFamily(f"jdbcstore_claims_{name}", text, labels=["queue"])
        for one in queues:
            value = getattr(one, field)
            if value is not None:
                gauge.add_metric([one.queue], value)
        yield gauge
    paused = GaugeMetricFamily("jdbcstore_claims_paused", "Whether nobody can claim.", labels=["queue"])
    for one in queues:
        paused.add_metric([one.queue], one.settings.paused)
    yield paused
    # Of the others there may be as many as there are tenants.
    keys = [(one.queue, key) for one in queues for key in one.keys]
    for name, field, text in _COUNTS:
        gauge = GaugeMetricFamily(f"jdbcstore_claims_key_{name}", text, labels=["queue", "key"])
        for queue, key in keys:
            gauge.add_metric([queue, key.key], getattr(key, field))
        yield gauge
    text = "Processes that claim messages, and whose lease is running."
    yield GaugeMetricFamily("jdbcstore_claims_workers", text, value=numbers.running)
    text = "Claims of processes that have ended without closing."
    yield GaugeMetricFamily("jdbcstore_claims_left", text, value=numbers.left)
    ages = [one.age for one in numbers.workers if one.age is not None and one.lease_left >= 0]
    text = "The age of the process that has its lease for the longest time."
    if ages:
        yield GaugeMetricFamily("jdbcstore_claims_oldest_worker_seconds", text, value=max(ages))
