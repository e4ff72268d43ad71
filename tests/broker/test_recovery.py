"""What is kept for retroactive subscribers."""

from __future__ import annotations

import pytest

from jdbcstore.broker.entry import SharedMessage, size_of
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.topics.topic import Retained
from jdbcstore.config.policy import (
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    SubscriptionRecoveryPolicy,
    TimedSubscriptionRecoveryPolicy,
)
from jdbcstore.message.message import Message
from jdbcstore.testing.clock import FakeClock


def shared(message: Message) -> SharedMessage:
    return SharedMessage(message, MemoryUsage(1_000_000), None, {})


TWO = 2 * size_of(Message("0"))


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (NoSubscriptionRecoveryPolicy(), ""),
        (LastImageSubscriptionRecoveryPolicy(), "9"),
        (FixedCountSubscriptionRecoveryPolicy(maximum_size=3), "789"),
        (FixedCountSubscriptionRecoveryPolicy(), "0123456789"),
        (FixedSizedSubscriptionRecoveryPolicy(maximum_size=TWO), "89"),
        (FixedSizedSubscriptionRecoveryPolicy(maximum_size=TWO - 1), "9"),
        (FixedSizedSubscriptionRecoveryPolicy(maximum_size=0), ""),
        (TimedSubscriptionRecoveryPolicy(recover_duration=4.0), "6789"),
    ],
)
def test_the_last_messages_are_kept(policy: SubscriptionRecoveryPolicy, kept: str) -> None:
    clock = FakeClock()
    retained = Retained(policy, clock)

    for number in range(10):
        retained.add(shared(Message(str(number))))
        clock.advance(1)

    assert "".join(str(one.message.body) for one in retained.messages()) == kept


def test_what_is_too_old_goes_though_nothing_comes() -> None:
    clock = FakeClock()
    retained = Retained(TimedSubscriptionRecoveryPolicy(recover_duration=60.0), clock)
    retained.add(shared(Message("x")))

    clock.advance(60)
    assert len(retained.messages()) == 1
    clock.advance(0.001)
    assert retained.messages() == []


def test_what_has_expired_is_not_given_out() -> None:
    clock = FakeClock()
    retained = Retained(FixedCountSubscriptionRecoveryPolicy(), clock)
    retained.add(shared(Message("x", expiration_ms=clock.now_ms() + 1000)))
    retained.add(shared(Message("y")))

    clock.advance(1)

    assert [kept.message.body for kept in retained.messages()] == ["y"]
