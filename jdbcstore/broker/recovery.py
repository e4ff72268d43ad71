"""What a topic keeps of earlier messages, for subscribers that come later and ask for them."""

from __future__ import annotations

from collections import deque

from jdbcstore.broker.entry import size_of
from jdbcstore.clock import Clock
from jdbcstore.config.policy import (
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    SubscriptionRecoveryPolicy,
    TimedSubscriptionRecoveryPolicy,
)
from jdbcstore.message import Message


class Retained:
    """The last messages of one topic, as many as its subscription recovery policy says."""

    __slots__ = ("_clock", "_duration_ms", "_kept", "_most_bytes", "_most_messages", "_size")

    def __init__(self, policy: SubscriptionRecoveryPolicy, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[tuple[int, int, Message]] = deque()
        """When each came, its size, and itself."""
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

    def add(self, message: Message) -> None:
        """This message was sent."""
        if self._most_messages == 0:
            return
        size = size_of(message)
        self._kept.append((self._clock.now_ms(), size, message))
        self._size += size
        self._drop()

    def messages(self) -> list[Message]:
        """What a new subscriber gets, in the order in which it was sent."""
        self._drop()
        now_ms = self._clock.now_ms()
        return [message for _, _, message in self._kept if not 0 < message.expiration_ms <= now_ms]

    def _drop(self) -> None:
        kept = self._kept
        if self._most_messages is not None:
            while len(kept) > self._most_messages:
                self._size -= kept.popleft()[1]
        elif self._most_bytes is not None:
            while self._size > self._most_bytes:
                self._size -= kept.popleft()[1]
        elif self._duration_ms is not None:
            oldest = self._clock.now_ms() - self._duration_ms
            while kept and kept[0][0] < oldest:
                self._size -= kept.popleft()[1]
