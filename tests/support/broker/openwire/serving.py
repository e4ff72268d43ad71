"""A broker with a STOMP and an OpenWire connector in a thread of its own."""

from __future__ import annotations

from typing import Any

from jdbcstore import Store
from jdbcstore.broker.process.protocols import make_connector
from jdbcstore.broker.security import Security
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.config.policy import PolicyEntry
from tests.support.broker.stomp.serving import Served as StompServed


class Served(StompServed):
    """``port`` is STOMP's; the options of the connector are those of the OpenWire one."""

    def __init__(
        self,
        store: Store,
        *policies: PolicyEntry,
        security: Security | None = None,
        populate_user_id: bool = False,
        **config: Any,
    ) -> None:
        super().__init__(store, *policies, security=security, populate_user_id=populate_user_id)
        self._openwire_config = ConnectorConfig(**{"uri": "tcp://127.0.0.1:0", **config})
        self.openwire: Connector

    @property
    def openwire_port(self) -> int:
        return self.openwire.address.port

    @property
    def url(self) -> str:
        """As a JMS client names it."""
        return f"{self._openwire_config.scheme}://127.0.0.1:{self.openwire_port}"

    async def _start(self) -> None:
        await super()._start()
        self.openwire = make_connector(self.service, self._openwire_config)
        await self.openwire.start()

    async def _stop(self) -> None:
        await self.openwire.stop(5)
        await super()._stop()
