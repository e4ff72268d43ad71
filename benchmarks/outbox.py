"""``python -m benchmarks.outbox``: the rate and the latency of inserted messages, as a Markdown table.

A table of rows is inserted, and moved by a process that claims and by a broker, on each database. Then rows
are inserted one by one, and the time from each commit to its claim, or its delivery, is measured. Beside it
are joined sends, and on PostgreSQL pgmq's: as many messages, one by one, in transactions of 500.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import click
from sqlalchemy import Engine as Connector
from sqlalchemy import NullPool, create_engine

from benchmarks import cpu
from benchmarks.fence import databases
from benchmarks.ours import BODY
from jdbcstore import JdbcStore, Message, StoreConfig
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.options import EngineOptions
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.lockers import make_locker
from jdbcstore.message.dead_letters import DEAD_LETTERS
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.claims.outbox import OutboxMover
from tests.support.broker.consuming import consume
from tests.support.kombu import pgmq
from tests.support.kombu.sources import SourceMissing, environment

_PAGE, _TIMES = 500, 50
_INSERT = "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, BODY) VALUES ('BENCHMARK', '{}')"
_LEASE = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=60.0)
"""Longer than a busy machine may delay a renewal."""
_CONFIG = StoreConfig(cleanup_period=0.0, outbox=True)
_PLAIN = StoreConfig(cleanup_period=0.0)


def _measured(name: str, count: int, work: Callable[[], None]) -> str:
    before, began = cpu.seconds(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    used = (cpu.seconds() - before) / count * 1e6
    return f"{name} | {count / seconds:,.0f} | {used:.0f} µs"


def _fill(connector: Connector, count: int, statement: str = _INSERT) -> None:
    """Run a statement for each message in large transactions."""
    text = BODY if isinstance(BODY, str) else "x" * len(BODY)
    with connector.connect() as connection:
        for _ in range(count // _PAGE):
            for _ in range(_PAGE):
                connection.exec_driver_sql(statement.format(text))
            connection.commit()


def _by_pgmq(url: str, connector: Connector, count: int) -> str:
    name = "pgmq's send"
    try:
        python = environment("benchmark-pgmq", pgmq.PACKAGE)
    except SourceMissing as missing:
        return f"{name} | {missing} |"
    pgmq.install(python, url.replace("+psycopg", ""))
    with connector.begin() as connection:
        connection.exec_driver_sql("SELECT pgmq.create('benchmark')")
    send = "SELECT pgmq.send('benchmark', '{{\"body\": \"{}\"}}')"
    return _measured(name, count, lambda: _fill(connector, count, send))


def _moved(url: str, connector: Connector, count: int) -> list[str]:
    with Claims(url, _PLAIN) as claims:
        mover = OutboxMover(claims.database, claims.queue, DEAD_LETTERS)
        inserted = _measured("inserted rows", count, lambda: _fill(connector, count))

        def move() -> None:
            while mover.move():
                pass

        return [inserted, _measured("moved by a process that claims", count, move)]


def _joined(url: str, connector: Connector, count: int) -> str:
    def add() -> None:
        for _ in range(count // _PAGE):
            with connector.begin() as connection:
                claims.join(connection).add("BENCHMARK", *(Message(BODY) for _ in range(_PAGE)))

    with Claims(url, _PLAIN) as claims:
        return _measured("joined sends", count, add)


def _claimed(url: str, connector: Connector) -> float:
    """Return the median seconds from a commit to the claim."""
    times: list[float] = []
    with Claims(url, _CONFIG) as claims, connector.connect() as connection:
        queue = claims.queue("BENCHMARK")
        queue.purge()
        for _ in range(_TIMES):
            connection.exec_driver_sql(_INSERT.format("x"))
            connection.commit()
            began = time.perf_counter()
            queue.acknowledge(*queue.claim(wait=60.0))
            times.append(time.perf_counter() - began)
    return median(times)


async def _sent(url: str, connector: Connector, count: int) -> tuple[str, float]:
    """Return the row of a broker, and the median seconds from a commit to the delivery."""
    locker = make_locker(_LEASE, "benchmark")
    store = await asyncio.to_thread(partial(JdbcStore, url, _CONFIG, locker=locker))
    await asyncio.to_thread(_fill, connector, count)
    engine = Engine(store, options=EngineOptions())
    before, began = cpu.seconds(), time.perf_counter()
    await engine.start()
    recorder = await consume(engine, "OTHER")
    sender = engine.inserted
    while sender is not None and sender.moved < count:
        store.check()
        await asyncio.sleep(0.005)
    seconds, used = time.perf_counter() - began, cpu.seconds() - before
    row = f"sent by a broker | {count / seconds:,.0f} | {used / count * 1e6:.0f} µs"
    times: list[float] = []
    with connector.connect() as connection:
        for number in range(_TIMES):
            connection.exec_driver_sql(_INSERT.format("x").replace("BENCHMARK", "OTHER"))
            connection.commit()
            begun = time.perf_counter()
            await recorder.got(number + 1)
            times.append(time.perf_counter() - begun)
    await engine.stop()
    await asyncio.to_thread(store.close)
    return row, median(times)


@click.command(help=__doc__)
@click.option("--count", default=20_000, show_default=True, help="Rows.")
def main(count: int) -> None:
    click.echo("| | | messages per second | CPU of a message |\n|---|---|---|---|")
    for name, opened in databases():
        with opened() as url:
            connector = create_engine(url, poolclass=NullPool)
            rows = [_joined(url, connector, count)]
            if name == "PostgreSQL":
                rows.append(_by_pgmq(url, connector, count))
            for each in rows + _moved(url, connector, count):
                click.echo(f"| {name} | {each} |")
            claimed = _claimed(url, connector)
            row, delivered = asyncio.run(_sent(url, connector, count))
            click.echo(f"| {name} | {row} |")
            click.echo(
                f"\n{name}: {claimed * 1000:.0f} ms to the claim, {delivered * 1000:.0f} ms to delivery\n"
            )
            connector.dispose()


if __name__ == "__main__":
    main()
