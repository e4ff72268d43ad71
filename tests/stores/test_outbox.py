"""The table of messages that SQL statements insert: created, checked, and read in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import inspect

from jdbcstore import StoreConfig
from jdbcstore.database.checkup import examine
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import SchemaError
from jdbcstore.stores.jdbc.outbox import OutboxTable, read_numbers
from tests.support.claims.callers import opened
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

INSERT = "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, BODY) VALUES ('queue://ORDERS', '{}')"


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    with closing(DatabaseSession(database.url, StoreConfig())) as session:
        session.prepare_outbox()
        yield session


def bodies(session: DatabaseSession, most: int = 100) -> list[str | None]:
    return [row.body for row in OutboxTable(session).read(session.fetch, most)]


def test_it_is_created_once_and_dropped(database: Database, session: DatabaseSession) -> None:
    session.prepare_outbox()
    assert session.has_outbox
    session.drop_outbox()
    assert not session.has_outbox
    session.prepare_outbox()
    strict = StoreConfig(create_tables_on_startup=False)
    with closing(DatabaseSession(database.url, strict)) as other:
        other.prepare_outbox()
        session.drop_outbox()
        with pytest.raises(SchemaError, match=r"outbox\.sql"):
            other.prepare_outbox()
    database.execute("CREATE TABLE JDBCSTORE_OUTBOX (ID INTEGER)")
    with pytest.raises(SchemaError, match="no column"):
        session.prepare_outbox()
    assert "jdbcstore_outbox" in {name.lower() for name in inspect(database.engine).get_table_names()}


def test_rows_have_defaults_and_keep_text_and_bytes(database: Database, session: DatabaseSession) -> None:
    text = "naïve 😀 " * 10_000
    database.execute(INSERT.format(text))
    database.execute(
        "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, BODY_BYTES, PROPERTIES, PRIORITY)"
        " VALUES ('A', :b, :p, 9)",
        b=b"\0\xff",
        p='{"table": 7}',
    )
    first, second = OutboxTable(session).read(session.fetch, 10)
    assert (first.destination, first.body, first.send_id, first.is_duplicate) == (
        "queue://ORDERS",
        text,
        None,
        0,
    )
    assert (second.body_bytes, second.properties, second.priority) == (b"\0\xff", '{"table": 7}', 9)
    assert first.created_ms
    assert second.message().properties == {"table": 7}


@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.needs("row_locks")  # nodes that share none do not give numbers in one order either
def test_rows_that_are_committed_late_come_in_order(database: Database, session: DatabaseSession) -> None:
    with opened(database.url, "core") as early, opened(database.url, "core") as late:
        late.run(INSERT.format("late"))
        early.run(INSERT.format("early"))
        early.commit()
        assert bodies(session) == ["early"]
        late.commit()
        assert bodies(session) == ["late", "early"]


def test_large_bodies_are_read_apart(database: Database, session: DatabaseSession) -> None:
    for name in ("a", "b", "c"):
        database.execute(INSERT.format(name * (9_000_000 if name == "b" else 1)))
    assert bodies(session) == ["a"]
    database.execute("DELETE FROM JDBCSTORE_OUTBOX WHERE BODY = 'a'")
    assert list(map(len, filter(None, bodies(session)))) == [9_000_000]


def test_numbers(database: Database, session: DatabaseSession) -> None:
    assert read_numbers(session) == (0, 0, None)
    database.execute(INSERT.format("a"))
    database.execute("UPDATE JDBCSTORE_OUTBOX SET CREATED = CREATED - 60000")
    waiting, refused, oldest = read_numbers(session)
    assert (waiting, refused) == (1, 0)
    assert oldest is not None
    assert oldest >= 60


def test_a_checkup_sees_waiting_and_refused_rows(database: Database, session: DatabaseSession) -> None:
    assert [one for one in examine(session).diagnoses if "outbox" in one.name] == []
    database.execute(INSERT.format("a"))
    database.execute("UPDATE JDBCSTORE_OUTBOX SET CREATED = CREATED - 60000")
    database.execute(INSERT.format("b"))
    database.execute("UPDATE JDBCSTORE_OUTBOX SET ERROR = 'too large' WHERE BODY = 'b'")
    checkup = examine(session)
    assert checkup.figures["outbox_rows"] == 1
    assert checkup.figures["outbox_refused_rows"] == 1
    assert checkup.figures["outbox_oldest_seconds"] >= 60
    names = [one.name for one in checkup.diagnoses if "outbox" in one.name]
    assert names == ["outbox not moved", "refused rows in the outbox"]


@pytest.mark.backends("postgresql")
def test_an_insert_notifies_unless_a_row_waits(database: Database, session: DatabaseSession) -> None:
    with closing(session.connect()) as connection:
        notifier = connection.notifier
        digest = "encode(sha256(convert_to(current_database() || '/activemq_msgs', 'UTF8')), 'hex')"
        [(place,)] = database.rows(f"SELECT left({digest}, 16)")
        notifier.listen(f"jdbcstore_{place}")
        database.execute(INSERT.format("a"))
        database.execute(INSERT.format("b"))
        database.execute("DELETE FROM JDBCSTORE_OUTBOX")
        database.execute(INSERT.format("c"))
        found: list[str] = []
        while len(found) < 2:
            found += notifier.received(f"jdbcstore_{place}", 30.0)
        assert found == ["+outbox", "+outbox"]


MANY = (
    "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, BODY)"
    " SELECT 'A', repeat('x', 1000) FROM generate_series(1, 10000)"
)


def pages(database: Database, statement: str) -> int:
    """The pages that a statement reads, with those of its triggers."""
    [([plan],)] = database.rows(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}")
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


@pytest.mark.backends("postgresql")
def test_removed_rows_do_not_delay_an_insert(database: Database, session: DatabaseSession) -> None:
    database.execute("ALTER TABLE JDBCSTORE_OUTBOX SET (autovacuum_enabled = off)")
    database.execute(MANY)
    database.execute("DELETE FROM JDBCSTORE_OUTBOX")
    database.execute(INSERT.format("a"))
    assert pages(database, INSERT.format("b")) < 800
    assert bodies(session) == ["a", "b"]


@pytest.mark.backends("postgresql")
def test_waiting_rows_do_not_delay_a_page(database: Database, session: DatabaseSession) -> None:
    database.execute("ALTER TABLE JDBCSTORE_OUTBOX SET (autovacuum_enabled = off)")
    database.execute(MANY)
    page = "SELECT ID, LENGTH(BODY) FROM JDBCSTORE_OUTBOX WHERE ERROR IS NULL ORDER BY ID LIMIT 100"
    assert pages(database, page) > 1000
    assert len(OutboxTable(session).read(session.fetch, 100)) == 100
    assert pages(database, page) < 50
