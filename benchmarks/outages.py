"""``python -m benchmarks.outages``: what each view shows in an outage, and when, as Markdown.

A row is a second since the beginning of the outage in which a view changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from jdbcstore.broker.condition import BrokerState
from tests.support.broker.outages import (
    NO_ANSWER,
    VIEWS,
    Filling,
    Observed,
    Recording,
    frozen,
    observed,
    on_a_small_disk,
    stopped,
)
from tests.support.servers.alone import database_of, server_of

_SERVERS = ("postgresql", "mariadb")
_AFTERWARDS = 3.0
"""Seconds for which the views are read on after all have agreed."""
Mend = Callable[[], object]
Outage = tuple[str, Observed, Callable[[], Mend | None], str]
"""The title, the broker, what begins the outage, and the state that it leads to."""


@click.command(help=__doc__)
def main() -> None:
    summary = []
    for title, seen, begin, state in _outages():
        with Recording(seen) as recording:
            recording.wait_for(BrokerState.SERVING)
            mend = begin()
            begun = time.monotonic()
            agreed = recording.wait_for(state) - begun
            time.sleep(_AFTERWARDS)
            recovered = None
            if mend is not None:
                begun_to_mend = time.monotonic()
                mend()
                recovered = recording.wait_for(BrokerState.SERVING) - begun_to_mend
        summary.append((title, agreed, recovered))
        _print_table(title, recording, begun)
    click.echo("\n| outage | all views agree after | and show that it ended after |\n|---|---:|---:|")
    for title, agreed, recovered in summary:
        click.echo(f"| {title} | {agreed:.1f} s | {'-' if recovered is None else f'{recovered:.1f} s'} |")


def _print_table(title: str, recording: Recording, begun: float) -> None:
    click.echo(f"\n### {title}\n\n| s | {' | '.join(VIEWS)} |\n|---:|{'---|' * len(VIEWS)}")
    for second, shown in recording.rows(begun):
        click.echo(f"| {second} | {' | '.join(shown[name] for name in VIEWS)} |")


def _outages() -> Iterator[Outage]:
    for vendor in _SERVERS:
        with server_of(vendor) as (server, _), _watched(server.url.render_as_string(False)) as seen:
            yield f"{vendor} is stopped", seen, partial(stopped, server), BrokerState.UNREACHABLE
            yield f"{vendor} is frozen", seen, partial(frozen, server), BrokerState.UNREACHABLE
    with TemporaryDirectory() as folder:
        file = Path(folder) / "mq.db"
        with _watched(f"sqlite:///{file}") as seen:
            yield "the file of SQLite is moved", seen, partial(_moved, file), BrokerState.UNREACHABLE
    for vendor in ("sqlite", *_SERVERS):
        with (
            TemporaryDirectory() as folder,
            on_a_small_disk(vendor, Path(folder)) as (url, options),
            _watched(url, options) as seen,
        ):
            yield f"the disk of {vendor} is full", seen, partial(_filled, seen), BrokerState.READ_ONLY
    for vendor in ("sqlite", *_SERVERS):
        with database_of(vendor) as url, _watched(url) as seen:
            yield f"the broker on {vendor} is killed", seen, seen.process.kill, NO_ANSWER


@contextmanager
def _watched(url: str, options: str = "") -> Iterator[Observed]:
    with TemporaryDirectory() as folder, observed(Path(folder), url, options) as seen:
        yield seen


def _moved(file: Path) -> Mend:
    elsewhere = file.rename(file.with_suffix(".moved"))
    return lambda: elsewhere.rename(file)


def _filled(seen: Observed) -> Mend:
    client = Filling(seen.process.port)
    client.fill()

    def drain() -> None:
        client.connect()
        client.consume("/queue/Q")

    return drain


if __name__ == "__main__":
    main()
