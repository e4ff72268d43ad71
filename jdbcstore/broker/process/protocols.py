"""The protocols of a broker, by the schemes of their connectors."""

from __future__ import annotations

from functools import partial

from jdbcstore.broker.openwire.frames import begins_openwire
from jdbcstore.broker.openwire.session import OpenWireSession
from jdbcstore.broker.stomp.session import StompSession
from jdbcstore.broker.transport.connection import ClientConnection, ClientProtocol
from jdbcstore.broker.transport.connector import Connector, ProtocolChoice
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
from jdbcstore.errors import needing

_STOMP = ClientProtocol("STOMP", partial(ClientConnection, make_session=StompSession))
_OPENWIRE = ClientProtocol("OpenWire", partial(ClientConnection, make_session=OpenWireSession))
_BY_SCHEME = {STOMP: _STOMP, STOMP_TLS: _STOMP, OPENWIRE: _OPENWIRE, OPENWIRE_TLS: _OPENWIRE}


def make_connector(service: Service, config: ConnectorConfig) -> Connector:
    """Return the connector for the protocol or protocols of an address.

    :raises ConfigurationError: a required package is not installed
    """
    if config.scheme in (AUTO, AUTO_TLS):
        return Connector(service, config, ProtocolChoice("STOMP and OpenWire", _detect))
    if config.scheme in (WS, WSS):
        return Connector(service, config, _websocket())
    return Connector(service, config, _BY_SCHEME[config.scheme])


def answers_as_slave(config: ConnectorConfig) -> bool:
    """Return whether a slave can reject clients at an address so that they try another broker.

    An OpenWire client treats a rejected login as final, and tries another broker only if nothing listens.
    """
    return config.scheme in (STOMP, STOMP_TLS, WS, WSS)


def _detect(data: bytes) -> ClientProtocol | None:
    """Detect the protocol from a client's first bytes; None if there are too few.

    A client that does not begin like OpenWire is answered in STOMP, with an ERROR if necessary.
    """
    is_openwire = begins_openwire(data)
    if is_openwire is None:
        return None
    return _OPENWIRE if is_openwire else _STOMP


def _websocket() -> ClientProtocol:
    with needing("STOMP over WebSocket needs websockets", "broker", "uri"):
        from jdbcstore.broker.stomp.websocket import WebSocketConnection
    return ClientProtocol("WebSocket", WebSocketConnection)
