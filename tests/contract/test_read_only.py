"""A store opened to be read writes nothing, and says so."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, inspect, text

from jdbcstore import JdbcStore, Message, StoreConfig
from jdbcstore.database import schema_lock
from jdbcstore.errors import ConfigurationError, SchemaError
from tests.support.backends import Backend


@pytest.fixture
def config(backend: Backend) -> StoreConfig:
    return StoreConfig(cleanup_period=0.0, **backend.variant.options)


def test_every_write_is_refused_and_reading_works(url: str, config: StoreConfig) -> None:
    with JdbcStore(url, config) as store:
        reference = store.queue("ORDERS").add_message(Message("kept"))
    with JdbcStore(url, config, read_only=True) as store:
        orders = store.queue("ORDERS")
        with pytest.raises(ConfigurationError, match="read_only"):
            orders.add_message(Message("refused"))
        with pytest.raises(ConfigurationError, match="read_only"):
            orders.add_message_async(Message("refused"))
        with pytest.raises(ConfigurationError, match="read_only"):
            orders.acknowledge(reference)
        with pytest.raises(ConfigurationError, match="read_only"):
            orders.remove_all_messages()
        with pytest.raises(ConfigurationError, match="read_only"), store.transaction() as transaction:
            transaction.queue("ORDERS").add_message(Message("refused"))
        assert [message.body for message in orders.recover()] == ["kept"]


def test_nothing_is_created(url: str, config: StoreConfig, connection: Connection) -> None:
    with JdbcStore(url, config):
        pass
    for table in ("JDBCSTORE_ACKS", "JDBCSTORE_STATE", "JDBCSTORE_VERSION"):
        connection.execute(text(f"DROP TABLE {table}"))
    connection.commit()
    with JdbcStore(url, config, read_only=True) as store:
        assert not store.topic("PRICES").recover()
        assert store.last_sequence() == 0
    names = {name.upper() for name in inspect(connection).get_table_names()}
    assert len(names - {schema_lock.NAME}) == 3


def test_absent_tables_are_a_schema_error(
    url: str, backend: Backend, config: StoreConfig, connection: Connection
) -> None:
    with JdbcStore(url, config):
        pass
    connection.execute(text("DROP TABLE ACTIVEMQ_MSGS"))
    connection.commit()
    with pytest.raises(SchemaError, match=f"(?i){backend.variant.spell('activemq_msgs')}"):
        JdbcStore(url, config, read_only=True)
