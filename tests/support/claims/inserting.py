"""Sessions that insert into the outbox, and movers of both kinds, which are killed and stopped at any time.

``python -m tests.support.claims.inserting URL KILLS SEED MOVERS LONGEST`` forks processes, some of them at
the same time. Inserters write numbers of their session, in transactions of several rows that they commit or
roll back, with a row of a table of their own for each. The others move rows to a queue. They are processes
that claim, brokers with a lease, which take over from each other, or both. The last is not killed, and leaves
nothing to do.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from sqlalchemy import Connection, NullPool, create_engine
from sqlalchemy.exc import DBAPIError

from jdbcstore import JdbcStore, StoreConfig
from jdbcstore.broker.engine import Engine
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.errors import StoreError
from jdbcstore.lockers import make_locker
from jdbcstore.message import openwire
from jdbcstore.message.dead_letters import DEAD_LETTERS
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.claims.outbox import OutboxMover
from jdbcstore.stores.jdbc.outbox import read_numbers
from tests.support.claims.victims import DONE, Fate, Fuse, Place, Victim, run_all
from tests.support.databases import Database

TARGET = "TARGET"
CLAIMS, BROKERS, BOTH = "claims", "brokers", "both"
MOVERS = (CLAIMS, BROKERS, BOTH)
SESSIONS, BESIDE = 8, 6
LEASE = 1.0
_LAST_LEASE = 30.0
"""Of the process that leaves nothing: nobody takes over from it, however busy the machine is."""
_PAUSE = 0.1
"""Seconds after a failure: a server that starts again needs the processors."""
_CONFIG = StoreConfig(cleanup_period=0, outbox=True)
_QUIET = StoreConfig(cleanup_period=0)
_STATEMENTS = 60
LONGEST = 0.8
"""Seconds after which at the latest a process is killed by its parent."""
_MOST = 60
"""Rows of a transaction, at most."""
_PATIENCE = 900.0


@contextmanager
def _pausing(*failures: type[Exception]) -> Iterator[None]:
    """Suppress failures, with a pause after each."""
    try:
        yield
    except failures:
        time.sleep(_PAUSE)


def _insert(url: str, session: int, chance: random.Random, place: Place) -> None:
    """Insert the next numbers of a session until this process is killed."""
    place("i")
    engine = create_engine(url, poolclass=NullPool)
    while True:
        # Another process has the session, too, or the server is down.
        with _pausing(DBAPIError), engine.connect() as connection:
            while True:
                _insert_some(connection, session, chance)


def _insert_some(connection: Connection, session: int, chance: random.Random) -> None:
    """Insert the next numbers of a session in a transaction."""
    read = f"SELECT COALESCE(MAX(number), 0) FROM app_sent WHERE session = {session}"
    last = connection.exec_driver_sql(read).scalar_one()
    connection.commit()
    numbers = range(last + 1, last + chance.randint(2, _MOST))
    rows = ", ".join(f"({session}, {number})" for number in numbers)
    connection.exec_driver_sql(f"INSERT INTO app_sent (session, number) VALUES {rows}")
    bodies = ", ".join(f"('{TARGET}', '{session} {number}')" for number in numbers)
    connection.exec_driver_sql(f"INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, BODY) VALUES {bodies}")
    connection.rollback() if chance.random() < 0.3 else connection.commit()


def _claim(url: str, statements: int | None, place: Place) -> None:
    """Move rows beside others until this process is killed."""
    fuse = Fuse(statements, is_lit=False)
    while True:
        with _pausing(StoreError), Claims(url, _QUIET, lease=LEASE) as claims:
            fuse.is_lit = True
            place("m")
            mover = OutboxMover(claims.database, claims.queue, DEAD_LETTERS)
            while True:
                mover.move()


async def _serve(url: str, ends: Callable[[JdbcStore], bool], lease: float = LEASE) -> None:
    locker = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=lease, lock_keep_alive_period=lease / 5)
    store = await asyncio.to_thread(partial(JdbcStore, url, _CONFIG, locker=make_locker(locker, "broker")))
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
        with _pausing(StoreError):
            asyncio.run(_serve(url, lambda _: False))


def _victims(url: str, seed: int, movers: str, longest: float, stopped: Counter[str]) -> Iterator[Victim]:
    chance = random.Random(seed)
    number = 0
    while True:
        own, number = random.Random(chance.random()), number + 1
        stop = own.uniform(0.05, longest / 2) if own.random() < 0.2 and number % 3 == 0 else None
        stopped["stopped"] += stop is not None
        fate = Fate(own.uniform(0.2, longest) + (2 * LEASE if stop else 0), stop, 1.5 * LEASE)
        if number % 3:
            yield Victim(partial(_insert, url, number % SESSIONS, own), Fate(own.uniform(0.2, longest)))
        elif movers == BROKERS or (movers == BOTH and number % 2):
            yield Victim(partial(_broker, url), fate)
        else:
            statements = own.randint(1, _STATEMENTS) if own.random() < 0.7 else None
            yield Victim(partial(_claim, url, statements), fate)


def _drain(url: str, movers: str, _: Place | None = None) -> None:
    """Leave nothing in the outbox, however often the server is down."""
    while True:
        with _pausing(StoreError):
            if movers != CLAIMS:
                asyncio.run(_serve(url, lambda store: not read_numbers(store._session).waiting, _LAST_LEASE))
                return
            with Claims(url, _QUIET) as claims:
                mover = OutboxMover(claims.database, claims.queue, DEAD_LETTERS)
                while mover.move():
                    pass
                return


def main(url: str, kills: str, seed: str, movers: str, longest: str) -> None:
    _drain(url, movers)
    found = Counter[str]()
    ends = run_all(_victims(url, int(seed), movers, float(longest), found), int(kills), BESIDE)
    found.update(ends.ways)
    last = Victim(partial(_drain, url, movers), Fate(_PATIENCE))
    found["drained"] = run_all(iter([last]), 1, 1).ways[DONE]
    sys.stdout.write(json.dumps(found))


def run(
    url: str,
    kills: int,
    seed: int,
    movers: str,
    longest: float = LONGEST,
    meanwhile: Callable[[], None] | None = None,
) -> dict[str, int]:
    """Do all that in a process; how the processes ended, and 1 for ``drained`` if the last did its work.

    ``meanwhile`` is called again and again while they run.
    """
    program = [sys.executable, "-m", __name__, *map(str, (url, kills, seed, movers, longest))]
    with subprocess.Popen(program, text=True, stdout=subprocess.PIPE) as process:
        while meanwhile is not None and process.poll() is None:
            meanwhile()
        output, _ = process.communicate()
    assert process.returncode == 0
    ends: dict[str, int] = json.loads(output)
    return ends


def create_sent(database: Database) -> None:
    """Create the table of the numbers that were sent."""
    database.execute(
        "CREATE TABLE app_sent (session INTEGER NOT NULL, number INTEGER NOT NULL,"
        " PRIMARY KEY (session, number))"
    )


def arrived(database: Database) -> list[tuple[int, int]]:
    """Return the sessions and numbers of messages, in order."""
    rows = database.rows("SELECT MSG FROM ACTIVEMQ_MSGS ORDER BY ID")
    bodies = [str(openwire.decode(bytes(blob)).body) for (blob,) in rows]
    return [(int(session), int(number)) for session, number in map(str.split, bodies)]


def wrong(database: Database) -> list[str]:
    """Return what is wrong: each committed row is to be there once, in the order of its session."""
    counts = Counter(found := arrived(database))
    wanted = {(int(one), int(two)) for one, two in database.rows("SELECT session, number FROM app_sent")}
    each = [f"{row} is lost" for row in sorted(wanted - {*counts})]
    each += [f"{row} was rolled back" for row in sorted({*counts} - wanted)]
    each += [f"{row} is sent {count} times" for row, count in counts.items() if count > 1]
    for session in range(SESSIONS):
        numbers = [number for one, number in found if one == session]
        if numbers != sorted(numbers):
            each.append(f"session {session} is out of order: {numbers}")
    [(left,)] = database.rows("SELECT COUNT(*) FROM JDBCSTORE_OUTBOX")
    return [f"{left} rows are left", *each] if left else each


if __name__ == "__main__":
    main(*sys.argv[1:])
