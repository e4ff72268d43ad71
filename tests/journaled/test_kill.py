"""A storing process with a journal is killed at any moment: nothing it confirmed may be undone.

``python -m tests.journaled`` is the long run.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine

from tests.crash.ledger import Ledger, Tables
from tests.crash.work import QUICKLY, open_store
from tests.crash.zygote import StoringProcesses
from tests.databases import Database
from tests.polling import wait_until

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


def journal_in(place: Path, *, quick: bool) -> str:
    """A directory, as the storing process understands it."""
    return str(place / f"journal{QUICKLY if quick else ''}")


@pytest.mark.backends("sqlite", "postgresql")
def test_a_killed_store_keeps_its_word(processes: StoringProcesses, database: Database, journal: str) -> None:
    kill(processes, database, journal, KILLS)


@pytest.mark.backends("sqlite")
def test_so_does_one_whose_database_has_references(
    processes: StoringProcesses, database: Database, quick_journal: str
) -> None:
    kill(processes, database, quick_journal, KILLS)


def kill(processes: StoringProcesses, database: Database, journal: str, kills: int) -> Ledger:
    """Kill so often; every other time, look at what the next opening makes of it."""
    url = database.url
    chance, ledger = random.Random(20_260_101), Ledger()
    engine = create_engine(url, poolclass=NullPool)
    for incarnation in range(kills):
        pid = processes.start(incarnation)
        for words in islice(processes.lines(), chance.choice((20, 200, 1_000)) + chance.randrange(20)):
            ledger.note(words)
        os.kill(pid, signal.SIGKILL)
        for words in processes.lines():
            ledger.note(words)
        if incarnation % 2:
            wait_until(lambda: database.connections() == 0, 30.0, "that the server has noticed the kill")
            # What the journal has goes to the tables.
            open_store(url, journal).close()
            with engine.connect() as connection:
                ledger.check(Tables(connection, ledger.decoded))
    assert ledger.said["ready"] == kills
    assert all(ledger.said[what] for what in ("added", "acked", "moved"))
    return ledger
