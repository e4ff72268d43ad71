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
from contextlib import closing, contextmanager, suppress

import click
from sqlalchemy.exc import DBAPIError

from tests.support.claims import inserting
from tests.support.claims.victims import FAILED, KILLED
from tests.support.databases import Database
from tests.support.servers.alone import SERVERS, VENDORS, opened, server_of
from tests.support.servers.process import Server

_ROUND = 60
"""Processes of a round."""
_LONGEST = 6.0
"""Seconds that a process lives, at most."""
_LOOK = 0.2
"""Seconds between two looks at a server that is to be restarted."""


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
                disturb = None if server is None else _Restarts(server, database, up, one, done)
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


class _Restarts:
    """Restarts a server again and again, each time after rows were inserted or moved since the last time.

    So a machine that takes long to start it does nothing else.
    """

    def __init__(self, server: Server, database: Database, up: float, seed: int, done: Counter[str]) -> None:
        self._server, self._database, self._up, self._done = server, database, up, done
        self._chance = random.Random(seed)
        self._begin()

    def _begin(self) -> None:
        self._due = time.monotonic() + self._chance.uniform(0.5, 1.5) * self._up
        self._before = self._rows()

    def _rows(self) -> tuple[int, ...]:
        counts = [f"SELECT COUNT(*) FROM {table}" for table in ("app_sent", "JDBCSTORE_OUTBOX")]
        with suppress(DBAPIError):  # the tables are not made yet
            return tuple(self._database.rows(count)[0][0] for count in counts)
        return ()

    def __call__(self) -> None:
        time.sleep(_LOOK)
        if time.monotonic() < self._due or self._rows() == self._before:
            return
        self._server.stop() if self._chance.random() < 0.5 else self._server.kill()
        self._server.start()
        self._done["servers"] += 1
        self._begin()


if __name__ == "__main__":
    main()
