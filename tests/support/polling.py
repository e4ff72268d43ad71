"""Waiting for something to become true, without guessing how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 60.0, what: str = "the condition") -> T:
    """Ask until the answer is true, and return it; an AssertionError after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} is still {answer!r} after {timeout} seconds")
        time.sleep(0.005)
    return answer
