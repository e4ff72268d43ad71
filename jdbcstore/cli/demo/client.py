"""A STOMP client that reconnects to a restarted broker, on top of the stock client stomp.py."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import stomp
from stomp.exception import StompException

_LOST = (StompException, OSError)
"""Raised by stomp.py when a connection is lost."""
_CONNECT_TIMEOUT = 60.0
_RECEIPT_TIMEOUT = 60.0

Delivery = tuple[dict[str, str], str]
"""Headers and body of a message."""


class ConnectionLost(Exception):
    """The broker died before it replied: the request may or may not have been executed."""


class _Connection(stomp.ConnectionListener):  # type: ignore[misc]
    """One connection, with queues that a thread of stomp.py fills with the frames received."""

    def __init__(self, port: int) -> None:
        self.messages: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self.receipts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # Without a content-length the body is a string, not bytes.
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


class Client(AbstractContextManager["Client"]):
    """One connection at a time to the current broker process at a local port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._current: _Connection | None = None
        self._subscription: dict[str, str] | None = None
        self._requests = 0

    def subscribe(self, destination: str, prefetch: int) -> None:
        """Subscribe, on this and every later connection; unacknowledged messages are redelivered."""
        self._subscription = {
            "destination": destination,
            "id": "1",
            "ack": "client-individual",
            "activemq.prefetchSize": str(prefetch),
        }

    def send(self, destination: str, body: str, headers: dict[str, str]) -> None:
        """Send a message, and wait for the RECEIPT, which confirms that it is stored.

        :raises ConnectionLost: it may or may not be stored
        """
        self._request(lambda connection, more: connection.send(destination, body, headers=headers, **more))

    def receive(self, timeout: float) -> Delivery | None:
        """Return the next message; None if there is none within ``timeout`` seconds.

        :raises ConnectionLost: unacknowledged messages will be redelivered
        """
        try:
            message = self._connected().messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is None:
            self._current = None
            raise ConnectionLost("the connection to the broker was lost")
        return message

    def acknowledge(self, deliveries: list[Delivery]) -> None:
        """Acknowledge messages, and wait for the RECEIPT.

        :raises ConnectionLost: some may be redelivered
        """
        *others, last = [headers["ack"] for headers, _ in deliveries]

        def send_acks(connection: Any, more: dict[str, str]) -> None:
            for piece in others:
                connection.ack(piece)
            connection.ack(last, **more)

        self._request(send_acks)

    def _request(self, request: Callable[[Any, dict[str, str]], None]) -> None:
        current = self._connected()
        self._requests += 1
        receipt = str(self._requests)
        try:
            request(current.connection, {"receipt": receipt})
            answer = current.receipts.get(timeout=_RECEIPT_TIMEOUT)
        except _LOST:
            answer = None
        if answer != receipt:
            self._current = None
            raise ConnectionLost("the connection to the broker was lost")

    def _connected(self) -> _Connection:
        deadline = time.monotonic() + _CONNECT_TIMEOUT
        while self._current is None:
            try:
                self._current = _Connection(self._port)
            except _LOST:  # stomp.py has already paused
                if time.monotonic() > deadline:
                    raise
            else:
                if self._subscription is not None:
                    self._current.connection.subscribe(**self._subscription)
        return self._current

    def __exit__(self, *_exc: object) -> None:
        """Disconnect; every request has been confirmed."""
        if self._current is not None:
            with suppress(*_LOST):
                self._current.connection.disconnect()
