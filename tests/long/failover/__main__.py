"""``python -m tests.long.failover``: the long run of the failover tests.

Two and three processes at a time on a private server, faults chosen by the seed, until the time is over,
on each database in turn. What must not be is printed, and the exit code says whether there was any: a row of
a deposed master, a message lost or back, two masters at a time, a new master later than a lease and a second.
"""

from __future__ import annotations

import random
import sys
import time
from statistics import median

import click

from tests.support.backends import BACKENDS, Backend
from tests.support.failover.harness import LEASE, Arrangement, Harness, Takeover

ARRANGEMENTS = (
    Arrangement("lease", 3, one_name=True, skewed=True, apart=True),
    Arrangement("database", 3, one_name=True, skewed=True),
    Arrangement("lease", 2, skewed=True, allowed=0.2),
    Arrangement("database", 2, apart=True),
    Arrangement("file", 2, one_name=True, skewed=True, apart=True),
    Arrangement("zookeeper", 3, one_name=True),
)
BOUND = LEASE + 1.0


@click.command(help=__doc__)
@click.option("--minutes", default=15.0, show_default=True, help="On each database.")
@click.option("--seed", type=int, help="That of an earlier run, to repeat it.")
@click.option("--database", "names", type=click.Choice(["postgresql", "mariadb", "mysql"]), multiple=True)
@click.option(
    "--locker", "lockers", type=click.Choice(["lease", "database", "file", "zookeeper"]), multiple=True
)
def main(minutes: float, seed: int | None, names: tuple[str, ...], lockers: tuple[str, ...]) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}, lease {LEASE} s")
    wrong = []
    for backend in BACKENDS:
        if backend.id not in (names or ("postgresql", "mariadb", "mysql")):
            continue
        chosen = [one for one in ARRANGEMENTS if one.locker in (lockers or (one.locker,))]
        for number, arrangement in enumerate(chosen):
            wrong += run(backend, arrangement, seed + number, minutes * 60 / len(chosen))
    click.echo(f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


def run(backend: Backend, arrangement: Arrangement, seed: int, seconds: float) -> list[str]:
    """One arrangement on a server of its own; what was wrong."""
    assert backend.private is not None
    server = backend.private()
    harness = Harness(backend.database(backend.private_url(server)), server, arrangement, seed)
    end = time.monotonic() + seconds
    found: list[str] = []
    try:
        while time.monotonic() < end and not found:
            try:
                harness.run(1)
            except AssertionError as error:
                found.append(f"the run was given up: {error}")
        found += harness.finish()
    finally:
        harness.close()
        server.close()
    found += [_late(takeover) for takeover in harness.takeovers if takeover.epoch > BOUND]
    _report(backend, arrangement, harness, found)
    return found


def _late(takeover: Takeover) -> str:
    return (
        f"{takeover.fault}: the next master began after {takeover.epoch:.2f} s and stored after"
        f" {takeover.write:.2f} s, while processes waited for a processor {takeover.pressure:.0%} of the"
        f" time; said meanwhile: {'; '.join(takeover.events)}"
    )


def _report(backend: Backend, arrangement: Arrangement, harness: Harness, found: list[str]) -> None:
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(harness.done.items()))
    added = len(harness.history.names["added"])
    click.echo(f"{backend.id}, {arrangement}")
    click.echo(f"  {harness.done.total()} faults: {faults}")
    click.echo(f"  {added} messages, {len(harness.history.masters)} masters, {len(found)} wrong")
    for kind, why in sorted(harness.faults.absent.items()):
        click.echo(f"  not done: {kind}: {why}")
    for kind in sorted({takeover.fault for takeover in harness.takeovers}):
        those = [takeover for takeover in harness.takeovers if takeover.fault == kind]
        begun, stored = [one.epoch for one in those], [one.write for one in those]
        click.echo(
            f"  {kind}: {len(those)} times, another master after {median(begun):.2f} s, at most"
            f" {max(begun):.2f} s, and its first message after {median(stored):.2f}, {max(stored):.2f} s"
        )
    slow = [_late(one) for one in harness.takeovers if one.epoch <= BOUND < one.write]
    for late in slow:
        click.echo(f"  first message after {BOUND:g} s: {late}")
    for one in found[:20]:
        click.echo(f"  WRONG: {one}")


if __name__ == "__main__":
    main()
