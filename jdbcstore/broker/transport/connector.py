"""An address for clients, over TCP or TLS, in one protocol or several."""

from __future__ import annotations

import asyncio
import logging
import ssl
from asyncio import BaseTransport, Transport
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

from jdbcstore.broker.transport.connection import ClientConnection, ClientProtocol, name_of
from jdbcstore.broker.transport.key_store import load_authorities, load_identity
from jdbcstore.broker.transport.service import Service
from jdbcstore.config.broker import Address, ConnectorConfig

log = logging.getLogger(__name__)

_BACKLOG = 1024
_STOP_TIMEOUT = 10.0
_EARLY_DATA = 64 * 1024

Member: TypeAlias = "ClientConnection | _Detection | _Handshake"
"""The objects that count as a connection."""


@dataclass(frozen=True)
class ProtocolChoice:
    """The protocols of one port."""

    name: str
    """Their names, for the log."""
    detect: Callable[[bytes], ClientProtocol | None]
    """The protocol of a client, from its bytes so far; None if there are too few."""


class Connector:
    """Accepts connections between start and stop. Used on the broker's loop only.

    At the maximum number of connections, a new one replaces the oldest connection before its login, so that
    clients which only connect cannot lock out others.
    """

    def __init__(
        self, service: Service, config: ConnectorConfig, protocol: ClientProtocol | ProtocolChoice
    ) -> None:
        self.service = service
        self.config = config
        self._protocol = protocol
        self.address = config.address
        """The listening address; a port 0 is replaced by the actual port at the first start."""
        self._server: asyncio.Server | None = None
        self._connections: set[Member] = set()
        self._not_logged_in: dict[Member, None] = {}
        """Connections before their login, the oldest first."""
        self._all_closed = asyncio.Event()
        self.accepted = 0
        """The number of accepted connections, without rejected ones."""

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def clients(self) -> list[ClientConnection]:
        """The connections whose clients have logged in."""
        return [
            connection
            for connection in self._connections
            if isinstance(connection, ClientConnection) and connection not in self._not_logged_in
        ]

    async def start(self) -> None:
        """Accept connections; after a stop, again at the same address.

        :raises OSError: it cannot listen at the address
        :raises ConfigurationError: the certificate cannot be used
        """
        if self._server is not None:
            return
        context = server_context(self.config) if self.config.is_tls else None

        def accepted() -> asyncio.BaseProtocol:
            return (
                self.make_connection()
                if context is None
                else _Handshake(self, context, self.config.connect_attempt_timeout or None)
            )

        self._server = await asyncio.get_running_loop().create_server(
            accepted, *self.address, backlog=_BACKLOG
        )
        self.address = Address(self.address.host, self._server.sockets[0].getsockname()[1])
        log.info("listening for %s clients at %s", self._protocol.name, self.address)

    def abort(self) -> None:
        """Accept no more connections, and close all immediately, without another reply."""
        self._stop_listening()
        for connection in [*self._connections]:
            connection.abort()

    async def stop(self, timeout: float = _STOP_TIMEOUT) -> None:
        """Accept no more connections, answer all running commands, and close all connections.

        :param timeout: seconds to wait before :meth:`abort`
        """
        self._stop_listening()
        for connection in [*self._connections]:
            connection.end("the broker is stopping")
        try:
            async with asyncio.timeout(timeout):
                while self._connections:
                    self._all_closed.clear()
                    await self._all_closed.wait()
        except TimeoutError:
            self.abort()

    def make_connection(self) -> ClientConnection | _Detection:
        if isinstance(self._protocol, ProtocolChoice):
            return _Detection(self.service, self, self._protocol)
        return self._protocol.connect(self.service, self.config, self)

    def opened(self, connection: Member) -> None:
        if connection in self._connections:
            return  # already counted during its TLS handshake or protocol detection
        if self._server is None:  # accepted just before the stop: its engine would never answer
            self._connections.add(connection)
            connection.abort()
            return
        limit = self.config.maximum_connections
        if len(self._connections) >= limit:
            if not self._not_logged_in:
                if self.service.notices.is_news("maximum_connections"):
                    log.warning(
                        "rejected %s: there are %d connections, the maximum_connections of %s",
                        *(connection.peer, limit, self.config.uri),
                        extra={"limit": "maximum_connections", "peer": connection.peer},
                    )
                self._connections.add(connection)
                connection.refuse(f"the broker has {limit} connections, the maximum; try again later")
                return
            oldest = next(iter(self._not_logged_in))
            self.closed(oldest)
            oldest.abort()
        self._connections.add(connection)
        self._not_logged_in[connection] = None
        self.accepted += 1

    def replaced(self, before: Member, connection: ClientConnection | _Detection) -> None:
        """Replace a connection by its next stage, for example after a TLS handshake."""
        self._connections.discard(before)
        self._connections.add(connection)
        self._not_logged_in = {
            connection if member is before else member: None for member in self._not_logged_in
        }

    def detected(self, before: _Detection, protocol: ClientProtocol) -> ClientConnection:
        """Return the connection for a detected protocol, replacing the former."""
        connection = protocol.connect(self.service, self.config, self)
        self.replaced(before, connection)
        return connection

    def logged_in(self, connection: ClientConnection) -> None:
        self._not_logged_in.pop(connection, None)

    def closed(self, connection: Member) -> None:
        self._not_logged_in.pop(connection, None)
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


