"""The broker on several stores."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jdbcstore
from jdbcstore import load_config
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.testing.messages import content
from tests.support.broker.frames import Stomp

WAIT = 180.0
XML = """<broker><persistenceAdapter><mKahaDB directory="{folder}/mkahadb"><filteredPersistenceAdapters>
<filteredKahaDB queue="ORDERS.&gt;"><persistenceAdapter><kahaDB journalMaxFileLength="1mb"/>
</persistenceAdapter></filteredKahaDB>
<filteredKahaDB perDestination="true"><persistenceAdapter><kahaDB journalMaxFileLength="1mb"/>
</persistenceAdapter></filteredKahaDB>
</filteredPersistenceAdapters></mKahaDB></persistenceAdapter>
<transportConnectors><transportConnector uri="stomp://127.0.0.1:0"/></transportConnectors></broker>"""


def test_it_serves_from_several_stores(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(XML.format(folder=tmp_path))
    configuration = load_config(path, environment={}, cleanup_period=0.0)

    async def main() -> None:
        async with asyncio.timeout(WAIT), BrokerHost(configuration) as host:
            [(_, address)] = host.addresses
            async with Stomp(address.port) as client:
                for name in ("ORDERS.EU", "OTHER"):
                    await client.send(f"/queue/{name}", f"one for {name}")
                    await client.send(f"/queue/{name}", f"two for {name}")
                await client.subscribe("/queue/OTHER")
                assert "one for OTHER" in await client.message()

    asyncio.run(main())
    with jdbcstore.open(configuration) as store:
        assert content(store.queue("ORDERS.EU")) == ["one for ORDERS.EU", "two for ORDERS.EU"]
        assert "queue://ORDERS.EU" in map(str, store.destinations())
