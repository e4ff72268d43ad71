"""The wait for a lock, whose failed attempts are reported."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jdbcstore.errors import StoreError


class LockWait(threading.Event):
    """An event that ends the wait for a lock.

    :param on_failure: called in the waiting thread after each failed attempt, with its error and the pause in
        seconds
    """

    def __init__(self, on_failure: Callable[[StoreError, float], object]) -> None:
        super().__init__()
        self.on_failure = on_failure
