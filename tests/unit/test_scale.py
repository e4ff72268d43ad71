"""The simulation of ``benchmarks.scale`` is exact where theory is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from functools import partial
from itertools import permutations

import pytest

from benchmarks.scale import Costs, Machine, simulate

run = partial(simulate, seconds=0.2)
NOTHING = Costs(**{field.name: 0.0 for field in fields(Costs)})


@pytest.mark.parametrize("name", ["client", "arrive", "answer", "row", "log", "network"])
def test_a_busy_worker_limits_the_rate(name: str) -> None:
    outcome = run(replace(NOTHING, **{name: 20.0}), producers=100)
    assert outcome.rate == pytest.approx(50_000, rel=0.01)
    assert max(outcome.shares.values()) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("name", ["turn", "commit", "insert", "flush"])
def test_all_producers_share_a_commit(name: str) -> None:
    outcome = run(replace(NOTHING, **{name: 1000.0}), producers=32)
    assert outcome.rate == pytest.approx(32_000, rel=0.01)


def test_one_producer_waits_for_each_step() -> None:
    costs = Costs()
    steps = sum(astuple(costs)) - costs.tail
    assert run(costs, producers=1).rate == pytest.approx(1e6 / steps, rel=0.01)


@pytest.mark.parametrize(("cores", "rate"), [(1, 25_000), (2, 50_000)])
def test_workers_share_the_processors(cores: int, rate: float) -> None:
    outcome = run(replace(NOTHING, client=20.0, arrive=20.0), producers=100, cores=cores)
    assert outcome.rate == pytest.approx(rate, rel=0.01)
    assert outcome.cores == pytest.approx(cores, rel=0.01)


def test_brokers_that_share_only_an_idle_log_add_up() -> None:
    costs = replace(Costs(), flush=0.0, log=0.0)
    one, three = (run(costs, producers=64, brokers=brokers, cores=16).rate for brokers in (1, 3))
    assert three == pytest.approx(3 * one, rel=0.01)


def test_brokers_share_the_log() -> None:
    outcome = run(replace(NOTHING, log=20.0), producers=100, brokers=3)
    assert outcome.rate == pytest.approx(50_000, rel=0.01)


def around(costs: Sequence[float], jobs: int) -> int:
    """Count the jobs that a circle of workers ends in a second."""
    machine, ended = Machine(len(costs)), 0

    def go(at: int) -> None:
        nonlocal ended
        ended += at == len(costs)
        at %= len(costs)
        machine.work(f"worker {at}", costs[at], partial(go, at + 1))

    for _ in range(jobs):
        go(0)
    machine.run(1e5)
    return 10 * ended


@pytest.mark.parametrize(("jobs", "rate"), [(1, 1e6 / 32), (2, 1e6 / 20), (9, 1e6 / 20)])
def test_the_order_of_workers_does_not_matter(jobs: int, rate: float) -> None:
    for costs in permutations((5.0, 20.0, 7.0)):
        assert around(costs, jobs) == pytest.approx(rate, rel=0.01)
