"""FilteredStore against MemoryStore at random; the long run is ``python -m tests.long.filtered``."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.testing.machine import run
from tests.support.databases import Database, SqliteDatabase
from tests.support.filtered.machine import over
from tests.support.pool import memory

EXAMPLES = 3


@pytest.mark.backends("sqlite")
def test_no_operations_tell_them_apart(database: Database, tmp_path: Path) -> None:
    (tmp_path / "behind").mkdir()
    behind = SqliteDatabase(tmp_path / "behind", memory())
    try:
        run(over(database, behind, tmp_path), EXAMPLES)
    finally:
        behind.close()
