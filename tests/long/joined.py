"""``python -m tests.long.joined``: processes are killed between any two statements of a joined transaction.

On each database processes claim messages and for each, in one transaction of the application's, write a row,
send a message and acknowledge; others note ids in an inbox, see :mod:`tests.support.claims.moving`. After
each round everything is counted: every effect must be there once.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

import click

from jdbcstore import Message
from jdbcstore.stores.claims import Claims
from tests.support.claims import moving
from tests.support.claims.callers import create_effects, effects
from tests.support.claims.victims import FAILED, KILLED
from tests.support.databases import Database
from tests.support.servers.alone import VENDORS, opened

_EACH = 4
"""Messages of a round for each kill."""


@click.command(help=__doc__)
@click.option("--database", "chosen", type=click.Choice(VENDORS), multiple=True)
@click.option("--kills", default=2500, show_default=True, help="For each database.")
@click.option("--round", "size", default=250, show_default=True, help="Kills between two counts.")
@click.option("--beside", default=4, show_default=True, help="Processes at the same time.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option("--mutation", default="", help="A defect of tests.simulation.mutations.")
def main(
    chosen: tuple[str, ...], kills: int, size: int, beside: int, seed: int | None, mutation: str
) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    wrong: list[str] = []
    for name in chosen or VENDORS:
        begun, ends, places = time.monotonic(), Counter[str](), Counter[str]()
        with opened(name) as database:
            create_effects(database)
            for number in range(-(-kills // size)):
                some = min(size, kills - number * size)
                found = one_round(database, some, seed + number, beside, mutation, ends, places)
                wrong += [f"{name}, seed {seed + number}: {one}" for one in found]
                click.echo(
                    f"{name}: {ends[KILLED]} of {ends.total()} killed in {time.monotonic() - begun:.0f} s,"
                    f" {len(found)} wrong in this round {found[:3]}"
                )
        click.echo(f"{name}: {dict(places)}")
    for one in wrong[:30]:
        click.echo(f"WRONG: {one}")
    click.echo(f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


def one_round(
    database: Database,
    kills: int,
    seed: int,
    beside: int,
    mutation: str,
    ends: Counter[str],
    places: Counter[str],
) -> list[str]:
    """What was wrong."""
    messages = _EACH * kills
    database.execute("DELETE FROM app_effects")
    with Claims(database.url, max_redeliveries=-1) as claims:
        claims.queue(moving.SOURCE).add(*map(Message, moving.names(messages)))
        found = moving.run(database.url, kills, seed, messages, beside, mutation)
        wrong = [] if found.pop("drained") else ["the last has not done its work"]
        if failed := found.get(FAILED):
            wrong.append(f"{failed} have failed")
        places.update({place: found.pop(place) for place in moving.PLACES.values() if place in found})
        ends.update(found)
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
