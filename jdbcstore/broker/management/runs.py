"""Operations on many messages that are under way: how far they are, and their stopping."""

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
"""Operations that are remembered after their end."""


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
    """The messages of the queue when it began; None if it is not known, as of a topic."""
    seen: int = 0
    """Messages that were looked at."""
    count: int = 0
    """Messages that are done."""
    left: int = 0
    """At the end: chosen ones that stay, because consumers or transactions have them."""
    ended_ms: int | None = None
    is_stopped: bool = False
    """Whether an administrator has stopped it: what is done stays done."""
    error: str | None = None
    """Why it has failed."""

    def advance(self, done: int, seen: int) -> bool:
        """Count messages that were done and looked at; return whether to go on. Any thread may call it."""
        self.count += done
        self.seen += seen
        return not self.is_stopped

    def leave(self, left: int) -> None:
        """Take the number of those that stay."""
        self.left = left


class OperationRuns:
    """The operations of this process that are under way, and the last ones that have ended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = count(1)
        self._active: dict[str, OperationRun] = {}
        self._ended: deque[OperationRun] = deque(maxlen=_KEPT)

    @contextmanager
    def run(self, actor: Actor, operation: str, of: Destination, size: int | None) -> Iterator[OperationRun]:
        """Keep an operation while the block runs."""
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
        """Return those that are under way, the last one first, then those that have ended."""
        return [*reversed(self._active.values()), *reversed(self._ended)]

    def stop(self, run_id: str) -> None:
        """Have an operation end after the messages that it is at.

        :raises MessageNotFound: it is not under way
        """
        run = self._active.get(run_id)
        if run is None:
            raise MessageNotFound(f"no operation {run_id!r} is under way; it may have ended")
        run.is_stopped = True
