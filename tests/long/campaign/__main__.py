"""``python -m tests.long.campaign --faults 1000 --seed N``: ten kinds of fault on real processes.

Two brokers, workers of claims and of Celery, and clients of STOMP, OpenWire and XA work on one database,
while a fault is done every few seconds, until so many were done on each database. One checker judges the
history: nothing confirmed is lost or comes back, transactions are whole, repetitions are marked, and service
is back in time. After each world of faults all is consumed, ended and looked at, and a new one is made.
A world is repeated by the command that is printed with it.
"""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import click

from tests.support.campaign.clusters import CLUSTERS
from tests.support.campaign.faults import KINDS
from tests.support.campaign.run import Report, run_world
from tests.support.campaign.versions import previous_version

DATABASES = ("sqlite", "postgresql", "mariadb", "mysql")
KINDS_OF_NODES = (
    "node killed",
    "node frozen",
    "node isolated",
    "node left",
    "node restarted",
    "quorum lost",
    "primary killed",
    "standby killed",
    "switch-over",
    "Patroni frozen",
    "etcd killed",
)


@click.command(help=__doc__)
@click.option("--faults", default=100, show_default=True, help="On each database.")
@click.option(
    "--kind", "kinds", type=click.Choice((*KINDS, *KINDS_OF_NODES)), multiple=True, help="Only these kinds."
)
@click.option("--database", "names", type=click.Choice((*DATABASES, *CLUSTERS)), multiple=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option("--first", default=0, show_default=True, help="The number of the first world.")
@click.option("--world", default=50, show_default=True, help="Faults in one world.")
@click.option(
    "--mutation", default="", help="Break the product on purpose: see support/campaign/mutations.py."
)
@click.option("--verbose", is_flag=True, help="Print each fault.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Add the figures to this file.")
def main(
    faults: int,
    kinds: tuple[str, ...],
    names: tuple[str, ...],
    seed: int | None,
    first: int,
    world: int,
    mutation: str,
    verbose: bool,
    file: Path | None,
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # what is mounted must go
    seed = random.randrange(10**6) if seed is None else seed
    previous = None if mutation else previous_version()  # which has not what is mutated
    report = Report(seed, file, verbose=verbose)
    click.echo(f"seed {seed}; the version before: {previous.name if previous else 'none'}")
    for name in names or DATABASES:
        for number, begin in enumerate(range(0, faults, world), first):
            count = min(world, faults - begin)
            run_world(report, name, number, count, kinds, previous, mutation)
    sys.exit(report.end())


if __name__ == "__main__":
    main()
