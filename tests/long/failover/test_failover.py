"""Real processes, one database, and faults: one master, and nothing lost. ``__main__`` is the long run."""

from __future__ import annotations

import pytest

from tests.support.databases import Database
from tests.support.failover.harness import LEASE, Arrangement, Harness
from tests.support.servers import Server

SLACK = 60.0
"""For any machine, whatever runs beside: the long run has a bound that means something."""


@pytest.mark.backends("postgresql")
def test_clocks_that_jump(database: Database, server: Server) -> None:
    harness = Harness(database, server, Arrangement("lease", skewed=True, allowed=0.2), seed=5)
    if "clock" in harness.faults.absent:
        harness.close()
        pytest.skip(harness.faults.absent["clock"])
    _break(harness, ("clock", "kill"))


@pytest.mark.backends("mariadb", "mysql")
def test_lease(database: Database, server: Server) -> None:
    _break(Harness(database, server, Arrangement("lease", one_name=True), seed=5), ("cut", "pause"))


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_database(database: Database, server: Server) -> None:
    _break(Harness(database, server, Arrangement("database"), seed=5), ("terminate", "kill"))


@pytest.mark.java
@pytest.mark.backends("postgresql")
def test_zookeeper(database: Database, server: Server) -> None:
    _break(Harness(database, server, Arrangement("zookeeper"), seed=5), ("kill", "zookeeper", "pause"))


def _break(harness: Harness, faults: tuple[str, ...]) -> None:
    try:
        harness.run(len(faults), kinds=faults)
        assert harness.finish() == []
    finally:
        harness.close()
    assert len(harness.history.masters) >= 2
    assert len(harness.history.names["added"]) > 20
    assert all(takeover.write <= LEASE + SLACK for takeover in harness.takeovers)
