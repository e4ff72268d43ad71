"""What a database has of the tables: asked of its catalogue, it is what SQLAlchemy's inspection finds."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect

import jdbcstore
from jdbcstore.config import StoreConfig
from jdbcstore.database.engine import Database as Target
from jdbcstore.database.schema import inspect_tables
from tests.support.databases import Database


def described(database: Database) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """The columns in order, and the indexes, of each table that is there; by the adapter's own query."""
    target = Target(database.url, StoreConfig())
    assert target.adapter.described
    present = inspect_tables(database.engine, target.adapter, target.tables.known)
    return (
        {str(table.name): columns for table, columns in present.columns.items()},
        {str(table.name): indexes for table, indexes in present.indexes.items()},
    )


def inspected(database: Database) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    found = inspect(database.engine)
    names = found.get_table_names()
    return (
        {name: [column["name"] for column in found.get_columns(name)] for name in names},
        {
            name: {str(index["name"]) for index in found.get_indexes(name)}
            | {str(found.get_pk_constraint(name)["name"])}
            for name in names
        },
    )


@pytest.mark.backends("postgresql")
def test_the_tables_of_a_store(database: Database) -> None:
    jdbcstore.open(database.url).close()

    columns, indexes = described(database)

    assert columns["activemq_msgs"][:3] == ["id", "container", "msgid_prod"]
    assert "activemq_msgs_cidx" in indexes["activemq_msgs"]
    assert (columns, indexes) == inspected(database)


@pytest.mark.backends("postgresql")
def test_tables_that_were_changed(database: Database) -> None:
    jdbcstore.open(database.url).close()
    database.execute("ALTER TABLE activemq_msgs DROP COLUMN priority CASCADE")
    database.execute("ALTER TABLE activemq_msgs ADD COLUMN more INTEGER")
    database.execute("DROP INDEX activemq_msgs_xidx")
    database.execute('CREATE INDEX "Mine" ON activemq_acks (selector)')
    database.execute("DROP TABLE activemq_lock")

    columns, indexes = described(database)

    assert columns["activemq_msgs"] == [
        *("id", "container", "msgid_prod", "msgid_seq", "expiration", "msg", "xid", "more")
    ]
    assert {"activemq_msgs_xidx", "activemq_msgs_pidx"} & indexes["activemq_msgs"] == set()
    assert "mine" in indexes["activemq_acks"]
    assert "activemq_lock" not in columns


@pytest.mark.backends("postgresql")
def test_what_is_no_table_of_the_store(database: Database) -> None:
    """A view, and a table that the name does not lead to without its schema."""
    database.execute("CREATE SCHEMA elsewhere")
    database.execute("CREATE TABLE elsewhere.activemq_msgs (id INTEGER PRIMARY KEY)")
    database.execute("CREATE VIEW activemq_acks AS SELECT 1 AS container")

    assert described(database) == ({}, {}) == inspected(database)
