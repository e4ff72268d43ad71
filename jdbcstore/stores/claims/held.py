"""The claims of one queue that callers in this process may still settle."""

from __future__ import annotations

import threading
from collections.abc import Iterable


class _Hold:
    """One claim, which another one of the same message by the same session does not equal."""

    __slots__ = ("session",)

    def __init__(self, session: int) -> None:
        self.session = session


class HeldClaims:
    """The claims of one queue that their callers may still settle. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds: dict[int, _Hold] = {}
        """By the ID of the message."""
        self._dropped: set[int] = set()
        self._joined: dict[int, object] = {}
        """Claims that were settled in transactions of the application's, each with a mark of that time."""

    def add(self, ids: Iterable[int], session: int) -> None:
        """Note what this session has claimed."""
        with self._lock:
            for id_ in ids:
                self._holds[id_] = _Hold(session)
                self._joined.pop(id_, None)

    def forget(self, ids: Iterable[int]) -> None:
        """Forget what was settled."""
        with self._lock:
            for id_ in ids:
                self._holds.pop(id_, None)
                self._joined.pop(id_, None)

    def those(self, ids: Iterable[int], session: int) -> dict[int, object]:
        """Return the claims of these messages that this session holds now; for :meth:`forget_those`."""
        with self._lock:
            holds = {id_: self._holds.get(id_) for id_ in ids}
            return {id_: hold for id_, hold in holds.items() if hold and hold.session == session}

    def forget_those(self, before: dict[int, object], *, are_rejected: bool = False) -> bool:
        """Forget these claims, but none that was made since; return whether any was held still.

        :param are_rejected: add them to :attr:`dropped`
        """
        with self._lock:
            ids = {id_ for id_, hold in before.items() if self._holds.get(id_) is hold}
            for id_ in ids:
                del self._holds[id_]
                self._joined.pop(id_, None)
            if are_rejected:
                self._dropped |= ids
        return bool(ids)

    def join(self, ids: Iterable[int]) -> None:
        """Note what is settled once a transaction of the application's commits; until then it is held."""
        with self._lock:
            self._joined.update((id_, object()) for id_ in ids if id_ in self._holds)

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
                    self._holds.pop(id_, None)

    def drop(self, ids: Iterable[int], session: int) -> bool:
        """Forget what this session has lost, but for :attr:`dropped`; return whether it held any."""
        return self.forget_those(self.those(ids, session), are_rejected=True)

    def of(self, session: int) -> set[int]:
        """Return the IDs that this session has claimed."""
        with self._lock:
            return {id_ for id_, hold in self._holds.items() if hold.session == session}

    @property
    def dropped(self) -> set[int]:
        """The IDs of claims that were found lost, and may be this session's again."""
        with self._lock:
            return {*self._dropped}

    def forget_dropped(self, ids: set[int]) -> None:
        """Forget claims that were found lost: those that could be returned were."""
        with self._lock:
            self._dropped -= ids
