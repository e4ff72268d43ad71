"""``python -m tests.journaled``: what the suite tries in part, at length.

On each database a storing process is killed so often, and nothing it confirmed may be undone; then so many
examples of random operations, checkpoints, crashes and restarts are compared with MemoryStore.
"""

from __future__ import annotations

import logging
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from hypothesis import seed as seeded

from tests.backends import BACKENDS
from tests.crash.zygote import StoringProcesses
from tests.databases import Database, SqliteDatabase
from tests.journaled.test_kill import kill
from tests.journaled.test_state_machine import over_database, over_memory, run

NAMES = ("memory", "sqlite", "postgresql", "mariadb")


@click.command(help=__doc__)
@click.option("--kills", default=100, show_default=True, help="On each database.")
@click.option("--examples", default=300, show_default=True, help="Of the state machine, on each store.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same examples again.")
@click.option("--store", "names", type=click.Choice(NAMES), multiple=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Where the files are.")
def main(kills: int, examples: int, seed: int | None, names: tuple[str, ...], folder: Path | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    logging.disable()
    for name in names or NAMES:
        if kills and name != "memory":
            _kill(name, kills, folder)
        if examples:
            _compare(name, examples, seed, folder)


def _kill(name: str, kills: int, folder: Path | None) -> None:
    begin = time.monotonic()
    with _place(folder) as place, _database(name, place) as database:
        processes = StoringProcesses(database.url, str(place / "journal"))
        try:
            said = kill(processes, database, str(place / "journal"), kills).said
        finally:
            processes.close()
    click.echo(f"{name}: {kills} kills in {time.monotonic() - begin:.0f} s: {dict(said)}")


def _compare(name: str, examples: int, seed: int, folder: Path | None) -> None:
    begin = time.monotonic()
    with _place(folder) as place:
        if name == "memory":
            run(seeded(seed)(over_memory(place)), examples)
        else:
            with _database(name, place) as database:
                run(seeded(seed)(over_database(database, place)), examples)
    click.echo(f"{name}: {examples} examples in {time.monotonic() - begin:.0f} s")


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jdbcstore-journaled-", dir=folder) as place:
        yield Path(place)


@contextmanager
def _database(name: str, place: Path) -> Iterator[Database]:
    """An empty one; on a private server, if it is a server's."""
    backend = next(backend for backend in BACKENDS if backend.id == name)
    if backend.private is None:
        yield SqliteDatabase(place)
        return
    server = backend.private()
    try:
        database = backend.database(backend.private_url(server))
        yield database
        database.close()
    finally:
        server.close()


if __name__ == "__main__":
    main()
