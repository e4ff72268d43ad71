"""A storing process with a journal is killed at any moment: nothing it confirmed may be undone.

``python -m tests.long.journaled`` is the long run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash.zygote import StoringProcesses
from tests.support.databases import Database
from tests.support.journaled.killing import journal_in, kill

KILLS = 6


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return journal_in(tmp_path, quick=False)


@pytest.fixture
def quick_journal(tmp_path: Path) -> str:
    return journal_in(tmp_path, quick=True)


@pytest.fixture
def processes(url: str, request: pytest.FixtureRequest) -> Iterator[StoringProcesses]:
    directory = "quick_journal" if "quick_journal" in request.fixturenames else "journal"
    processes = StoringProcesses(url, request.getfixturevalue(directory))
    yield processes
    processes.close()


@pytest.mark.backends("sqlite", "postgresql")
def test_a_killed_store_keeps_its_word(processes: StoringProcesses, database: Database, journal: str) -> None:
    kill(processes, database, journal, KILLS)


@pytest.mark.backends("sqlite")
def test_so_does_one_whose_database_has_references(
    processes: StoringProcesses, database: Database, quick_journal: str
) -> None:
    kill(processes, database, quick_journal, KILLS)
