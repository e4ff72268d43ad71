"""What a behaviour says to a broker, whichever library says it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from tests.support.stomp import Frame


class Refused(Exception):
    """The broker answered with an ERROR."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.headers.get("message", ""))
        self.frame = frame


class Closed(Exception):
    """The broker closed the connection."""


class Client(Protocol):
    """A library's connection. Headers are added to those that a command has by itself."""

    version: str

    def connect(self, headers: Mapping[str, str]) -> Frame:
        """:raises Refused: the answer was an ERROR"""

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None: ...
    def subscribe(self, destination: str, headers: Mapping[str, str]) -> None: ...
    def unsubscribe(self, subscription: str, receipt: str) -> None: ...
    def acknowledge(self, message: Frame, transaction: str | None, receipt: str) -> None: ...
    def reject(self, message: Frame, transaction: str | None, receipt: str) -> None: ...
    def begin(self, transaction: str, receipt: str) -> None: ...
    def commit(self, transaction: str, receipt: str) -> None: ...
    def abort(self, transaction: str, receipt: str) -> None: ...
    def disconnect(self, receipt: str) -> None: ...

    def read(self) -> Frame:
        """The next MESSAGE, RECEIPT or ERROR.

        :raises Closed: the broker closed the connection, and there is nothing left
        """

    def drop(self) -> None:
        """Close the socket without a word."""


class Conversation:
    """A connected session. What is asked for is answered by a receipt, else :class:`Refused` is raised."""

    def __init__(self, client: Client, connected: Frame) -> None:
        self.version = client.version
        self.connected = connected
        self._client = client
        self._messages: deque[Frame] = deque()
        self._numbers = itertools.count(1)

    def send(self, destination: str, body: str | bytes, headers: Mapping[str, str] | None = None) -> None:
        """Text, unless the headers have a content-length."""
        data = body.encode() if isinstance(body, str) else body
        self._ask(lambda r: self._client.send(destination, data, {"receipt": r, **(headers or {})}))

    def post(self, destination: str, body: str, headers: Mapping[str, str] | None = None) -> None:
        """Send without a receipt."""
        self._client.send(destination, body.encode(), headers or {})

    def subscribe(
        self,
        destination: str,
        ack: str = "auto",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """The subscription's id, which is a new one."""
        id_ = f"sub-{next(self._numbers)}"
        own = {"id": id_, "ack": ack}
        self._ask(lambda r: self._client.subscribe(destination, {"receipt": r, **own, **(headers or {})}))
        return id_

    def unsubscribe(self, subscription: str) -> None:
        self._ask(lambda r: self._client.unsubscribe(subscription, r))

    def acknowledge(self, message: Frame, transaction: str | None = None) -> None:
        self._ask(lambda r: self._client.acknowledge(message, transaction, r))

    def reject(self, message: Frame, transaction: str | None = None) -> None:
        self._ask(lambda r: self._client.reject(message, transaction, r))

    def begin(self) -> str:
        name = f"tx-{next(self._numbers)}"
        self._ask(lambda r: self._client.begin(name, r))
        return name

    def commit(self, transaction: str) -> None:
        self._ask(lambda r: self._client.commit(transaction, r))

    def abort(self, transaction: str) -> None:
        self._ask(lambda r: self._client.abort(transaction, r))

    def disconnect(self) -> None:
        self._ask(self._client.disconnect)
        self._client.drop()

    def drop(self) -> None:
        """Vanish: the broker sees the connection end, and nothing before."""
        self._client.drop()

    @property
    def held(self) -> int:
        """How many messages have come while a receipt was waited for, and were not looked at."""
        return len(self._messages)

    def settle(self) -> None:
        """Return when all that this session asked for is done.

        ActiveMQ sends the receipt of a subscription before it lets it have messages: until then they go
        to another consumer. What the connection says next is read behind that.
        """
        self.abort(self.begin())

    def message(self) -> Frame:
        """The next message, in the order in which they came."""
        if self._messages:
            return self._messages.popleft()
        frame = self._client.read()
        if frame.command == "ERROR":
            raise Refused(frame)
        assert frame.command == "MESSAGE", frame
        return frame

    def bodies(self, count: int) -> list[str]:
        """Of the next messages."""
        return [self.message().body.decode() for _ in range(count)]

    def error(self) -> Frame:
        """The next frame, which is an ERROR."""
        frame = self._client.read()
        assert frame.command == "ERROR", frame
        return frame

    def _ask(self, ask: Callable[[str], None]) -> None:
        receipt = f"receipt-{next(self._numbers)}"
        ask(receipt)
        while (frame := self._client.read()).command == "MESSAGE":
            self._messages.append(frame)
        if frame.command == "ERROR":
            raise Refused(frame)
        assert (frame.command, frame.headers["receipt-id"]) == ("RECEIPT", receipt)
