"""``python -m tests.failover``: the long run of the failover tests.

Three processes at a time on private servers, faults chosen by the seed, until the time is over. What must not
be is printed, and the exit code says whether there was any; so are the times without a master.
"""

from __future__ import annotations

import random
import sys
import time
from statistics import median

import click

from tests.backends import BACKENDS
from tests.failover.harness import LEASE, Harness


@click.command(help=__doc__)
@click.option("--minutes", default=15.0, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to repeat it.")
@click.option("--database", "names", type=click.Choice(["postgresql", "mariadb"]), multiple=True)
@click.option("--locker", "lockers", type=click.Choice(["lease", "database"]), multiple=True)
def main(minutes: float, seed: int | None, names: tuple[str, ...], lockers: tuple[str, ...]) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}, lease {LEASE} s")
    cases = [
        (backend, locker)
        for backend in BACKENDS
        if backend.id in (names or ("postgresql", "mariadb"))
        for locker in lockers or ("lease", "database")
    ]
    wrong = []
    for number, (backend, locker) in enumerate(cases):
        assert backend.private is not None
        server = backend.private()
        database = backend.database(backend.private_url(server))
        harness = Harness(database, server, locker, members=2 + number % 2, seed=seed + number)
        end = time.monotonic() + minutes * 60 / len(cases)
        faults = 0
        try:
            while time.monotonic() < end:
                harness.run(10)
                faults += 10
            found = harness.finish()
        finally:
            harness.close()
            server.close()
        added = len(harness.history.names("added"))
        click.echo(f"{backend.id}, {locker}: {faults} faults, {added} messages, {len(found)} wrong")
        for kind in ("kill", "pause", "swallow"):
            times = [takeover.seconds for takeover in harness.takeovers if takeover.fault == kind]
            if times:
                click.echo(f"  {kind}: {median(times):.2f} s to another master, at most {max(times):.2f} s")
        for one in found[:20]:
            click.echo(f"  {one}")
        wrong += found
    sys.exit(1 if wrong else 0)


main()
