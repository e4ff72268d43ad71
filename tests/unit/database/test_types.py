"""Column types in the user's words: which texts are taken, and where they end up."""

from __future__ import annotations

import pytest
from sqlalchemy import Dialect, make_url
from sqlalchemy.schema import CreateTable

from jdbcstore import StoreConfig
from jdbcstore.config.store import NameLengths
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.mysql import MariadbAdapter
from jdbcstore.database.adapters.postgresql import PostgresqlAdapter
from jdbcstore.database.adapters.sqlite import SqliteAdapter
from jdbcstore.database.tables import define_tables
from jdbcstore.errors import ConfigurationError

OPTIONS = (
    "binary_data_type",
    "container_name_data_type",
    "msg_id_data_type",
    "sequence_data_type",
    "long_data_type",
    "string_id_data_type",
)
EXPECTED = {
    "MSGS": {
        "ID": "SEQ(1)",
        "CONTAINER": "CON(3)",
        "MSGID_PROD": "MID(4)",
        "MSGID_SEQ": "SEQ(1)",
        "EXPIRATION": "LON(2)",
        "MSG": "BIN(6)",
        "PRIORITY": "SEQ(1)",
        "XID": "STR(5)",
    },
    "ACKS": {
        "CONTAINER": "CON(3)",
        "SUB_DEST": "STR(5)",
        "CLIENT_ID": "STR(5)",
        "SUB_NAME": "STR(5)",
        "SELECTOR": "STR(5)",
        "LAST_ACKED_ID": "SEQ(1)",
        "PRIORITY": "SEQ(1)",
        "XID": "STR(5)",
    },
    "LOCK": {"ID": "LON(2)", "TIME": "LON(2)", "BROKER_NAME": "STR(5)"},
}
"""As ActiveMQ's createSchemaStatements and createLockSchemaStatements use them."""

VENDORS = [
    pytest.param(SqliteAdapter(), make_url("sqlite://").get_dialect()(), id="sqlite"),
    pytest.param(PostgresqlAdapter(), make_url("postgresql+psycopg://").get_dialect()(), id="postgresql"),
    pytest.param(MariadbAdapter(), make_url("mariadb+pymysql://").get_dialect()(), id="mariadb"),
]


@pytest.mark.parametrize(("adapter", "dialect"), VENDORS)
def test_each_column_has_the_type_that_activemq_gives_it(adapter: Adapter, dialect: Dialect) -> None:
    config = StoreConfig(
        sequence_data_type="SEQ(1)",
        long_data_type="LON(2)",
        container_name_data_type="CON(3)",
        msg_id_data_type="MID(4)",
        string_id_data_type="STR(5)",
        binary_data_type="BIN(6)",
    )
    tables = define_tables(adapter, config)

    for table, columns in zip((tables.messages, tables.acks, tables.lock), EXPECTED.values(), strict=True):
        found = {str(column.key).upper(): column.type.compile(dialect) for column in table.columns}
        assert found == columns
        for type_ in columns.values():
            assert f" {type_}" in str(CreateTable(table).compile(dialect=dialect))


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "text",
    [
        "BLOB",
        "VARCHAR(128)",
        "NUMBER(19, 0)",
        "VARBINARY(MAX)",
        "LONG BYTE",
        "VARCHAR(250) ASCII",
        "VARCHAR(90) CHARACTER SET utf8mb4",
    ],
)
def test_a_type_that_is_taken(option: str, text: str) -> None:
    assert getattr(StoreConfig().replace(**{option: text}), option) == text


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        " BLOB",
        "9",
        "VARCHAR(",
        "VARCHAR)",
        "VARCHAR()",
        "VARCHAR(1)(2)",
        "VARCHAR((1))",
        "BLOB; DROP TABLE X",
        "BLOB -- x",
        "BLOB /* x */",
        "BLOB # x",
        "BLOB 'x'",
        'BLOB "x"',
        "BLOB `x`",
        "BLOB\n",
        "BLOB, X INT",
        "BLÖB",
        "{x}",
        "%s",
        "?",
    ],
)
def test_a_type_that_is_not(option: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{option} must be a column type"):
        StoreConfig().replace(**{option: text})


def test_names_may_be_as_long_as_the_types_say() -> None:
    config = StoreConfig(
        container_name_data_type="VARCHAR(100)",
        msg_id_data_type="CHARACTER VARYING ( 110 )",
        string_id_data_type="VARCHAR2(120 CHAR)",
    )

    assert config.name_lengths == NameLengths(100, 110, 120)
    assert StoreConfig().name_lengths == NameLengths(250, 250, 250)
    assert StoreConfig(string_id_data_type="TEXT").name_lengths.string_id == 65_535
