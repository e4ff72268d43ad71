"""A line on which an error replaces one answer: the server has run the statement, or did not get it."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import make_url

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.codes import MYSQL, POSTGRESQL, STATES
from tests.support.databases import Database
from tests.support.faults.proxy import ProxyLine, _Pair

Code = str | int


class Answer(NamedTuple):
    """A code with its text, and what it means."""

    code: Code
    text: str
    failure: Failure

    @property
    def may_be_done(self) -> bool:
        """Whether a server may answer so and have done what it was told."""
        return self.failure in (Failure.UNKNOWN, Failure.DISCONNECTED)


def _answers(codes: Mapping[Any, Failure], *more: Answer) -> list[Answer]:
    return [*more, *(Answer(code, "replaced", failure) for code, failure in sorted(codes.items()))]


_TEXTS = [
    Answer(1180, "Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT", Failure.TRANSIENT),
    Answer(
        1180,
        "Error while appending streaming replication fragment(provider status: Not connected to Primary"
        " Component)",
        Failure.UNKNOWN,
    ),
]
_BY_VENDOR = {
    "postgresql": _answers({**STATES, **POSTGRESQL}, Answer("XX000", "not listed", Failure.UNKNOWN)),
    # Below 2000 and from 3000: the numbers between are the client's own.
    "mysql": _answers(
        {code: failure for code, failure in MYSQL.items() if not 2000 <= code < 3000},
        Answer(1105, "not listed", Failure.UNKNOWN),
        *_TEXTS,
    ),
}
_BY_VENDOR["mariadb"] = _BY_VENDOR["mysql"]


def answers_of(database: Database) -> list[Answer]:
    """Every error code that the vendor's table has."""
    return _BY_VENDOR[database.engine.dialect.name]


def examples(database: Database) -> list[Answer]:
    """One answer of each meaning, and all that leave it open."""
    seen: set[Failure] = set()
    found = []
    for answer in answers_of(database):
        if answer.failure is Failure.UNKNOWN or answer.failure not in seen:
            seen.add(answer.failure)
            found.append(answer)
    return found


_SYNC, _READY = b"S\0\0\0\4", b"Z\0\0\0\5"
"""What PostgreSQL's client sends at the end of statements, and the answer to it, but for a byte."""


class AnswerLine(ProxyLine):
    """What one read from a socket gives counts as one statement, or one answer; each is counted from 1.

    Of a pipeline to PostgreSQL, all up to its end is replaced together.
    """

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
        self._carry(pair, pair.client, pair.server, done=False)

    def _carry_answers(self, pair: _Pair) -> None:
        self._carry(pair, pair.server, pair.client, done=True)

    def _carry(self, pair: _Pair, source: socket.socket, target: socket.socket, *, done: bool) -> None:
        is_first, is_replaced = True, False
        for data in pair.received(source):
            error = self._lies(done) if is_first else None
            is_replaced |= error is not None
            if is_replaced:
                pair.send(pair.client, self._packet(error, data, done=done))
            else:
                pair.send(target, data)
            is_first = not self._is_postgresql or self._ends(data, done=done)
            is_replaced &= not is_first

    @staticmethod
    def _ends(data: bytes, *, done: bool) -> bool:
        if done:
            return data[-6:-1] == _READY
        return data.endswith(_SYNC) or data[:1] in (b"Q", b"p", b"X", b"\0")

    def _packet(self, error: tuple[Code, str] | None, data: bytes, *, done: bool) -> bytes:
        """In place of data: the error, if it begins with this data, and what the client waits for."""
        if self._is_postgresql:
            count = data.count(_READY if done else _SYNC) or (not done and data[:1] == b"Q")
            fields = "" if error is None else f"SERROR\0VERROR\0C{error[0]}\0M{error[1]}\0\0"
            head = b"E" + struct.pack("!i", len(fields) + 4) + fields.encode() if fields else b""
            return head + (_READY + b"I") * count
        assert error is not None
        code, text = error
        content = b"\xff" + struct.pack("<H", int(code)) + b"#HY000" + text.encode()
        return struct.pack("<I", len(content))[:3] + (data[3:4] if done else b"\1") + content


def each_answer(line: AnswerLine, answers: list[Answer]) -> Iterator[tuple[Answer, bool, int]]:
    """Each answer, in place of each that there is: as often as the line has replaced one."""
    for answer in answers:
        for done in (True, False) if answer.may_be_done else (False,):
            for at in itertools.count(1):
                line.replace(answer.code, at, done=done, text=answer.text)
                yield answer, done, at
                line.mend()
                if not line.lied:
                    break
