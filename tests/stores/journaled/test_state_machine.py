"""JournaledStore and MemoryStore under random operations, checkpoints, crashes and restarts.

``python -m tests.long.journaled`` is the long run.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore.testing.machine import run
from tests.support.databases import Database
from tests.support.journaled.machine import QUICK, over_database, over_memory

EXAMPLES = {"memory": 10, "sqlite": 4}
QUICK_EXAMPLES = {"memory": 4, "sqlite": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """For directories of machines, in memory where there is such a place."""
    memory = Path("/dev/shm")  # noqa: S108
    place = tempfile.mkdtemp(prefix="jdbcstore-journaled-", dir=memory if memory.is_dir() else tmp_path)
    yield Path(place)
    shutil.rmtree(place)


def test_over_memory(folder: Path) -> None:
    run(over_memory(folder, {}), EXAMPLES["memory"])


def test_references_over_memory(folder: Path) -> None:
    run(over_memory(folder, QUICK), QUICK_EXAMPLES["memory"])


@pytest.mark.backends("sqlite")
def test_over_a_database(database: Database, folder: Path) -> None:
    run(over_database(database, folder, {}), EXAMPLES["sqlite"])


@pytest.mark.backends("sqlite")
def test_references_over_a_database(database: Database, folder: Path) -> None:
    run(over_database(database, folder, QUICK), QUICK_EXAMPLES["sqlite"])
