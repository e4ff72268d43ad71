"""Run seeds: ``python -m tests.simulation --seeds 1000 [--seed 0] [--world masters] [--trace FILE]``.

A seed that fails is printed with the fewest events that still fail, and with the command that repeats it.
Exits with 1 if one has failed. The same seed is the same history, in each process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.simulation import worker
from tests.simulation.mutations import MUTATIONS, mutated
from tests.simulation.run import LENGTH, WORLDS, Simulation
from tests.simulation.shrinking import shrink
from tests.simulation.world import Step
from tests.support.histories.checker import Violation

_CHUNKS = 50
"""Chunks of seeds after which a process is replaced: what was killed in a seed stays in its memory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument(
        "--world", choices=[*WORLDS], help="only this one; else each seed runs in one after the other"
    )
    parser.add_argument("--mutation", choices=[*MUTATIONS], help="put a defect into the product first")
    parser.add_argument("--trace", type=Path, help="write the steps of the seeds there, as lines of JSON")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    begun, used = time.monotonic(), time.process_time()
    jobs = [(kind, seed) for seed, kind in _seeds(options)]
    failed: list[tuple[str, int]] = []
    with ExitStack() as stack:
        if options.mutation:
            stack.enter_context(mutated(options.mutation))
        worker.begin()
        answers: Any = (worker.run(job, options.trace) for job in jobs)
        if options.processes > 1:
            # Not forked: by then a thread of the pool would, and be the main thread of its child.
            pool = get_context("spawn").Pool(options.processes, worker.begin, (options.mutation,), _CHUNKS)
            answers = stack.enter_context(pool).imap_unordered(worker.run, jobs, chunksize=20)
        for kind, seed, found in answers:
            if found:
                failed.append((kind, seed))
                _report(kind, seed, options.mutation, found)
    seconds, cpu = time.monotonic() - begun, time.process_time() - used
    counts = f"{len(jobs)} seeds of {LENGTH} events, {len(failed)} failed"
    _say(f"{counts}, {seconds:.1f} s, {cpu:.1f} s of CPU in this process")
    return 1 if failed else 0


def _seeds(options: argparse.Namespace) -> list[tuple[int, str]]:
    kinds = [*WORLDS] if options.world is None else [options.world]
    return [(seed, kinds[seed % len(kinds)]) for seed in range(options.seed, options.seed + options.seeds)]


def _report(kind: str, seed: int, mutation: str | None, first: list[Violation]) -> None:
    simulation = worker.simulation()
    found = simulation.run(kind, seed)
    if not found:
        _say(f"\nseed {seed} of {kind} failed in a process that had run others, and not again:")
        for violation in first:
            _say(f"  {violation.rule}: {violation.text}")
        return
    steps = shrink(*_problem(simulation, kind, seed, found))
    last = simulation.run(kind, seed, steps)
    _say(f"\nseed {seed} of {kind}, {len(steps)} of {LENGTH} events:")
    for step in steps:
        _say(f"  after {step.wait:g} s: {step.what}, {step.who}")
    for violation in last or found:
        _say(f"  {violation.rule}: {violation.text}")
    also = f" --mutation {mutation!r}" if mutation else ""
    _say(f"  repeat: python -m tests.simulation --world {kind} --seed {seed}{also}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _problem(simulation: Simulation, kind: str, seed: int, found: list[Violation]) -> tuple[Any, Any]:
    rules: Counter[str] = Counter(violation.rule for violation in found)

    def fails(steps: Sequence[Step]) -> bool:
        return any(violation.rule in rules for violation in simulation.run(kind, seed, steps))

    return simulation.world(kind, seed).script(seed, LENGTH), fails


if __name__ == "__main__":
    sys.exit(main())
