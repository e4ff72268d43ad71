"""The STOMP client of the tests over WebSocket, through the package ``websockets``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from jdbcstore.broker.stomp.frames import Version
from tests.support.broker.stomp.serving import PATIENCE, Client

STOMP = [Subprotocol("v10.stomp"), Subprotocol("v11.stomp"), Subprotocol("v12.stomp")]
"""As @stomp/stompjs offers them."""


class MessageSocket:
    """Bytes in WebSocket messages; each ``sendall`` is one."""

    def __init__(self, uri: str, *, text: bool = False, **options: Any) -> None:
        options = {"subprotocols": STOMP, "compression": None, "max_size": None, "proxy": None, **options}
        self._stack = ExitStack()
        self.websocket: ClientConnection = self._stack.enter_context(
            connect(uri, open_timeout=PATIENCE, **options)
        )
        self.text = text
        self.received: list[str | bytes] = []
        """The messages, as they came."""

    def sendall(self, data: bytes) -> None:
        self.websocket.send(data, text=self.text)

    def recv(self, _: int) -> bytes:
        """The next message; nothing at the end."""
        try:
            message = self.websocket.recv(PATIENCE)
        except ConnectionClosed:
            return b""
        self.received.append(message)
        return message.encode() if isinstance(message, str) else message

    @property
    def closed_with(self) -> tuple[int, str]:
        """The code and the reason of the end, by the broker."""
        close = self.websocket.protocol.close_rcvd
        assert close is not None, "the WebSocket is open, or was not closed by the broker"
        return int(close.code), close.reason

    def close(self) -> None:
        self._stack.close()


class WebSocketClient(Client):
    """The same client; ``socket`` is a :class:`MessageSocket`."""

    def __init__(
        self, port: int, version: Version | None = Version.V1_2, *, scheme: str = "ws", **headers: Any
    ) -> None:
        names = ("text", "origin", "subprotocols", "ssl")
        self._options = {name: headers.pop(name) for name in names if name in headers}
        self._scheme = scheme
        super().__init__(port, version, **headers)

    def open_socket(self, address: str, port: int) -> MessageSocket:
        return MessageSocket(f"{self._scheme}://{address}:{port}/stomp", **self._options)

    @property
    def websocket(self) -> ClientConnection:
        websocket: ClientConnection = self.socket.websocket
        return websocket
