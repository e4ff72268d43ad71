"""Waiting for something to become true, without guessing how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], timeout: float = 180.0, what: str = "the condition", *, pause: float = 0.005
) -> T:
    """Ask until the answer is true, and return it; an AssertionError after ``timeout`` seconds.

    The longer it takes, the less often it is asked, because each question slows the awaited work; there are
    at least ``pause`` seconds between two questions.
    """
    begin = time.monotonic()
    while not (answer := condition()):
        waited = time.monotonic() - begin
        if waited > timeout:
            raise AssertionError(f"{what} is still {answer!r} after {timeout} seconds")
        time.sleep(max(pause, min(waited / 20, 0.05)))
    return answer
