"""A stock client of STOMP, stomp.py, that connects again to a broker that was killed."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import stomp
from stomp.exception import StompException

_GONE = (StompException, OSError)
"""What stomp.py raises when a connection ends under it."""
_GIVE_UP = 60.0
_ANSWER_WITHIN = 60.0

Delivery = tuple[dict[str, str], str]
"""Headers and body of a message."""


class ConnectionLost(Exception):
    """The broker died before it answered: what was asked was done, or it was not."""


class _Line(stomp.ConnectionListener):  # type: ignore[misc]
    """One connection, and what has come on it, which a thread of stomp.py puts here."""

    def __init__(self, port: int) -> None:
        self.messages: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self.receipts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # Without a content-length a body is text, and not bytes.
        self.connection = stomp.Connection12(
            [("127.0.0.1", port)], auto_content_length=False, reconnect_attempts_max=1
        )
        self.connection.set_listener("", self)
        self.connection.connect(wait=True)

    def on_message(self, frame: Any) -> None:
        self.messages.put((frame.headers, frame.body))

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_disconnected(self) -> None:
        self.messages.put(None)
        self.receipts.put(None)


class Client:
    """One connection at a time to the broker at a port of this machine, whichever process that is now."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._line: _Line | None = None
        self._subscription: dict[str, str] | None = None
        self._asked = 0

    def subscribe(self, destination: str, prefetch: int) -> None:
        """Consume from now on, on every connection; what is not acknowledged comes again."""
        self._subscription = {
            "destination": destination,
            "id": "1",
            "ack": "client-individual",
            "activemq.prefetchSize": str(prefetch),
        }

    def send(self, destination: str, body: str, headers: dict[str, str]) -> None:
        """Send a message, and wait for the receipt that says that it is stored.

        :raises ConnectionLost: nobody will know from here whether it was
        """
        self._ask(lambda connection, more: connection.send(destination, body, headers=headers, **more))

    def take(self, timeout: float) -> Delivery | None:
        """The next message; None if none came in ``timeout`` seconds.

        :raises ConnectionLost: what was given out and not acknowledged comes again
        """
        try:
            found = self._connected().messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if found is None:
            self._line = None
            raise ConnectionLost("the broker is gone")
        return found

    def acknowledge(self, deliveries: list[Delivery]) -> None:
        """Acknowledge messages, and wait until the broker has done it.

        :raises ConnectionLost: some come again, perhaps
        """
        *most, last = [headers["ack"] for headers, _ in deliveries]

        def ask(connection: Any, more: dict[str, str]) -> None:
            for one in most:
                connection.ack(one)
            connection.ack(last, **more)

        self._ask(ask)

    def _ask(self, ask: Callable[[Any, dict[str, str]], None]) -> None:
        line = self._connected()
        self._asked += 1
        receipt = str(self._asked)
        try:
            ask(line.connection, {"receipt": receipt})
            answer = line.receipts.get(timeout=_ANSWER_WITHIN)
        except _GONE:
            answer = None
        if answer != receipt:
            self._line = None
            raise ConnectionLost("the broker is gone")

    def _connected(self) -> _Line:
        deadline = time.monotonic() + _GIVE_UP
        while self._line is None:
            try:
                self._line = _Line(self._port)
            except _GONE:  # after a pause of stomp.py's own
                if time.monotonic() > deadline:
                    raise
            else:
                if self._subscription is not None:
                    self._line.connection.subscribe(**self._subscription)
        return self._line

    def close(self) -> None:
        """Disconnect; everything was confirmed before."""
        if self._line is not None:
            with suppress(*_GONE):
                self._line.connection.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
