"""The claims of one queue that callers in this process may still settle."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from jdbcstore.errors import ClaimLost


class Held(Protocol):
    """The part of a claim that says which one it is: of a message, there is one after the other."""

    @property
    def sequence(self) -> int:
        """The ID of the message."""

    @property
    def session(self) -> int:
        """The number of the session that holds it."""

    @property
    def hold(self) -> int:
        """The number of the query that made it."""


class _Hold(NamedTuple):
    """The claim of a message that is held now."""

    session: int
    number: int
    """Another claim of the same message by the same session, which the database takes for it, has another."""


class _Claimed(NamedTuple):
    sequence: int
    session: int
    hold: int


_NONE = _Hold(0, -1)


class HeldClaims:
    """The claims of one queue that their callers may still settle. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds: dict[int, _Hold] = {}
        """By the ID of the message."""
        self._numbers = itertools.count(1)
        self._settling: dict[int, int] = {}
        """The numbers of the claims that are being settled, by the ID of the message."""
        self._dropped: set[int] = set()
        self._joined: dict[int, object] = {}
        """Claims that were settled in transactions of the application's, each with a mark of that time."""

    def add(self, ids: Iterable[int], session: int) -> int:
        """Note what this session has claimed; return the number of these claims."""
        with self._lock:
            hold = _Hold(session, next(self._numbers))
            for id_ in ids:
                self._holds[id_] = hold
                self._joined.pop(id_, None)
        return hold.number

    def begin(self, claims: Sequence[Held]) -> None:
        """Note that a call settles these claims, until :meth:`end` or :meth:`forget`.

        Only one at a time may: once it has returned a message, this process may claim that again, and the
        database would take the new claim for the old one.

        :raises ClaimLost: some are held no longer, or another call is settling them
        """
        lost = set()
        with self._lock:
            for claim in claims:
                number = self._holds.get(claim.sequence, _NONE).number
                if number != claim.hold or self._settling.get(claim.sequence) == number:
                    lost.add(claim.sequence)
            if not lost:
                for claim in claims:
                    self._settling[claim.sequence] = claim.hold
        if lost:
            raise ClaimLost(tuple(sorted(lost)))

    def check(self, claims: Sequence[Held]) -> None:
        """Make sure that these claims are held.

        :raises ClaimLost: some are not
        """
        with self._lock:
            lost = {
                claim.sequence
                for claim in claims
                if self._holds.get(claim.sequence, _NONE).number != claim.hold
            }
        if lost:
            raise ClaimLost(tuple(sorted(lost)))

    def end(self, claims: Sequence[Held]) -> None:
        """Undo :meth:`begin`: the claims are held as before."""
        with self._lock:
            for claim in claims:
                if self._settling.get(claim.sequence) == claim.hold:
                    del self._settling[claim.sequence]

    def forget(self, claims: Sequence[Held], *, are_rejected: bool = False) -> bool:
        """Forget these claims, but none that was made since; return whether any was held still.

        :param are_rejected: add them to :attr:`dropped`
        """
        any_held = False
        with self._lock:
            for claim in claims:
                id_, number = claim.sequence, claim.hold
                if self._settling.get(id_) == number:
                    del self._settling[id_]
                if self._holds.get(id_, _NONE).number == number:
                    any_held = True
                    del self._holds[id_]
                    self._joined.pop(id_, None)
                    if are_rejected:
                        self._dropped.add(id_)
        return any_held

    def forget_those(self, ids: Iterable[int], session: int, number: int) -> None:
        """Forget the claims of one query."""
        self.forget([_Claimed(id_, session, number) for id_ in ids])

    def join(self, ids: Iterable[int]) -> None:
        """Hold claims until the application's transaction, which settles them, commits."""
        with self._lock:
            self._joined.update((id_, object()) for id_ in ids if id_ in self._holds)

    @property
    def joined(self) -> dict[int, object]:
        """Claims that may be settled by now; for :meth:`forget_joined`."""
        with self._lock:
            return {**self._joined}

    def forget_joined(self, before: dict[int, object], claimed: set[int]) -> None:
        """Forget settled claims: those in ``before`` that are no longer ``claimed``."""
        with self._lock:
            for id_, mark in before.items():
                if id_ not in claimed and self._joined.get(id_) is mark:
                    del self._joined[id_]
                    self._holds.pop(id_, None)

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
        """Forget lost claims, after the others were returned."""
        with self._lock:
            self._dropped -= ids
