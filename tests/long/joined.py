"""``python -m tests.long.joined``: processes are killed between any two statements of a joined transaction.

On each database processes claim messages and for each, in one transaction of the application's, write a row,
send a message and acknowledge; others note ids in an inbox, see :mod:`tests.support.claims.moving`. After
each round everything is counted: every effect must be there once.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from jdbcstore import Message
from jdbcstore.stores.claims import Claims
from tests.support.claims import moving
from tests.support.claims.callers import create_effects, effects
from tests.support.databases import (
    Database,
    MariadbDatabase,
    MysqlDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
)
from tests.support.servers import MariadbServer, MysqlServer, PostgresqlServer, Server

SERVERS: dict[str, tuple[type[Server], type[Database]]] = {
    "postgresql": (PostgresqlServer, PostgresqlDatabase),
    "mariadb": (MariadbServer, MariadbDatabase),
    "mysql": (MysqlServer, MysqlDatabase),
}


@click.command(help=__doc__)
@click.option("--database", "chosen", type=click.Choice(["sqlite", *SERVERS]), multiple=True)
@click.option("--kills", default=2500, show_default=True, help="For each database.")
@click.option("--round", "size", default=250, show_default=True, help="Kills between two counts.")
@click.option("--messages", default=200, show_default=True, help="Of each kind in a round.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
def main(chosen: tuple[str, ...], kills: int, size: int, messages: int, seed: int | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    wrong: list[str] = []
    for name in chosen or ("sqlite", *SERVERS):
        begun, ends = time.monotonic(), Counter[str]()
        with opened(name) as database:
            create_effects(database)
            for number in range(-(-kills // size)):
                found = one_round(database, min(size, kills - number * size), seed + number, messages, ends)
                wrong += [f"{name}, round {number}: {one}" for one in found]
        click.echo(
            f"{name}: {ends[moving.KILLED]} killed, {ends[moving.OTHERS]} had done their work,"
            f" {number + 1} rounds in {time.monotonic() - begun:.0f} s"
        )
    for one in wrong[:30]:
        click.echo(f"WRONG: {one}")
    click.echo(f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


@contextmanager
def opened(name: str) -> Iterator[Database]:
    """A database of a server of its own."""
    with ExitStack() as closing:
        if name == "sqlite":
            folder = closing.enter_context(tempfile.TemporaryDirectory())
            database: Database = SqliteDatabase(Path(folder))
        else:
            kind, of_kind = SERVERS[name]
            server = kind()
            closing.callback(server.close)
            database = of_kind(server.url)
        closing.callback(database.close)
        yield database


def one_round(database: Database, kills: int, seed: int, messages: int, ends: Counter[str]) -> list[str]:
    """What was wrong."""
    database.execute("DELETE FROM app_effects")
    with Claims(database.url, max_redeliveries=-1) as claims:
        claims.queue(moving.SOURCE).add(*map(Message, moving.names(messages)))
        found = moving.run(database.url, kills, seed, messages)
        ends.update({name: found.get(name, 0) for name in (moving.KILLED, moving.OTHERS)})
        wrong = [f"the last ended with {found['drained']}"] if found["drained"] else []
        sent = claims.queue(moving.TARGET)
        taken = sent.claim(2 * messages)
        sent.acknowledge(*taken)
        names, ids = moving.names(messages), moving.ids(messages)
        wrong += _differences("sent", names, [str(claim.message.body) for claim in taken])
        wrong += _differences("effect", [*names, *ids], effects(database))
        if left := claims.queue(moving.SOURCE).count()[0]:
            wrong.append(f"{left} messages are left")
    database.execute("DELETE FROM JDBCSTORE_INBOX")
    return wrong


def _differences(what: str, wanted: list[str], found: list[str]) -> list[str]:
    counts = Counter(found)
    counts.subtract(wanted)
    return [f"{what} {name}: {count:+}" for name, count in counts.items() if count]


if __name__ == "__main__":
    main()
