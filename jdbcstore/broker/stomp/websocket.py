"""STOMP over WebSocket: the connection of a STOMP client whose frames are in WebSocket messages.

The client is usually a page in a browser. A message from it is a part of its stream of STOMP frames: one
frame, several, or a piece of one. A message to it is one STOMP frame, as text if it is UTF-8.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from websockets.exceptions import NegotiationError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from jdbcstore.broker.stomp.session import StompSession
from jdbcstore.broker.transport.connection import ClientConnection, Connections
from jdbcstore.broker.transport.replies import Receipt
from jdbcstore.broker.transport.service import Service
from jdbcstore.config.broker import Address, ConnectorConfig
from jdbcstore.errors import NotAuthorized, ProtocolError, StoreError

# The package would log every frame at DEBUG, including passwords.
_quiet = logging.getLogger(f"{__name__}.frames")
_quiet.setLevel(logging.ERROR)

_SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp", "stomp")
"""The subprotocol names of STOMP, as in ActiveMQ, the preferred one first. The header accept-version decides
about the version; these names only mean STOMP."""
_HEADERS_OF_A_FRAME = 256 * 1024
_BEFORE_LOGIN = 40 * 1024
"""The most bytes of the request, and of the message with CONNECT."""
_LONGEST_REASON = 123


class WebSocketConnection(ClientConnection):
    """The connection of a STOMP client over WebSocket: HTTP first, then STOMP in the messages."""

    def __init__(
        self, service: Service, config: ConnectorConfig, connections: Connections, *, protocol: str
    ) -> None:
        # Without compression, which needs 300 KB for each connection.
        self._socket = ServerProtocol(
            select_subprotocol=_select_subprotocol,
            max_size=config.max_frame_size + _HEADERS_OF_A_FRAME,
            logger=_quiet,
        )
        super().__init__(
            *(service, config, connections),
            protocol=protocol,
            make_session=StompSession,
            packing=_Messages(self._socket),
        )
        self._requested = 0
        """Bytes received before the connection became a WebSocket."""
        self._text: codecs.IncrementalDecoder | None = None
        """Checks the text message whose fragments are arriving."""
        self._close_code = CloseCode.NORMAL_CLOSURE

    # Input.

    def buffer_updated(self, nbytes: int) -> None:
        self.read_at = self._loop.time()
        if self.output.closed or self.replies.ended:
            self._discard(nbytes)
        websocket, data = self._socket, bytes(self.service.read_buffer[:nbytes])
        if websocket.state is State.CONNECTING:
            self._requested += nbytes
        websocket.receive_data(data)
        received = self._receive_events()
        self._undecoded = len(websocket.reader.buffer)
        reply = b"".join(websocket.data_to_send())
        if reply and not self._transport.is_closing():
            self._transport.write(reply)
        if not self.replies.ended:
            self.pump(received)
        if websocket.eof_sent:
            self._conversation_ended()
        elif self._begins_with_too_much():
            self.fail(
                ProtocolError(f"more than {_BEFORE_LOGIN} bytes were sent before the login", fatal=True)
            )

    def _begins_with_too_much(self) -> bool:
        if self._socket.state is State.CONNECTING:
            return self._requested > _BEFORE_LOGIN
        return self.access.login is None and len(self._socket.reader.buffer) > _BEFORE_LOGIN

    def _receive_events(self) -> bytes:
        """Answer the request, and return the part of the STOMP stream that has arrived."""
        received: list[bytes] = []
        for event in self._socket.events_received():
            if isinstance(event, Request):
                self._socket.send_response(self._respond(event))
            elif isinstance(event, Frame) and event.opcode in _DATA:
                if not self._is_valid(event):
                    self._socket.fail(CloseCode.INVALID_DATA, "text that is not UTF-8")
                    break
                received.append(bytes(event.data))
        # Together, because otherwise the parser would copy its buffer for each of many small messages.
        return b"".join(received)

    def _is_valid(self, frame: Frame) -> bool:
        """Return whether a frame is UTF-8 if its message is text; STOMP does not require that of a body."""
        if frame.opcode is Opcode.TEXT:
            self._text = codecs.getincrementaldecoder("utf-8")()
        if self._text is None:
            return True
        try:
            self._text.decode(frame.data, frame.fin)
        except UnicodeDecodeError:
            return False
        if frame.fin:
            self._text = None
        return True

    def _conversation_ended(self) -> None:
        """End a connection whose client has closed the WebSocket, was rejected or has failed."""
        websocket = self._socket
        if self.output.closed and websocket.close_rcvd is not None:
            self._transport.close()
        elif self.output.closed:
            super()._shut_down()
        elif websocket.close_rcvd is not None:
            self._peer_closed()
            self.update_reading()
        elif not self.replies.ended:
            sent, why = websocket.close_sent, websocket.handshake_exc
            self.end_reason = sent.reason if sent is not None else f"not a request for a WebSocket: {why}"
            self.log(self.service.errors, logging.DEBUG, "is closed: %s", self.end_reason)
            self._failed = True
            self.finish()

    def eof_received(self) -> bool:
        self._socket.receive_eof()
        return super().eof_received()

    # The request.

    def _respond(self, request: Request) -> Response:
        """Return the answer to the HTTP request that begins a WebSocket."""
        if self.output.closed:
            return self._socket.reject(HTTPStatus.SERVICE_UNAVAILABLE, f"{self.end_reason or 'closed'}\n")
        origins, hosts = request.headers.get_all("Origin"), request.headers.get_all("Host")
        address = self.local_address
        is_local = address is not None and Address(address[0], 0).is_loopback
        for origin in origins:
            host = hosts[0] if hosts else ""
            if not is_allowed(origin, host, self.config.allowed_origins, is_local=is_local):
                text = "is rejected: the origin %r is not in allowed_origins"
                self.log(self.service.refusals, logging.WARNING, text, origin[:100])
                return self._socket.reject(
                    HTTPStatus.FORBIDDEN, "Pages of this origin may not connect; see allowed_origins.\n"
                )
        return self._socket.accept(request)

    # The end.

    def end(self, reason: str) -> None:
        self._close_code = CloseCode.GOING_AWAY
        super().end(reason)

    def fail(self, error: BaseException, receipt: Receipt = None, fatal: bool = False) -> None:
        if self._failed:
            return
        code, self._close_code = self._close_code, _close_code(error)
        super().fail(error, receipt, fatal)
        if not self._failed:
            self._close_code = code

    def _shut_down(self) -> None:
        websocket = self._socket
        if websocket.state is State.OPEN:
            reason = (self.end_reason or "").encode(errors="replace")[:_LONGEST_REASON]
            websocket.send_close(self._close_code, reason.decode(errors="ignore"))
            self._transport.write(b"".join(websocket.data_to_send()))
            self.update_reading()  # the client closes the WebSocket too
        elif websocket.state is State.CONNECTING and not (websocket.eof_sent or self._peer_has_closed):
            self.update_reading()  # clients do not understand an answer before their request
        else:
            super()._shut_down()


class _Messages:
    """The messages of a WebSocket, each with a STOMP frame."""

    def __init__(self, websocket: ServerProtocol) -> None:
        self._websocket = websocket

    def whole(self, frames: list[bytes]) -> bytes:
        """Return the bytes of messages; none if the WebSocket is not open."""
        websocket = self._websocket
        if websocket.state is not State.OPEN:
            return b""
        for data in filter(None, frames):
            # The line feed after a frame is only for TCP clients.
            frame = data[:-1] if data.endswith(b"\0\n") else data
            if _is_text(frame):
                websocket.send_text(frame)
            else:
                websocket.send_binary(frame)
        return b"".join(websocket.data_to_send())

    def part(self, data: bytes, *, is_text: bool, is_last: bool) -> bytes:
        """Return the bytes of a fragment; none if the WebSocket is not open, or at the end of no message."""
        websocket = self._websocket
        if websocket.state is not State.OPEN or (is_last and not websocket.expect_continuation_frame):
            return b""
        if websocket.expect_continuation_frame:
            websocket.send_continuation(data, is_last)
        elif is_text:
            websocket.send_text(data, fin=False)
        else:
            websocket.send_binary(data, fin=False)
        return b"".join(websocket.data_to_send())


_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


def _select_subprotocol(_: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """Return an offered subprotocol name of STOMP; None if the client offers none, as in ActiveMQ.

    :raises NegotiationError: it offers only other protocols
    """
    if not offered:
        return None
    for name in _SUBPROTOCOLS:
        if name in offered:
            return Subprotocol(name)
    raise NegotiationError(f"use one of the subprotocols {', '.join(_SUBPROTOCOLS)}")


def is_allowed(origin: str, host: str, allowed: str | None, *, is_local: bool = False) -> bool:
    """Return whether a page may connect.

    :param origin: the header of the request, such as ``https://shop.example.com``
    :param host: the header of the request, with the page's name of the broker
    :param allowed: origins separated by commas, ``*`` for any; None means pages from the broker's own host
    :param is_local: the connection arrived at a loopback address, for which only names of this machine are
        valid, because a page of another site can make its own name resolve to it
    """
    if allowed is not None:
        return any(name.strip() in ("*", origin.lower()) for name in allowed.lower().split(","))
    try:
        of_page, ours = urlsplit(origin).hostname, urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    if of_page is None or ours is None:
        return False
    if is_local and not Address(ours, 0).is_loopback:
        return False
    return of_page == ours or (Address(of_page, 0).is_loopback and Address(ours, 0).is_loopback)


def _is_text(frame: bytes) -> bool:
    if frame.isascii():
        return True
    try:
        frame.decode()
    except UnicodeDecodeError:
        return False
    return True


def _close_code(error: BaseException) -> CloseCode:
    if isinstance(error, NotAuthorized):
        return CloseCode.POLICY_VIOLATION
    if isinstance(error, ProtocolError):
        return CloseCode.PROTOCOL_ERROR
    return CloseCode.TRY_AGAIN_LATER if isinstance(error, StoreError) else CloseCode.INTERNAL_ERROR
