"""The protocols that a broker serves, by the schemes of their connectors."""

from __future__ import annotations

from jdbcstore.broker.openwire.frames import begins_openwire
from jdbcstore.broker.openwire.session import Session as OpenWireSession
from jdbcstore.broker.stomp.session import Session as StompSession
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.broker.transport.detection import Choice
from jdbcstore.broker.transport.service import Service
from jdbcstore.config.broker import (
    AUTO,
    AUTO_TLS,
    OPENWIRE,
    OPENWIRE_TLS,
    STOMP,
    STOMP_TLS,
    WS,
    WSS,
    ConnectorConfig,
)
from jdbcstore.errors import ConfigurationError, installation

_SESSIONS: dict[str, type[ClientConnection]] = {
    **dict.fromkeys((STOMP, STOMP_TLS), StompSession),
    **dict.fromkeys((OPENWIRE, OPENWIRE_TLS), OpenWireSession),
}


def make_connector(service: Service, config: ConnectorConfig) -> Connector:
    """Return the connector that speaks the protocol of an address, or each of several.

    :raises ConfigurationError: a package that it needs is not installed
    """
    if config.scheme in (AUTO, AUTO_TLS):
        return Connector(service, config, Choice("STOMP and OpenWire", _detect))
    if config.scheme in (WS, WSS):
        return Connector(service, config, _websocket_session())
    return Connector(service, config, _SESSIONS[config.scheme])


def answers_as_slave(config: ConnectorConfig) -> bool:
    """Return whether a slave can refuse clients at an address so that they try another broker.

    An OpenWire client takes a refused login as the answer, and goes on only if nothing listens.
    """
    return config.scheme in (STOMP, STOMP_TLS, WS, WSS)


def _detect(data: bytes) -> type[ClientConnection] | None:
    """Return the protocol of a client: STOMP, with an ERROR if need be, unless it begins as OpenWire does."""
    is_openwire = begins_openwire(data)
    if is_openwire is None:
        return None
    return OpenWireSession if is_openwire else StompSession


def _websocket_session() -> type[ClientConnection]:
    try:
        from jdbcstore.broker.stomp.websocket import WebSocketSession
    except ImportError as error:
        raise ConfigurationError(
            f"STOMP over WebSocket needs websockets; run: {installation('broker')}", option="uri"
        ) from error
    return WebSocketSession
