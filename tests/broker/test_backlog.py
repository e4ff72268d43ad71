"""A consumer that stops does not fill the broker. ``python -m benchmarks.backlog`` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.backlog import Drain, produce, resident
from tests.broker.programs import BrokerProcess
from tests.databases import Database

MESSAGES = 25_000
WARM = 4_000
GROWTH = 25_000_000
"""Bytes. Messages of this size take some 1,500 each in memory, so 37 million if all of them were there."""
MOST = 250_000_000


@pytest.mark.backends("sqlite")
def test_stored_messages_wait_outside_of_memory(database: Database, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--url", database.url) as broker:
        port, pid = broker.ready(), broker.process.pid
        produce(port, "Q", 0, WARM, size=100)
        drain = Drain(port, "Q")
        drain.until(WARM)
        before = resident(pid)

        produce(port, "Q", WARM, MESSAGES, size=100)
        after = resident(pid)
        drain.until(WARM + MESSAGES)

        assert after - before < GROWTH
        assert resident(pid) < MOST
        drain.close()
