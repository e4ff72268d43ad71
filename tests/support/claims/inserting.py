"""Sessions that insert into the outbox, and movers of both kinds, which are killed and stopped at any time.

``python -m tests.support.claims.inserting URL KILLS SEED BROKERS`` forks processes, some of them at
the same time. Inserters write numbers of their session, in transactions of several rows that they commit or
roll back, with a row of a table of their own for each. The others move rows to a queue: processes that claim,
or with BROKERS brokers with a lease, which take over from each other. The last is not killed, and leaves
nothing to do.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import DBAPIError

from jdbcstore import JdbcStore, StoreConfig
from jdbcstore.broker.engine import Engine
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.errors import StoreError
from jdbcstore.lockers import make_locker
from jdbcstore.message.inserted import DEAD_LETTERS
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.claims.outbox import OutboxMover
from jdbcstore.stores.jdbc.outbox import read_numbers
from tests.support.claims.victims import DONE, Fate, Fuse, Place, Victim, run_all

TARGET = "TARGET"
SESSIONS, BESIDE = 4, 6
LEASE = 1.0
_CONFIG = StoreConfig(cleanup_period=0, outbox=True)
_QUIET = StoreConfig(cleanup_period=0)
_STATEMENTS = 60
_LONGEST = 0.8
"""Seconds after which at the latest a process is killed by its parent."""
_PATIENCE = 120.0


def _insert(url: str, session: int, chance: random.Random, place: Place) -> None:
    """Insert the next numbers of a session until this process is killed."""
    place("i")
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        while True:
            try:
                read = f"SELECT COALESCE(MAX(number), 0) FROM app_sent WHERE session = {session}"
                last = connection.exec_driver_sql(read).scalar_one()
                connection.commit()
                for number in range(last + 1, last + chance.randint(2, 4)):
                    row = f"VALUES ({session}, {number})"
                    connection.exec_driver_sql(f"INSERT INTO app_sent (session, number) {row}")
                    body = f"VALUES ('{TARGET}', '{session} {number}')"
                    connection.exec_driver_sql(f"INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, BODY) {body}")
                connection.rollback() if chance.random() < 0.3 else connection.commit()
            except DBAPIError:
                connection.rollback()  # another process has the session, too


def _claim(url: str, statements: int | None, place: Place) -> None:
    """Move rows beside others until this process is killed."""
    fuse = Fuse(statements, is_lit=False)
    while True:
        with suppress(StoreError), Claims(url, _QUIET, lease=LEASE) as claims:
            fuse.is_lit = True
            place("m")
            mover = OutboxMover(claims.database, claims.queue, DEAD_LETTERS)
            while True:
                mover.move()


async def _serve(url: str, ends: Callable[[JdbcStore], bool]) -> None:
    lease = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=LEASE, lock_keep_alive_period=LEASE / 5)
    store = await asyncio.to_thread(partial(JdbcStore, url, _CONFIG, locker=make_locker(lease, "broker")))
    try:
        engine = Engine(store)
        await engine.start()
        while not await asyncio.to_thread(ends, store):
            await asyncio.to_thread(store.check)
        await engine.stop()
    finally:
        await asyncio.to_thread(store.close, 1.0)


def _broker(url: str, place: Place) -> None:
    """Be the master or wait for it, until this process is killed; a deposed one begins again."""
    place("m")
    while True:
        with suppress(StoreError):
            asyncio.run(_serve(url, lambda _: False))


def _victims(url: str, seed: int, *, brokers: bool) -> Iterator[Victim]:
    chance = random.Random(seed)
    number = 0
    while True:
        own, number = random.Random(chance.random()), number + 1
        stop = own.uniform(0.05, 0.3) if own.random() < 0.2 else None
        fate = Fate(own.uniform(0.2, _LONGEST) + (2 * LEASE if stop else 0), stop, 1.5 * LEASE)
        if number % 3:
            yield Victim(partial(_insert, url, number % SESSIONS, own), Fate(own.uniform(0.2, _LONGEST)))
        elif brokers:
            yield Victim(partial(_broker, url), fate)
        else:
            statements = own.randint(1, _STATEMENTS) if own.random() < 0.7 else None
            yield Victim(partial(_claim, url, statements), fate)


def _drain(url: str, brokers: bool, _: Place | None = None) -> None:
    """Leave nothing in the outbox."""
    if brokers:
        asyncio.run(_serve(url, lambda store: not read_numbers(store._session).waiting))
        return
    with Claims(url, _QUIET) as claims:
        mover = OutboxMover(claims.database, claims.queue, DEAD_LETTERS)
        while mover.move():
            pass


def main(url: str, kills: str, seed: str, brokers: str) -> None:
    is_broker = brokers == "brokers"
    _drain(url, is_broker)
    ends = run_all(_victims(url, int(seed), brokers=is_broker), int(kills), BESIDE)
    last = Victim(partial(_drain, url, is_broker), Fate(_PATIENCE))
    found = Counter(ends.ways)
    found["drained"] = run_all(iter([last]), 1, 1).ways[DONE]
    sys.stdout.write(json.dumps(found))


def run(url: str, kills: int, seed: int, *, brokers: bool) -> dict[str, int]:
    """Do all that in a process: how the processes ended, and 1 for ``drained`` if the last did its work."""
    which = "brokers" if brokers else "claims"
    program = [sys.executable, "-m", __name__, *map(str, (url, kills, seed, which))]
    done = subprocess.run(program, check=True, text=True, stdout=subprocess.PIPE)
    ends: dict[str, int] = json.loads(done.stdout)
    return ends


if __name__ == "__main__":
    main(*sys.argv[1:])
