"""Processes that move messages in the application's transactions, and are killed between any two statements.

``python -m tests.support.claims.moving URL KILLS SEED COUNT BESIDE MUTATION`` forks processes, so many of
them at the same time. Each claims messages of a queue and for each, in one transaction, writes a row, sends a
message and acknowledges; or it notes ids of a list in an inbox, and writes a row for each that is new. Most
of them end themselves by SIGKILL before a statement that is chosen by chance, the others are killed by their
parent after a time. The last is not killed, and leaves nothing to do.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib import import_module

from sqlalchemy import Connection as Connected
from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.exc import DBAPIError

from jdbcstore import Inbox, Message, StoreConfig
from jdbcstore.errors import ClaimLost, StoreError
from jdbcstore.stores.claims import Claim, Claims
from tests.support.claims.callers import WRITE
from tests.support.claims.victims import DONE, Fate, Fuse, Place, Victim, run_all

SOURCE, TARGET = "SOURCE", "TARGET"
LEASE = 2.0
_LAST_LEASE = 30.0
"""That of the last one, which is to lose nothing on a busy machine."""
_LAST_PATIENCE = 3600.0
_CONFIG = StoreConfig(cleanup_period=0)
_STATEMENTS = 60
"""Before one of so many a process ends itself, that of a first claim or earlier ones being the first."""
_PAGE = 50
"""What the last one does in a transaction."""
_LONGEST = 0.15
"""Seconds after which at the latest one is killed by its parent."""
PLACES = {
    "\0": "before anything",
    "o": "opening",
    "c": "claiming",
    "t": "in a transaction",
    "a": "after a commit",
}
"""What a process does, by a letter."""


def names(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def ids(count: int) -> list[str]:
    return [f"ID:{number}" for number in range(count)]


class _Mover:
    """One such process."""

    def __init__(self, url: str, count: int, fuse: Fuse, place: Callable[[str], None]) -> None:
        self._url = url
        self._count = count
        self._fuse = fuse
        self._place = place

    def live(self, *, inbox: bool) -> None:
        """Work until it is killed, or there is nothing to do."""
        self._place("o")
        engine = self._engine()
        while True:
            try:
                with engine.connect() as connection:
                    if inbox:
                        self._fuse.is_lit = True
                        self._note(connection)
                        return
                    with self._claims() as claims:
                        self._fuse.is_lit = True
                        while True:
                            self._move(claims, connection, wait=0.05)
            except StoreError:
                continue

    def warm(self) -> None:
        """Do a bit of everything, so that statements are compiled for the processes that this one forks."""
        with self._engine().connect() as connection:
            with self._claims() as claims:
                self._move(claims, connection, wait=0.0)
            self._note(connection)

    def drain(self) -> None:
        """Leave nothing to do, as far as the claims of others allow."""
        with self._engine().connect() as connection:
            with self._claims(_LAST_LEASE) as claims:
                while claims.queue(SOURCE).count()[0]:
                    self._move(claims, connection, wait=LEASE, at_once=_PAGE)
            self._note(connection, at_once=_PAGE)

    def _engine(self) -> Engine:
        engine = create_engine(self._url, poolclass=NullPool)
        self._fuse.watch(engine)
        return engine

    def _claims(self, lease: float = LEASE) -> Claims:
        return Claims(self._url, _CONFIG, lease=lease, max_redeliveries=-1)

    def _move(self, claims: Claims, connection: Connected, wait: float, at_once: int = 1) -> None:
        self._place("c")
        found = claims.queue(SOURCE).claim(2 * at_once, wait=wait)

        def work(some: list[Claim]) -> None:
            joined = claims.join(connection)
            for claim in some:
                connection.exec_driver_sql(WRITE.format(claim.message.body))
            joined.add(TARGET, *(Message(str(claim.message.body)) for claim in some))
            joined.acknowledge(SOURCE, *some)

        for start in range(0, len(found), at_once):
            self._commit(connection, partial(work, found[start : start + at_once]))

    def _note(self, connection: Connected, at_once: int = 1) -> None:
        """Process the messages of a list, once each."""
        every = random.sample(ids(self._count), self._count)
        with Inbox(self._url, "mover", _CONFIG) as inbox:

            def work(some: list[str]) -> None:
                for id_ in some:
                    if inbox.accept(connection, id_):
                        connection.exec_driver_sql(WRITE.format(id_))

            for start in range(0, len(every), at_once):
                self._commit(connection, partial(work, every[start : start + at_once]))

    def _commit(self, connection: Connected, work: Callable[[], None]) -> None:
        self._place("t")
        try:
            work()
            connection.commit()
            self._place("a")
            self._fuse.step()
        except (ClaimLost, DBAPIError):
            connection.rollback()  # somebody else has it by now, or does it again


def _victims(url: str, seed: int, count: int) -> Iterator[Victim]:
    chance = random.Random(seed)
    while True:
        own = random.Random(chance.random())
        by_itself, inbox = own.random() < 0.8, own.random() < 0.2
        fate = Fate() if by_itself else Fate(own.uniform(0.02, _LONGEST))
        yield Victim(partial(_live, url, count, own, by_itself=by_itself, inbox=inbox), fate)


def _live(url: str, count: int, chance: random.Random, place: Place, *, by_itself: bool, inbox: bool) -> None:
    random.seed(chance.random())
    statements = chance.randint(1, _STATEMENTS) if by_itself else None
    _Mover(url, count, Fuse(statements, is_lit=chance.random() < 0.25), place).live(inbox=inbox)


def main(url: str, kills: str, seed: str, count: str, beside: str, mutation: str) -> None:
    number = int(count)
    _Mover(url, 1, Fuse(None), lambda _: None).warm()
    with import_module("tests.simulation.mutations").mutated(mutation) if mutation else nullcontext():
        found = run_all(_victims(url, int(seed), number), int(kills), int(beside))
    ends = Counter(found.ways)
    ends.update({PLACES[place]: times for place, times in found.places.items()})
    last = Victim(lambda place: _Mover(url, number, Fuse(None), place).drain(), Fate(_LAST_PATIENCE))
    ends["drained"] = run_all(iter([last]), 1, 1).ways[DONE]
    sys.stdout.write(json.dumps(ends))


def run(url: str, kills: int, seed: int, count: int, beside: int = 1, mutation: str = "") -> dict[str, int]:
    """Do all that in a process: how the processes ended, and 1 for ``drained`` if the last did its work."""
    program = [sys.executable, "-m", __name__, *map(str, (url, kills, seed, count, beside, mutation))]
    done = subprocess.run(program, check=True, text=True, stdout=subprocess.PIPE)
    ends: dict[str, int] = json.loads(done.stdout)
    return ends


if __name__ == "__main__":
    main(*sys.argv[1:])
