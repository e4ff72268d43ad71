"""A dozen faults of the campaign; ``__main__`` is the long run."""

from __future__ import annotations

import threading

import pytest

from tests.support.campaign.mutations import MUTATIONS
from tests.support.campaign.run import Report, run_world
from tests.support.cli.zygote import run_program

FAULTS = 4


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_small_campaign(database: str) -> None:
    before = {*threading.enumerate()}
    report = Report(seed=31)
    assert run_world(report, database, 0, FAULTS) == []
    assert sum(report.done.values()) == FAULTS
    assert report.counts["deliveries"] > 100
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    # The watch of PostgreSQL's deadlines ends by itself.
    left = [name for name in left if name.startswith("jdbcstore") and name != "jdbcstore-watch"]
    assert not left, "its clients left something open"


@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
def test_each_mutation_still_finds_what_it_breaks(mutation: str) -> None:
    """In a process of its own, which it leaves broken."""
    program = f"from tests.support.campaign.mutations import MUTATIONS; MUTATIONS[{mutation!r}]()"
    ended = run_program(program)
    assert ended.returncode == 0, ended.stderr
