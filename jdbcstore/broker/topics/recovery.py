"""What a topic keeps of earlier messages, for subscribers that come later and ask for them."""

from __future__ import annotations

from collections import deque

from jdbcstore.broker.entry import Shared
from jdbcstore.config.policy import (
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    SubscriptionRecoveryPolicy,
    TimedSubscriptionRecoveryPolicy,
)
from jdbcstore.util.clock import Clock


class Retained:
    """The last messages of one topic, as many as its subscription recovery policy says.

    Where these fill half of the memory, or there is little left, the oldest go sooner.
    """

    __slots__ = ("_clock", "_duration_ms", "_kept", "_most_bytes", "_most_messages", "_size")

    def __init__(self, policy: SubscriptionRecoveryPolicy, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[tuple[int, Shared]] = deque()
        """When each came, and itself."""
        self._size = 0
        self._most_messages: int | None = None
        self._most_bytes: int | None = None
        self._duration_ms: float | None = None
        match policy:
            case NoSubscriptionRecoveryPolicy():
                self._most_messages = 0
            case LastImageSubscriptionRecoveryPolicy():
                self._most_messages = 1
            case FixedCountSubscriptionRecoveryPolicy():
                self._most_messages = policy.maximum_size
            case FixedSizedSubscriptionRecoveryPolicy():
                self._most_bytes = policy.maximum_size
            case TimedSubscriptionRecoveryPolicy():
                self._duration_ms = policy.recover_duration * 1000

    def add(self, message: Shared) -> None:
        """This message was sent."""
        if self._most_messages == 0:
            return
        message.hold()
        self._kept.append((self._clock.now_ms(), message))
        self._size += message.size
        self._drop()
        memory = message.memory
        while len(self._kept) > 1 and (memory.is_high or self._size > memory.limit // 2):
            self._drop_oldest()

    def messages(self) -> list[Shared]:
        """What a new subscriber gets, in the order in which it was sent."""
        self._drop()
        now_ms = self._clock.now_ms()
        return [shared for _, shared in self._kept if not 0 < shared.message.expiration_ms <= now_ms]

    def close(self) -> None:
        """Forget them."""
        while self._kept:
            self._drop_oldest()

    def _drop(self) -> None:
        kept = self._kept
        if self._most_messages is not None:
            while len(kept) > self._most_messages:
                self._drop_oldest()
        elif self._most_bytes is not None:
            while self._size > self._most_bytes:
                self._drop_oldest()
        elif self._duration_ms is not None:
            oldest = self._clock.now_ms() - self._duration_ms
            while kept and kept[0][0] < oldest:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, shared = self._kept.popleft()
        self._size -= shared.size
        shared.let_go()
