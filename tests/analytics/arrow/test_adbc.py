"""PostgreSQL's rows as ADBC makes them: the same as those of COPY, which reads where ADBC cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("adbc_driver_postgresql")
pytest.importorskip("pyarrow")

import psycopg
from sqlalchemy import make_url

import jdbcstore
from jdbcstore import Message, read_arrow
from jdbcstore.analytics.arrow import fetching
from jdbcstore.database.adapters import adbc
from jdbcstore.testing.polling import wait_until
from tests.support import recordings
from tests.support.databases import Database

pytestmark = pytest.mark.backends("postgresql")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(adbc, "_DRIVER", "adbc_driver_that_is_not_installed")


def rows(database_url: str, *asked: Any) -> list[str]:
    """As strings, since a NaN is not equal to itself."""
    found = read_arrow(database_url, *asked).read_all().to_pylist()
    return [repr(row) for row in sorted(found, key=lambda row: row["id"])]


def test_the_same_rows_as_of_copy(database: Database, without: Callable[[], None]) -> None:
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    for message in recordings.postgres().messages:
        values = ", ".join(f":{column}" for column in message.row)
        database.execute(
            f"INSERT INTO ACTIVEMQ_MSGS ({', '.join(message.row)}) VALUES ({values})", **message.row
        )
    database.execute("INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER) VALUES (1000000, 'queue://ünïcode ''%s'' %')")
    asked: list[tuple[Any, ...]] = [(), (["id"], [("destination", "=", "queue://ünïcode '%s' %")])]
    found = [rows(database.url, *each) for each in asked]
    without()
    assert [rows(database.url, *each) for each in asked] == found
    assert found[1] == ["{'id': 1000000}"]


def test_pages_of_copy_are_bounded_and_its_connection_is_closed(
    database: Database, without: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for size in (10, 300_000, 10, 300_000, 300_000, 10):
            store.queue("A").add_message(Message(b"x" * size))
    without()
    monkeypatch.setattr(fetching, "PAGE_BYTES", 200_000)
    assert [len(batch) for batch in read_arrow(database.url, ["id", "body_size"])] == [2, 2, 1, 1]
    begun = read_arrow(database.url, ["id", "body_size"])
    begun.read_next_batch()
    del begun
    wait_until(lambda: database.connections() == 0)


def test_none_where_adbc_cannot_log_in(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    login = make_url(database.url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(login, autocommit=True) as connection:
        monkeypatch.setenv("PGTARGETSESSIONATTRS", "standby")  # which this server is not
        with adbc.record_batches(connection, (), "SELECT 1", (), 1000) as batches:
            assert batches is None
        monkeypatch.delenv("PGTARGETSESSIONATTRS")
        with adbc.record_batches(connection, (), "SELECT %s::bigint", (7,), 1000) as batches:
            assert batches is not None
            assert [batch.to_pydict() for batch in batches] == [{"int8": [7]}]
        with (
            pytest.raises(psycopg.errors.UndefinedTable),
            adbc.record_batches(connection, (), "SELECT * FROM nowhere", (), 1000),
        ):
            pass
