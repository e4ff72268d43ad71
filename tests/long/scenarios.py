"""Scenarios by which queues in PostgreSQL are compared elsewhere: five of chaos, four of pressure.

Each is a phase without disturbance, one under stress, and one without again. Their names and what they do are
those of hardbyte's benchmark of job queues; the times are shorter here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from statistics import mean
from typing import NamedTuple

import click
import psycopg

from tests.support.claims.crowd import Crowd, rates
from tests.support.servers import PostgresqlServer

_IDLE = 300
_READERS = 4
_PERIOD = 5.0
"""Seconds between two kills of a worker, where they are repeated."""
_KILLS = 2
"""Connections that are ended each second."""
_RECOVERED = 0.8
"""The part of the rate without disturbance that is there again afterwards."""


class Scene(NamedTuple):
    """All that takes part in a scenario."""

    crowd: Crowd
    server: PostgresqlServer

    @property
    def url(self) -> str:
        """The database, for psycopg."""
        return self.server.url.set(drivername="postgresql").render_as_string(hide_password=False)


Stress = Callable[[Scene], AbstractContextManager[Callable[[], None]]]
"""Stresses for as long as it is entered; what it returns is called several times a second."""


def _nothing() -> None:
    """Nothing more."""


@contextmanager
def crash_recovery(scene: Scene) -> Iterator[Callable[[], None]]:
    """One of the workers is killed at the beginning, and started again in the end."""
    scene.crowd.kill(scene.crowd.names("worker")[0])
    yield _nothing
    scene.crowd.start("worker")


@contextmanager
def postgres_restart(scene: Scene) -> Iterator[Callable[[], None]]:
    """The server is restarted at the beginning."""
    scene.server.restart()
    yield _nothing


@contextmanager
def repeated_kills(scene: Scene) -> Iterator[Callable[[], None]]:
    """One of the workers is killed again and again, and started at once."""
    due = time.monotonic()

    def kill() -> None:
        nonlocal due
        if time.monotonic() >= due:
            due += _PERIOD
            scene.crowd.kill(scene.crowd.names("worker")[0])
            scene.crowd.start("worker")

    yield kill


@contextmanager
def pg_backend_kill(scene: Scene) -> Iterator[Callable[[], None]]:
    """Two connections a second are ended by the server."""
    due = time.monotonic()

    def kill() -> None:
        nonlocal due
        if time.monotonic() >= due:
            due += 1 / _KILLS
            scene.server.execute_as_administrator(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity"
                f" WHERE usename = '{scene.server.username}' ORDER BY random() LIMIT 1) AS one"
            )

    yield kill


@contextmanager
def pool_exhaustion(scene: Scene) -> Iterator[Callable[[], None]]:
    """300 connections are open, and do nothing."""
    with ExitStack() as idle:
        for _ in range(_IDLE):
            idle.enter_context(psycopg.connect(scene.url))
        yield _nothing


@contextmanager
def idle_in_tx(scene: Scene) -> Iterator[Callable[[], None]]:
    """A transaction is open that has read and written, so that no removed row is cleaned up."""
    with psycopg.connect(scene.url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("CREATE TABLE written (id INTEGER)")
        connection.execute("SELECT count(*) FROM activemq_msgs")
        yield _nothing
        connection.rollback()


@contextmanager
def _producers(scene: Scene, times: int) -> Iterator[Callable[[], None]]:
    """So many times as many messages are added."""
    more = (times - 1) * len(scene.crowd.names("producer"))
    names = [scene.crowd.start("producer") for _ in range(more)]
    yield _nothing
    for name in names:
        scene.crowd.kill(name)


def sustained_high_load(scene: Scene) -> AbstractContextManager[Callable[[], None]]:
    """Twice as many messages are added."""
    return _producers(scene, 2)


def event_burst(scene: Scene) -> AbstractContextManager[Callable[[], None]]:
    """Five times as many messages are added."""
    return _producers(scene, 5)


@contextmanager
def active_readers(scene: Scene) -> Iterator[Callable[[], None]]:
    """Four readers have old snapshots by turns, and count all messages."""
    with ExitStack() as opened:
        readers = [opened.enter_context(psycopg.connect(scene.url)) for _ in range(_READERS)]
        turn = 0

        def read() -> None:
            nonlocal turn
            reader = readers[turn % _READERS]
            reader.rollback()
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM activemq_msgs")
            turn += 1

        yield read


SCENARIOS: Mapping[str, Stress] = {
    one.__name__: one
    for one in (
        crash_recovery,
        postgres_restart,
        repeated_kills,
        pg_backend_kill,
        pool_exhaustion,
        idle_in_tx,
        sustained_high_load,
        active_readers,
        event_burst,
    )
}


def play(scene: Scene, name: str, seconds: float, lease: float) -> list[str]:
    """Print the rates of a scenario as a row of a table; what was wrong."""
    stress = SCENARIOS[name]
    usual = _phase(scene, seconds, _nothing)
    with stress(scene) as act:
        stressed = _phase(scene, seconds, act)
    _phase(scene, lease, _nothing)  # until what a process had that was killed is free
    after = _phase(scene, seconds, _nothing)
    shares = (f"{rate:.0f} ({rate / usual:.0%})" for rate in (stressed, after))
    click.echo(f"| `{name}` | {usual:.0f} | {' | '.join(shares)} |")
    if after >= _RECOVERED * usual:
        return []
    return [f"{name}: {after:.0f} messages a second afterwards, {usual:.0f} before"]


def _phase(scene: Scene, seconds: float, act: Callable[[], None]) -> float:
    """Return the messages removed a second."""
    begin = time.time()
    while time.time() < begin + seconds:
        act()
        scene.crowd.replace_ended()
        time.sleep(0.1)
    return mean(rates(scene.crowd.notes(), begin, time.time()))
