"""``python -m benchmarks.workers``: Celery's own benchmark of one worker, on several brokers in turns.

It is t/benchmarks/bench_worker.py of Celery's source distribution, without ``no_ack``, so that messages are
acknowledged. It sends tasks that do nothing, and runs them in a solo worker with an unlimited prefetch count.
Printed are tasks a second, sent and run. The two SQL brokers are on one PostgreSQL server, each in a database
of its own; ``sqla`` is kombu's own transport, and Redis keeps nothing on the disk.
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
from tests.support.kombu.sources import REGISTERED, environment, source
from tests.support.servers import PostgresqlServer
from tests.support.servers.redis import RedisServer

_NAMES = ("jdbcstore", "sqla", "redis")
_SENT = re.compile(r"-- apply (\d+) tasks: ([\d.]+)s")
_RUN = re.compile(r"-- process (\d+) tasks: ([\d.]+)s total")


@click.command(help=__doc__)
@click.option("--only", type=click.Choice(_NAMES), multiple=True)
@click.option("--tasks", default=5000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(only: tuple[str, ...], tasks: int, rounds: int) -> None:
    names = only or _NAMES
    python = environment("workers-environment", "redis")
    text = (source("celery", version("celery")) / "t" / "benchmarks" / "bench_worker.py").read_text()
    assert text.count("'no_ack': True,") == 1
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        program = folder / "bench_worker.py"
        program.write_text(text.replace("'no_ack': True,", ""))
        server = PostgresqlServer()
        opened.callback(server.close)
        redis = RedisServer(folder, "--save", "")
        opened.callback(redis.close)
        server.execute_as_administrator(f"CREATE DATABASE sqla OWNER {server.username}")
        brokers = {
            "jdbcstore": f"jdbcstore+{server.url.render_as_string(hide_password=False)}",
            "sqla": f"sqla+{server.url.set(database='sqla').render_as_string(hide_password=False)}",
            "redis": redis.url(),
        }
        for _ in range(rounds):
            for name in names:
                found[name].append(measured(python, program, brokers[name], tasks))
                click.echo(f"{name}: {found[name][-1]}", err=True)
    click.echo("| broker | tasks sent/s | tasks run/s |\n|---|---|---|")
    for name in names:
        sent, run = (median(one) for one in zip(*found[name], strict=True))
        click.echo(f"| {name} | {sent:,.0f} | {run:,.0f} |")


def measured(python: Path, program: Path, broker: str, tasks: int) -> tuple[float, float]:
    """Tasks a second, sent and run."""
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
