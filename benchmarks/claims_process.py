"""The processes of ``python -m benchmarks.claims``, which need the packages of what is measured.

``KIND fill URL NUMBER WARMING`` adds messages, and so many to another queue. ``KIND drain URL LIMIT
PROCESSES`` forks so many processes, which connect, and then drain that other queue: so their modules are
loaded, and their statements planned. It prints a line and waits for one. Then each takes messages, ``LIMIT``
at a time, until there are none, and removes them before the next are taken. Of each it prints the number of
messages, and the seconds on the clock and of processor time until the last was removed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

BODY = "x" * 200
NAME = "benchmark"
WARMING = "warming"
"""The queue that is drained before."""
_PAGE = 500
_IDLE = 1.0
"""Seconds without a message after which there are none."""
_AWA_CONNECTIONS = 6
"""Of a process: its worker keeps some for itself."""


class Kind(Protocol):
    """A queue of one of the packages."""

    def __init__(self, url: str) -> None: ...

    def fill(self, name: str, number: int) -> None:
        """Add messages to the queue of a name."""

    def drain(self, name: str, limit: int, drained: Drained) -> None:
        """Claim and remove all messages of a queue, up to ``limit`` at a time."""


class Drained:
    """Messages claimed and removed."""

    def __init__(self) -> None:
        self.begin = self.end = time.perf_counter()
        self.used_at_begin = self.used = time.process_time()
        self.number = 0

    def add(self, number: int) -> None:
        """Count some more."""
        self.number += number
        self.mark()

    def mark(self) -> None:
        """Note that messages are still left now."""
        self.end, self.used = time.perf_counter(), time.process_time()


class Ours:
    """Claims."""

    def __init__(self, url: str) -> None:
        from jdbcstore import Claims

        self.claims = Claims(url, lease=600.0)

    def fill(self, name: str, number: int) -> None:
        from jdbcstore import Message

        queue = self.claims.queue(name)
        for some in _pages(number):
            queue.add(*(Message(BODY) for _ in range(some)))

    def drain(self, name: str, limit: int, drained: Drained) -> None:
        queue = self.claims.queue(name)
        while found := queue.claim(limit):
            queue.acknowledge(*found)
            drained.add(len(found))


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

    def fill(self, name: str, number: int) -> None:
        self.queue.create_queue(name)
        for some in _pages(number):
            self.queue.send_batch(name, [{"body": BODY}] * some)

    def drain(self, name: str, limit: int, drained: Drained) -> None:
        while found := self.queue.read_batch(name, vt=600, batch_size=limit):
            self.queue.delete_batch(name, [one.msg_id for one in found])
            drained.add(len(found))


class Procrastinate:
    """Its own worker, which takes jobs one by one, and has up to ``limit`` of them at work."""

    def __init__(self, url: str) -> None:
        import procrastinate

        self.app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=_plain(url), min_size=1, max_size=2)
        )
        self.filling = procrastinate.SyncPsycopgConnector(conninfo=_plain(url))
        self.drained = Drained()
        self.work = self.app.task(self._work, name=NAME)

    async def _work(self, body: str) -> None:  # noqa: ARG002
        self.drained.add(1)

    def fill(self, name: str, number: int) -> None:
        with self.app.replace_connector(self.filling) as app, app.open():
            if not app.check_connection():
                app.schema_manager.apply_schema()
            for some in _pages(number):
                self.work.configure(queue=name).batch_defer(*({"body": BODY} for _ in range(some)))

    def drain(self, name: str, limit: int, drained: Drained) -> None:
        self.drained = drained
        self.app.run_worker(
            queues=[name],
            wait=False,
            concurrency=limit,
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

    def fill(self, name: str, number: int) -> None:
        from pgqueuer.queries import Queries

        async def fill() -> None:
            async with await self._connect() as driver:
                queries = Queries(driver)
                if not await queries.has_table("pgqueuer"):
                    await queries.install()
                for some in _pages(number):
                    await queries.enqueue([name] * some, [BODY.encode()] * some, [0] * some)

        asyncio.run(fill())

    def drain(self, name: str, limit: int, drained: Drained) -> None:
        import pgqueuer
        from pgqueuer.types import QueueExecutionMode

        async def drain() -> None:
            worker = pgqueuer.PgQueuer(await self._connect())

            async def work(job: Any) -> None:  # noqa: ARG001
                drained.add(1)

            worker.entrypoint(name)(work)
            await worker.run(batch_size=limit, mode=QueueExecutionMode.drain)

        asyncio.run(drain())


class Awa:
    """Its own worker, which runs so many tasks of an event loop as are taken at a time."""

    def __init__(self, url: str) -> None:
        self.url = _plain(url)

    def fill(self, name: str, number: int) -> None:
        import psycopg
        from awa import AsyncClient

        with psycopg.connect(self.url) as connection:
            is_there = connection.execute("SELECT to_regnamespace('awa')").fetchone() != (None,)

        async def fill() -> None:
            client = AsyncClient(self.url)
            if not is_there:
                await client.migrate()
                await client.install_queue_storage()
            for some in _pages(number):
                await client.enqueue_many_copy([Work(BODY) for _ in range(some)], queue=name)
            await client.close()

        asyncio.run(fill())

    def drain(self, name: str, limit: int, drained: Drained) -> None:
        from awa import AsyncClient

        async def drain() -> None:
            client = AsyncClient(self.url, max_connections=_AWA_CONNECTIONS)

            async def work(job: Any) -> None:  # noqa: ARG001
                drained.add(1)

            client.task(Work, queue=name)(work)
            await client.start([(name, limit)])
            is_left = True
            while is_left:  # it removes messages some time after their tasks have ended
                number = drained.number
                await asyncio.sleep(_IDLE / 4)
                if number == drained.number:
                    is_left = any(
                        one.available + one.running for one in await client.queue_stats() if one.queue == name
                    )
                    if is_left:
                        drained.mark()
            await client.shutdown()

        asyncio.run(drain())


@dataclass
class Work:
    """What a task of awa is given."""

    body: str


class Kombu:
    """One of kombu's own transports, by a consumer, as Celery's workers are."""

    def __init__(self, url: str) -> None:
        import kombu

        self.connection = kombu.Connection(url)
        self.queues = {name: self.connection.SimpleQueue(name) for name in (NAME, WARMING)}

    def fill(self, name: str, number: int) -> None:
        self.queues[name].clear()  # sqla marks messages as taken, and never removes them
        for _ in range(number):
            self.queues[name].put(BODY)

    def drain(self, name: str, limit: int, drained: Drained) -> None:
        import kombu

        def take(message: Any) -> None:
            message.ack()
            drained.add(1)

        queues = [self.queues[name].queue]
        with (
            kombu.Consumer(self.connection, queues, on_message=take, prefetch_count=limit),
            suppress(TimeoutError),
        ):
            while True:
                self.connection.drain_events(timeout=_IDLE)


KINDS: dict[str, type[Kind]] = {
    "jdbcstore": Ours,
    "pgmq": Pgmq,
    "PgQueuer": PgQueuer,
    "Procrastinate": Procrastinate,
    "awa": Awa,
    "sqla": Kombu,
    "redis": Kombu,
    "rabbitmq": Kombu,
}
_PACKAGES = {
    "jdbcstore": ("jdbcstore.stores.claims", "psycopg"),
    "pgmq": ("psycopg", "pgmq"),
    "PgQueuer": ("psycopg", "pgqueuer.queries", "pgqueuer.db"),
    "Procrastinate": ("psycopg", "procrastinate"),
    "awa": ("awa",),
    "sqla": ("kombu.transport.sqlalchemy", "psycopg"),
    "redis": ("kombu.transport.redis",),
    "rabbitmq": ("kombu.transport.pyamqp",),
}


def _pages(number: int) -> list[int]:
    return [min(_PAGE, number - start) for start in range(0, number, _PAGE)]


def _plain(url: str) -> str:
    return url.replace("+psycopg", "")


def main(kind: str, what: str, url: str, number: str, others: str) -> None:
    logging.disable(logging.WARNING)
    if what == "fill":
        made = KINDS[kind](url)
        made.fill(NAME, int(number))
        made.fill(WARMING, int(others))
        return
    for package in _PACKAGES[kind]:
        import_module(package)  # once for all
    gc.freeze()
    processes = range(int(others))
    done, gates = os.pipe(), [os.pipe(), os.pipe()]
    for _ in processes:
        if not os.fork():
            for _, writing in gates:
                os.close(writing)
            _drain(kind, url, int(number), done[1], [reading for reading, _ in gates])
    for _ in processes:
        os.read(done[0], 1)
    os.close(gates[0][1])  # now all begin
    for _ in processes:
        os.read(done[0], 1)
    _say("ready")
    sys.stdin.readline()
    os.close(gates[1][1])
    for _ in processes:
        os.wait()


def _drain(kind: str, url: str, limit: int, done: int, gates: list[int]) -> None:
    made = KINDS[kind](url)
    os.write(done, b".")
    os.read(gates[0], 1)
    made.drain(WARMING, limit, Drained())
    os.write(done, b".")
    os.read(gates[1], 1)
    drained = Drained()
    made.drain(NAME, limit, drained)
    _say(drained.number, drained.end - drained.begin, drained.used - drained.used_at_begin)
    os._exit(0)


def _say(*words: object) -> None:
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
