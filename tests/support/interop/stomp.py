"""A STOMP client of a few lines, for talking to a broker over a plain socket."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_ESCAPES = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_UNESCAPES = {escape: plain for plain, escape in _ESCAPES.items()}
_ESCAPED = {"1.0": "", "1.1": "\\\\\n:", "1.2": "\\\\\n:\r"}
"""What each version escapes in headers; but not in those of CONNECT and CONNECTED."""
_PLAIN = {"CONNECT", "CONNECTED", "STOMP"}
WAIT = float(os.environ.get("JDBCSTORE_WAIT", "180"))
"""Seconds after which a frame that should have come has not."""


@dataclass(frozen=True)
class Frame:
    command: str
    headers: Mapping[str, str]
    body: bytes = b""


class Wire:
    """Frames, right ones and wrong ones, over a socket; a context manager that closes it.

    It waits :data:`WAIT` for each frame.
    """

    def __init__(self, port: int, version: str = "1.2") -> None:
        self.version = version
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def connect(self, headers: Mapping[str, str] | None = None) -> Frame:
        """Begin a session, and return the answer to CONNECT."""
        self.write("CONNECT", {"accept-version": self.version, "host": "localhost", **(headers or {})})
        return self.read()

    def write(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        escape = str if command in _PLAIN else self._escape
        lines = [command, *(f"{escape(name)}:{escape(value)}" for name, value in headers.items())]
        self.write_bytes("\n".join(lines).encode() + b"\n\n" + body + b"\0")

    def write_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> Frame:
        """The next frame; heart-beats are passed over.

        :raises ConnectionError: the broker closed the connection
        """
        command = self._line()
        while command == "":
            command = self._line()
        unescape = str if command in _PLAIN else self._unescape
        headers: dict[str, str] = {}
        for line in iter(self._line, ""):
            name, _, value = line.partition(":")
            headers.setdefault(unescape(name), unescape(value))
        if "content-length" in headers:
            body = self._stream.read(int(headers["content-length"]))
            end = self._stream.read(1)
            assert end == b"\0", f"a frame longer than its content-length: {end!r}"
        else:
            body = b"".join(iter(lambda: self._stream.read(1), b"\0"))
        return Frame(command, headers, body)

    def read_byte(self) -> bytes:
        """The next byte, which may be a heart-beat; b"" when the broker has closed the connection."""
        try:
            return self._stream.read(1)
        except ConnectionResetError:
            return b""

    def _line(self) -> str:
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the broker closed the STOMP connection")
        return line.decode(errors="surrogatepass").rstrip("\r\n")

    def _escape(self, text: str) -> str:
        if self.version == "1.0":
            return text
        return re.sub(f"[{_ESCAPED[self.version]}]", lambda match: _ESCAPES[match.group()], text)

    def _unescape(self, text: str) -> str:
        if self.version == "1.0":
            return text
        return re.sub(r"\\[\\rnc]", lambda match: _UNESCAPES[match.group()], text)


class StompClient(Wire):
    """A session of STOMP 1.2 in which everything is asked for and answered in turns."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._expect("CONNECTED", self.connect())

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send and wait for the broker's receipt. A text message unless there is a content-length."""
        self.write("SEND", {"destination": destination, "receipt": "sent", **headers}, body)
        self._expect("RECEIPT", self.read())

    def receive(self, destination: str, count: int) -> list[Frame]:
        """Subscribe, take ``count`` messages, acknowledge each, unsubscribe."""
        self.write("SUBSCRIBE", {"id": "0", "destination": destination, "ack": "client-individual"})
        frames = [self._expect("MESSAGE", self.read()) for _ in range(count)]
        for number, frame in enumerate(frames):
            self.write("ACK", {"id": frame.headers["ack"], "receipt": f"ack-{number}"})
            self._expect("RECEIPT", self.read())
        self.write("UNSUBSCRIBE", {"id": "0", "receipt": "unsubscribed"})
        self._expect("RECEIPT", self.read())
        return frames

    def _expect(self, command: str, frame: Frame) -> Frame:
        assert frame.command == command, f"{frame} instead of {command}"
        return frame
