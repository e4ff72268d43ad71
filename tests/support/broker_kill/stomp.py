"""STOMP 1.2 over a plain socket. Headers are given and shown as they are on the wire."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

PATIENCE = 180.0
"""Seconds for an answer; what takes longer is lost."""


class Frame(NamedTuple):
    command: str
    headers: Mapping[str, str]
    body: str


class Refused(Exception):
    """The broker answered with an ERROR frame, or not at all."""


class Connection:
    """A connection of one thread. Everything raises an ``OSError`` once the broker is gone."""

    patience = PATIENCE

    def __init__(self, port: int, *, address: str = "127.0.0.1", **headers: str) -> None:
        self._socket = socket.create_connection((address, port), timeout=self.patience)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._frames: list[Frame] = []
        """Read and not asked for yet, the next one last."""
        try:
            self.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **headers})
            frame = self.expect()
            if frame.command != "CONNECTED":
                raise Refused(f"{frame.command} instead of CONNECTED")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def send(self, command: str, headers: Mapping[str, str], body: str = "") -> None:
        lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
        self._socket.sendall(("\n".join(lines) + f"\n\n{body}\0").encode())

    def read(self, timeout: float) -> Frame | None:
        """The next frame; None if none comes in time.

        :raises Refused: it is an ERROR
        """
        end = time.monotonic() + timeout
        while not self._frames:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                return None
            finally:
                self._socket.settimeout(self.patience)
            if not data:
                raise ConnectionError("the broker closed the connection")
            *texts, self._buffer = (self._buffer + data).split(b"\0")
            self._frames = [_frame(text.decode()) for text in reversed(texts)]
        frame = self._frames.pop()
        if frame.command == "ERROR":
            raise Refused(f"{frame.headers.get('message')}: {frame.body}")
        return frame

    def expect(self) -> Frame:
        """The next frame.

        :raises Refused: none comes
        """
        frame = self.read(self.patience)
        if frame is None:
            raise Refused(f"nothing came for {self.patience:g} s")
        return frame


def _frame(text: str) -> Frame:
    head, _, body = text.lstrip("\n").partition("\n\n")
    command, *lines = head.split("\n")
    return Frame(command, dict(line.split(":", 1) for line in reversed(lines)), body)
