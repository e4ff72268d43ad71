"""A STOMP 1.2 client of a few lines, for talking to ActiveMQ over a plain socket."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_ESCAPES = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_UNESCAPES = {escape: plain for plain, escape in _ESCAPES.items()}


@dataclass(frozen=True)
class Frame:
    command: str
    headers: Mapping[str, str]
    body: bytes = b""


class StompClient:
    """A connection to a broker on this machine; a context manager that closes it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._stream = self._socket.makefile("rb")
        self._request("CONNECT", {"accept-version": "1.2", "host": "localhost"}, expect="CONNECTED")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send and wait for the broker's receipt. A text message unless there is a content-length."""
        headers = {"destination": destination, "receipt": "sent", **headers}
        self._request("SEND", headers, body, expect="RECEIPT")

    def receive(self, destination: str, count: int) -> list[Frame]:
        """Subscribe, take ``count`` messages, acknowledge each, unsubscribe."""
        self._write("SUBSCRIBE", {"id": "0", "destination": destination, "ack": "client-individual"})
        frames = [self._read("MESSAGE") for _ in range(count)]
        for number, frame in enumerate(frames):
            receipt = f"ack-{number}"
            self._write("ACK", {"id": frame.headers["ack"], "receipt": receipt})
            self._read("RECEIPT")
        self._request("UNSUBSCRIBE", {"id": "0", "receipt": "unsubscribed"}, expect="RECEIPT")
        return frames

    def _request(self, command: str, headers: Mapping[str, str], body: bytes = b"", *, expect: str) -> Frame:
        self._write(command, headers, body)
        return self._read(expect)

    def _write(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        lines = [command, *(f"{_escape(name)}:{_escape(value)}" for name, value in headers.items())]
        self._socket.sendall("\n".join(lines).encode() + b"\n\n" + body + b"\0")

    def _read(self, expect: str) -> Frame:
        command = self._line()
        while command == "":
            command = self._line()
        headers: dict[str, str] = {}
        for line in iter(self._line, ""):
            name, _, value = line.partition(":")
            headers.setdefault(_unescape(name), _unescape(value))
        if "content-length" in headers:
            body = self._stream.read(int(headers["content-length"]))
            end = self._stream.read(1)
            assert end == b"\0", f"a frame longer than its content-length: {end!r}"
        else:
            body = b"".join(iter(lambda: self._stream.read(1), b"\0"))
        assert command == expect, f"{command} instead of {expect}: {headers} {body!r}"
        return Frame(command, headers, body)

    def _line(self) -> str:
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the broker closed the STOMP connection")
        return line.decode().rstrip("\r\n")


def _escape(text: str) -> str:
    return re.sub(r"[\\\r\n:]", lambda match: _ESCAPES[match.group()], text)


def _unescape(text: str) -> str:
    return re.sub(r"\\[\\rnc]", lambda match: _UNESCAPES[match.group()], text)
