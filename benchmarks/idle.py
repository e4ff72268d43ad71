"""``python -m benchmarks.idle``: how soon an idle Celery worker begins a task, and how often it asks.

A worker with a pool of one process gets single tasks, each after a pause in which nothing happens. Then it
gets none, and the statements that reach the database in that time are counted: by pg_stat_statements on
PostgreSQL, and by the status variable Questions on MariaDB. SQLite has no such count.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from sqlalchemy import create_engine

from jdbcstore.testing.polling import wait_until
from tests.support.kombu.smoke import client, worker
from tests.support.servers import MariadbServer, PostgresqlServer

_LEASE = 30.0
_NAMES = ("postgresql", "mariadb", "sqlite")
_CONFIGURATION = {"broker_transport_options": {"lease": _LEASE}, "task_ignore_result": True}


class Counting(PostgresqlServer):
    """A server that counts statements."""

    def _command(self, data: Path) -> list[str]:
        return [*super()._command(data), "-c", "shared_preload_libraries=pg_stat_statements"]


@contextmanager
def database(name: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield a database's URL, and its server if that counts statements."""
    if name == "sqlite":
        yield f"sqlite:///{folder}/mq.db", None
        return
    server = Counting() if name == "postgresql" else MariadbServer()
    try:
        if name == "postgresql":
            server.execute_as_administrator("CREATE EXTENSION pg_stat_statements")
        url = server.url.render_as_string(hide_password=False)
        yield url, lambda: statements(server)
    finally:
        server.close()


def statements(server: Any) -> dict[str, int]:
    """Return how often each statement was run."""
    engine = create_engine(server.administrator_url)
    with engine.connect() as connection:
        if isinstance(server, PostgresqlServer):
            found = connection.exec_driver_sql(
                "SELECT query, sum(calls) FROM pg_stat_statements"
                f" WHERE userid = '{server.username}'::regrole GROUP BY query"
            )
            return {query: int(calls) for query, calls in found}
        [(_, count)] = connection.exec_driver_sql("SHOW GLOBAL STATUS LIKE 'Questions'")
        return {"all": int(count)}


@click.command(help=__doc__)
@click.option("--only", type=click.Choice(_NAMES), multiple=True)
@click.option("--tasks", default=100, show_default=True)
@click.option("--seconds", default=30.0, show_default=True, help="Without tasks.")
@click.option("--show", is_flag=True, help="The statements that were counted.")
def main(only: tuple[str, ...], tasks: int, seconds: float, show: bool) -> None:
    click.echo("| | begun p50 (ms) | p95 | p99 | statements/s, idle | of these claims |")
    click.echo("|---|---|---|---|---|---|")
    for name in only or _NAMES:
        with ExitStack() as opened:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            url, count = opened.enter_context(database(name, folder))
            app = opened.enter_context(client(url, **_CONFIGURATION))
            opened.enter_context(worker(url, folder / "worker.log", configuration=_CONFIGURATION))
            times = sorted(latencies(app, folder / "begun", tasks))
            figures = [f"{1000 * times[int(share * (len(times) - 1))]:.0f}" for share in (0.5, 0.95, 0.99)]
            asked = idle(count, seconds, show) if count else ["", ""]
            click.echo(f"| {name} | {' | '.join([*figures, *asked])} |")


def latencies(app: Any, path: Path, tasks: int) -> Iterator[float]:
    """Yield seconds from each call that sends a task to its first statement."""
    path.touch()
    for number in range(tasks + 5):
        time.sleep(random.uniform(0.3, 1.3))
        sent = time.time()
        app.send_task("note", [str(path)])
        wait_until(lambda: path.read_text().count("\n") > number, 600.0, "that the task has run")  # noqa: B023
        if number >= 5:
            yield float(path.read_text().split()[number]) - sent


def idle(count: Any, seconds: float, show: bool) -> list[str]:
    """Measure statements a second, and those of them that look for messages."""
    time.sleep(10.0)
    before = count()
    begin = time.monotonic()
    time.sleep(seconds)
    after = count()
    took = time.monotonic() - begin
    new = {query: calls - before.get(query, 0) for query, calls in after.items()}
    if show:
        for query, calls in sorted(new.items(), key=lambda one: -one[1]):
            if calls:
                click.echo(f"{calls}: {' '.join(query.split())[:150]}", err=True)
    looks = sum(calls for query, calls in new.items() if "skip locked" in query.lower())
    return [f"{sum(new.values()) / took:.2f}", f"{looks / took:.2f}" if looks else ""]


if __name__ == "__main__":
    main()
