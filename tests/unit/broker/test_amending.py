"""The time to live that a policy gives: the table of Artemis's manual."""

from __future__ import annotations

import pytest

from jdbcstore import Message
from jdbcstore.broker.amending import with_expiration
from jdbcstore.config.policy import PolicyEntry

NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("options", "given", "expected"),
    [
        ({}, 5, 5),
        ({"expiry_delay": 2.0}, 0, 1_002_000),
        ({"expiry_delay": 2.0}, 1_009_000, 1_009_000),
        ({"expiry_delay": 2.0, "max_expiry_delay": 1.0}, 1_009_000, 1_009_000),
        ({"expiry_delay": 0.0}, 0, NOW_MS),
        ({"min_expiry_delay": 2.0}, 0, 1_002_000),
        ({"min_expiry_delay": 2.0}, 1_001_000, 1_002_000),
        ({"min_expiry_delay": 2.0}, 1_009_000, 1_009_000),
        ({"max_expiry_delay": 4.0}, 0, 1_004_000),
        ({"max_expiry_delay": 4.0}, 1_009_000, 1_004_000),
        ({"max_expiry_delay": 4.0}, 1_001_000, 1_001_000),
        ({"min_expiry_delay": 2.0, "max_expiry_delay": 4.0}, 0, 1_004_000),
        ({"min_expiry_delay": 2.0, "max_expiry_delay": 4.0}, 1_001_000, 1_002_000),
        ({"min_expiry_delay": 2.0, "max_expiry_delay": 4.0}, 1_003_000, 1_003_000),
        ({"no_expiry": True, "expiry_delay": 2.0}, 1_003_000, 0),
    ],
)
def test_the_expiration_of_a_policy(options: dict[str, float], given: int, expected: int) -> None:
    message = Message("x", expiration_ms=given)
    found = with_expiration(message, PolicyEntry(**options), NOW_MS)  # type: ignore[arg-type]

    assert found.expiration_ms == expected
    assert (found is message) is (expected == given)
