"""``python -m benchmarks.claims``: claims beside other queues, drained by several processes.

Each gets the same number of messages of 200 bytes, which so many processes take and remove, one at a time or
in batches; they take turns in each round. Before the clock starts all processes are connected, and have
drained another queue together, ``--warming`` messages for each: what a new process costs is not measured.
Those in PostgreSQL are on one server, in a database each. ``sqla``, ``redis`` and ``rabbitmq`` are kombu's
own transports, which Celery's workers use: with Redis that keeps nothing on the disk, and RabbitMQ with a
durable queue and persistent messages.

Printed are messages a second, and in brackets the CPU that one takes in microseconds, of the processes and of
the server. There are at least ``--each`` messages for each process. The others' packages come from PyPI into
environments of this benchmark, RabbitMQ from Debian without being installed; Redis must be there
(``.ci/packages redis-server``). What cannot be had is a row with the reason. ``--only jdbcstore`` needs none.

PgQueuer's own tools/benchmark.py, of its source distribution, takes a turn of its own in each round: its
strategy ``drain`` with psycopg has five workers in one process, which take ten at a time and do nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Timer

import click
import psycopg
from sqlalchemy import URL, make_url

from benchmarks import claims_process as process
from benchmarks import cpu
from benchmarks.rabbitmq import RabbitMissing, RabbitMQ
from tests.support import ROOT
from tests.support.kombu import pgmq
from tests.support.kombu.sources import SourceMissing, environment, source
from tests.support.servers import PostgresqlServer, ServerMissing
from tests.support.servers.redis import RedisServer

_PGQUEUER = "1.6.0"
_PACKAGES = {
    "pgmq": (pgmq.PACKAGE,),
    "PgQueuer": (f"pgqueuer[psycopg]=={_PGQUEUER}", "tqdm"),
    "Procrastinate": ("procrastinate==3.10.0",),
    "awa": ("awa-pg==0.6.9",),
    "redis": ("redis",),
}
_MISSING = (SourceMissing, ServerMissing, RabbitMissing)


class Roomy(PostgresqlServer):
    """A server for very many connections, with a database for each that wants one."""

    def _command(self, data: Path) -> Sequence[str]:
        return [*super()._command(data), "-c", "max_connections=800"]

    def database(self, name: str) -> URL:
        """Return the URL of a new one."""
        self.execute_as_administrator(f'CREATE DATABASE "{name}" OWNER {self.username}')
        return self.url.set(database=name)


@dataclass(frozen=True)
class Run:
    """Result of one drain."""

    rate: float
    used: float
    """Microseconds of CPU for a message, of the processes."""
    used_by_server: float


Case = tuple[int, str, int]
"""How many are taken at a time, by what, and by how many processes."""


@dataclass
class Results:
    """What was measured, and why something was not."""

    runs: dict[Case, list[Run]] = field(default_factory=lambda: defaultdict(list))
    failed: dict[Case, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    by_pgqueuer: list[float] = field(default_factory=list)


class Queue:
    """The queue of one kind, filled and drained by processes."""

    def __init__(self, kind: str, python: str, url: str, server: int, patience: float) -> None:
        self.kind = kind
        self.python = python
        self.url = url
        self._server = server
        self._patience = patience

    def _command(self, *arguments: object) -> list[str]:
        return [self.python, "-m", process.__name__, self.kind, *map(str, arguments)]

    def fill(self, number: int, warming: int = 0) -> None:
        """Add messages; PostgreSQL's commits do not wait for the disk, and its statistics are of now."""
        if "postgresql" not in self.url:
            subprocess.run(self._command("fill", self.url, number, warming), check=True, env=_environment())
            return
        url = f"{self.url}?options=-csynchronous_commit%3Doff"
        subprocess.run(self._command("fill", url, number, warming), check=True, env=_environment())
        plain = self.url.removeprefix("sqla+").replace("+psycopg", "")
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    def drain(self, processes: int, limit: int, number: int) -> Run:
        """Take and remove all messages."""
        with self._started(self._command("drain", self.url, limit, processes)) as started:
            before = cpu.seconds(self._server)
            print("", file=started.stdin, flush=True)
            said = [[*map(float, _line(started).split())] for _ in range(processes)]
            used_by_server = cpu.seconds(self._server) - before
        taken = sum(one[0] for one in said)
        if taken != number:
            raise click.ClickException(f"{taken:.0f} of {number} messages were taken")
        micro = 1e6 / number
        return Run(
            number / max(one[1] for one in said), micro * sum(one[2] for one in said), micro * used_by_server
        )

    @contextmanager
    def _started(self, command: list[str]) -> Iterator[subprocess.Popen[str]]:
        pipe = subprocess.PIPE
        started = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=_environment(), start_new_session=True
        )
        patience = Timer(self._patience, os.killpg, (started.pid, signal.SIGKILL))
        patience.start()
        try:
            _line(started)
            yield started
            started.communicate()
        finally:
            patience.cancel()
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.communicate()


