"""The STOMP client of the tests: frames over a plain socket, with a codec that is not the product's."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

_ESCAPES = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_UNESCAPES = {escape: plain for plain, escape in _ESCAPES.items()}
_ESCAPED = {"1.0": "", "1.1": "\\\\\n:", "1.2": "\\\\\n:\r"}
"""What each version escapes in headers; but not in those of CONNECT and CONNECTED."""
_PLAIN = {"CONNECT", "CONNECTED", "STOMP"}
WAIT = float(os.environ.get("JDBCSTORE_WAIT", "180"))
"""Seconds after which a frame that should have come has not."""


class Frame(NamedTuple):
    command: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()


class Refused(Exception):
    """The broker answered with an ERROR frame, or not at all."""


class Wire:
    """Frames, right ones and wrong ones; a context manager that closes the socket.

    :param patience: seconds to wait for each answer
    """

    def __init__(
        self, port: int, version: str = "1.2", *, address: str = "127.0.0.1", patience: float = WAIT
    ) -> None:
        self.version = version
        self.patience = patience
        self.socket = self.open_socket(address, port)
        self._buffer = bytearray()
        self._enough = 0
        """The size of the buffer that may have a whole frame."""

    def open_socket(self, address: str, port: int) -> Any:
        connection = socket.create_connection((address, port), timeout=self.patience)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def connect(self, headers: Mapping[str, str] | None = None) -> Frame:
        """Begin a session, and return the answer to CONNECT."""
        self.write("CONNECT", {"accept-version": self.version, "host": "localhost", **(headers or {})})
        return self.read()

    def write(self, command: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        escape = str if command in _PLAIN else self._escape
        lines = [command, *(f"{escape(name)}:{escape(value)}" for name, value in (headers or {}).items())]
        self.write_bytes("\n".join(lines).encode() + b"\n\n" + body + b"\0")

    def write_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> Frame:
        """Return the next frame, without heart-beats before it.

        :raises ConnectionError: the broker closed the connection
        """
        while (frame := self._frame()) is None:
            self._receive()
        return frame

    def poll(self, timeout: float) -> Frame | None:
        """Return the next frame; None if none comes in time.

        :raises ConnectionError: the broker closed the connection
        """
        end = time.monotonic() + timeout
        while (frame := self._frame()) is None:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                self._receive()
            except TimeoutError:
                return None
            finally:
                self.socket.settimeout(self.patience)
        return frame

    def read_byte(self) -> bytes:
        """Return the next byte, which may be a heart-beat; b"" if the broker has closed the connection."""
        try:
            if not self._buffer:
                self._receive()
        except ConnectionError:
            return b""
        byte = bytes(self._buffer[:1])
        del self._buffer[:1]
        return byte

    def _receive(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the broker closed the STOMP connection")
        self._buffer += data

    def _frame(self) -> Frame | None:
        """Take a whole frame from the buffer."""
        if len(self._buffer) < max(self._enough, 1):
            return None
        if not self._enough:
            self._buffer = self._buffer.lstrip(b"\r\n")
        if (end := re.search(rb"\n\r?\n", self._buffer)) is None:
            return None
        command, headers = self._head(self._buffer[: end.start()].decode(errors="surrogatepass"))
        if "content-length" in headers:
            size = int(headers["content-length"])
            self._enough = end.end() + size + 1
        else:
            size = self._buffer.find(0, max(end.end(), self._enough - 1)) - end.end()
            self._enough = len(self._buffer) + 1 if size < 0 else 0
        if len(self._buffer) < self._enough:
            return None
        body = bytes(self._buffer[end.end() : end.end() + size])
        assert self._buffer[end.end() + size] == 0, "a frame longer than its content-length"
        del self._buffer[: end.end() + size + 1]
        self._enough = 0
        return Frame(command, headers, body)

    def _head(self, text: str) -> tuple[str, dict[str, str]]:
        command, *lines = (line.rstrip("\r") for line in text.split("\n"))
        unescape = str if command in _PLAIN else self._unescape
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers.setdefault(unescape(name), unescape(value))
        return command, headers

    def _escape(self, text: str) -> str:
        if self.version == "1.0":
            return text
        return re.sub(f"[{_ESCAPED[self.version]}]", lambda match: _ESCAPES[match.group()], text)

    def _unescape(self, text: str) -> str:
        if self.version == "1.0":
            return text
        return re.sub(r"\\[\\rnc]", lambda match: _UNESCAPES[match.group()], text)


class Connection(Wire):
    """A session in which an ERROR is an exception, and so is an answer that does not come.

    :raises Refused: the broker refuses it
    """

    def __init__(
        self,
        port: int,
        headers: Mapping[str, str] | None = None,
        *,
        address: str = "127.0.0.1",
        patience: float = WAIT,
    ) -> None:
        super().__init__(port, address=address, patience=patience)
        try:
            self.write("CONNECT", {"accept-version": "1.2", "host": "localhost", **(headers or {})})
            if (frame := self.expect()).command != "CONNECTED":
                raise Refused(f"{frame.command} instead of CONNECTED")
        except BaseException:
            self.close()
            raise

    def poll(self, timeout: float) -> Frame | None:
        """Return the next frame; None if none comes in time.

        :raises Refused: it is an ERROR
        """
        frame = super().poll(timeout)
        if frame is not None and frame.command == "ERROR":
            raise Refused(f"{frame.headers.get('message')}: {frame.text}")
        return frame

    def expect(self) -> Frame:
        """Return the next frame.

        :raises Refused: none comes, or it is an ERROR
        """
        frame = self.poll(self.patience)
        if frame is None:
            raise Refused(f"nothing came for {self.patience:g} s")
        return frame


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
