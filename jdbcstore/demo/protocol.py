"""Requests to the storing process: one JSON object a line, one line of answer, over a socket."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from typing import Any, Self

Json = dict[str, Any]

_PAUSE = 0.05
_GIVE_UP = 60.0
_ANSWER_WITHIN = 60.0


class ConnectionLost(Exception):
    """The storing process died before it answered: the request was carried out, or it was not."""


class Client:
    """One connection at a time to whichever storing process lives now."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._file: Any = None
        self._socket: socket.socket | None = None

    def request(self, **request: Any) -> Json:
        """Send one request and wait for its answer.

        :raises ConnectionLost: nobody will know from here whether it was carried out
        :raises RuntimeError: the storing process refused it
        """
        if self._file is None:
            self._connect()
        try:
            self._file.write(json.dumps(request).encode() + b"\n")
            self._file.flush()
            line = self._file.readline()
        except OSError as error:
            self.close()
            raise ConnectionLost(str(error)) from error
        if not line.endswith(b"\n"):
            self.close()
            raise ConnectionLost("the connection ended in an answer")
        answer: Json = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def _connect(self) -> None:
        deadline = time.monotonic() + _GIVE_UP
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", self._port), _ANSWER_WITHIN)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rwb")

    def close(self) -> None:
        for closing in (self._file, self._socket):
            if closing is not None:
                with suppress(OSError):
                    closing.close()
        self._file = self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
