"""``python -m tests.long.claims``: claims on PostgreSQL, while everything that takes part is killed.

Producers add messages at a steady rate, and workers remove them. After a time without disturbance there is
one phase each of these: workers are killed, producers are killed, the database is restarted, it crashes,
backends are terminated, and 300 connections do nothing. In the end no message may be lost, none may have been
taken twice but what something that was killed had taken, and after each phase the rate is back within the
lease and five seconds.

With ``--scenario`` there is one phase of that kind instead, or with ``all`` nine of them, between two without
disturbance: their rows are Markdown.

With ``--celery`` the messages are tasks, sent by processes and by Celery's beat, which is killed in a phase
of its own, and run by workers that acknowledge them late. The others' transports, ``sqla`` and ``pgmq``, are
put to the same; processes that end by themselves are started again, and count as wrong.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

import click
import psycopg

from jdbcstore.stores.claims import Claims
from jdbcstore.testing.polling import wait_until
from tests.long.scenarios import SCENARIOS, Scene, play
from tests.support.claims.crowd import Crowd, rates, verdict
from tests.support.kombu import pgmq
from tests.support.kombu.sources import environment
from tests.support.servers import PostgresqlServer

_IDLE = 300
_GRACE = 5.0
_BACK = 0.8
_STILL = 60.0
_PATIENCE = 600.0
"""Seconds for what has no limit of its own."""


class Crowded(PostgresqlServer):
    """A server for very many connections."""

    def _command(self, data: Path) -> Sequence[str]:
        return [*super()._command(data), "-c", "max_connections=600"]


class Queue:
    """The queue of a crowd: that of claims."""

    _count = "SELECT count(*) FROM activemq_msgs WHERE container = 'queue://ORDERS'"

    def __init__(self, server: PostgresqlServer) -> None:
        self.url = server.url.render_as_string(hide_password=False)
        self.python = sys.executable
        self._plain = server.url.set(drivername="postgresql").render_as_string(hide_password=False)
        Claims(self.url).close()

    def left(self) -> int:
        """The number of messages."""
        with psycopg.connect(self._plain) as connection:
            [number] = connection.execute(self._count).fetchone() or (0,)
        return int(number)


class OfTasks(Queue):
    """That of Celery with this project's transport."""

    _count = "SELECT count(*) FROM activemq_msgs WHERE container = 'queue://orders'"

    def __init__(self, server: PostgresqlServer) -> None:
        super().__init__(server)
        self.url = f"jdbcstore+{self.url}"


class OfSqla(Queue):
    """That of Celery with kombu's transport for SQLAlchemy, which marks messages as taken, and keeps them."""

    _count = "SELECT count(*) FROM kombu_message WHERE visible"

    def __init__(self, server: PostgresqlServer) -> None:
        super().__init__(server)
        self.url = f"sqla+{self.url}"


class OfPgmq(Queue):
    """That of Celery with kombu's transport for pgmq."""

    _count = "SELECT count(*) FROM pgmq.q_orders"

    def __init__(self, server: PostgresqlServer) -> None:
        super().__init__(server)
        self.url = self._plain.replace("postgresql", "pgmq", 1)
        python = environment("pgmq-environment", pgmq.PACKAGE)
        pgmq.install(python, self._plain)
        self.python = str(python)


BROKERS: dict[str, type[Queue]] = {"jdbcstore": OfTasks, "sqla": OfSqla, "pgmq": OfPgmq}


class Faults:
    """What is done to a crowd and its server, once a second."""

    def __init__(self, crowd: Crowd, server: PostgresqlServer, seed: int) -> None:
        self._crowd = crowd
        self._server = server
        self._random = random.Random(seed)
        self.crashes: list[tuple[float, float]] = []
        """From when to when the database was down, because it was killed."""

    def none(self) -> None:
        """Nothing."""

    def _replace(self, kind: str) -> None:
        self._crowd.kill(self._random.choice(self._crowd.names(kind)))
        self._crowd.start(kind)

    def kill_a_worker(self) -> None:
        """A worker is killed every third second, and another is started."""
        if self._random.random() < 1 / 3:
            self._replace("worker")

    def kill_a_producer(self) -> None:
        """A producer is killed every third second, and another is started."""
        if self._random.random() < 1 / 3:
            self._replace("producer")

    def kill_beat(self) -> None:
        """Celery's beat is killed every third second, and another is started."""
        if self._random.random() < 1 / 3:
            self._replace("beat")

    def restart(self) -> None:
        """The database is restarted every tenth second."""
        if self._random.random() < 1 / 10:
            self._server.restart()

    def crash(self) -> None:
        """The database is killed every tenth second."""
        if self._random.random() < 1 / 10:
            down = time.time()
            self._server.kill()
            self._server.start()
            self.crashes.append((down, time.time()))

    def terminate(self) -> None:
        """A backend is terminated every second."""
        self._server.execute_as_administrator(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity"
            f" WHERE usename = '{self._server.username}' ORDER BY random() LIMIT 1) AS one"
        )


