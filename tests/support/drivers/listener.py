"""A server of one conversation at a time, for what a driver sends to it, and what it makes of the answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

CONNECTION_LOST = OSError, EOFError


class Peer:
    """One connection of a driver."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def read(self, size: int) -> bytes:
        """Return exactly as many bytes.

        :raises EOFError: the driver has closed the connection
        """
        data = b""
        while len(data) < size:
            more = self._connection.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)


class Listener:
    """Listens on loopback, and has each connection served by a thread until ``serve`` returns."""

    def __init__(self, serve: Callable[[Peer], None]) -> None:
        self._serve = serve
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._serve(Peer(connection))
            except CONNECTION_LOST:
                return
