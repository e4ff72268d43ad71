"""The condition of a broker: whether it serves, and if not, the reason and what to do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)


class BrokerState(StrEnum):
    """The states of a broker."""

    STARTING = "starting"
    SERVING = "serving"
    READ_ONLY = "read-only"
    UNREACHABLE = "database unreachable"
    WAITING = "waiting for another broker"
    CUT_OFF = "network down"
    STOPPING = "stopping"


SERVES = (BrokerState.SERVING, BrokerState.READ_ONLY)
"""The states in which clients are served."""
_CALM = (BrokerState.STARTING, BrokerState.SERVING, BrokerState.WAITING, BrokerState.STOPPING)
_WHAT_TO_DO = {
    BrokerState.READ_ONLY: "free disk space, or consume messages; until then sends are rejected",
    BrokerState.UNREACHABLE: "start the database, mount its disk or repair the network; the broker continues",
    BrokerState.WAITING: "use the other broker; this one takes over when the other one ends",
    BrokerState.CUT_OFF: "repair the network of this machine; the broker continues",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCondition:
    """The state of a broker, and what an administrator needs to know about it."""

    state: BrokerState
    """One of ``starting``, ``serving``, ``read-only``, ``database unreachable``, ``waiting for another
    broker``, ``network down`` and ``stopping``."""
    reason: str = ""
    """The cause, such as the database's error or the holder of the lock; empty if there is none."""
    since_ms: int = 0
    """The time when the state began."""
    next_attempt_ms: int | None = None
    """The time of the next attempt to leave the state, if it is known."""
    what_to_do: str = ""
    """Advice; empty if nothing has to be done."""

    @property
    def serves(self) -> bool:
        """Whether clients are served."""
        return self.state in SERVES

    @property
    def is_calm(self) -> bool:
        """Whether the state needs no action at once."""
        return self.state in _CALM

    def __str__(self) -> str:
        cause = f"{self.state}: {self.reason}" if self.reason else str(self.state)
        return f"{cause}; {self.what_to_do}" if self.what_to_do else cause


class Conditions:
    """The owner of a broker's condition, used on its loop; logs each change of the state.

    :param on_change: called after each change of the state
    """

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._has_ended = False
        self.current = BrokerCondition(state=BrokerState.STARTING, since_ms=clock.now_ms())
        """The condition now."""

    def become(self, state: BrokerState, reason: object = "", *, pause: float | None = None) -> None:
        """Change the condition.

        :param reason: the cause, usually an error
        :param pause: the seconds until the next attempt
        """
        last, now_ms = self.current, self._clock.now_ms()
        if self._has_ended:
            return
        self.current = BrokerCondition(
            state=state,
            reason=str(reason),
            since_ms=last.since_ms if state is last.state else now_ms,
            next_attempt_ms=None if pause is None else now_ms + int(1000 * pause),
            what_to_do=_WHAT_TO_DO.get(state, ""),
        )
        if state is not last.state:
            log.log(logging.INFO if self.current.is_calm else logging.WARNING, "state: %s", self.current)
            self._on_change()

    def wait(self, state: BrokerState, reason: object = "") -> None:
        """Change the condition, unless the database is unreachable, which is then the reason."""
        if self.current.state is not BrokerState.UNREACHABLE:
            self.become(state, reason)

    def end(self, reason: object = "") -> None:
        """Begin the last state."""
        self.become(BrokerState.STOPPING, reason)
        self._has_ended = True
