"""Errors of ODBC, which has the server's number of an error in the text only."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.registry import adapter_for
from tests.support.databases import Database


@pytest.mark.backends("mariadb-pyodbc")
@pytest.mark.parametrize("key", ["(1205)", "a (2006) b"])
def test_numbers_in_a_key_are_not_the_servers_number(database: Database, key: str) -> None:
    """A deadlock would be tried again, and a lost connection opened again."""
    database.execute("CREATE TABLE keys_of_odbc (name VARCHAR(50) PRIMARY KEY)")
    database.execute(f"INSERT INTO keys_of_odbc VALUES ('{key}')")
    adapter, _ = adapter_for(database.url)
    with pytest.raises(DBAPIError) as raised:
        database.execute(f"INSERT INTO keys_of_odbc VALUES ('{key}')")
    assert raised.value.orig is not None
    assert adapter.classify(raised.value.orig) is Failure.DUPLICATE
