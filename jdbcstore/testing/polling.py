"""Waiting for something to become true, without guessing how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 180.0, what: str = "the condition") -> T:
    """Ask until the answer is true, and return it; an AssertionError after ``timeout`` seconds.

    The longer it takes, the less often it is asked: asking takes from what is waited for.
    """
    begin = time.monotonic()
    while not (answer := condition()):
        waited = time.monotonic() - begin
        if waited > timeout:
            raise AssertionError(f"{what} is still {answer!r} after {timeout} seconds")
        time.sleep(min(max(waited / 20, 0.005), 0.05))
    return answer
