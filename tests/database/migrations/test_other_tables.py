"""Tables that another program, or an ActiveMQ of another version, has created differently."""

from __future__ import annotations

from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Claims, Message, StoreConfig
from jdbcstore.errors import SchemaError
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database

pytestmark = pytest.mark.new_database

_THREE = ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK")
_BINARY = "ALTER TABLE {} ALTER COLUMN XID TYPE BYTEA USING {}"


@pytest.mark.backends("mariadb", "mysql")
def test_tables_in_lower_case_are_not_hidden_by_new_ones(database: Database, tmp_path: Path) -> None:
    """On Linux their names are case-sensitive; a dump from another system may have them so."""
    with jdbcstore.open(database.url) as store:
        store.queue("ORDERS").add_message(Message("old"))
    for table in database.rows("SHOW TABLES"):
        if table[0] in _THREE:
            database.execute(f"RENAME TABLE {table[0]} TO {table[0].lower()}")
        else:
            database.execute(f"DROP TABLE {table[0]}")
    before = sorted(database.rows("SHOW TABLES"))

    with pytest.raises(SchemaError, match=r"activemq_msgs.*configure message_table_name"):
        jdbcstore.open(database.url)
    cli = CommandLine(tmp_path, database.url)
    for command in (("init",), ("status",), ("send", "ORDERS", "new"), ("migrate",)):
        result = cli.run(*command)
        assert (result.code, "activemq_msgs" in result.err) == (5, True), (command, result)
    assert sorted(database.rows("SHOW TABLES")) == before
    config = StoreConfig(
        message_table_name="activemq_msgs",
        durable_sub_acks_table_name="activemq_acks",
        lock_table_name="activemq_lock",
    )
    with jdbcstore.open(database.url, config) as store:
        assert [message.body for message in store.queue("ORDERS").recover()] == ["old"]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_ids_may_be_decimal_numbers(database: Database) -> None:
    """As conversions from Oracle make them."""
    with jdbcstore.open(database.url) as store:
        store.topic("PRICES").subscribe("reader", "late")
    change = "ALTER COLUMN {} TYPE" if database.jdbc_scheme == "postgresql" else "MODIFY {}"
    for table, columns in {
        "ACTIVEMQ_MSGS": {"ID": "NOT NULL", "MSGID_SEQ": "", "EXPIRATION": ""},
        "ACTIVEMQ_ACKS": {"LAST_ACKED_ID": ""},
    }.items():
        for column, null in columns.items():
            kind = "NUMERIC(22)" if database.jdbc_scheme == "postgresql" else f"DECIMAL(22) {null}"
            database.execute(f"ALTER TABLE {table} {change.format(column)} {kind}")
    with jdbcstore.open(database.url) as store:
        queue, prices = store.queue("ORDERS"), store.topic("PRICES").subscription("reader", "late")
        queue.add_messages([Message(str(number), expiration_ms=2**42) for number in range(3)])
        store.topic("PRICES").add_message(Message("17"))
        first, second, _ = queue.recover()
        queue.acknowledge(first)
        with store.transaction() as transaction:
            transaction.queue("ORDERS").acknowledge(second)
        prices.acknowledge(*prices.recover())
        assert ([message.body for message in queue.recover()], len(prices.recover())) == (["2"], 0)
    with Claims(database.url) as claims:
        tasks = claims.queue("TASKS")
        tasks.add(*[Message(str(number), group_id="k") for number in range(3)])
        taken = tasks.claim(2)
        tasks.acknowledge(*taken)
        assert [claim.message.body for claim in tasks.claim(2)] == ["2"]


@pytest.mark.backends("postgresql")
def test_a_binary_xid_is_converted(database: Database, tmp_path: Path) -> None:
    """ActiveMQ 5.7 and 5.8 created the column so (AMQ-3872, AMQ-4628)."""
    with jdbcstore.open(database.url) as store:
        store.queue("ORDERS").add_message(Message("old"))
    for table in _THREE[:2]:
        database.execute(_BINARY.format(table, "NULL"))
    with pytest.raises(SchemaError, match=r"XID.*run jdbcstore migrate"):
        jdbcstore.open(database.url)
    cli = CommandLine(tmp_path, database.url)
    assert cli.run("schema", "check").code != 0
    migrated = cli.run("migrate")
    assert migrated.code == 0, migrated
    assert "make xid of activemq_msgs a string" in migrated.out
    assert cli.run("schema", "check").code == 0
    with jdbcstore.open(database.url) as store:
        store.queue("ORDERS").add_message(Message("new"))
        assert [message.body for message in store.queue("ORDERS").recover()] == ["old", "new"]


@pytest.mark.backends("postgresql")
def test_a_binary_xid_with_a_transaction_in_doubt_is_refused(database: Database, tmp_path: Path) -> None:
    with jdbcstore.open(database.url) as store:
        store.queue("ORDERS").add_message(Message("old"))
    database.execute(_BINARY.format("ACTIVEMQ_MSGS", "'\\\\x01'::bytea"))
    refused = CommandLine(tmp_path, database.url).run("migrate")
    assert (refused.code, "transactions in doubt" in refused.err) == (5, True), refused
