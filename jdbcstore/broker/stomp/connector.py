"""Where STOMP clients connect: an address, over TCP or TLS."""

from __future__ import annotations

import asyncio
import logging
import ssl
from asyncio import BaseTransport, Transport
from typing import Protocol, cast

from jdbcstore.broker.stomp.connection import Connection
from jdbcstore.broker.stomp.peers import name_of
from jdbcstore.broker.stomp.service import Service
from jdbcstore.config.broker import Address, ConnectorConfig
from jdbcstore.errors import ConfigurationError

log = logging.getLogger(__name__)

_BACKLOG = 1024
_STOP_TIMEOUT = 10.0
_EARLY = 64 * 1024


class Stranger(Protocol):
    """A connection, from when it is accepted."""

    @property
    def peer(self) -> str: ...

    def refuse(self, why: str) -> None: ...

    def end(self) -> None: ...

    def abort(self) -> None: ...


class Connector:
    """Takes connections while it is started; to be used on the broker's loop.

    When there are as many connections as may be, a new one takes the place of the oldest that has not
    logged in, so that nobody keeps others out by only connecting.
    """

    def __init__(self, service: Service, config: ConnectorConfig) -> None:
        self._service = service
        self._config = config
        self._address = config.address
        self._server: asyncio.Server | None = None
        self._connections: set[Stranger] = set()
        self._strangers: dict[Stranger, None] = {}
        """Those that have not logged in, the oldest first."""
        self._all_closed = asyncio.Event()

    @property
    def address(self) -> Address:
        """Where it listens; known for sure from the first start on."""
        return self._address

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def start(self) -> None:
        """Take connections, also again after a stop, at the same address.

        :raises OSError: the address cannot be had
        :raises ConfigurationError: the certificate cannot be used
        """
        if self._server is not None:
            return
        context = server_context(self._config) if self._config.is_tls else None

        def accepted() -> asyncio.BaseProtocol:
            return self.make_connection() if context is None else _Handshake(self, context)

        self._server = await asyncio.get_running_loop().create_server(
            accepted, *self._address, backlog=_BACKLOG
        )
        self._address = Address(self._address.host, self._server.sockets[0].getsockname()[1])
        log.info("clients connect at %s", self._address)

    def abort(self) -> None:
        """Take no connections, and close all there are at once: nobody is told anything any more."""
        self._stop_listening()
        for connection in [*self._connections]:
            connection.abort()

    async def stop(self, timeout: float = _STOP_TIMEOUT) -> None:
        """Take no connections, let what is under way be answered, and close all.

        :param timeout: seconds for that; then they are closed as they are
        """
        self._stop_listening()
        for connection in [*self._connections]:
            connection.end()
        try:
            async with asyncio.timeout(timeout):
                while self._connections:
                    self._all_closed.clear()
                    await self._all_closed.wait()
        except TimeoutError:
            self.abort()

    def make_connection(self) -> Connection:
        return Connection(self._service, self._config, self)

    def opened(self, connection: Stranger) -> None:
        if connection in self._connections:
            return  # it was counted before it could speak TLS
        most = self._config.maximum_connections
        if len(self._connections) >= most:
            if not self._strangers:
                if self._service.notices.is_news("maximum_connections"):
                    log.warning(
                        "%s is refused: there are %d connections, which is maximum_connections of %s",
                        *(connection.peer, most, self._config.uri),
                        extra={"limit": "maximum_connections", "peer": connection.peer},
                    )
                self._connections.add(connection)
                connection.refuse(f"there are {most} connections, and no more are taken; try again later")
                return
            oldest = next(iter(self._strangers))
            self._forget(oldest)
            oldest.abort()
        self._connections.add(connection)
        self._strangers[connection] = None

    def shook_hands(self, handshake: _Handshake, connection: Connection) -> None:
        """The one goes on as the other, in its place."""
        self._connections.remove(handshake)
        self._connections.add(connection)
        self._strangers = {connection if one is handshake else one: None for one in self._strangers}

    @property
    def handshake_timeout(self) -> float | None:
        return self._config.connect_attempt_timeout or None

    def logged_in(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)

    def closed(self, connection: Stranger) -> None:
        self._forget(connection)

    def _forget(self, connection: Stranger) -> None:
        self._strangers.pop(connection, None)
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


class _Handshake(asyncio.Protocol):
    """A connection that does not speak TLS yet, which it has some time for: it counts all the same."""

    def __init__(self, connector: Connector, context: ssl.SSLContext) -> None:
        self.peer = "?"
        self._connector = connector
        self._context = context
        self._transport: Transport = None  # type: ignore[assignment]  # from connection_made on
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self._transport.pause_reading()  # what comes is the handshake's
        self.peer = name_of(transport)
        self._task = asyncio.get_running_loop().create_task(self._shake_hands())
        self._connector.opened(self)

    async def _shake_hands(self) -> None:
        connector, loop, early = self._connector, asyncio.get_running_loop(), _Early()
        try:
            transport = await loop.start_tls(
                *(self._transport, early, self._context),
                server_side=True,
                ssl_handshake_timeout=connector.handshake_timeout,
            )
        except (OSError, asyncio.CancelledError) as error:
            log.debug("%s does not speak TLS: %s", self.peer, error)
            self._transport.abort()
            connector.closed(self)
            return
        if transport is None or transport.is_closing():
            connector.closed(self)
            return
        connection = connector.make_connection()
        connector.shook_hands(self, connection)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        early.pass_on(connection)

    def refuse(self, why: str) -> None:  # noqa: ARG002 - it could not read it
        self.abort()

    def end(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._transport.abort()
        if self._task is not None:
            self._task.cancel()


class _Early(asyncio.BufferedProtocol):
    """Keeps what comes in one piece with the end of a handshake, before anybody knows that it has ended."""

    def __init__(self) -> None:
        self._buffer = bytearray(_EARLY)
        self._read: list[bytes] = []

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._read.append(bytes(self._buffer[:nbytes]))

    def pass_on(self, connection: Connection) -> None:
        for data in self._read:
            connection.get_buffer(len(data))[: len(data)] = data
            connection.buffer_updated(len(data))


def server_context(config: ConnectorConfig) -> ssl.SSLContext:
    """How the connector speaks TLS.

    :raises ConfigurationError: a file cannot be read, or is not PEM
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.certificate or "", config.private_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the certificate {config.certificate} and its key cannot be used: {error}; give PEM"
            " files, the key without a passphrase",
            option="certificate",
        ) from error
    if config.trusted_certificates is not None:
        try:
            context.load_verify_locations(config.trusted_certificates)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"the certificates in {config.trusted_certificates} cannot be used: {error}; give a PEM file",
                option="trusted_certificates",
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED if config.need_client_auth else ssl.CERT_OPTIONAL
    return context
