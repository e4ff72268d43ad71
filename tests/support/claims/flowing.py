"""Processes that claim from queues with limits, rates and keys, and are killed, stopped and started again.

``python -m tests.support.claims.flowing URL FILE KILLS SEED BESIDE MUTATION`` forks processes, so many of
them at the same time, which write down what they do. Most of them end themselves by SIGKILL before a
statement that is chosen by chance; others are killed by their parent after a time, or stopped for up to
three leases, or close their claims.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from jdbcstore import StoreConfig
from jdbcstore.errors import ClaimLost, StoreError
from jdbcstore.stores.claims import Claim, Claims
from tests.support.claims.rules import REMOVING, RETURNING
from tests.support.claims.victims import Fate, Fuse, Place, Victim, run_all

LIMITED, RATED, SHARED, ORDERED = QUEUES = ("LIMITED", "RATED", "SHARED", "ORDERED")
LEASE = 1.5
_CONFIG = StoreConfig(cleanup_period=0)
_STATEMENTS = 100
"""Before one of so many a process ends itself, that of its first claim or earlier ones being the first."""
_MOST_HELD = 3
_LONGEST = 0.2
"""Seconds after which at the latest one is killed or stopped by its parent."""
_TURNS = 12
"""Claims after which one closes, if it is to."""


@dataclass
class _Worker:
    """One such process."""

    url: str
    file: str
    chance: random.Random
    fuse: Fuse
    place: Callable[[str], None]

    def live(self, turns: int | None) -> None:
        """Claim and settle until it is killed, or so often."""
        self.place("o")
        self._notes = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._held = deque[tuple[str, Claim]]()
        while True:
            try:
                with Claims(self.url, _CONFIG, lease=LEASE, max_redeliveries=-1) as self._claims:
                    self.fuse.is_lit = True
                    self._work(turns)
                    return
            except StoreError:
                continue

    def _work(self, turns: int | None) -> None:
        try:
            count = 0
            while turns is None or count < turns:
                self._turn()
                count += 1
        finally:
            while self._held:  # by the end of its claims
                queue, claim = self._held.popleft()
                self._note(RETURNING, queue, time.monotonic(), [claim])

    def _turn(self) -> None:
        self.place("c")
        queue, begun = self.chance.choice(QUEUES), time.monotonic()
        taken = self._claims.queue(queue).claim(self.chance.randint(1, _MOST_HELD), wait=0.01)
        if taken:
            self._note("taken", queue, begun, taken)
        self._held.extend((queue, claim) for claim in taken)
        self.place("s")
        while len(self._held) > _MOST_HELD or (self._held and not taken):
            self._settle(*self._held.popleft())

    def _settle(self, name: str, claim: Claim) -> None:
        queue, begun, kind = self._claims.queue(name), time.monotonic(), self.chance.random()
        try:
            if kind < 0.85:
                self._note(REMOVING, name, begun, [claim])
                queue.acknowledge(claim)
                self._note("removed", name, begun, [claim])
            else:
                self._note(RETURNING, name, begun, [claim])
                (queue.release if kind < 0.93 else queue.reject)(claim)
                self._note("returned", name, begun, [claim])
        except ClaimLost:
            self._note("lost", name, begun, [claim])

    def _note(self, what: str, queue: str, begun: float, claims: Iterable[Claim]) -> None:
        lease = self._claims.database.lease
        believed = lease._believed_until  # before the number: that of another lease may be later
        ids, session = [claim.sequence for claim in claims], next(claim.session for claim in claims)
        if lease.number != session:
            believed = 0.0
        line = json.dumps([what, queue, begun, time.monotonic(), ids, session, believed])
        os.write(self._notes, f"{line}\n".encode())


def _victims(url: str, file: str, seed: int) -> Iterator[Victim]:
    chance = random.Random(seed)
    while True:
        own = random.Random(chance.random())
        kind, soon = own.random(), own.uniform(0.02, _LONGEST)
        fate = Fate()
        if kind < 0.15:
            fate = Fate(soon)
        elif kind < 0.35:
            fate = Fate(stop=soon, proceed=own.uniform(0.05, 3 * LEASE))
        turns = _TURNS if 0.35 <= kind < 0.4 else None
        yield Victim(partial(_live, url, file, own, turns=turns, is_timed=kind < 0.15), fate)


def _live(
    url: str, file: str, chance: random.Random, place: Place, *, turns: int | None, is_timed: bool
) -> None:
    statements = None if turns or is_timed else chance.randint(1, _STATEMENTS)
    fuse = Fuse(statements, is_lit=chance.random() < 0.15)
    _Worker(url, file, chance, fuse, place).live(turns)


def main(url: str, file: str, kills: str, seed: str, beside: str, mutation: str) -> None:
    with import_module("tests.simulation.mutations").mutated(mutation) if mutation else nullcontext():
        # Statements are compiled for the processes that this one forks.
        _Worker(url, file, random.Random(seed), Fuse(None), lambda _: None).live(2 * _TURNS)
        found = run_all(_victims(url, file, int(seed)), int(kills), int(beside))
    sys.stdout.write(json.dumps(found.ways))


def start(
    url: str, file: Path, kills: int, seed: int, beside: int, mutation: str = ""
) -> subprocess.Popen[str]:
    """Do all that in a process, which says how the processes ended."""
    program = [sys.executable, "-m", __name__, *map(str, (url, file, kills, seed, beside, mutation))]
    return subprocess.Popen(program, text=True, stdout=subprocess.PIPE)


if __name__ == "__main__":
    main(*sys.argv[1:])
