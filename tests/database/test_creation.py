"""Creating tables while another process does the same, on a server that rolls back one of the two."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from jdbcstore.config import StoreConfig
from jdbcstore.database.schema import create_claim_tables
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import SchemaError


@pytest.mark.parametrize("refusals", [1, 3, 4])
def test_a_row_that_a_conflict_rolled_back_is_inserted_again(tmp_path: Path, refusals: int) -> None:
    left = refusals

    def refuse(_cursor: Any, statement: str, _parameters: Any, _context: Any) -> None:
        nonlocal left
        if left and statement.startswith('INSERT INTO "JDBCSTORE_STATE"'):
            left -= 1
            raise sqlite3.OperationalError("a certification conflict")

    with closing(DatabaseSession(f"sqlite:///{tmp_path}/x.db", StoreConfig())) as session:
        event.listen(session.engine, "do_execute", refuse)
        if refusals > 3:
            with pytest.raises(SchemaError, match="a certification conflict"):
                create_claim_tables(session.engine, session.adapter, session.tables)
        else:
            create_claim_tables(session.engine, session.adapter, session.tables)
        create_claim_tables(session.engine, session.adapter, session.tables)
        with session.engine.begin() as connection:
            names = connection.exec_driver_sql("SELECT NAME FROM JDBCSTORE_STATE").scalars().all()
        assert sorted(names) == ["claims", "sequence"]
    assert left == 0
