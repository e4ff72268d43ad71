"""The claims of one queue that callers in this process may still settle."""

from __future__ import annotations

import threading
from collections.abc import Iterable


class HeldClaims:
    """The claims of one queue that their callers may still settle. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[int, int] = {}
        """By the ID of the message."""
        self._dropped: set[int] = set()

    def add(self, ids: Iterable[int], session: int) -> None:
        """Note what this session has claimed."""
        with self._lock:
            self._sessions.update(dict.fromkeys(ids, session))

    def forget(self, ids: Iterable[int]) -> None:
        """Forget what was settled."""
        with self._lock:
            for id_ in ids:
                self._sessions.pop(id_, None)

    def drop(self, ids: Iterable[int], session: int) -> bool:
        """Forget what this session has lost, but for :attr:`dropped`; return whether it held any."""
        with self._lock:
            lost = {id_ for id_ in ids if self._sessions.get(id_) == session}
            self._dropped |= lost
            for id_ in lost:
                del self._sessions[id_]
        return bool(lost)

    def of(self, session: int) -> set[int]:
        """Return the IDs that this session has claimed."""
        with self._lock:
            return {id_ for id_, holder in self._sessions.items() if holder == session}

    @property
    def dropped(self) -> set[int]:
        """The IDs of claims that were found lost, and may be this session's again."""
        with self._lock:
            return {*self._dropped}

    def forget_dropped(self, ids: set[int]) -> None:
        """Forget claims that were found lost: those that could be returned were."""
        with self._lock:
            self._dropped -= ids
