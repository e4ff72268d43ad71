"""The peer itself: the real broker makes the recorded tables, and its JMS client gets what it sent."""

from __future__ import annotations

import pytest

from tests.interop.conftest import StartBroker
from tests.support.databases import Database
from tests.support.interop.catalogue import catalogue
from tests.support.interop.messages import ALL, said, specified
from tests.support.interop.recorded import drop_tables, recorded_ddl
from tests.support.stomp import StompClient

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")


@pytest.mark.backends("postgresql", "mariadb")
def test_the_real_broker_creates_the_recorded_schema(database: Database, activemq: StartBroker) -> None:
    for statement in recorded_ddl(database):
        database.execute(statement)
    recorded = catalogue(database)
    assert all(recorded.values())
    drop_tables(database)

    with activemq():
        pass

    assert catalogue(database) == recorded


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
def test_a_jms_client_receives_what_it_sent(
    activemq: StartBroker, database: Database, compress: bool
) -> None:
    with activemq() as broker:
        broker.send("queue://PEER", ALL.values(), compress=compress)
    assert len(database.rows("SELECT ID FROM ACTIVEMQ_MSGS")) == len(ALL)
    with activemq() as broker:
        received = broker.receive("queue://PEER", len(ALL))
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == []
    assert dict(zip(ALL, map(said, received), strict=True)) == {
        name: specified(spec) for name, spec in ALL.items()
    }


@pytest.mark.backends("postgresql")
def test_a_stomp_client_receives_what_it_sent(activemq: StartBroker) -> None:
    with activemq() as broker, StompClient(broker.stomp_port) as client:
        client.send("/queue/PEER", "zażółć".encode(), {"odd": "a:b\nc\\"})
        [frame] = client.receive("/queue/PEER", 1)
    assert frame.body.decode() == "zażółć"
    assert frame.headers["odd"] == "a:b\nc\\"
