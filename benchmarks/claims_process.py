"""The processes of ``python -m benchmarks.claims``, which need the packages of what is measured.

``KIND fill URL NUMBER`` adds messages. ``KIND drain URL LIMIT PROCESSES`` forks so many processes, prints a
line once all are connected, and waits for one. Then each takes messages, ``LIMIT`` at a time, until there are
none, and removes them before the next are taken. Of each it prints the number of messages, and the seconds on
the clock and of processor time until the last was removed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from importlib import import_module
from queue import Empty
from typing import Any, Protocol

BODY = "x" * 200
NAME = "benchmark"
_PAGE = 500


class Kind(Protocol):
    """A queue of one of the packages."""

    def __init__(self, url: str) -> None: ...

    def fill(self, number: int) -> None:
        """Add messages."""

    def drain(self, limit: int, drained: Drained) -> None:
        """Claim and remove all messages, up to ``limit`` at a time."""


class Drained:
    """Messages claimed and removed."""

    def __init__(self) -> None:
        self.begin = self.end = time.perf_counter()
        self.used_at_begin = self.used = time.process_time()
        self.number = 0

    def add(self, number: int) -> int:
        """Count some more, and return their number."""
        if number:
            self.number += number
            self.end, self.used = time.perf_counter(), time.process_time()
        return number


class Ours:
    """Claims."""

    def __init__(self, url: str) -> None:
        from jdbcstore import Claims

        claims = Claims(url, lease=600.0)
        claims.queue("other").claim()  # connects, as the others do here
        self.queue = claims.queue(NAME)

    def fill(self, number: int) -> None:
        from jdbcstore import Message

        for some in _pages(number):
            self.queue.add(*(Message(BODY) for _ in range(some)))

    def drain(self, limit: int, drained: Drained) -> None:
        while found := self.queue.claim(limit):
            self.queue.acknowledge(*found)
            drained.add(len(found))


class Sqla:
    """kombu's own transport for SQLAlchemy, which marks a message as taken, and never removes it."""

    def __init__(self, url: str) -> None:
        import kombu

        self.queue = kombu.Connection(f"sqla+{url}").SimpleQueue(NAME)

    def fill(self, number: int) -> None:
        for _ in range(number):
            self.queue.put(BODY)

    def drain(self, limit: int, drained: Drained) -> None:  # noqa: ARG002 (one at a time)
        try:
            while True:
                self.queue.get_nowait().ack()
                drained.add(1)
        except Empty:
            return


class Pgmq:
    """The functions of pgmq, which its Python package installs."""

    def __init__(self, url: str) -> None:
        import psycopg
        from pgmq import PGMQueue, install

        plain = _plain(url)
        with psycopg.connect(plain) as connection:
            if connection.execute("SELECT to_regnamespace('pgmq')").fetchone() == (None,):
                install.install_pgmq_sql(install.get_embedded_install_sql(), conn=connection)
        self.queue = PGMQueue(conn_string=plain, pool_size=1, init_extension=False)

    def fill(self, number: int) -> None:
        self.queue.create_queue(NAME)
        for some in _pages(number):
            self.queue.send_batch(NAME, [{"body": BODY}] * some)

    def drain(self, limit: int, drained: Drained) -> None:
        while found := self.queue.read_batch(NAME, vt=600, batch_size=limit):
            self.queue.delete_batch(NAME, [one.msg_id for one in found])
            drained.add(len(found))