class _Detection(asyncio.BufferedProtocol):
    """A connection whose protocol is not known yet; it counts as a connection, and has a timeout.

    The client must speak first, because a broker that began with its own greeting could not serve two
    protocols.
    """

    def __init__(self, service: Service, connector: Connector, choice: ProtocolChoice) -> None:
        self.peer = "?"
        self._service = service
        self._connector = connector
        self._choice = choice
        self._read: list[bytes] = []
        self._transport: Transport = None  # type: ignore[assignment]  # from connection_made on
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self.peer = name_of(transport)
        config = self._connector.config
        limits = [config.protocol_detection_time_out, config.connect_attempt_timeout]
        if any(limits):
            self._timer = asyncio.get_running_loop().call_later(min(filter(None, limits)), self._timed_out)
        self._connector.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._service.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._read.append(bytes(self._service.read_buffer[:nbytes]))
        protocol = self._choice.detect(b"".join(self._read))
        if protocol is None or self._transport.is_closing():
            return
        self._cancel_timer()
        connection = self._connector.detected(self, protocol)
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        _pass_on(self._read, connection)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._cancel_timer()
        self._connector.closed(self)

    def refuse(self, reason: str) -> None:  # noqa: ARG002 - in which protocol?
        self.abort()

    def end(self, reason: str) -> None:  # noqa: ARG002 - as above
        self.abort()

    def abort(self) -> None:
        self._transport.abort()

    def _timed_out(self) -> None:
        log.debug("%s has sent too little to detect its protocol", self.peer)
        self.abort()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _pass_on(read: list[bytes], connection: asyncio.BufferedProtocol) -> None:
    """Pass on the bytes that were read before the connection had its transport."""
    for data in read:
        connection.get_buffer(len(data))[: len(data)] = data  # type: ignore[index]
        connection.buffer_updated(len(data))


class _Handshake(asyncio.Protocol):
    """A connection during its TLS handshake, which counts as a connection and has a timeout."""

    def __init__(self, connector: Connector, context: ssl.SSLContext, timeout: float | None) -> None:
        self.peer = "?"
        self._connector = connector
        self._context = context
        self._timeout = timeout
        self._transport: Transport = None  # type: ignore[assignment]  # from connection_made on
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self._transport.pause_reading()  # start_tls reads the handshake
        self.peer = name_of(transport)
        self._task = asyncio.get_running_loop().create_task(self._start_tls())
        self._connector.opened(self)

    async def _start_tls(self) -> None:
        connector, loop, early = self._connector, asyncio.get_running_loop(), _EarlyData()
        try:
            transport = await loop.start_tls(
                *(self._transport, early, self._context),
                server_side=True,
                ssl_handshake_timeout=self._timeout,
            )
        except (OSError, asyncio.CancelledError) as error:
            log.debug("the TLS handshake with %s failed: %s", self.peer, error)
            self._transport.abort()
            connector.closed(self)
            return
        if transport is None or transport.is_closing():
            connector.closed(self)
            return
        connection = connector.make_connection()
        connector.replaced(self, connection)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        _pass_on(early.read, connection)

    def refuse(self, reason: str) -> None:  # noqa: ARG002 - the client could not read it
        self.abort()

    def end(self, reason: str) -> None:  # noqa: ARG002 - as above
        self.abort()

    def abort(self) -> None:
        self._transport.abort()
        if self._task is not None:
            self._task.cancel()


class _EarlyData(asyncio.BufferedProtocol):
    """A buffer for data that arrives together with the end of a handshake, before start_tls returns."""

    def __init__(self) -> None:
        self._buffer = bytearray(_EARLY_DATA)
        self.read: list[bytes] = []

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.read.append(bytes(self._buffer[:nbytes]))


def server_context(config: ConnectorConfig) -> ssl.SSLContext:
    """Return the TLS context of a connector.

    :raises ConfigurationError: a file cannot be read, or has another format
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_identity(context, config.certificate or "", config.private_key, config.certificate_password)
    if config.trusted_certificates is not None:
        load_authorities(context, config.trusted_certificates, config.trusted_certificates_password)
        context.verify_mode = ssl.CERT_REQUIRED if config.need_client_auth else ssl.CERT_OPTIONAL
    return context