@click.command(help=__doc__)
@click.option("--seconds", default=60.0, show_default=True, help="For each phase.")
@click.option("--rate", default=300.0, show_default=True, help="Messages a second, of all producers.")
@click.option("--workers", default=4, show_default=True)
@click.option("--producers", default=2, show_default=True)
@click.option("--lease", default=10.0, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option("--scenario", type=click.Choice([*SCENARIOS, "all"]), multiple=True)
@click.option("--celery", "broker", type=click.Choice([*BROKERS]), help="Tasks of Celery, with this broker.")
def main(
    seconds: float,
    rate: float,
    workers: int,
    producers: int,
    lease: float,
    seed: int | None,
    scenario: tuple[str, ...],
    broker: str | None,
) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        server = Crowded()
        opened.callback(server.close)
        queue = Queue(server) if broker is None else BROKERS[broker](server)
        crowd = opened.enter_context(Crowd(queue.url, folder, lease, rate / producers, queue.python))
        members = {"worker": workers, "producer": producers, "beat": int(broker is not None)}
        for kind, number in members.items():
            for _ in range(number):
                crowd.start(kind)
        everybody = sum(members.values())
        wait_until(lambda: len(ready(crowd)) == everybody, _PATIENCE, "that all are ready")
        wait_until(lambda: all_work(crowd), _PATIENCE, "that all work")
        if scenario:
            click.echo("| scenario | before, messages/s | under stress | afterwards |\n|---|---|---|---|")
        wrong = []
        for name in SCENARIOS if "all" in scenario else scenario:
            wrong += play(Scene(crowd, server), name, seconds, lease)
        faults = Faults(crowd, server, seed)
        if not scenario:
            wrong = phases(crowd, faults, server, seconds, lease)
        for name in [*crowd.names("producer"), *crowd.names("beat")]:
            crowd.kill(name)
        wrong += drain(crowd, queue)
        found = verdict(crowd.notes(), crowd.killed, faults.crashes)
    click.echo(f"{found.added} messages added, {found.taken} taken; taken again: {dict(found.reruns)}")
    wrong += crowd.replaced
    wrong += found.wrong
    for one in wrong[:30]:
        click.echo(f"WRONG: {one}")
    lost = sum(one.startswith("lost") for one in found.wrong)
    click.echo(
        f"{len(wrong)} wrong: {lost} lost, {len(found.wrong) - lost} taken twice, {len(crowd.replaced)} ended"
    )
    sys.exit(1 if wrong else 0)


def drain(crowd: Crowd, queue: Queue) -> list[str]:
    """Wait until the queue is empty; what was wrong.

    Workers that are alive and take no more are replaced once.
    """
    wrong: list[str] = []

    def is_empty() -> bool:
        crowd.replace_ended()
        return queue.left() == 0

    def stands_still() -> bool:
        since = time.time() - _STILL
        return not any(note.at >= since for note in crowd.notes() if note.what == "taken")

    begin = time.monotonic()
    while not is_empty():
        time.sleep(1.0)
        if time.monotonic() < begin + _STILL or not stands_still():
            continue
        if wrong:
            return [*wrong, f"{queue.left()} messages are left, and may be among those that are called lost"]
        begin = time.monotonic()
        wrong.append(f"the workers live and take none of {queue.left()} messages")
        for name in crowd.names("worker"):
            crowd.kill(name)
            crowd.start("worker")
    return wrong


def ready(crowd: Crowd) -> list[str]:
    return [note.body for note in crowd.notes() if note.what == "ready"]


def all_work(crowd: Crowd) -> bool:
    """Whether every worker has taken something; those that end meanwhile are replaced."""
    crowd.replace_ended()
    return {*crowd.names("worker")} <= {note.process for note in crowd.notes() if note.what == "taken"}


def phases(crowd: Crowd, faults: Faults, server: PostgresqlServer, seconds: float, lease: float) -> list[str]:
    """Print the rate in each phase, and how soon it was back; what was too late."""
    wrong: list[str] = []
    usual = phase("nothing", faults.none, crowd, seconds, lease, None, wrong)
    usual = min(usual, crowd.rate * len(crowd.names("producer")))  # more were waiting at the beginning
    named = {
        "workers killed": faults.kill_a_worker,
        "producers killed": faults.kill_a_producer,
        "beat killed": faults.kill_beat,
        "restarts": faults.restart,
        "crashes": faults.crash,
        "backends terminated": faults.terminate,
    }
    if not crowd.names("beat"):
        del named["beat killed"]
    for name, fault in named.items():
        phase(name, fault, crowd, seconds, lease, usual, wrong)
    with ExitStack() as idle:
        plain = server.url.set(drivername="postgresql").render_as_string(hide_password=False)
        for _ in range(_IDLE):
            idle.enter_context(psycopg.connect(plain))
        phase(f"{_IDLE} idle connections", faults.none, crowd, seconds, lease, usual, wrong)
    return wrong


def phase(
    name: str,
    fault: Callable[[], None],
    crowd: Crowd,
    seconds: float,
    lease: float,
    usual: float | None,
    wrong: list[str],
) -> float:
    """One phase, and the time afterwards in which the rate has to be back; the rate in the phase."""
    begin = time.time()
    while time.time() < begin + seconds:
        fault()
        crowd.replace_ended()
        time.sleep(1.0)
    end = time.time()
    if usual is None:
        rate = mean(rates(crowd.notes(), begin, end))
        click.echo(f"{name}: {rate:.0f} messages a second")
        return rate
    over = time.monotonic() + lease + _GRACE + 1.0
    while time.monotonic() < over:
        crowd.replace_ended()
        time.sleep(0.5)
    notes = crowd.notes()
    rate, after = mean(rates(notes, begin, end)), rates(notes, end, end + lease + _GRACE)
    back = next((second for second, one in enumerate(after, 1) if one >= _BACK * usual), None)
    click.echo(f"{name}: {rate:.0f} messages a second; back after {back} s")
    if back is None:
        wrong.append(f"{name}: {after} messages a second afterwards, {usual:.0f} before")
    return rate


if __name__ == "__main__":
    main()
