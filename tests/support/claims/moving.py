"""Processes that move messages in the application's transactions, and are killed between any two statements.

``python -m tests.support.claims.moving URL KILLS SEED COUNT`` forks one process after the other. Each claims
messages of a queue and for each, in one transaction, writes a row, sends a message and acknowledges; or it
notes ids of a list in an inbox, and writes a row for each that is new. Half of them end themselves by SIGKILL
before a statement that is chosen by chance, the other half are killed by their parent after a time. The last
is not killed, and leaves nothing to do. Forked, because the imports take longer than all the rest.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection as Connected
from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from jdbcstore import Inbox, Message, StoreConfig
from jdbcstore.database.connection import Connection
from jdbcstore.errors import ClaimLost, StoreError
from jdbcstore.stores.claims import Claims
from tests.support.claims.callers import WRITE

SOURCE, TARGET = "SOURCE", "TARGET"
LEASE = 2.0
_CONFIG = StoreConfig(cleanup_period=0)
_STATEMENTS = 60
"""Before one of so many a process ends itself."""
_LONGEST = 0.4
"""Seconds after which at the latest one is killed by its parent."""
_OURS = ("fetch", "execute", "insert_rows", "write")
KILLED, OTHERS = "killed", "others"


def names(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def ids(count: int) -> list[str]:
    return [f"ID:{number}" for number in range(count)]


class _Fuse:
    """Ends this process before a statement of the main thread."""

    def __init__(self, statements: int | None) -> None:
        self._left = statements
        for name in _OURS if statements else ():
            setattr(Connection, name, self._around(getattr(Connection, name)))

    def step(self, *_: Any, **_values: Any) -> None:
        if self._left is None or threading.current_thread() is not threading.main_thread():
            return
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*arguments: Any, **values: Any) -> Any:
            self.step()
            return run(*arguments, **values)

        return stepping

    def watch(self, engine: Engine) -> None:
        """Count the application's statements, too, and its commits."""
        event.listen(engine, "before_cursor_execute", self.step)
        event.listen(engine, "commit", self.step)


def move(url: str, fuse: _Fuse, count: int, *, drains: bool) -> None:
    """Move messages until there are none, as far as the claims of others allow."""
    engine = create_engine(url, poolclass=NullPool)
    with Claims(url, _CONFIG, lease=LEASE, max_redeliveries=-1) as claims, engine.connect() as connection:
        fuse.watch(engine)
        queue = claims.queue(SOURCE)
        while queue.count()[0]:
            for claim in queue.claim(2, wait=LEASE if drains else 0.0):
                name = str(claim.message.body)

                def work(connection: Connected, claim: Any = claim, name: str = name) -> None:
                    joined = claims.join(connection)
                    connection.exec_driver_sql(WRITE.format(name))
                    joined.add(TARGET, Message(name))
                    joined.acknowledge(SOURCE, claim)

                _commit(connection, fuse, work)
            if not drains:
                break
        if drains:
            note(url, fuse, connection, count)
        else:
            fuse.step()


def note(url: str, fuse: _Fuse, connection: Connected, count: int) -> None:
    """Process the messages of a list, once each."""
    with Inbox(url, "mover", _CONFIG) as inbox:
        for id_ in random.sample(ids(count), count):

            def work(connection: Connected, id_: str = id_) -> None:
                if inbox.accept(connection, id_):
                    connection.exec_driver_sql(WRITE.format(id_))

            _commit(connection, fuse, work)


def _commit(connection: Connected, fuse: _Fuse, work: Callable[[Connected], None]) -> None:
    try:
        work(connection)
        connection.commit()
        fuse.step()
    except (ClaimLost, DBAPIError):
        connection.rollback()  # somebody else has it by now, or does it again


def child(url: str, count: int, chance: random.Random, *, kills: bool) -> None:
    """Be such a process."""
    fuse = _Fuse(chance.randint(1, _STATEMENTS) if kills else None)
    if chance.random() < 0.3:
        engine = create_engine(url, poolclass=NullPool)
        fuse.watch(engine)
        with engine.connect() as connection:
            note(url, fuse, connection, count)
        return
    while True:
        try:
            move(url, fuse, count, drains=False)
        except StoreError:
            continue


def forked(run: Callable[[], None], patience: float) -> int:
    """Run something in another process, killed after some seconds; how that ended."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            run()
            code = 0
        finally:
            os._exit(code)
    descriptor = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(patience * 1000):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(url: str, kills: str, seed: str, count: str) -> None:
    chance, number, ends = random.Random(int(seed)), int(count), Counter[str]()
    for turn in range(int(kills)):
        inner, by_itself = random.Random(chance.random()), turn % 2 == 0
        patience = 60.0 if by_itself else 0.05 + chance.random() * _LONGEST

        def run(inner: random.Random = inner, by_itself: bool = by_itself) -> None:
            child(url, number, inner, kills=by_itself)

        ends[KILLED if forked(run, patience) == -signal.SIGKILL else OTHERS] += 1

    def drain() -> None:
        move(url, _Fuse(None), number, drains=True)

    ends["drained"] = forked(drain, 300.0)
    sys.stdout.write(json.dumps(ends))


def run(url: str, kills: int, seed: int, count: int) -> dict[str, int]:
    """Do all of that in a process; how many processes were killed, and how the last one ended."""
    program: Sequence[str] = [sys.executable, "-m", __name__, url, str(kills), str(seed), str(count)]
    done = subprocess.run(program, check=True, text=True, stdout=subprocess.PIPE)
    ends: dict[str, int] = json.loads(done.stdout)
    return ends


if __name__ == "__main__":
    main(*sys.argv[1:])
