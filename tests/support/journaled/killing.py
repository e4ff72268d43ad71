"""A journaled store in a process that is killed."""

from __future__ import annotations

import os
import random
import signal
from itertools import islice
from pathlib import Path

from sqlalchemy import NullPool, create_engine

from jdbcstore.testing.polling import wait_until
from tests.support.crash.ledger import Ledger, Tables
from tests.support.crash.work import QUICKLY, open_store
from tests.support.crash.zygote import StoringProcesses
from tests.support.databases import Database


def journal_in(place: Path, *, quick: bool) -> str:
    """A directory, as the storing process understands it."""
    return str(place / f"journal{QUICKLY if quick else ''}")


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
            wait_until(lambda: database.connections() == 0, what="that the server has noticed the kill")
            # What the journal has goes to the tables.
            open_store(url, journal).close()
            with engine.connect() as connection:
                ledger.check(Tables(connection, ledger.decoded))
    assert ledger.said["ready"] == kills
    assert all(ledger.said[what] for what in ("added", "acked", "moved"))
    return ledger
