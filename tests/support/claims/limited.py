"""Processes that claim from a limited queue and note it in a file, and what the notes say of the limits."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import ClaimLost, StoreError
from jdbcstore.stores.claims import Claim, Claims
from tests.support.cli.zygote import fork_main

QUEUE = "ORDERS"


def main(url: str, lease: str, name: str, file: str) -> None:
    """Claim and acknowledge, until the standard input ends."""
    with Claims(url, lease=float(lease), name=name, max_redeliveries=-1) as claims, open(file, "a") as notes:

        def note(what: str, begun: float, *ids: int) -> None:
            notes.write(f"{json.dumps([what, name, begun, time.monotonic(), ids])}\n")
            notes.flush()

        queue, held = claims.queue(QUEUE), deque[Claim]()
        note("ready", 0.0)
        for turn in sys.stdin:
            for _ in range(int(turn)):
                begun = time.monotonic()
                try:
                    taken = queue.claim(2, wait=0.05)
                    note("taken", begun, *(claim.sequence for claim in taken))
                    held.extend(taken)
                    while len(held) > 1 or (held and not taken):
                        claim = held.popleft()
                        note("ending", begun, claim.sequence)
                        queue.acknowledge(claim)
                        note("removed", begun, claim.sequence)
                except ClaimLost as lost:
                    note("lost", begun, *lost.sequences)
                except StoreError as error:
                    note(type(error).__name__, begun)


class Note(NamedTuple):
    """One line."""

    what: str
    name: str
    begun: float
    at: float
    ids: list[int]


class Limited:
    """Such a process."""

    def __init__(self, url: str, lease: float, name: str, file: Path) -> None:
        self.name = name
        self.process = fork_main(__name__, url, str(lease), name, str(file), stdin=subprocess.PIPE)

    def work(self, turns: int) -> None:
        """Have it claim so many times."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{turns}\n")
        self.process.stdin.flush()

    def kill(self) -> float:
        """Kill it; the time before that."""
        at = time.monotonic()
        self.process.kill()
        self.process.communicate()
        return at

    def end(self) -> None:
        self.process.communicate()


def read(file: Path) -> list[Note]:
    """All notes that are complete."""
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [Note(*json.loads(line)) for line in lines]


def most_at_once(notes: Iterable[Note], ended: dict[str, float]) -> int:
    """The most claims that were certainly in force at the same time.

    :param ended: by process, the time until which its claims certainly were, because it was killed
    """
    times: dict[tuple[str, int], dict[str, float]] = {}
    for note in notes:
        for id_ in note.ids:
            times.setdefault((note.name, id_), {})[note.what] = note.at
    changes: list[tuple[float, int]] = []
    for (name, _), known in times.items():
        until = min(known.get("ending", float("inf")), ended.get(name, float("inf")))
        # Since when one is lost nobody knows.
        if until < float("inf") and "lost" not in known:
            changes.extend([(known["taken"], 1), (until, -1)])
    most = count = 0
    for _, change in sorted(changes):  # of two at the same time, an end is first
        count += change
        most = max(most, count)
    return most


def overtaken(notes: Iterable[Note], since: float) -> list[int]:
    """Messages of one key that were not settled when a later one was taken, which was after a time."""
    every = [*notes]
    settled: dict[int, float] = {}
    for note in every:
        if note.what == "ending":
            for id_ in note.ids:
                settled.setdefault(id_, note.at)
    known = sorted({id_ for note in every for id_ in note.ids})
    late = set[int]()
    for note in every:
        if note.what == "taken" and note.ids and note.begun > since:
            last = max(note.ids)
            late |= {id_ for id_ in known if id_ < last and settled.get(id_, float("inf")) > note.at}
    return sorted(late)


def excess(notes: Iterable[Note], rate: float, burst: int) -> float:
    """How many claims more than a rate allows were certainly made in some time; negative if there is room."""
    taken = sorted((one.begun, one.at, len(one.ids)) for one in notes if one.what == "taken" and one.ids)
    worst = float("-inf")
    for begin, _, _ in taken:
        within = sorted((at, count) for begun, at, count in taken if begun >= begin)
        total = 0
        for at, count in within:
            total += count
            worst = max(worst, total - burst - rate * (at - begin))
    return worst
