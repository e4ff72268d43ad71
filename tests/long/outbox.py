"""``python -m tests.long.outbox``: inserting and moving rows while everything that takes part is killed.

On each database eight sessions insert rows in transactions that they commit, roll back, or are killed in.
Processes that claim, brokers, or both move them; these are killed, and stopped for longer than their lease.
Meanwhile the server is restarted or killed. See :mod:`tests.support.claims.inserting`. After each round every
committed row must be there once, no other, and those of a session in their order.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import click

from tests.support.claims import inserting
from tests.support.claims.victims import FAILED, KILLED
from tests.support.databases import Database
from tests.support.servers.alone import SERVERS, VENDORS, opened, server_of
from tests.support.servers.process import Server

_ROUND = 60
"""Processes of a round."""
_LONGEST = 6.0
"""Seconds that a process lives, at most."""


@click.command(help=__doc__)
@click.option("--database", "chosen", type=click.Choice(VENDORS), multiple=True)
@click.option("--rows", default=25_000, show_default=True, help="Committed rows, for each database.")
@click.option("--faults", default=125, show_default=True, help="For each database.")
@click.option("--up", default=10.0, show_default=True, help="Seconds between two faults of the server.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
def main(chosen: tuple[str, ...], rows: int, faults: int, up: float, seed: int | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    wrong: list[str] = []
    for name in chosen or VENDORS:
        begun, number, done = time.monotonic(), 0, Counter[str]()
        with _database(name) as (database, server):
            inserting.create_sent(database)
            while done["rows"] < rows or done[KILLED] + done["stopped"] + done["servers"] < faults:
                one, movers = seed + number, inserting.MOVERS[number % len(inserting.MOVERS)]
                disturb = None if server is None else _disturb(server, up, one, done)
                found = _one_round(database, one, movers, disturb, done)
                wrong += [f"{name}, seed {one}, {movers}: {each}" for each in found]
                number += 1
                took = time.monotonic() - begun
                click.echo(f"{name}: {dict(done)} in {took:.0f} s, {len(found)} wrong {found[:3]}")
    for each in wrong[:30]:
        click.echo(f"WRONG: {each}")
    click.echo(f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


@contextmanager
def _database(vendor: str) -> Iterator[tuple[Database, Server | None]]:
    if vendor not in SERVERS:
        with opened(vendor) as database:
            yield database, None
        return
    with server_of(vendor) as (server, make), closing(make()) as database:
        yield database, server


def _one_round(
    database: Database, seed: int, movers: str, disturb: Callable[[], None] | None, done: Counter[str]
) -> list[str]:
    """Return what was wrong; ``done`` counts rows and faults."""
    ends = inserting.run(database.url, _ROUND, seed, movers, _LONGEST, disturb)
    wrong = [] if ends.pop("drained") else ["the last has not done its work"]
    if failed := ends.get(FAILED):
        wrong.append(f"{failed} have failed")
    done.update(ends)
    wrong += inserting.wrong(database)
    done["rows"] += len(inserting.arrived(database))
    for table in ("app_sent", "ACTIVEMQ_MSGS"):
        database.execute(f"DELETE FROM {table}")
    return wrong


def _disturb(server: Server, up: float, seed: int, done: Counter[str]) -> Callable[[], None]:
    chance = random.Random(seed)

    def disturb() -> None:
        time.sleep(chance.uniform(0.5, 1.5) * up)
        server.stop() if chance.random() < 0.5 else server.kill()
        server.start()
        done["servers"] += 1

    return disturb


if __name__ == "__main__":
    main()
