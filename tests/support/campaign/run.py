"""One world after another: faults chosen by the seed, a check at intervals, and the figures of all."""

from __future__ import annotations

import json
import logging
import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import click

from tests.support import ROOT
from tests.support.backends import BACKENDS
from tests.support.campaign.clusters import CLUSTERS
from tests.support.campaign.faults import Faults
from tests.support.campaign.world import BACK, World
from tests.support.histories.checker import Violation
from tests.support.histories.events import Fault, to_json

_CHECKED_EVERY = 25
_SHOWN = 10
_LOOKS = 60.0
"""Seconds between two looks of a MySQL whether there is room again; until then a commit waits in it."""


class Report:
    """The figures of a run."""

    def __init__(self, seed: int, file: Path | None = None, *, verbose: bool = False) -> None:
        self.seed = seed
        self.verbose = verbose
        self._file = file
        self.done: Counter[tuple[str, str]] = Counter()
        """Faults by database and kind."""
        self.wrong: Counter[str] = Counter()
        """By database."""
        self.back: dict[str, list[float]] = defaultdict(list)
        """By kind, the seconds until every group of clients had done something."""
        self.absent: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def end(self) -> int:
        """Print all; return the exit code."""
        for database in sorted({name for name, _ in self.done}):
            of = {kind: count for (name, kind), count in sorted(self.done.items()) if name == database}
            kinds = ", ".join(f"{count} {kind}" for kind, count in of.items())
            click.echo(f"{database}: {sum(of.values())} faults ({kinds}), {self.wrong[database]} wrong")
        for kind, seconds in sorted(self.back.items()):
            click.echo(f"  back after {kind}: {median(seconds):.1f} s, at most {max(seconds):.1f} s")
        for kind, why in sorted(self.absent.items()):
            click.echo(f"  not done: {kind}: {why}")
        click.echo(f"  {dict(self.counts)}")
        return 1 if self.wrong.total() else 0

    def add(self, world: str, done: Counter[str], counts: dict[str, int], wrong: int) -> None:
        """Add the figures of a world, and write them at once: a run may be stopped."""
        self.counts.update(counts)
        if self._file is not None:
            figures = {"world": world, "faults": done, "wrong": wrong, **counts}
            with self._file.open("a") as lines:
                lines.write(f"{json.dumps(figures)}\n")


def run_world(
    report: Report,
    database: str,
    number: int,
    faults: int,
    kinds: tuple[str, ...] = (),
    previous: Path | None = None,
    mutation: str = "",
) -> list[Violation]:
    """Make a world, do so many faults to it, and judge it; return what was wrong."""
    cluster = CLUSTERS[database]() if database in CLUSTERS else None
    of_nodes = database if cluster is None else cluster.backend
    [backend] = [one for one in BACKENDS if one.id == of_nodes]
    name = f"{report.seed}-{database}-{number}"
    chance = random.Random(name)
    begin = time.monotonic()
    log = logging.getLogger("jdbcstore")
    log.setLevel(logging.CRITICAL)  # of what is broken on purpose
    journaled = chance.random() < 0.5 and cluster is None
    label = f"{name}{' with a journal' if journaled else ''}"
    faults_done: Counter[str] = Counter()
    done = 0
    with ExitStack() as opened:
        opened.callback(log.setLevel, logging.NOTSET)
        if cluster is not None:
            opened.callback(cluster.close)
        world = World(
            backend, name, journaled=journaled, previous=previous, mutation=mutation, cluster=cluster
        )
        opened.callback(world.close)
        opening = time.monotonic() - begin
        broken = Faults(world, chance)
        opened.callback(broken.close)
        report.absent |= {f"{kind} on {database}": why for kind, why in broken.absent.items()}
        possible = [kind for kind in broken.kinds if not kinds or kind in kinds]
        while done < faults and possible:
            kind = chance.choice(possible)
            _do(report, database, world, broken, kind)
            faults_done[kind] += 1
            done = faults_done.total()
            if done % _CHECKED_EVERY == 0 and done < faults:
                if left := world.drain():
                    click.echo(f"  {name}: not consumed after {done} faults: {left[:5]}")
                    break
                if world.check():
                    break
                world.go_on()
        wrong, counts = world.finish()
        report.add(name, faults_done, {**counts, "ended by themselves": len(world.ended)}, len(wrong))
        if wrong:
            report.wrong[database] += len(wrong)
            words = [f"--faults {faults} --world {faults}", *(f"--kind {kind}" for kind in kinds)]
            if mutation:
                words.append(f"--mutation {mutation}")
            _show(report, database, world, number, " ".join(words), wrong)
        seconds = f"{time.monotonic() - begin:.0f} s, of which {opening:.0f} s to open"
        click.echo(f"{label}: {done} faults in {seconds}, {counts}, {len(wrong)} wrong")
        return wrong


def _do(report: Report, database: str, world: World, broken: Faults, kind: str) -> None:
    began = time.monotonic()
    what = broken.do(kind)
    ended = time.monotonic()
    world.recorder.add(Fault(began, ended, f"{kind}: {what}"))
    report.done[database, kind] += 1
    waits = kind == "disk" and world.backend.id == "mysql"
    back = world.await_service(f"{kind} ({what})", BACK + _LOOKS if waits else BACK)
    report.back[kind].append(max(back.values(), default=0.0))
    if report.verbose:
        click.echo(f"  {kind}: {what}: {ended - began:.1f} s, back after {_seconds(back)}")


def _show(
    report: Report, database: str, world: World, number: int, command: str, wrong: list[Violation]
) -> None:
    words = f"--database {database} --seed {report.seed} --first {number} {command}"
    click.echo(f"WRONG on {database}; again: python -m tests.long.campaign {words}")
    for violation in wrong[:_SHOWN]:
        click.echo(f"  {violation.rule}: {violation.text}")
    kept = ROOT / ".build" / f"campaign-{report.seed}-{database}-{number}.wrong"
    with kept.open("w") as lines:
        lines.writelines(f"{violation.rule}: {violation.text}\n" for violation in wrong)
        lines.writelines(f"{to_json(event)}\n" for event in world.history())
        for member in world.processes:
            lines.write(f"--- {member.name}\n{member.log.read_text(errors='replace')}\n")
    click.echo(f"  all of it is in {kept}")


def _seconds(back: Mapping[str, float]) -> str:
    return ", ".join(f"{seconds:.1f} s ({group})" for group, seconds in back.items())
