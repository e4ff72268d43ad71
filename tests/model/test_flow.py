"""Pauses, limits and keys, as the simulation has them, replayed against the model of flow control.

What takes effect in the database is the trace, under all faults of the simulation. Rates are not in it: the
simulation's own checker judges of them, by times, which a model without a clock does not have.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.model.conftest import Compiled
from tests.simulation.claims import QUEUES
from tests.simulation.effects import LATE, OVER, RUNNING, Effect
from tests.simulation.flow import Limited
from tests.simulation.mutations import mutated
from tests.simulation.run import Simulation
from tests.support.spin import Event, Model

pytestmark = pytest.mark.xdist_group("models")

SEEDS = range(20)
BOUNDS = (0,) * 8
NUMBERS = 63
"""The most messages and sessions that a trace has numbers for."""
SHARED, IN_ORDER = 1, 2


@pytest.fixture
def model(compiled: Compiled) -> Model:
    return compiled("flow", MESSAGES=NUMBERS, SESSIONS=NUMBERS + 1, KEYS=4)


def numbered(effects: Sequence[Effect], model: Model) -> list[Event]:
    """Return the effects as events of the model: messages by their order, other names as they come."""
    ids = sorted({effect.numbers[0] for effect in effects if effect.kind == "ADD"})
    messages = {id_: number for number, id_ in enumerate(ids)}
    session_of: dict[int, int] = {}
    key_of: dict[object, int] = {}
    events: list[Event] = []
    for kind, numbers in effects:
        found = [*numbers]
        if kind in ("ADD", "GONE", "FREED"):
            found[0] = messages[numbers[0]]
        if kind == "ADD":
            found[1] = key_of.setdefault(numbers[1], len(key_of))
        if kind in ("LEASE", "CLAIMED"):
            found[0] = session_of.setdefault(numbers[0], len(session_of) + 1)
        if kind == "CLAIMED":
            found[1] = messages[numbers[1]]
        events.append((model.numbers[kind], *found))
    return events


def traces(simulation: Simulation, model: Model, seed: int) -> list[list[Event]]:
    """Return what took effect in each queue of a seed."""
    world = simulation.world("flow", seed)
    assert isinstance(world, Limited)
    world.traced = []
    simulation.run_world(world)
    return [numbered(world.effects.of[f"queue://{queue}"], model) for queue in QUEUES]


def refused(simulation: Simulation, model: Model, seed: int) -> bool:
    return any(model.refused_at(BOUNDS, trace) is not None for trace in traces(simulation, model, seed))


def test_queues_do_what_the_model_allows(model: Model, simulation: Simulation) -> None:
    claimed = 0
    for seed in SEEDS:
        for trace in traces(simulation, model, seed):
            at = model.refused_at(BOUNDS, trace)
            assert at is None, (seed, at, trace)
            claimed += sum(event[0] == model.numbers["CLAIMED"] for event in trace)
    assert claimed > 10 * len(SEEDS)


@pytest.mark.parametrize(
    "mutation", ["a limit looked at before the lock", "a key whose claims are not counted"]
)
def test_a_defect_of_flow_control_is_refused(model: Model, simulation: Simulation, mutation: str) -> None:
    with mutated(mutation):
        assert any(refused(simulation, model, seed) for seed in range(60))


def claims(*ids: int, session: int = 1) -> list[tuple[str, *tuple[int, ...]]]:
    """Return the events of one claim."""
    return [("CLAIMED", session, id_, len(ids) - at - 1) for at, id_ in enumerate(ids)]


ADDED = [("LEASE", 1, RUNNING), ("LEASE", 2, RUNNING), ("ADD", 0, 0), ("ADD", 1, 0), ("ADD", 2, 1)]
"""Two messages of a key, one of another."""
FORGED: dict[str, list[tuple[str, *tuple[int, ...]]]] = {
    "more than the limit": [("LIMIT", 1, 0), *claims(0), *claims(1, session=2)],
    "more than the limit at once": [("LIMIT", 1, 0), *claims(0, 1)],
    "more than the limit while a lease is late": [
        *(("LIMIT", 1, 0), *claims(0), ("LEASE", 1, LATE)),
        *claims(1, session=2),
    ],
    "from a queue that is paused": [("LIMIT", 0, 0), *claims(0), ("LIMIT", 0, 1), *claims(1)],
    "more of a key than its limit": [("KEYED", SHARED, 1), *claims(0, 2), *claims(1, session=2)],
    "the second of a key before the first": [("KEYED", IN_ORDER, 0), *claims(2), *claims(1)],
    "the second of a key beside the first": [("KEYED", IN_ORDER, 0), *claims(0), *claims(1, session=2)],
    "the second of a key after the first was given back": [
        *(("KEYED", IN_ORDER, 0), *claims(0), ("FREED", 0)),
        *claims(1),
    ],
    "what another has": [("LIMIT", 0, 0), *claims(0), *claims(0, session=2)],
    "what is gone": [*claims(0), ("GONE", 0), *claims(0)],
    "a message that nobody had claimed is gone": [("GONE", 1)],
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_what_queues_must_not_do_is_refused(model: Model, forged: list[tuple[str, *tuple[int, ...]]]) -> None:
    trace = [(model.numbers[kind], *numbers) for kind, *numbers in [*ADDED, *forged]]
    first_of_last = len(trace) - 1
    if forged[-1][0] == "CLAIMED" and forged[-2][0] == "CLAIMED" and forged[-2][-1]:
        first_of_last -= 1  # a claim of two messages is one step
    assert model.refused_at(BOUNDS, trace) == first_of_last


def test_what_others_had_is_claimed_after_their_lease(model: Model) -> None:
    settings = [("LIMIT", 1, 0), ("KEYED", IN_ORDER, 1)]
    trace = [*ADDED, *settings, *claims(0), ("LEASE", 1, OVER), *claims(0, session=2), ("GONE", 0)]
    events = [(model.numbers[kind], *numbers) for kind, *numbers in [*trace, *claims(1, session=2)]]
    assert model.refused_at(BOUNDS, events) is None
