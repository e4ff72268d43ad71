"""``python -m tests.long.broker_kill --kills 50 --seed N``: the long run of killing the broker.

On each database, `jdbcstore broker` serves eight producers and eight consumers, and is killed so many times.
What must not be is printed, and the exit code says whether there was any: a confirmed message lost, one that
was acknowledged back, one that came twice without saying so, half a transaction, another order.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import click

from tests.support.backends import BACKENDS, Backend
from tests.support.broker_kill.harness import Harness


@click.command(help=__doc__)
@click.option("--kills", default=50, show_default=True, help="On each database.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option(
    "--database", "names", type=click.Choice(["postgresql", "sqlite", "mariadb", "mysql"]), multiple=True
)
def main(kills: int, seed: int | None, names: tuple[str, ...]) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    wrong: list[str] = []
    for backend in BACKENDS:
        if backend.id in (names or ("postgresql", "sqlite")):
            wrong += _run_on(backend, kills, seed)
    click.echo(f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


def _run_on(backend: Backend, kills: int, seed: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="jdbcstore-kill-") as folder:
        if backend.private is None:
            return _run(backend, f"sqlite:///{folder}/mq.db", Path(folder), kills, seed)
        server = backend.private()
        try:
            database = backend.database(backend.private_url(server))
            return _run(backend, database.url, Path(folder), kills, seed)
        finally:
            server.close()


def _run(backend: Backend, url: str, directory: Path, kills: int, seed: int) -> list[str]:
    harness = Harness(url, directory, seed, of_server=backend.capabilities.server)
    begin = time.monotonic()
    try:
        harness.start()
        for _ in range(kills):
            harness.kill()
        found = harness.finish()
    except AssertionError as error:
        found = [*harness.history.problems, f"the run was given up: {error}"]
    finally:
        harness.close()
    history = harness.history
    repeated = sum(delivery.redelivered for delivery in history.deliveries)
    ends = Counter(transaction.end for transaction in history.transactions)
    click.echo(f"{backend.id}: {harness.kills} kills in {time.monotonic() - begin:.0f} s")
    click.echo(f"  {_count(history.confirmed)} messages confirmed, {ends.total()} batches: {dict(ends)}")
    click.echo(f"  {len(history.deliveries)} deliveries, {repeated} marked as redelivered")
    click.echo(f"  {_count(history.acked)} acknowledgements confirmed, {len(found)} wrong")
    for one in found[:30]:
        click.echo(f"  WRONG: {one}")
    return found


def _count(by_scope: Mapping[str, Collection[str]]) -> int:
    return sum(map(len, by_scope.values()))


if __name__ == "__main__":
    main()
