"""The commits of a writer: a batch is committed, and each of its units gets its result or error.

Where one unit cannot be written, the others still are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from jdbcstore.abc import MessageReference, Outcome
from jdbcstore.database.connection import StatisticsRefresher
from jdbcstore.errors import LockLost, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.stores.jdbc.writer.committer import Begun, Committer
from jdbcstore.stores.jdbc.writer.units import Call, WriteUnit
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.futures import Burst
from jdbcstore.util.timings import Timings

_LOST = (LockLost, StoreClosed, StoreUnavailable)
"""Errors that do not depend on the content of a write."""


class Commits:
    """Batches that are committed, and the units in flight. The holder of the writer lock uses it."""

    def __init__(
        self, committer: Committer, *, statistics: StatisticsRefresher, lock: threading.RLock
    ) -> None:
        """``lock`` protects the units in flight."""
        self._committer = committer
        self._statistics = statistics
        self._lock = lock
        self.in_flight: list[WriteUnit | Call] = []
        """Units taken from the queue and not yet completed; the lock is held to add some."""
        self._cancelled = False
        """The units in flight were failed by a close that timed out."""
        self.timings = Timings()
        """The commits of this writer, and their rows."""

    def take(self) -> list[WriteUnit | Call]:
        """Return the units in flight, for whichever completes them: the writer, or a close that timed out."""
        with self._lock:
            taken, self.in_flight = self.in_flight, []
        return taken

    def cancel(self) -> list[WriteUnit | Call]:
        """End the waits between attempts, and return the units in flight: their outcome is unknown."""
        self._cancelled = True
        self._committer.cancelled.set()
        return self.take()

    def write_alone(self, unit: WriteUnit) -> Any:
        """Commit one unit for its caller, and return its result."""
        self.in_flight = [unit]
        added, removed = len(unit.adds), len(unit.removes)
        began = time.perf_counter()
        try:
            [references] = self._committer.write([unit])
        finally:
            self.in_flight = []
        self.timings.add(time.perf_counter() - began, added + removed)
        self._statistics.count(added, removed)
        return unit.result(references)

    def write(self, units: list[WriteUnit], begun: Begun | None = None) -> StoreError | None:
        """Commit the units, and complete each. Where one cannot be written, the others still are.

        :param begun: these units, if they were sent to the database
        :return: why they could not be written together
        """
        began = time.perf_counter()
        try:
            results = self._committer.write(units, begun)
        except StoreError as error:
            if isinstance(error, _LOST) or (len(units) == 1 and not units[0].apart):
                self.refuse(units, error)
            elif len(units) == 1:
                self._write_apart(units[0], error)
            else:
                # One of these units cannot be written: halve until it is found.
                middle = len(units) // 2
                self.write(units[:middle])
                self.write(units[middle:])
            return error
        added, removed, outcomes = 0, 0, []
        for unit, references in zip(units, results, strict=True):
            added += len(references)
            removed += len(unit.removes)
            outcomes.append(unit.result(references))
        self.timings.add(time.perf_counter() - began, added + removed)
        self._statistics.count(added, removed)
        self._complete(units, outcomes)
        return None

    def refuse(self, units: list[WriteUnit], error: StoreError) -> None:
        """Complete units in flight with an error."""
        self._complete(units, [error] * len(units))

    def _write_apart(self, unit: WriteUnit, refusal: StoreError) -> None:
        outcomes = _outcomes_apart(unit.adds, refusal, self._committer.write)
        self._statistics.count(sum(not isinstance(outcome, StoreError) for outcome in outcomes), 0)
        self._complete([unit], [unit.result(outcomes)])

    def call(self, call: Call) -> None:
        """Run a call that is in flight, and complete it."""
        try:
            result = self._committer.call(call)
            self._statistics.count(max(0, call.rows - call.removes), call.removes)
        except StoreError as error:
            result = error
        self._complete([call], [result])

    def _complete(self, units: Sequence[WriteUnit | Call], results: Sequence[Any]) -> None:
        """Complete the units, outside the lock, unless a close that timed out has failed them already."""
        with self._lock:
            if self._cancelled:
                return
            # A batch that was halved is completed from the front.
            del self.in_flight[: len(units)]
        with Burst():
            for unit, result in zip(units, results, strict=True):
                if unit.completion is None:
                    continue
                if isinstance(result, StoreError):
                    unit.completion.set_exception(result)
                else:
                    unit.completion.set_result(result)


def fail(units: Sequence[WriteUnit | Call], error: Exception) -> None:
    """Complete units with an error."""
    with Burst():
        for unit in units:
            if unit.completion is not None:  # else its caller is writing it, and gets the outcome itself
                unit.completion.set_exception(error)


def _outcomes_apart(
    messages: Sequence[EncodedMessage],
    refusal: StoreError,
    write: Callable[[list[WriteUnit]], list[list[MessageReference]]],
) -> list[Outcome]:
    """Write messages that were refused together by halves, and return their outcomes."""
    if len(messages) == 1 or isinstance(refusal, _LOST):
        return [refusal] * len(messages)
    middle = len(messages) // 2
    outcomes: list[Outcome] = []
    for half in (messages[:middle], messages[middle:]):
        try:
            [references] = write([WriteUnit(adds=[*half])])
            outcomes += references
        except StoreError as error:
            outcomes += _outcomes_apart(half, error, write)
    return outcomes
