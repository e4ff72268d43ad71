"""A line on which an error replaces one answer: the server has run the statement, or did not get it."""

from __future__ import annotations

import struct
import threading

from sqlalchemy import make_url

from tests.support.faults.proxy import ProxyLine, _Pair

Code = str | int


class AnswerLine(ProxyLine):
    """What one read from a socket gives counts as one statement, or one answer; each is counted from 1."""

    def __init__(self, url: str) -> None:
        self._is_postgresql = make_url(url).get_backend_name() == "postgresql"
        self._lie = threading.Lock()
        self._error: tuple[Code, str] | None = None
        self._at, self._done = 0, True
        self.lied = False
        """An answer was replaced since :meth:`replace`."""
        super().__init__(url)

    def replace(self, code: Code, at: int, *, done: bool, text: str = "replaced") -> None:
        """Replace the answer with this number; without ``done``, the server does not get the statement."""
        with self._lie:
            self._error, self._at, self._done, self.lied = (code, text), at, done, False

    def mend(self) -> None:
        super().mend()
        with self._lie:
            self._error = None

    def _lies(self, done: bool) -> tuple[Code, str] | None:
        with self._lie:
            if self._error is None or self._done is not done:
                return None
            self._at -= 1
            if self._at:
                return None
            error, self._error, self.lied = self._error, None, True
            return error

    def _carry_statements(self, pair: _Pair) -> None:
        for data in pair.received(pair.client):
            error = self._lies(done=False)
            if error is None:
                pair.send(pair.server, data)
            else:
                pair.send(pair.client, self._packet(*error))

    def _carry_answers(self, pair: _Pair) -> None:
        for data in pair.received(pair.server):
            error = self._lies(done=True)
            pair.send(pair.client, data if error is None else self._packet(*error, data))

    def _packet(self, code: Code, text: str, answer: bytes = b"\0\0\0\1") -> bytes:
        if self._is_postgresql:
            fields = f"SERROR\0VERROR\0C{code}\0M{text}\0\0".encode()
            return b"E" + struct.pack("!i", len(fields) + 4) + fields + b"Z" + struct.pack("!i", 5) + b"I"
        content = b"\xff" + struct.pack("<H", int(code)) + b"#HY000" + text.encode()
        return struct.pack("<I", len(content))[:3] + answer[3:4] + content
