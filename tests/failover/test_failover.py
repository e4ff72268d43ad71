"""Real processes, one database, and faults: one master, and nothing lost. ``__main__`` is the long run."""

from __future__ import annotations

import pytest

from tests.databases import Database
from tests.failover.harness import LEASE, Harness
from tests.servers import Server

SLACK = 4.0
"""For two processors and a test run beside; the long run has none."""


@pytest.mark.backends("postgresql", "mariadb")
@pytest.mark.parametrize(
    ("locker", "faults"), [("lease", ("kill", "pause", "cut")), ("database", ("kill", "terminate"))]
)
def test_one_master(database: Database, server: Server, locker: str, faults: tuple[str, ...]) -> None:
    harness = Harness(database, server, locker, members=2, seed=5)
    try:
        harness.run(len(faults), kinds=faults)
        assert harness.finish() == []
    finally:
        harness.close()
    assert len({words[1] for _, _, words in harness.history.said if words[0] == "master"}) >= 2
    assert len(harness.history.names("added")) > 20
    slowest = max(takeover.seconds for takeover in harness.takeovers)
    assert slowest <= LEASE + 1.0 + SLACK
