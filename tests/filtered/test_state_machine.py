"""FilteredStore and MemoryStore under random operations; ``python -m tests.filtered`` is the long run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.machine import run
from tests.databases import Database, SqliteDatabase
from tests.filtered.machine import over
from tests.pool import memory

EXAMPLES = 3


@pytest.mark.backends("sqlite")
def test_no_operations_tell_them_apart(database: Database, tmp_path: Path) -> None:
    behind = SqliteDatabase(tmp_path, memory())
    try:
        run(over(database, behind, tmp_path), EXAMPLES)
    finally:
        behind.close()
