"""A journal in front of the tables, which ActiveMQ had until 6.0: its configuration is used here as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Message, load_config
from jdbcstore.stores.journaled import JournaledStore
from tests.interop.conftest import StartBroker
from tests.support.databases import Database
from tests.support.interop.activemq import IS_SIX
from tests.support.interop.messages import text

pytestmark = [
    pytest.mark.backends("postgresql"),
    pytest.mark.skipif(IS_SIX, reason="ActiveMQ 6 does not have a journal in front of a database"),
]
SUBSCRIPTION = ("topic://T", "client", "name")


def test_the_file_of_a_journaled_activemq(activemq: StartBroker, database: Database, tmp_path: Path) -> None:
    """When ActiveMQ stops, it writes its journal to the tables; ours goes on with a journal of its own."""
    path = tmp_path / "activemq.xml"
    path.write_text(
        "<beans><broker><persistenceFactory>"
        f'<journaledJDBC dataSource="#ds" dataDirectory="{tmp_path}" useLock="false"/>'
        '</persistenceFactory></broker><bean id="ds" class="org.apache.commons.dbcp2.BasicDataSource">'
        f'<property name="url" value="{database.jdbc_url}"/>'
        f'<property name="username" value="{database.username}"/>'
        f'<property name="password" value="{database.password}"/></bean></beans>'
    )
    with activemq(journal=str(tmp_path)) as broker:
        broker.subscribe(*SUBSCRIPTION)
        broker.send("queue://Q", [text("taken"), text("left")])
        broker.send("topic://T", [text("news")])
        assert len(broker.receive("queue://Q", 1)) == 1
        assert list((tmp_path / "journal").iterdir()), "ActiveMQ has not written a journal"

    for expected in (["left"], ["left", "ours"]):
        with jdbcstore.open(load_config(path, environment={})) as store:
            assert isinstance(store, JournaledStore)
            assert [one.body for one in store.queue("Q").recover()] == expected
            pending = store.topic("T").subscription("client", "name").recover()
            assert [one.body for one in pending] == ["news"]
            store.queue("Q").add_message(Message("ours"))