def drain_by_pgqueuer(queue: Queue, number: int) -> float:
    """Measure messages a second by PgQueuer's own benchmark."""
    queue.fill(0)  # makes its tables
    url = make_url(queue.url)
    names = ("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
    values = (url.host, url.port, url.username, url.password, url.database)
    own = {f"PG{name}": str(value) for name, value in zip(names, values, strict=True)}
    program = source("pgqueuer", _PGQUEUER) / "tools" / "benchmark.py"
    with TemporaryDirectory() as folder:
        said = Path(folder) / "result.json"
        options = (
            "--strategy",
            "drain",
            "--driver",
            "psy",
            "--jobs",
            str(number),
            "--output-json",
            str(said),
        )
        command = [queue.python, str(program), *options]
        done = subprocess.run(command, env={**_environment(), **own}, capture_output=True, text=True)
        if done.returncode:
            raise click.ClickException(done.stderr[-2000:])
        return float(json.loads(said.read_text())["rate"])


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise click.ClickException("ended early, or was ended because it took too long")
    return line


class Peers:
    """The queues of all kinds, and the servers that they need, started for the first that wants one."""

    def __init__(self, stack: ExitStack, patience: float) -> None:
        self._stack = stack
        self._patience = patience
        self._postgresql: Roomy | None = None
        self._databases = 0

    def queue(self, kind: str) -> Queue:
        """Return an empty one.

        :raises SourceMissing: its packages cannot be installed
        :raises ServerMissing: its server is not installed
        :raises RabbitMissing: RabbitMQ cannot be fetched
        """
        packages = _PACKAGES.get(kind)
        python = str(environment(f"claims-{kind.lower()}", *packages)) if packages else sys.executable
        return Queue(kind, python, *self._server(kind), self._patience)

    def _server(self, kind: str) -> tuple[str, int]:
        if kind == "redis":
            folder = self._stack.enter_context(TemporaryDirectory())
            redis = RedisServer(Path(folder), "--save", "")
            self._stack.callback(redis.close)
            return redis.url(), redis.pid
        if kind == "rabbitmq":
            rabbit = self._stack.enter_context(RabbitMQ())
            return f"amqp://guest:guest@127.0.0.1:{rabbit.port}//", rabbit.pid
        if self._postgresql is None:
            self._postgresql = Roomy()
            self._stack.callback(self._postgresql.close)
        self._databases += 1
        url = self._postgresql.database(f"{kind.lower()}{self._databases}").render_as_string(
            hide_password=False
        )
        assert self._postgresql.pid is not None
        return f"sqla+{url}" if kind == "sqla" else url, self._postgresql.pid


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--messages", default=2000, show_default=True)
@click.option("--each", default=20, show_default=True, help="Messages for each process, at least.")
@click.option("--warming", default=20, show_default=True, help="Messages for each, before the clock starts.")
@click.option("--processes", default=[1, 4, 16, 64, 256], show_default=True, multiple=True)
@click.option("--limit", "limits", default=[1, 10], show_default=True, multiple=True, help="Taken at a time.")
@click.option("--patience", default=120.0, show_default=True, help="Seconds that one may take to drain.")
@click.option("--only", type=click.Choice([*process.KINDS]), multiple=True)
def main(
    rounds: int,
    messages: int,
    each: int,
    warming: int,
    processes: tuple[int, ...],
    limits: tuple[int, ...],
    patience: float,
    only: tuple[str, ...],
) -> None:
    kinds = only or tuple(process.KINDS)
    results = Results()
    with ExitStack() as stack:
        peers, queues = Peers(stack, patience), dict[str, Queue]()
        for kind in kinds:
            try:
                queues[kind] = peers.queue(kind)
            except _MISSING as missing:
                results.missing[kind] = str(missing)
        for _ in range(rounds):
            for case in product(limits, kinds, processes):
                limit, kind, count = case
                if kind not in queues or case in results.failed:
                    continue
                number = max(messages, count * each)
                try:
                    queues[kind].fill(number, count * warming)
                    results.runs[case].append(queues[kind].drain(count, limit, number))
                    said = _cell(results.runs[case][-1:])
                except click.ClickException as failure:
                    said = results.failed[case] = failure.message
                    queues[kind] = peers.queue(kind)  # what is left is in the other
                click.echo(f"{kind}, {count} processes, {limit} at a time: {said}", err=True)
            if "PgQueuer" in queues:
                results.by_pgqueuer.append(drain_by_pgqueuer(queues["PgQueuer"], messages))
    report(kinds, processes, limits, results)
    click.echo(f"\n{rounds} rounds, load {os.getloadavg()[0]:.0f}")
    if results.by_pgqueuer:
        click.echo(f"\nPgQueuer's own benchmark: {median(results.by_pgqueuer):,.0f}")


def report(kinds: Sequence[str], processes: Sequence[int], limits: Sequence[int], results: Results) -> None:
    """Print a table for each number of messages that are taken at a time."""
    for limit in limits:
        click.echo(f"\n{limit} at a time\n\n| | {' | '.join(f'{count} processes' for count in processes)} |")
        click.echo(f"|---|{'---|' * len(processes)}")
        for kind in kinds:
            cases = [(limit, kind, count) for count in processes]
            if kind in results.missing:
                click.echo(f"| {kind} | {results.missing[kind]} |{' |' * (len(processes) - 1)}")
            else:
                cells = [results.failed.get(case) or _cell(results.runs[case]) for case in cases]
                click.echo(f"| {kind} | {' | '.join(cells)} |")


def _cell(runs: list[Run]) -> str:
    rate, used, server = (
        median(values)
        for values in zip(*((one.rate, one.used, one.used_by_server) for one in runs), strict=True)
    )
    return f"{rate:,.0f} ({used:,.0f} + {server:,.0f})"


if __name__ == "__main__":
    main()
