"""``python -m benchmarks.claims``: claims and other queues in PostgreSQL, drained by several processes.

All are on one server, and take turns in each round: each gets the same number of messages of 200 bytes, which
so many processes take and remove, one at a time or in batches. Printed are messages a second, and in brackets
the CPU that one takes in microseconds, of the processes and of the server. There are at least ``--each``
messages for each process. The others' packages come from PyPI into an environment of this benchmark;
``--only jdbcstore`` needs none.

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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from benchmarks import claims_process as process
from benchmarks import cpu
from tests.support import ROOT
from tests.support.kombu import pgmq
from tests.support.kombu.sources import environment, source
from tests.support.servers import PostgresqlServer

_PGQUEUER = "1.6.0"
_PACKAGES = (pgmq.PACKAGE, "procrastinate==3.10.0", f"pgqueuer[psycopg]=={_PGQUEUER}", "tqdm")


class Roomy(PostgresqlServer):
    """A server for very many connections."""

    def _command(self, data: Path) -> Sequence[str]:
        return [*super()._command(data), "-c", "max_connections=800"]


@dataclass(frozen=True)
class Run:
    """Result of one drain."""

    rate: float
    used: float
    """Microseconds of CPU for a message, of the processes."""
    used_by_server: float


Runs = dict[tuple[int, str, int], list[Run]]
"""By how many are taken at a time, by what, and by how many processes."""


class Queues:
    """The queues of a server, filled and drained by processes."""

    def __init__(self, server: PostgresqlServer, python: str) -> None:
        self.url = server.url.render_as_string(hide_password=False)
        self._server = server
        self._python = python

    def _command(self, *arguments: object) -> list[str]:
        return [self._python, "-m", process.__name__, *map(str, arguments)]

    def fill(self, kind: str, number: int) -> None:
        """Add messages; the commits do not wait for the disk."""
        url = f"{self.url}?options=-csynchronous_commit%3Doff"
        subprocess.run(self._command(kind, "fill", url, number), check=True, env=_environment())

    def drain(self, kind: str, processes: int, limit: int, number: int) -> Run:
        """Take and remove all messages."""
        with self._started(self._command(kind, "drain", self.url, limit, processes)) as started:
            before = cpu.seconds(self._server.pid)
            print("", file=started.stdin, flush=True)
            said = [[*map(float, _line(started).split())] for _ in range(processes)]
            used_by_server = cpu.seconds(self._server.pid) - before
        taken = sum(one[0] for one in said)
        if taken != number:
            raise click.ClickException(f"{kind}: {taken:.0f} of {number} messages were taken")
        micro = 1e6 / number
        return Run(
            number / max(one[1] for one in said), micro * sum(one[2] for one in said), micro * used_by_server
        )

    def drain_by_pgqueuer(self, number: int) -> float:
        """Measure messages a second by PgQueuer's own benchmark."""
        self.fill("PgQueuer", 0)  # makes its tables
        url = self._server.url
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
            command = [self._python, str(program), *options]
            done = subprocess.run(command, env={**_environment(), **own}, capture_output=True, text=True)
            if done.returncode:
                raise click.ClickException(done.stderr[-2000:])
            return float(json.loads(said.read_text())["rate"])

    @contextmanager
    def _started(self, command: list[str]) -> Iterator[subprocess.Popen[str]]:
        pipe = subprocess.PIPE
        started = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=_environment(), start_new_session=True
        )
        try:
            _line(started)
            yield started
            started.communicate()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.communicate()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise click.ClickException("a process ended early; what it said is above")
    return line


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--messages", default=2000, show_default=True)
@click.option("--each", default=20, show_default=True, help="Messages for each process, at least.")
@click.option("--processes", default=[1, 4, 16, 64, 256], show_default=True, multiple=True)
@click.option("--limit", "limits", default=[1, 10], show_default=True, multiple=True, help="Taken at a time.")
@click.option("--only", type=click.Choice([*process.KINDS]), multiple=True)
def main(
    rounds: int,
    messages: int,
    each: int,
    processes: tuple[int, ...],
    limits: tuple[int, ...],
    only: tuple[str, ...],
) -> None:
    kinds = only or tuple(process.KINDS)
    alone = kinds == ("jdbcstore",)
    python = sys.executable if alone else str(environment("claims-environment", *_PACKAGES))
    server = Roomy()
    runs: Runs = defaultdict(list)
    by_pgqueuer: list[float] = []
    try:
        queues = Queues(server, python)
        for _ in range(rounds):
            for limit, count, kind in product(limits, processes, kinds):
                if limit == 1 or kind not in process.SINGLY:
                    number = max(messages, count * each)
                    queues.fill(kind, number)
                    runs[limit, kind, count].append(queues.drain(kind, count, limit, number))
            if "PgQueuer" in kinds:
                by_pgqueuer.append(queues.drain_by_pgqueuer(messages))
    finally:
        server.close()
    report(kinds, processes, limits, runs)
    click.echo(f"\n{rounds} rounds, load {os.getloadavg()[0]:.0f}")
    if by_pgqueuer:
        click.echo(f"\nPgQueuer's own benchmark: {median(by_pgqueuer):,.0f}")


def report(kinds: Sequence[str], processes: Sequence[int], limits: Sequence[int], runs: Runs) -> None:
    """Print a table for each number of messages that are taken at a time."""
    for limit in limits:
        click.echo(f"\n{limit} at a time\n\n| | {' | '.join(f'{count} processes' for count in processes)} |")
        click.echo(f"|---|{'---|' * len(processes)}")
        for kind in kinds:
            if found := [runs[limit, kind, count] for count in processes if runs[limit, kind, count]]:
                click.echo(f"| {kind} | {' | '.join(map(_cell, found))} |")


def _cell(runs: list[Run]) -> str:
    rate, used, server = (
        median(values)
        for values in zip(*((one.rate, one.used, one.used_by_server) for one in runs), strict=True)
    )
    return f"{rate:,.0f} ({used:,.0f} + {server:,.0f})"


if __name__ == "__main__":
    main()
