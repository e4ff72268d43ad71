"""The SQL of the guide to the outbox, as each database runs it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import NullPool, create_engine, insert

from jdbcstore import StoreConfig
from jdbcstore.database.outbox import OUTBOX
from jdbcstore.database.session import DatabaseSession
from jdbcstore.stores.jdbc.outbox import OutboxTable
from tests.support import ROOT
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

INSERT, POSTGRESQL, MYSQL, SQLITE = re.findall(
    r"```sql\n(.*?)```", (ROOT / "docs" / "guide" / "outbox.md").read_text(encoding="utf-8"), re.DOTALL
)
TRIGGERS = {
    "postgresql": [f"{POSTGRESQL.partition('END $$;')[0]}END $$", POSTGRESQL.partition("END $$;")[2]],
    "mysql": [MYSQL],
    "mariadb": [MYSQL],
    "sqlite": [SQLITE],
}


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    with closing(DatabaseSession(database.url, StoreConfig())) as session:
        session.prepare_outbox()
        yield session


def test_a_row_and_the_changes_of_a_table_are_sent(database: Database, session: DatabaseSession) -> None:
    vendor = session.engine.dialect.name
    engine = create_engine(database.url, poolclass=NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER)")
        for statement in TRIGGERS[vendor]:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql(INSERT)
        connection.exec_driver_sql("INSERT INTO orders (id, total) VALUES (1, 5)")
        connection.exec_driver_sql("UPDATE orders SET total = 7")
        connection.commit()
        connection.exec_driver_sql("UPDATE orders SET total = 9")
        connection.rollback()
    engine.dispose()
    first, *changes = OutboxTable(session).read(session.fetch, 10)
    assert dict(first.message().properties) == {"table": 7}
    assert {str(change.message().destination) for change in changes} == {"topic://ORDERS"}
    update = json.loads(str(changes[-1].body))
    rows = [update["old"], update["new"]]
    assert update["operation"] == "UPDATE"
    assert [row["total"] if isinstance(row, dict) else row for row in rows] == [5, 7]
    assert len(changes) == (2 if vendor == "postgresql" else 1)


def test_a_statement_of_sqlalchemy_inserts(database: Database, session: DatabaseSession) -> None:
    engine = create_engine(database.url, poolclass=NullPool)
    values = {"destination": "ORDERS", "body": "two pints", "properties": {"table": 7}, "priority": 9}
    with engine.begin() as connection:
        # Of a user who has no other right than INSERT.
        statement = insert(OUTBOX).values(**values)
        assert "RETURNING" not in str(statement.compile(connection))
        connection.execute(statement)
        connection.execute(
            insert(OUTBOX), [{"destination": "ORDERS", "body_bytes": b"x", "properties": None}]
        )
    engine.dispose()
    first, second = OutboxTable(session).read(session.fetch, 10)
    message = first.message()
    assert (message.body, dict(message.properties), message.priority) == ("two pints", {"table": 7}, 9)
    assert (second.message().body, second.properties, second.created_ms is None) == (b"x", None, False)
