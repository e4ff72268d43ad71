"""``python -m tests.long.journaled``: what the suite tries in part, at length.

On each database a storing process is killed so often, and nothing it confirmed may be undone; then so many
examples of random operations, checkpoints, crashes and restarts are compared with MemoryStore.
"""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path
from typing import Any

import click
from hypothesis import seed as seeded

from jdbcstore.testing.machine import run
from tests.support.crash.zygote import StoringProcesses
from tests.support.journaled.killing import journal_in, kill
from tests.support.journaled.machine import QUICK, over_database, over_memory
from tests.support.places import a_database, a_folder

NAMES = ("memory", "sqlite", "postgresql", "mariadb", "mysql")


@click.command(help=__doc__)
@click.option("--kills", default=100, show_default=True, help="On each database.")
@click.option("--examples", default=300, show_default=True, help="Of the state machine, on each store.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same examples again.")
@click.option("--store", "names", type=click.Choice(NAMES), multiple=True)
@click.option("--quick", is_flag=True, help="The database gets references into the journal.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the files are.")
def main(
    kills: int, examples: int, seed: int | None, names: tuple[str, ...], folder: Path | None, *, quick: bool
) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    logging.disable()
    for name in names or NAMES:
        if kills and name != "memory":
            _kill(name, kills, folder, quick=quick)
        if examples:
            _compare(name, examples, seed, folder, QUICK if quick else {})


def _kill(name: str, kills: int, folder: Path | None, *, quick: bool) -> None:
    begin = time.monotonic()
    with a_folder(folder) as place, a_database(name, place) as database:
        journal = journal_in(place, quick=quick)
        processes = StoringProcesses(database.url, journal)
        try:
            said = kill(processes, database, journal, kills).said
        finally:
            processes.close()
    click.echo(f"{name}: {kills} kills in {time.monotonic() - begin:.0f} s: {dict(said)}")


def _compare(name: str, examples: int, seed: int, folder: Path | None, options: dict[str, Any]) -> None:
    begin = time.monotonic()
    with a_folder(folder) as place:
        if name == "memory":
            run(seeded(seed)(over_memory(place, options)), examples)
        else:
            with a_database(name, place) as database:
                run(seeded(seed)(over_database(database, place, options)), examples)
    click.echo(f"{name}: {examples} examples in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
