"""Limits that only ActiveMQ 6 has, as clients notice them: of the real broker, and of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.broker.openwire.jms import Jms, refused
from tests.support.broker.programs import BrokerProcess
from tests.support.broker.stomp.serving import Client
from tests.support.interop.activemq import NUMBER, Peer, PeerMissing
from tests.support.require import unavailable

XML = """<broker maxUncommittedCount="3" maxInflatedDataSize="1000" persistent="false">
<transportConnectors/></broker>"""


@pytest.fixture(scope="module", params=["activemq", "jdbcstore"])
def addresses(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int]]:
    """The address for JMS clients, and the port for STOMP."""
    folder = tmp_path_factory.mktemp("limits")
    if request.param == "jdbcstore":
        (folder / "activemq.xml").write_text(XML)
        options = ("--config", str(folder / "activemq.xml"), "--openwire", "127.0.0.1:0")
        with BrokerProcess(folder, *options) as process:
            port = process.ready()
            yield process.openwire_url, port
        return
    if NUMBER < (6, 3):
        pytest.skip("ActiveMQ has these limits since 6.2; run it with JDBCSTORE_ACTIVEMQ=6.3.1")
    try:
        with Peer() as peer, peer.file_broker(folder, max_uncommitted=3, max_inflated=1000) as broker:
            yield broker.openwire_url, broker.stomp_port
    except PeerMissing as missing:
        unavailable("activemq", str(missing))


def test_the_messages_of_a_transaction(addresses: tuple[str, int]) -> None:
    with Jms(addresses[0], None) as client:
        client.send("MANY", "1", "2", "3")
        client.session.commit()
        with refused("ResourceAllocationException", "TransactionRolledBackException", "JMSException"):
            client.send("MANY", *map(str, range(4)))
            client.session.commit()
    with Jms(addresses[0]) as client:
        client.send("MANY", "last")
        assert client.texts(client.consumer("MANY"), 4) == ["1", "2", "3", "last"]


def test_a_compressed_body(addresses: tuple[str, int]) -> None:
    with Jms(addresses[0], jms__useCompression="true") as client:
        client.send("BIG", "x" * 2000)
        client.send("BIG", "x" * 900)
    with Client(addresses[1]) as stomp:
        stomp.subscribe("/queue/BIG")

        assert len(stomp.expect("MESSAGE").body) == 900
