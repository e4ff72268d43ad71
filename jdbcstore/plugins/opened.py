"""Claims that a process opens once and shares; a forked child opens its own."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from jdbcstore.stores.claims.database import ClaimDatabase


class Shareable(Protocol):
    """An object on a database that survives a fork of its process."""

    database: ClaimDatabase

    def close(self) -> None:
        """Return claimed messages, and close the connections."""


T = TypeVar("T", bound=Shareable)


class OpenOnce(Generic[T]):
    """The shared objects of this process, by the arguments with which ``open_`` opened them. Thread-safe.

    They are closed when the process ends. A forked child opens its own.
    """

    def __init__(self, open_: Callable[..., T]) -> None:
        self._open = open_
        self._lock = threading.Lock()
        self._shared: dict[tuple[Any, ...], T] = {}
        self._inherited: list[Any] = []
        os.register_at_fork(before=self._suspend, after_in_parent=self._resume, after_in_child=self._forget)
        atexit.register(self.close)

    def get(self, *key: Any) -> T:
        """Return the object that is open with these arguments, or open it."""
        with self._lock:
            return self._get(key)

    def _get(self, key: tuple[Any, ...]) -> T:
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = self._open(*key)
        return shared

    def _suspend(self) -> None:
        """Suspend work on files that a child must not find open, before a fork."""
        self._lock.acquire()
        for shared in self._shared.values():
            shared.database.suspend()

    def _resume(self) -> None:
        for shared in self._shared.values():
            shared.database.resume()
        self._lock.release()

    def _forget(self) -> None:
        """Drop the parent's connections in a child process, which must neither use nor close them."""
        self._lock = threading.Lock()
        self._inherited.append(self._shared)
        self._shared = {}

    def close(self) -> None:
        """Close everything; claimed messages return to their places."""
        with self._lock:
            shared, self._shared = self._shared, {}
        for queue in shared.values():
            queue.close()
