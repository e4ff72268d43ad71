"""What a broker that waits for the lock says to clients, if it is to say anything."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from jdbcstore.broker.process.security import Principal
from jdbcstore.broker.stomp.connector import Connector
from jdbcstore.broker.stomp.service import Service
from jdbcstore.config.broker import BrokerConfig
from jdbcstore.errors import NotAuthorized

if TYPE_CHECKING:
    from jdbcstore.broker.api import Broker

log = logging.getLogger(__name__)


class _NobodyMay:
    """Lets nobody in."""

    async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
        raise NotAuthorized("this broker is not the master; connect to another, or try again later")

    def close(self) -> None:
        """Nothing is open."""


class _NoBroker:
    """All that is asked of it by somebody who was not let in."""

    def disconnected(self, connection_id: str) -> None:
        """Nothing was its own."""


class SlaveConnectors:
    """Takes connections at the broker's addresses, answers each CONNECT with an ERROR, and closes it."""

    def __init__(self, config: BrokerConfig) -> None:
        service = Service(cast("Broker", _NoBroker()), _NobodyMay())
        self._connectors = [Connector(service, one) for one in config.serving]

    async def start(self) -> None:
        """Begin. An address that cannot be had is refused to clients by itself: the master may have it."""
        for connector in self._connectors:
            try:
                await connector.start()
            except OSError as error:
                log.warning("nobody is told at %s that this is not the master: %s", connector.address, error)

    async def stop(self) -> None:
        for connector in self._connectors:
            await connector.stop()
