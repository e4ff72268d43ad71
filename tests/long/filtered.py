"""``python -m tests.long.filtered``: what the suite tries in part, at length.

So many examples of random operations over several stores, of transactions that fail or end at any step, of
crashes and restarts, are compared with MemoryStore.
"""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path

import click
from hypothesis import seed as seeded

from jdbcstore.testing.machine import run
from tests.support.filtered.machine import over
from tests.support.places import a_database, a_folder

NAMES = ("sqlite", "postgresql", "mariadb", "mysql")


@click.command(help=__doc__)
@click.option("--examples", default=300, show_default=True, help="With each database.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same examples again.")
@click.option("--store", "names", type=click.Choice(NAMES), multiple=True, help="The one without a journal.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the files are.")
def main(examples: int, seed: int | None, names: tuple[str, ...], folder: Path | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    logging.disable()
    for name in names or NAMES:
        begin = time.monotonic()
        with (
            a_folder(folder) as place,
            a_folder(folder) as other,
            a_database(name, place) as database,
            a_database("sqlite", other) as behind,
        ):
            run(seeded(seed)(over(database, behind, place)), examples)
        click.echo(f"{name}: {examples} examples in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
