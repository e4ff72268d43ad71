"""Where STOMP clients connect: an address, over TCP or TLS."""

from __future__ import annotations

import asyncio
import logging
import ssl

from jdbcstore.broker.stomp.connection import Connection
from jdbcstore.broker.stomp.service import Service
from jdbcstore.config.broker import Address, ConnectorConfig
from jdbcstore.errors import ConfigurationError

log = logging.getLogger(__name__)

_BACKLOG = 1024
_STOP_TIMEOUT = 10.0


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
        self._connections: set[Connection] = set()
        self._strangers: dict[Connection, None] = {}
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
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._service, self._config, self),
            *self._address,
            ssl=context,
            ssl_handshake_timeout=None if context is None else self._config.connect_attempt_timeout or None,
            backlog=_BACKLOG,
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

    def opened(self, connection: Connection) -> None:
        if len(self._connections) >= self._config.maximum_connections:
            if not self._strangers:
                most = self._config.maximum_connections
                log.warning("%s is refused: there are %d connections", connection.peer, most)
                self._connections.add(connection)
                connection.refuse(f"there are {most} connections, and no more are taken; try again later")
                return
            oldest = next(iter(self._strangers))
            self._forget(oldest)
            oldest.abort()
        self._connections.add(connection)
        self._strangers[connection] = None

    def logged_in(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)

    def closed(self, connection: Connection) -> None:
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


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
