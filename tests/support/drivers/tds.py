"""As much of SQL Server's protocol as a driver needs to log in, and to be told of errors: MS-TDS 7.4."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.drivers.listener import Listener, Peer

_PRELOGIN, _LOGIN, _CALL, _ANSWER = 0x12, 0x10, 0x03, 0x04
_DONE, _DONE_PROCEDURE = 0xFD, 0xFE
_PACKET = 4096


@dataclass(frozen=True)
class ServerError:
    """What the server says instead of an answer."""

    number: int
    text: str
    severity: int = 16


@dataclass(frozen=True)
class Login:
    """What a driver says of itself."""

    user: str
    password: str
    database: str


class SqlServer(Listener):
    """Takes every login, unless it ``refuses``, and nearly every statement.

    One with ``E`` and the number of an error is answered with it, and one with ``CLOSE`` is not answered.
    """

    def __init__(
        self, errors: Mapping[int, ServerError] | None = None, refuses: ServerError | None = None
    ) -> None:
        super().__init__(self._answer)
        self._errors = errors or {}
        self._refuses = refuses
        self.logins: list[Login] = []

    def _answer(self, peer: Peer) -> None:
        while True:
            kind, data = _message(peer)
            if kind == _PRELOGIN:
                peer.send(_packet(_prelogin()))
            elif kind == _LOGIN:
                self.logins.append(_login(data))
                peer.send(_packet(_welcome() if self._refuses is None else _error(self._refuses)))
            else:
                if _wide("CLOSE") in data:
                    return
                said = [error for number, error in self._errors.items() if _wide(f"E{number};") in data]
                done = _DONE_PROCEDURE if kind == _CALL else _DONE
                peer.send(_packet(_error(said[0], done) if said else _done(done)))


def _message(peer: Peer) -> tuple[int, bytes]:
    data = b""
    while True:
        kind, status, size = struct.unpack(">BBH", peer.read(8)[:4])
        data += peer.read(size - 8)
        if status & 1:
            return kind, data


def _packet(data: bytes) -> bytes:
    return struct.pack(">BBHHBB", _ANSWER, 1, len(data) + 8, 0, 1, 0) + data


def _prelogin() -> bytes:
    """Return the answer to the first message: version 16, no encryption, no other features."""
    options = {0: bytes((16, 0, 3, 0xE8, 0, 0)), 1: b"\x02", 2: b"\x00", 3: b"", 4: b"\x00"}
    place = 5 * len(options) + 1
    head, body = b"", b""
    for number, value in options.items():
        head += struct.pack(">BHH", number, place + len(body), len(value))
        body += value
    return head + b"\xff" + body


def _login(data: bytes) -> Login:
    def field(place: int) -> bytes:
        start, size = struct.unpack_from("<HH", data, place)
        return data[start : start + 2 * size]

    # Each byte of the password has its halves exchanged, and every other bit flipped.
    plain = bytes(((byte ^ 0xA5) >> 4 | (byte ^ 0xA5) << 4) & 0xFF for byte in field(44))
    texts = (field(40), plain, field(68))
    return Login(*(text.decode("utf-16-le") for text in texts))


def _wide(text: str) -> bytes:
    return text.encode("utf-16-le")


def _short(text: str) -> bytes:
    return bytes((len(text),)) + _wide(text)


def _token(kind: int, body: bytes) -> bytes:
    return struct.pack("<BH", kind, len(body)) + body


def _done(kind: int = _DONE, status: int = 0) -> bytes:
    return struct.pack("<BHHQ", kind, status, 0, 0)


def _welcome() -> bytes:
    acknowledged = b"\x01" + struct.pack(">I", 0x74000004) + _short("SQL Server") + bytes((16, 0, 3, 0xE8))
    size = b"\x04" + _short(str(_PACKET)) + _short(str(_PACKET))
    collation = b"\x07\x05" + bytes((0x09, 0x04, 0xD0, 0x00, 0x34)) + b"\x00"
    database = b"\x01" + _short("mq") + _short("master")
    changes = b"".join(_token(0xE3, change) for change in (database, collation, size))
    return changes + _token(0xAD, acknowledged) + _done()


def _error(error: ServerError, done: int = _DONE) -> bytes:
    text = struct.pack("<H", len(error.text)) + _wide(error.text)
    body = struct.pack("<IBB", error.number, 1, error.severity) + text + _short("db") + _short("")
    return _token(0xAA, body + struct.pack("<I", 1)) + _done(done, 2)
