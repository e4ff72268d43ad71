"""Readings of shared queues, and their rates since the previous reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from jdbcstore.cli.output import counted
from jdbcstore.cli.readings import Rates, rate
from jdbcstore.cli.shared import CLAIM_TITLES, claim_cells, claim_facts, key_cells
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.shared_queues import ClaimNumbers, KeyNumbers, SharedNumbers

QUEUE_TITLES = (*CLAIM_TITLES[:5], "change/s", *CLAIM_TITLES[5:])
"""The columns of queues; all but the first are numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReading:
    """The shared queues at one moment, the largest first.

    A rate is per second; None without an earlier reading, or if a number was not counted.
    """

    numbers: SharedNumbers
    changes: Mapping[tuple[str, ...], float]
    """The known changes of a queue, or of a key: messages gained, or lost if negative."""
    added_per_second: float | None
    """Messages added to all queues together."""
    removed_per_second: float | None

    @property
    def summary(self) -> tuple[str, ...]:
        """The lines above the tables."""
        numbers = self.numbers
        more = f", and {numbers.more_queues} not shown" if numbers.more_queues else ""
        left = f"  claims of dead workers {numbers.left}" if numbers.left else ""
        claims = sum(queue.claimed for queue in numbers.queues)
        rates = f"added/s {rate(self.added_per_second)}  removed/s {rate(self.removed_per_second)}"
        return (
            f"{counted(len(numbers.queues), 'queue')}{more}  {counted(numbers.running, 'worker')}{left}",
            f"claims {claims}  {rates}",
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of the queues, each with its keys below."""
        rows = []
        for queue in self.numbers.queues:
            cells = [*claim_cells(queue)]
            rows.append((*cells[:5], signed(self.changes.get((queue.queue,))), *cells[5:]))
            for key in queue.keys:
                cells = [*key_cells(key)]
                rows.append((*cells[:5], signed(self.changes.get((queue.queue, key.key))), *cells[5:]))
            if queue.has_more_keys:
                rows.append(("  more keys", *[""] * (len(QUEUE_TITLES) - 1)))
        return rows

    def facts(self) -> dict[str, Any]:
        """Return the reading as JSON values."""
        return {
            "queues": [self._with_changes(facts) for facts in claim_facts(self.numbers)],
            "more_queues": self.numbers.more_queues,
            "workers": [asdict(worker) for worker in self.numbers.workers],
            "added_per_second": self.added_per_second,
            "removed_per_second": self.removed_per_second,
        }

    def _with_changes(self, queue: dict[str, Any]) -> dict[str, Any]:
        name = queue["queue"]
        keys = [
            {**facts, "change_per_second": self.changes.get((name, facts["key"]))} for facts in queue["keys"]
        ]
        return {**queue, "keys": keys, "change_per_second": self.changes.get((name,))}


def signed(value: float | None) -> str:
    """Return a change with its sign."""
    if value is None:
        return "-"
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{rate(abs(value))}"


class ClaimReadings:
    """Consecutive readings of shared queues; not for several threads at the same time.

    :param read: reads the numbers, and the last ID, which grows by one with each added message
    :param text: only queues whose names contain this, ignoring case
    :param limit: the most queues
    :param period: as for :class:`~jdbcstore.cli.readings.Rates`
    """

    def __init__(
        self,
        read: Callable[[], tuple[SharedNumbers, int | None]],
        period: float,
        clock: Clock | None = None,
        *,
        text: str = "",
        limit: int = 200,
    ) -> None:
        self._read = read
        self._rates = Rates(period)
        self._clock = clock or SystemClock()
        self._text = text.lower()
        self._limit = limit

    def read(self) -> ClaimReading:
        """Return the current state of the queues.

        :raises StoreUnavailable: the database does not answer
        """
        numbers, last_id = self._read()
        sizes = {queue.queue: _size(queue) for queue in numbers.queues if not queue.has_more}
        counts: dict[tuple[str, ...], int] = {("change", queue): size for queue, size in sizes.items()}
        for numbers_of_queue in numbers.queues:
            counts |= {
                ("change", numbers_of_queue.queue, key.key): _size(key)
                for key in numbers_of_queue.keys
                if not key.has_more
            }
        if len(sizes) == len(numbers.queues) and not numbers.more_queues:
            counts["size",] = sum(sizes.values())
        if last_id is not None:
            counts["added",] = last_id
        rates = self._rates.since(self._clock.monotonic(), counts)
        added, growth = rates.get(("added",)), rates.get(("size",))
        shown = [queue for queue in numbers.queues if self._text in queue.queue.lower()]
        shown.sort(key=lambda queue: (-_size(queue), queue.queue))
        return ClaimReading(
            numbers=SharedNumbers(shown[: self._limit], numbers.workers, numbers.more_queues),
            changes={of[1:]: change for of, change in rates.items() if of[0] == "change"},
            added_per_second=added,
            removed_per_second=None if added is None or growth is None else max(0.0, added - growth),
        )


def _size(numbers: ClaimNumbers | KeyNumbers) -> int:
    return numbers.free + numbers.claimed + numbers.delayed
