"""The broker is killed under eight producers and eight consumers. ``__main__`` is the long run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.backends import Capabilities
from tests.support.broker_kill.harness import Harness
from tests.support.databases import Database

KILLS = 2


@pytest.mark.backends("sqlite", "postgresql")
def test_a_killed_broker_keeps_its_word(
    database: Database, capabilities: Capabilities, tmp_path: Path
) -> None:
    harness = Harness(database.url, tmp_path, seed=6, of_server=capabilities.server)
    try:
        harness.start()
        for _ in range(KILLS):
            harness.kill()
        assert harness.finish() == []
    finally:
        harness.close()
    assert len(harness.history.deliveries) > 200
