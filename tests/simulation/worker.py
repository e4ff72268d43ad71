"""A process that runs seeds, one after the other."""

from __future__ import annotations

import gc
import json
from contextlib import ExitStack
from pathlib import Path

from tests.simulation.mutations import mutated
from tests.simulation.run import Simulation
from tests.support.histories.checker import Violation

_simulation: list[Simulation] = []
_defects = ExitStack()


def begin(mutation: str | None = None) -> None:
    """Prepare this process, with a defect in the product."""
    if mutation:
        _defects.enter_context(mutated(mutation))
    _simulation[:] = [Simulation()]
    gc.freeze()  # so that no garbage collection looks at the modules


def simulation() -> Simulation:
    """Return the simulation of this process."""
    return _simulation[0]


def run(job: tuple[str, int], trace: Path | None = None) -> tuple[str, int, list[Violation]]:
    """Run a seed of a world; return both, and what was wrong."""
    kind, seed = job
    world = simulation().world(kind, seed)
    if trace is not None:
        world.traced = [{"at": 0, "actor": "", "step": "seed", "seed": seed, "world": kind}]
    found = simulation().run_world(world)
    if trace is not None:
        assert world.traced is not None
        with trace.open("a") as file:
            file.writelines(f"{json.dumps(step)}\n" for step in world.traced)
    return kind, seed, found
