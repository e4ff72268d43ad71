"""The storing process is killed at any moment: nothing it confirmed may be undone."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from itertools import islice

import pytest

from jdbcstore.testing.polling import wait_until
from tests.support.backends import Backend
from tests.support.crash.ledger import Ledger, Tables
from tests.support.crash.zygote import StoringProcesses
from tests.support.databases import Database

KILLS = {"sqlite": 100, "postgresql": 100}
"""With ``--whole``."""
FEWER_KILLS = 20
"""Where the same is killed, and the database or its driver is like one of those."""
AT_START = 10
"""Kills beyond those, while the tables are being created and the store is opened."""


@pytest.fixture
def processes(url: str) -> Iterator[StoringProcesses]:
    if url.startswith(("mariadb+pymysql", "mysql+pymysql")):
        # It reads the machine's certificates for each connection, and a fork for each of its own.
        url += "?ssl_disabled=true"
    processes = StoringProcesses(url)
    yield processes
    processes.close()


def test_a_killed_store_keeps_its_word(
    processes: StoringProcesses, database: Database, backend: Backend, pytestconfig: pytest.Config
) -> None:
    kills = KILLS.get(backend.id, FEWER_KILLS)
    if kills > FEWER_KILLS and not pytestconfig.getoption("--whole"):
        kills //= 2
    chance = random.Random(20_240_817)
    ledger = Ledger()
    for incarnation in range(AT_START + kills):
        pid = processes.start(incarnation)
        if incarnation < AT_START:
            _spin(chance.uniform(0.0, 0.15))
        else:
            said = chance.choice((1, 5, 20, 200)) + chance.randrange(20)
            for words in islice(processes.lines(), said):
                ledger.note(words)
            _spin(chance.uniform(0.0, 0.003))
        os.kill(pid, signal.SIGKILL)
        for words in processes.lines():
            ledger.note(words)
        # Every other time the next process finds the tables, and SQLite's log, as they were left.
        if incarnation % 2:
            _check(ledger, database)
    assert ledger.said["ready"] >= kills
    # That it got to work; how often is chance.
    assert min(ledger.said[what] for what in ("added", "acked", "moved")) > kills / 4


def _check(ledger: Ledger, database: Database) -> None:
    # The server may still be busy with the last words of the killed process.
    wait_until(lambda: database.connections() == 0, what="that the server has noticed the kill")
    with database.engine.connect() as connection:
        if ledger.said["ready"]:
            ledger.check(Tables(connection, ledger.decoded))


def _spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
