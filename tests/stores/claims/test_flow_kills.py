"""Processes that share limited queues while some are killed and stopped: no limit is exceeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stores.claims.conftest import OpenClaims
from tests.support.claims.flow_round import FlowRound
from tests.support.claims.victims import KILLED
from tests.support.databases import Database

pytestmark = [pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql"), pytest.mark.slow]

KILLS = 20


def test_limits_rates_keys_and_order_hold(
    open_claims: OpenClaims, database: Database, tmp_path: Path
) -> None:
    verdict = FlowRound(open_claims(max_redeliveries=-1), database, tmp_path / "notes", seed=1).run(KILLS, 4)

    assert verdict.wrong == []
    assert verdict.ways[KILLED] >= KILLS // 2
    assert verdict.claims >= KILLS