class Procrastinate:
    """Its own worker, which takes jobs one by one."""

    def __init__(self, url: str) -> None:
        import procrastinate

        self.app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=_plain(url), min_size=1, max_size=2)
        )
        self.filling = procrastinate.SyncPsycopgConnector(conninfo=_plain(url))
        self.drained = Drained()
        self.work = self.app.task(self._work, name=NAME, queue=NAME)

    def _work(self, body: str) -> None:  # noqa: ARG002
        self.drained.add(1)

    def fill(self, number: int) -> None:
        with self.app.replace_connector(self.filling) as app, app.open():
            if not app.check_connection():
                app.schema_manager.apply_schema()
            for some in _pages(number):
                self.work.batch_defer(*({"body": BODY} for _ in range(some)))

    def drain(self, limit: int, drained: Drained) -> None:  # noqa: ARG002 (one at a time)
        self.drained = drained
        self.app.run_worker(
            queues=[NAME],
            wait=False,
            concurrency=1,
            listen_notify=False,
            delete_jobs="always",
            install_signal_handlers=False,
        )


class PgQueuer:
    """Its own worker, used as in its tools/benchmark.py with psycopg."""

    def __init__(self, url: str) -> None:
        self.url = _plain(url)

    async def _connect(self) -> Any:
        import psycopg
        from pgqueuer.db import PsycopgDriver

        return PsycopgDriver(await psycopg.AsyncConnection.connect(self.url, autocommit=True))

    def fill(self, number: int) -> None:
        from pgqueuer.queries import Queries

        async def fill() -> None:
            async with await self._connect() as driver:
                queries = Queries(driver)
                if not await queries.has_table("pgqueuer"):
                    await queries.install()
                for some in _pages(number):
                    await queries.enqueue([NAME] * some, [BODY.encode()] * some, [0] * some)

        asyncio.run(fill())

    def drain(self, limit: int, drained: Drained) -> None:
        import pgqueuer
        from pgqueuer.types import QueueExecutionMode

        async def drain() -> None:
            worker = pgqueuer.PgQueuer(await self._connect())

            async def work(job: Any) -> None:  # noqa: ARG001
                drained.add(1)

            worker.entrypoint(NAME)(work)
            await worker.run(batch_size=limit, mode=QueueExecutionMode.drain)

        asyncio.run(drain())


KINDS: dict[str, type[Kind]] = {
    "jdbcstore": Ours,
    "sqla": Sqla,
    "pgmq": Pgmq,
    "PgQueuer": PgQueuer,
    "Procrastinate": Procrastinate,
}
_PACKAGES = {
    "jdbcstore": ("jdbcstore.stores.claims", "psycopg"),
    "sqla": ("kombu.transport.sqlalchemy", "psycopg"),
    "pgmq": ("psycopg", "pgmq"),
    "PgQueuer": ("psycopg", "pgqueuer.queries", "pgqueuer.db"),
    "Procrastinate": ("psycopg", "procrastinate"),
}
SINGLY = ("sqla", "Procrastinate")
"""Kinds that claim messages one at a time only."""


def _pages(number: int) -> list[int]:
    return [min(_PAGE, number - start) for start in range(0, number, _PAGE)]


def _plain(url: str) -> str:
    return url.replace("+psycopg", "")


def main(kind: str, what: str, url: str, number: str, processes: str = "1") -> None:
    if what == "fill":
        KINDS[kind](url).fill(int(number))
        return
    for package in _PACKAGES[kind]:
        import_module(package)  # once for all
    gc.freeze()
    ready, begin = os.pipe(), os.pipe()
    for _ in range(int(processes)):
        if not os.fork():
            os.close(begin[1])
            _drain(kind, url, int(number), ready[1], begin[0])
    for _ in range(int(processes)):
        os.read(ready[0], 1)
    _say("ready")
    sys.stdin.readline()
    os.close(begin[1])  # now all begin
    for _ in range(int(processes)):
        os.wait()


def _drain(kind: str, url: str, limit: int, ready: int, begin: int) -> None:
    made = KINDS[kind](url)
    os.write(ready, b".")
    os.read(begin, 1)
    drained = Drained()
    made.drain(limit, drained)
    _say(drained.number, drained.end - drained.begin, drained.used - drained.used_at_begin)
    os._exit(0)


def _say(*words: object) -> None:
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
