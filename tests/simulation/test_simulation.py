"""Seeds of the simulation; and that it finds the defects that are put into the product on purpose."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.mutations import MUTATIONS, mutated
from tests.simulation.run import LENGTH, WORLDS, Simulation
from tests.simulation.shrinking import shrink
from tests.support.histories.events import Write

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.ours

_SEEDS = {
    "masters": 500,
    "ahead": 200,
    "claims": 440,
    "flow": 420,
    "outbox": 200,
    "journal": 340,
    "kombu": 300,
    "streamed": 160,
    "replicated": 12,
}
_CHUNKS = 4
_WITHIN = 1000
"""Seeds within which each defect is found."""
_DEFECTS_FOUND = {
    "a row removed before its message is added": {"lost"},
    "a row moved that another process has removed": {"resurrected"},
    "a row passed over that is committed late": {"lost"},
    "a batch written although the one before it was not": {"lost", "order", "problem", "repeated"},
    "a batch judged without the one before it": {"lost", "order", "problem", "repeated"},
    "skip the fence": {"fenced"},
    "reuse an epoch": {"epoch"},
    "a page that skips": {"problem", "order"},
    "a commit in doubt taken for done": {"lost", "torn", "resurrected"},
    "a commit in doubt taken for not done": {"repeated", "resurrected", "torn", "renamed", "unmarked"},
    "a lost session that is not ended": {"phantom", "resurrected", "problem"},
    "a dead letter in a transaction of its own": {"lost", "torn", "phantom"},
    "acknowledge before the sync": {"lost", "resurrected", "torn"},
    "a mark ahead of a commit": {"lost", "resurrected", "torn", "problem"},
    "a checkpoint that forgets a destination": {"lost", "torn", "problem"},
    "a journal opened beside a checkpoint": {"lost", "resurrected", "torn"},
    "a claim without its lease": {"twice"},
    "a joined acknowledgement apart": {"lost", "torn"},
    "a joined claim that is lost": {"lost", "twice"},
    "the newest of two leases taken for the one that runs": {"lost"},
    "a limit looked at before the lock": {"limit"},
    "a key whose claims are not counted": {"key"},
    "a token for several claims": {"rate"},
    "a return that is not tried again": {"lost"},
    "a return in doubt that is made again": {"unmarked"},
    "a channel that keeps what it was delivered": {"lost"},
    "a redelivery count lost": {"count"},
    "a lost answer taken for a refusal": {"phantom"},
    "an append in doubt taken for refused": {"phantom"},
    "an append without the expected sequence": {"lost"},
    "a release ahead of the mark": {"lost", "problem"},
    "half a unit taken for whole": {"lost"},
    "an old leader believed": {"problem"},
    "a follower that skips a record": {"lost", "problem"},
    "a master that serves before the end": {"lost", "resurrected", "problem"},
    "a record applied twice": {"problem"},
    "a copy without its mark": {"problem"},
    "an old leader followed": {"problem"},
    "a leader believed that was elected after the purge": {"problem"},
}


@pytest.fixture(scope="module")
def simulation() -> Iterator[Simulation]:
    simulation = Simulation()
    yield simulation
    simulation.close()


def repeat(kind: str, seed: int) -> str:
    return f"repeat: python -m tests.simulation --world {kind} --seed {seed}"


@pytest.mark.parametrize("chunk", range(_CHUNKS))
@pytest.mark.parametrize("kind", WORLDS)
def test_seeds(simulation: Simulation, kind: str, chunk: int) -> None:
    count = _SEEDS[kind] // _CHUNKS
    for seed in range(chunk * count, (chunk + 1) * count):
        assert simulation.run(kind, seed) == [], repeat(kind, seed)


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_defect_is_found(simulation: Simulation, name: str) -> None:
    with mutated(name) as mutation:
        for seed in range(mutation.begin, mutation.begin + _WITHIN):
            rules = {violation.rule for violation in simulation.run(mutation.world, seed)}
            if rules & _DEFECTS_FOUND[name]:
                break
        else:
            pytest.fail(f"not found in {_WITHIN} seeds")
    assert simulation.run(mutation.world, seed) == []


@pytest.mark.parametrize("kind", WORLDS)
def test_a_seed_does_something(simulation: Simulation, kind: str) -> None:
    outcomes: set[str] = set()
    sends = acks = 0
    for seed in range(40):
        world = simulation.world(kind, seed)
        simulation.run_world(world)
        writes = [event for event in world.history if isinstance(event, Write)]
        outcomes |= {write.outcome.value for write in writes}
        sends += sum(len(write.sends) for write in writes)
        acks += sum(len(write.acks) for write in writes)
    assert outcomes == {"ok", "failed", "unknown"}
    assert min(sends, acks) > 200


def test_a_seed_is_the_same_history_in_each_process(simulation: Simulation, tmp_path: Path) -> None:
    traces = []
    for number in range(2):
        file = tmp_path / f"trace{number}"
        command = [sys.executable, "-m", "tests.simulation", "--seed", "35", "--seeds", "7"]
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        subprocess.run([*command, "--trace", file], cwd=ROOT, env=environment, check=True, timeout=110)
        traces.append(file.read_text().splitlines())
    assert traces[0] == traces[1]
    steps = [json.loads(line) for line in traces[0]]
    assert sum(step["step"] == "seed" for step in steps) == 7
    for kind in WORLDS:
        first, second = simulation.world(kind, 3), simulation.world(kind, 3)
        simulation.run_world(first)
        simulation.run_world(second)
        assert first.history == second.history


@pytest.mark.parametrize("kind", WORLDS)
def test_a_seed_is_the_same_history_on_another_machine(
    simulation: Simulation, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name of a producer has both, and is in each message: where it is longer, the disk tears elsewhere.
    histories = []
    for host, pid in (("a", 7), ("a-machine-with-a-longer-name", 4_194_303)):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        world = simulation.world(kind, 4)
        simulation.run_world(world)
        histories.append(world.history)
    assert histories[0] == histories[1]


def test_what_is_left_of_a_failing_seed_is_printed_with_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--world", "journal", "--seed", "2", "--mutation", "a checkpoint that forgets a destination"]
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert "seed 2 of journal, " in printed
    assert f"{LENGTH} of {LENGTH} events" not in printed
    assert "repeat: python -m tests.simulation --world journal --seed 2" in printed


def test_a_failure_is_shrunk_to_what_causes_it() -> None:
    def fails(steps: Sequence[int]) -> bool:
        return {3, 17} <= {*steps}

    assert shrink(range(50), fails) == [3, 17]
    assert shrink([3, 17], fails) == [3, 17]
