"""Inserters and movers that are killed and stopped: each committed row is sent once, in order."""

from __future__ import annotations

import pytest

from tests.support.claims import inserting
from tests.support.claims.victims import KILLED
from tests.support.databases import Database

pytestmark = [pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql"), pytest.mark.slow]

KILLS = 40


_ALSO = pytest.mark.whole("sqlite", "mariadb", "mysql")


@pytest.mark.parametrize(
    "movers",
    [pytest.param(movers, marks=[] if movers == inserting.BOTH else [_ALSO]) for movers in inserting.MOVERS],
)
def test_each_committed_row_is_sent_once_in_order(database: Database, movers: str) -> None:
    inserting.create_sent(database)

    for seed in range(1, 6):  # a busy machine may kill all inserters before their first commit
        ends = inserting.run(database.url, KILLS, seed, movers)
        assert ends["drained"] == 1
        assert ends[KILLED] >= KILLS // 2
        assert inserting.wrong(database) == []
        if len(inserting.arrived(database)) > KILLS:
            return
    pytest.fail("too few rows were committed")
