"""What takes effect in the tables of claims, commit by commit: a trace for the model of flow control."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.database import Server

RUNNING, LATE, OVER = 1, 2, 3
"""The states of a lease, as in the model."""
_LATE_MS = 1000
_MESSAGES = """
SELECT m.ID, m.CONTAINER, m.MSG, c.SESSION, c.TAKEN
FROM ACTIVEMQ_MSGS m LEFT JOIN JDBCSTORE_CLAIMS c ON c.ID = m.ID ORDER BY m.ID
"""
_SETTINGS = "SELECT CONTAINER, MOST, PAUSED, KEYING, KEY_MOST FROM JDBCSTORE_FLOW ORDER BY CONTAINER"
_SESSIONS = "SELECT ID, EXPIRES FROM JDBCSTORE_CLAIM_SESSIONS ORDER BY ID"


class Effect(NamedTuple):
    """A change of a row, by the names of the model: the message by its ID, the session by its number."""

    kind: str
    numbers: tuple[int, ...]


class _Row(NamedTuple):
    container: str
    key: str
    session: int
    taken: int


class Effects:
    """The changes of each queue, in the order in which they took effect."""

    def __init__(self, server: Server, decoded: Callable[[int, str, Any], tuple[str, str]]) -> None:
        """``decoded`` returns the key of a message, and its name."""
        self._server = server
        self._decoded = decoded
        self._messages: dict[int, _Row] = {}
        self._settings: dict[str, tuple[int, ...]] = {}
        self._leases: dict[int, int] = {}
        self.of: dict[str, list[Effect]] = defaultdict(list)
        """By the qualified name of the queue."""

    def look(self) -> None:
        """Note what has changed since the last look, after each commit."""
        self._look_at_settings()
        self._look_at_leases()
        self._look_at_messages()

    def _look_at_settings(self) -> None:
        for container, most, paused, keying, key_most in self._server.rows(_SETTINGS):
            settings = most or 0, paused, keying, key_most or 0
            if self._settings.get(container) != settings:
                self._settings[container] = settings
                self._note(container, "LIMIT", *settings[:2])
                self._note(container, "KEYED", *settings[2:])

    def _look_at_leases(self) -> None:
        now = self._server.now_ms()
        expiries = dict(self._server.rows(_SESSIONS))
        for session in {**self._leases, **expiries}:
            left = expiries.get(session, 0) - now
            state = RUNNING if left >= 0 else LATE if left >= -_LATE_MS else OVER
            if self._leases.get(session) != state:
                self._leases[session] = state
                for container in self._settings:
                    self._note(container, "LEASE", session, state)

    def _look_at_messages(self) -> None:
        before, self._messages = self._messages, {}
        claimed: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for id_, container, blob, session, taken in self._server.rows(_MESSAGES):
            key = self._decoded(id_, container, blob)[0]
            row = self._messages[id_] = _Row(container, key, max(session or 0, 0), taken or 0)
            known = before.get(id_)
            if known is None or known.container != container:
                if known is not None:
                    self._note(known.container, "GONE", id_)
                self._note(container, "ADD", id_, key)
            elif known.session and not row.session:
                self._note(container, "FREED", id_)
            if row.session and (known is None or (known.session, known.taken) != (row.session, row.taken)):
                claimed[container].append((row.session, id_))
        for id_, row in before.items():
            if id_ not in self._messages:
                self._note(row.container, "GONE", id_)
        for container, claims in claimed.items():
            for more, (session, id_) in zip(reversed(range(len(claims))), claims, strict=True):
                self._note(container, "CLAIMED", session, id_, more)

    def _note(self, container: str, kind: str, *numbers: Any) -> None:
        self.of[container].append(Effect(kind, numbers))
