"""A real ActiveMQ and our broker take over from each other under JMS clients; ``__main__`` runs for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.databases import Database
from tests.support.interop.activemq import PeerMissing
from tests.support.jms_pair.harness import PairHarness
from tests.support.maven import connector_missing
from tests.support.require import unavailable

KILLS = 4


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_mixed_pair_keeps_its_word(database: Database, tmp_path: Path) -> None:
    if database.jdbc_scheme == "mysql" and (missing_driver := connector_missing()):
        unavailable("activemq", missing_driver)
    try:
        harness = PairHarness(database, tmp_path, seed=4)
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    try:
        harness.start()
        for _ in range(KILLS):
            harness.end_master()
        found = harness.finish()
    finally:
        harness.close()
    assert found.wrong == []
    assert {who for who, _ in harness.ends} == {"java", "ours"}
