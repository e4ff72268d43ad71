"""The protocols that a broker serves, by the schemes of their connectors."""

from __future__ import annotations

from jdbcstore.broker.openwire.session import Session as OpenWireSession
from jdbcstore.broker.stomp.session import Session as StompSession
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.broker.transport.service import Service
from jdbcstore.config.broker import OPENWIRE, OPENWIRE_TLS, STOMP, STOMP_TLS, ConnectorConfig

_SESSIONS: dict[str, type[ClientConnection]] = {
    **dict.fromkeys((STOMP, STOMP_TLS), StompSession),
    **dict.fromkeys((OPENWIRE, OPENWIRE_TLS), OpenWireSession),
}


def make_connector(service: Service, config: ConnectorConfig) -> Connector:
    """The connector that speaks the protocol of an address."""
    return Connector(service, config, _SESSIONS[config.scheme])


def answers_as_slave(config: ConnectorConfig) -> bool:
    """Whether a slave can refuse clients at an address so that they try another broker.

    An OpenWire client takes a refused login as the answer, and goes on only if nothing listens.
    """
    return _SESSIONS[config.scheme] is StompSession
