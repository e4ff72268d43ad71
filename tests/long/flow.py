"""``python -m tests.long.flow``: limits, rates and keys hold while processes are killed and stopped.

On each database processes claim from four queues: with a limit, with a rate, by keys with weights, limits,
rates and pauses, and by keys in order; see :mod:`tests.support.claims.flowing`. After each round it is judged
what they noted, by :mod:`tests.support.claims.rules`.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from jdbcstore.stores.claims import Claims
from tests.support.claims import rules
from tests.support.claims.flow_round import WEIGHTS, FlowRound
from tests.support.claims.victims import KILLED
from tests.support.databases import Database
from tests.support.servers.alone import VENDORS, opened

_ENOUGH = 5000
"""Claims from which on shares are to be within 5 % of the weights."""


@click.command(help=__doc__)
@click.option("--database", "chosen", type=click.Choice(VENDORS), multiple=True)
@click.option("--kills", default=2500, show_default=True, help="For each database.")
@click.option("--round", "size", default=250, show_default=True, help="Kills between two verdicts.")
@click.option("--beside", default=6, show_default=True, help="Processes at the same time.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option("--mutation", default="", help="A defect of tests.simulation.mutations.")
def main(
    chosen: tuple[str, ...], kills: int, size: int, beside: int, seed: int | None, mutation: str
) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    wrong: list[str] = []
    for name in chosen or VENDORS:
        with opened(name) as database:
            wrong += _run(name, database, kills, size, beside, seed, mutation)
    for one in wrong[:30]:
        click.echo(f"WRONG: {one}")
    click.echo(f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


def _run(
    name: str, database: Database, kills: int, size: int, beside: int, seed: int, mutation: str
) -> list[str]:
    begun, wrong, shares, ways, claims = time.monotonic(), list[str](), Counter[str](), Counter[str](), 0
    for number in range(-(-kills // size)):
        with Claims(database.url, max_redeliveries=-1) as opened, tempfile.TemporaryDirectory() as folder:
            one = FlowRound(opened, database, Path(folder) / "notes", seed + number)
            verdict = one.run(min(size, kills - number * size), beside, mutation)
        shares += verdict.shares
        ways += verdict.ways
        claims += verdict.claims
        wrong += [f"{name}, seed {seed + number}: {said}" for said in verdict.wrong]
        click.echo(
            f"{name}: {ways[KILLED]} of {ways.total()} killed in {time.monotonic() - begun:.0f} s,"
            f" {claims} claims, {len(verdict.wrong)} wrong in this round {verdict.wrong[:3]}"
        )
    if shares.total() >= _ENOUGH:
        wrong += [f"{name}: {said}" for said in rules.unfair(shares, WEIGHTS, 0.05, 0)]
    click.echo(f"{name}: {dict(sorted(shares.items()))} of keys with weights {WEIGHTS}")
    return wrong


if __name__ == "__main__":
    main()
