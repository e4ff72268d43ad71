"""Metrics of a database without a broker: its state, and shared queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from jdbcstore.broker.management.metrics import of_checkup, text_of
from jdbcstore.util.checkup import Checkup
from jdbcstore.util.shared_queues import SharedNumbers

_COUNTS = (
    ("free", "free", "Messages that can be claimed now, as far as they are counted."),
    ("claimed", "claimed", "Claimed messages."),
    ("delayed", "delayed", "Delayed messages, which cannot be claimed yet."),
    (
        "redeliveries",
        "redeliveries",
        "Earlier claims of present messages that were rejected, or ended with a dead process.",
    ),
)
"""Suffixes of metrics, with the number of a queue and of a key, and the description."""
_GAUGES = (
    *_COUNTS,
    ("oldest_free_seconds", "oldest_free", "The age of the first unclaimed message in seconds."),
    ("oldest_claimed_seconds", "oldest_claimed", "The age of the first claimed message in seconds."),
)
"""Likewise, for queues only."""


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
        for numbers_of_queue in queues:
            value = getattr(numbers_of_queue, field)
            if value is not None:
                gauge.add_metric([numbers_of_queue.queue], value)
        yield gauge
    paused = GaugeMetricFamily("jdbcstore_claims_paused", "Whether claims are paused.", labels=["queue"])
    for numbers_of_queue in queues:
        paused.add_metric([numbers_of_queue.queue], numbers_of_queue.settings.paused)
    yield paused
    # Other keys are omitted, because there may be one for each tenant.
    keys = [(numbers_of_queue.queue, key) for numbers_of_queue in queues for key in numbers_of_queue.keys]
    for name, field, text in _COUNTS:
        gauge = GaugeMetricFamily(f"jdbcstore_claims_key_{name}", text, labels=["queue", "key"])
        for queue, key in keys:
            gauge.add_metric([queue, key.key], getattr(key, field))
        yield gauge
    text = "Processes that claim messages, with a valid lease."
    yield GaugeMetricFamily("jdbcstore_claims_workers", text, value=numbers.running)
    text = "Claims of processes that ended without closing."
    yield GaugeMetricFamily("jdbcstore_claims_left", text, value=numbers.left)
    ages = [worker.age for worker in numbers.workers if worker.age is not None and worker.lease_left >= 0]
    text = "The age of the oldest lease."
    if ages:
        yield GaugeMetricFamily("jdbcstore_claims_oldest_worker_seconds", text, value=max(ages))
