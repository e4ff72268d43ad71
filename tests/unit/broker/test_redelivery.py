"""When a rejected message comes again, and how it is marked."""

from __future__ import annotations

import random

import pytest

from jdbcstore import Message
from jdbcstore.broker.queues.redelivery import delay_before, delay_mark, redelivered_again
from jdbcstore.config.policy import RedeliveryPolicy
from jdbcstore.message.values import Long


@pytest.mark.parametrize(
    ("chosen", "expected"), [(-1, 15.0), (0, 20.0), (1, 25.0)], ids=["least", "middle", "most"]
)
def test_delays_are_spread_by_a_percentage(
    monkeypatch: pytest.MonkeyPatch, chosen: int, expected: float
) -> None:
    policy = RedeliveryPolicy(
        redelivery_delay=20.0, use_collision_avoidance=True, collision_avoidance_percent=25
    )
    monkeypatch.setattr(random, "uniform", lambda low, high: {-1: low, 0: 0, 1: high}[chosen])
    assert delay_before(policy, 1) == expected


def test_a_factor_of_one_or_less_does_not_shorten_delays() -> None:
    policy = RedeliveryPolicy(redelivery_delay=8.0, use_exponential_back_off=True, back_off_multiplier=0.5)
    assert [delay_before(policy, count) for count in (1, 2, 3)] == [8.0, 8.0, 8.0]


def test_the_mark_is_in_milliseconds() -> None:
    assert delay_mark(1.5) == {"redeliveryDelay": Long(1500)}


def test_a_message_that_is_read_again_has_the_mark_of_its_last_delay() -> None:
    policy = RedeliveryPolicy(initial_redelivery_delay=3.0, redelivery_delay=7.0)
    message = Message("a", properties={"own": 1})
    assert redelivered_again(message, 0, policy).properties == {"own": 1}
    unmarked = redelivered_again(message, 2, None)
    assert (unmarked.redelivery_counter, unmarked.properties) == (2, {"own": 1})
    for count, delay in ((1, 3000), (2, 7000)):
        again = redelivered_again(message, count, policy)
        assert (again.redelivery_counter, again.body) == (count, "a")
        assert again.properties == {"own": 1, "redeliveryDelay": Long(delay)}
