"""What becomes of a message that a consumer has rejected."""

from __future__ import annotations

import random
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

from jdbcstore.broker.entry import Entry
from jdbcstore.config.policy import RedeliveryPolicy

_MOST = 64
"""Doublings and the like beyond which no delay is computed."""


def delay_before(policy: RedeliveryPolicy, count: int) -> float:
    """Seconds until a message comes again that has come ``count`` times before, as ActiveMQ has them."""
    if count == 0:
        return policy.initial_redelivery_delay
    delay = policy.redelivery_delay
    if policy.use_exponential_back_off and policy.back_off_multiplier > 1:
        first, steps = policy.initial_redelivery_delay, count
        if not first:
            first, steps = policy.redelivery_delay, count - 1
        delay = first * policy.back_off_multiplier ** min(steps, _MOST)
        if policy.maximum_redelivery_delay is not None:
            delay = min(delay, max(policy.maximum_redelivery_delay, policy.redelivery_delay))
    if policy.use_collision_avoidance:
        delay *= 1 + random.uniform(-1, 1) * policy.collision_avoidance_percent / 100  # noqa: S311
    return delay


def is_over(policy: RedeliveryPolicy, count: int) -> bool:
    """Whether a message that has come again ``count`` times does not come once more."""
    return 0 <= policy.maximum_redeliveries <= count


class Delays:
    """Entries that wait until they are delivered again."""

    def __init__(self, loop: AbstractEventLoop, give_back: Callable[[list[Entry]], None]) -> None:
        self._loop = loop
        self._give_back = give_back
        self._timers: dict[Entry, TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, entry: Entry, delay: float) -> None:
        self._timers[entry] = self._loop.call_later(delay, self._over, entry)

    def _over(self, entry: Entry) -> None:
        if self._timers.pop(entry, None) is not None:
            self._give_back([entry])

    def clear(self) -> list[Entry]:
        """Those that wait, which do so no longer."""
        entries = [*self._timers]
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        return entries
