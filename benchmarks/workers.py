"""``python -m benchmarks.workers``: Celery's own benchmark of one worker, on several brokers in turns.

It is t/benchmarks/bench_worker.py of Celery's source distribution, without ``no_ack``, so that messages are
acknowledged. It sends tasks that do nothing, and runs them in a solo worker with an unlimited prefetch count.
Printed are tasks a second, sent and run. The SQL brokers are on one PostgreSQL server, each in a database of
its own; ``sqla`` and ``pgmq`` are kombu's own transports.

The tasks are transient, for which the commits of jdbcstore do not wait for the disk, and Redis keeps nothing
on it. With ``jdbcstore, durable`` they are durable; ``redis, fsync`` appends to a file, and waits for the
disk before it answers; the other SQL brokers know no transient tasks.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from statistics import median

import click

from tests.support import ROOT
from tests.support.kombu import pgmq
from tests.support.kombu.sources import REGISTERED, environment, source
from tests.support.servers import PostgresqlServer
from tests.support.servers.redis import RedisServer

_NAMES = ("jdbcstore", "jdbcstore, durable", "sqla", "pgmq", "redis", "redis, fsync")
_SENT = re.compile(r"-- apply (\d+) tasks: ([\d.]+)s")
_RUN = re.compile(r"-- process (\d+) tasks: ([\d.]+)s total")


@click.command(help=__doc__)
@click.option("--only", type=click.Choice(_NAMES), multiple=True)
@click.option("--tasks", default=5000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(only: tuple[str, ...], tasks: int, rounds: int) -> None:
    names = only or _NAMES
    python = environment("workers-environment", "redis", pgmq.PACKAGE)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        server = PostgresqlServer()
        opened.callback(server.close)

        def database(name: str, scheme: str) -> str:
            server.execute_as_administrator(f"CREATE DATABASE {name} OWNER {server.username}")
            url = server.url.set(database=name, drivername=scheme)
            return url.render_as_string(hide_password=False)

        def redis(name: str, *options: str) -> str:
            (folder / name).mkdir()
            one = RedisServer(folder / name, "--save", "", *options)
            opened.callback(one.close)
            return one.url()

        brokers = {
            "jdbcstore": database("transient", "jdbcstore+postgresql+psycopg"),
            "jdbcstore, durable": database("durable", "jdbcstore+postgresql+psycopg"),
            "sqla": database("sqla", "sqla+postgresql+psycopg"),
            "pgmq": database("pgmq", "pgmq"),
            "redis": redis("memory"),
            "redis, fsync": redis("fsync", "--appendonly", "yes", "--appendfsync", "always"),
        }
        pgmq.install(python, brokers["pgmq"].replace("pgmq", "postgresql", 1))
        programs = {name: program(folder, name) for name in brokers}
        for _ in range(rounds):
            for name in names:
                found[name].append(measured(python, programs[name], brokers[name], tasks))
                click.echo(f"{name}: {found[name][-1]}", err=True)
    click.echo("| broker | tasks sent/s | tasks run/s |\n|---|---|---|")
    for name in names:
        sent, run = (median(one) for one in zip(*found[name], strict=True))
        click.echo(f"| {name} | {sent:,.0f} | {run:,.0f} |")


def program(folder: Path, name: str) -> Path:
    """Write the benchmark for one of the brokers, with acknowledgements."""
    text = (source("celery", version("celery")) / "t" / "benchmarks" / "bench_worker.py").read_text()
    changes = {"'no_ack': True,": ""}
    if name == "jdbcstore, durable":
        changes["task_default_delivery_mode=1,"] = "task_default_delivery_mode=2,"
    if name == "pgmq":
        own = "broker_transport_options={'init_extension': False},"  # its functions are no extension here
        changes["result_backend=None,"] = f"result_backend=None, {own}"
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = folder / f"bench_worker {name}.py"
    path.write_text(text)
    return path


def measured(python: Path, program: Path, broker: str, tasks: int) -> tuple[float, float]:
    """Measure tasks a second, sent and run."""
    path = os.pathsep.join((str(REGISTERED), str(ROOT)))
    given = {**os.environ, "BROKER": broker, "PYTHONPATH": path}

    def rate(what: str, pattern: re.Pattern[str]) -> float:
        command = [str(python), str(program), what, str(tasks)]
        done = subprocess.run(command, env=given, capture_output=True, text=True)
        said = pattern.search(done.stdout)
        if said is None:
            raise click.ClickException(f"{broker.partition(':')[0]}: {done.stdout}{done.stderr[-2000:]}")
        return int(said[1]) / float(said[2])

    return rate("apply", _SENT), rate("work", _RUN)


if __name__ == "__main__":
    main()
