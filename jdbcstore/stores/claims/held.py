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
        self._joined: dict[int, object] = {}
        """Claims that were settled in transactions of the application's, each with a mark of that time."""

    def add(self, ids: Iterable[int], session: int) -> None:
        """Note what this session has claimed."""
        with self._lock:
            for id_ in ids:
                self._sessions[id_] = session
                self._joined.pop(id_, None)

    def forget(self, ids: Iterable[int]) -> None:
        """Forget what was settled."""
        with self._lock:
            for id_ in ids:
                self._sessions.pop(id_, None)
                self._joined.pop(id_, None)

    def join(self, ids: Iterable[int]) -> None:
        """Note what is settled once a transaction of the application's commits; until then it is held."""
        with self._lock:
            self._joined.update((id_, object()) for id_ in ids if id_ in self._sessions)

    @property
    def joined(self) -> dict[int, object]:
        """Claims that may be settled by now; for :meth:`forget_joined`."""
        with self._lock:
            return {**self._joined}

    def forget_joined(self, before: dict[int, object], claimed: set[int]) -> None:
        """Forget what was settled: those of ``before`` that were not ``claimed`` any more afterwards."""
        with self._lock:
            for id_, mark in before.items():
                if id_ not in claimed and self._joined.get(id_) is mark:
                    del self._joined[id_]
                    self._sessions.pop(id_, None)

    def drop(self, ids: Iterable[int], session: int) -> bool:
        """Forget what this session has lost, but for :attr:`dropped`; return whether it held any."""
        with self._lock:
            lost = {id_ for id_ in ids if self._sessions.get(id_) == session}
            self._dropped |= lost
            for id_ in lost:
                del self._sessions[id_]
                self._joined.pop(id_, None)
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
