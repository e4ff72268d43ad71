"""A dozen faults of the campaign; ``__main__`` is the long run."""

from __future__ import annotations

import pytest

from tests.support.campaign.run import Report, run_world

FAULTS = 4


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_small_campaign(database: str) -> None:
    report = Report(seed=31)
    assert run_world(report, database, 0, FAULTS) == []
    assert sum(report.done.values()) == FAULTS
    assert report.counts["deliveries"] > 100
