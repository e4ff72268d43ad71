"""The example files that ActiveMQ is shipped with, where Debian's package is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore import Configuration, StoreConfig
from jdbcstore.config import DataSourceConfig, Kind, load_file, to_toml
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import DatabaseLockerConfig
from jdbcstore.config.policy import PolicyEntry
from tests.support.require import unavailable

EXAMPLES = Path("/usr/share/doc/activemq/examples/conf")

OPENWIRE = BrokerConfig(connectors=(ConnectorConfig(uri="tcp://0.0.0.0:61616", name="openwire"),))
ON_SQL = {
    "activemq-jdbc": Configuration(
        broker=OPENWIRE,
        broker_name="jdbcBroker",
        data_source=DataSourceConfig(url="jdbc:derby:derbydb;create=true"),
        locker=DatabaseLockerConfig(),
    ),
    "activemq-jdbc-performance": Configuration(
        broker_name="jdbcBroker",
        data_source=DataSourceConfig(url=f"jdbc:derby:{EXAMPLES.parent}/data/derbydb;create=true"),
        store=StoreConfig(cleanup_period=0.0),
        locker=DatabaseLockerConfig(),
        policies=(
            PolicyEntry(topic=">", expire_messages_period=0.0),
            PolicyEntry(queue=">", expire_messages_period=0.0),
        ),
        broker=OPENWIRE,
    ),
    "activemq": Configuration(
        data_source=DataSourceConfig(url="jdbc:derby:../data/derbydb;create=true"),
        locker=DatabaseLockerConfig(),
        journal=JournalConfig(directory="../data/journal", journal_log_files=5),
        broker=BrokerConfig(
            connectors=(
                ConnectorConfig(uri="tcp://localhost:61616"),
                ConnectorConfig(uri="stomp://localhost:61613"),
            )
        ),
    ),
}


@pytest.fixture(scope="module")
def examples() -> list[Path]:
    found = sorted(EXAMPLES.glob("activemq*.xml"))
    if not found:
        unavailable("activemq", f"{EXAMPLES} has no example")
    return found


def test_every_example_loads_and_nothing_in_it_is_unknown(examples: list[Path]) -> None:
    for path in examples:
        configuration = load_file(path, {})
        assert [note for note in configuration.notes if note.kind is Kind.UNKNOWN] == [], path
        assert to_toml(configuration, path.name)


@pytest.mark.parametrize("name", ON_SQL)
def test_an_example_on_a_database(examples: list[Path], name: str) -> None:
    [path] = [path for path in examples if path.stem == name]

    assert load_file(path, {}) == ON_SQL[name]
