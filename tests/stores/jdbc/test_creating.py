"""The tables of a new database, created by several processes at once."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, Table

import jdbcstore
from jdbcstore.database import schema
from jdbcstore.database.adapters.base import Adapter
from tests.support.databases import Database


@pytest.mark.parametrize(("by_another", "is_recorded"), [("acks", True), ("msgs", False)])
def test_the_process_that_creates_the_first_table_records_the_revision(
    database: Database, monkeypatch: pytest.MonkeyPatch, by_another: str, is_recorded: bool
) -> None:
    """Another one has created some of the others meanwhile; if not, that is for the other one to do."""
    create = schema.create_table

    def shared(engine: Engine, adapter: Adapter, table: Table) -> bool:
        made = create(engine, adapter, table)
        return made and not str(table.name).lower().endswith(f"activemq_{by_another}")

    monkeypatch.setattr(schema, "create_table", shared)
    with jdbcstore.open(database.url) as store:
        tables: dict[str, Any] = {name.lower(): there for name, there in store.tables().items()}  # type: ignore[attr-defined]
        assert tables["jdbcstore_version"] == is_recorded
