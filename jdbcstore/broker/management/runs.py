"""Running operations on many messages: their progress, and stopping them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from jdbcstore.broker.management.audit import Actor
from jdbcstore.errors import MessageNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.util.clock import Clock

_KEPT = 50
"""The number of finished operations that are remembered."""


@dataclass(slots=True, kw_only=True)
class OperationRun:
    """One operation on messages of a destination, which changes until ``ended_ms``."""

    id: str
    """Unique in this process."""
    operation: str
    destination: str
    user: str
    began_ms: int
    size: int | None
    """The messages of the queue at the beginning; None if unknown, as for a topic."""
    seen: int = 0
    """Messages that were examined."""
    count: int = 0
    """Messages that were processed."""
    left: int = 0
    """At the end: selected messages that stay, because consumers or transactions have them."""
    ended_ms: int | None = None
    is_stopped: bool = False
    """Whether an administrator stopped it; finished work is kept."""
    error: str | None = None
    """The reason of its failure."""

    def advance(self, done: int, seen: int) -> bool:
        """Count processed and examined messages; return whether to continue. Thread-safe."""
        self.count += done
        self.seen += seen
        return not self.is_stopped

    def leave(self, left: int) -> None:
        """Set the number of messages that stay."""
        self.left = left


class OperationRuns:
    """The running operations of this process, and the last finished ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = count(1)
        self._active: dict[str, OperationRun] = {}
        self._ended: deque[OperationRun] = deque(maxlen=_KEPT)

    @contextmanager
    def run(self, actor: Actor, operation: str, of: Destination, size: int | None) -> Iterator[OperationRun]:
        """Register an operation while the block runs."""
        run = OperationRun(
            id=str(next(self._numbers)),
            operation=operation,
            destination=str(of),
            user=actor.user or actor.peer,
            began_ms=self._clock.now_ms(),
            size=size,
        )
        self._active[run.id] = run
        try:
            yield run
        except BaseException as error:
            run.error = str(error) or type(error).__name__
            raise
        finally:
            run.ended_ms = self._clock.now_ms()
            del self._active[run.id]
            self._ended.append(run)

    def all(self) -> list[OperationRun]:
        """Return running operations, the newest first, then finished ones."""
        return [*reversed(self._active.values()), *reversed(self._ended)]

    def stop(self, run_id: str) -> None:
        """Stop an operation after its current messages.

        :raises MessageNotFound: it is not running
        """
        run = self._active.get(run_id)
        if run is None:
            raise MessageNotFound(f"no operation {run_id!r} is running; it may have finished")
        run.is_stopped = True
