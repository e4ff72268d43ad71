"""``python -m benchmarks.peers``: our broker beside ActiveMQ, Artemis, RabbitMQ and the database itself.

All run all the time, with real-time priority where it is allowed, and take turns in each row of each round,
after 50,000 messages to each broker and a round that is not counted: ours, ActiveMQ and Artemis with their
JDBC stores on separate databases of one server, RabbitMQ with a durable queue of its own, our library without
a broker, and on PostgreSQL pgbench and COPY. Java has its own options.
STOMP is spoken by :mod:`benchmarks.stomp_client`, OpenWire by ``OpenWireLoad.java``. Prints as Markdown the
messages a second, the CPU of the broker, and the memory that a broker takes with a backlog.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks import cpu, library, openwire, stomp
from benchmarks.figures import Figures
from benchmarks.library import OURS
from benchmarks.rabbitmq import RabbitMissing, RabbitMQ
from jdbcstore import __version__
from tests.support.databases import Database
from tests.support.interop.activemq import NUMBER, PeerMissing
from tests.support.interop.artemis import Artemis, ArtemisMissing
from tests.support.servers.alone import SERVERS, server_of

_STOMP = {
    "send-1": "STOMP, SEND with receipt, 1 connection",
    "send-4": "… 4 connections",
    "send-16": "… 16 connections",
    "transactions": "… transactions of 100, 1 connection",
    "drain-auto": "STOMP, consume, `ack:auto`",
    "drain-client": "… `ack:client`, an ACK for each",
    "drain-transacted": "… transactions of 100 ACKs",
}
_OPENWIRE = {
    "send-1": "OpenWire, persistent sends, 1 producer",
    "send-4": "… 4 producers",
    "send-16": "… 16 producers",
    "send-64": "… 64 producers",
    "transactions": "… transactions of 100, 1 producer",
    "drain-transacted": "OpenWire, consume, transactions of 100",
}
_WARM_UP = 50_000
"""Messages before the first round; Java needs them."""
_ACTIVEMQ = f"ActiveMQ {'.'.join(map(str, NUMBER))}"


@dataclass(frozen=True)
class Peer:
    """A running broker."""

    name: str
    stomp: stomp.Broker
    openwire: openwire.Broker | None = None
    confirms_by_commit: bool = True
    """Whether the receipt of a COMMIT says that the messages are stored; RabbitMQ's SENDs have their own."""


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--seconds", default=1.0, show_default=True, help="Of each measurement.")
@click.option(
    "--backlog", default=50_000, show_default=True, help="Messages of which the memory is measured."
)
@click.option("--only", multiple=True, help="jdbcstore, ActiveMQ, Artemis or RabbitMQ; all by default.")
@click.option("--database", type=click.Choice(SERVERS), default="postgresql", show_default=True)
@click.option(
    "--json", "results", type=click.Path(path_type=Path), help="Also write the figures into this result file."
)
def main(
    rounds: int, seconds: float, backlog: int, only: Sequence[str], database: str, results: Path | None
) -> None:
    begin, loads = time.monotonic(), [_load()]
    with ExitStack() as stack:
        server, make = stack.enter_context(server_of(database))
        peers = list(_peers(stack, make, only))
        rows = stack.enter_context(library.opened(server, make))
        priority = "real-time" if cpu.realtime() else "ordinary"
        for peer in peers:
            peer.stomp.warm_up(_WARM_UP)
        figures = Figures()
        for number in range(rounds + 1):
            if number == 1:  # the first round was a warm-up
                figures = Figures()
            long = seconds if number else seconds / 2
            for work in _STOMP:
                for peer in peers:
                    _measure_stomp(peer, work, long, figures)
            for work in _OPENWIRE:
                for peer in peers:
                    _measure_openwire(peer, work, long, figures)
            rows.measure(long, figures)
            loads.append(_load())
            click.echo(f"round {number} of {rounds}, load {loads[-1]}", err=True)
        _print(figures, [peer.name for peer in peers])
        library.print_rows(figures, _OPENWIRE)
        if results is not None:
            _store(figures, loads, database, results)
        _print_memory(peers, backlog)
    before, _, *after = map(str, loads)
    took = f"{time.monotonic() - begin:.0f} s in all"
    click.echo(f"\n{rounds} rounds of {seconds} s each, with {priority} priority, {took}.")
    click.echo(f"Load before the run: {before}; after each round, with its own: {', '.join(after)}.")


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def _peers(stack: ExitStack, make: Callable[[], Database], only: Sequence[str]) -> Iterator[Peer]:
    """Start those that can be had here; name the others."""
    load = stack.enter_context(openwire.Load())
    starts: Mapping[str, Callable[[], Peer]] = {
        OURS: lambda: _both(f"{OURS} {__version__}", stack.enter_context(openwire.run_ours(make, load))),
        "ActiveMQ": lambda: _both(_ACTIVEMQ, stack.enter_context(openwire.run_activemq(make, load))),
        "Artemis": lambda: stack.enter_context(_artemis(make, load)),
        "RabbitMQ": lambda: _rabbitmq(stack.enter_context(RabbitMQ())),
    }
    for name, start in starts.items():
        if only and name not in only:
            continue
        try:
            yield start()
        except (PeerMissing, ArtemisMissing, RabbitMissing) as missing:
            click.echo(f"not measured: {missing}", err=True)


def _both(name: str, broker: openwire.Broker) -> Peer:
    return Peer(name, stomp.Broker(broker.stomp_port, broker.process), broker)


@contextmanager
def _artemis(make: Callable[[], Database], load: openwire.Load) -> Iterator[Peer]:
    database = make()
    login = (database.jdbc_url, database.username or "", database.password or "")
    try:
        with Artemis(*login, jvm_options=()) as artemis:
            artemis.await_ready()
            broker = openwire.Broker(artemis.openwire_url, artemis.pid, artemis.stomp_port, load)
            yield _both(f"Artemis {artemis.version}", broker)
    finally:
        database.close()


def _rabbitmq(node: RabbitMQ) -> Peer:
    broker = stomp.Broker(node.stomp_port, node.pid)
    return Peer(f"RabbitMQ {node.version}", broker, confirms_by_commit=False)


def _measure_stomp(peer: Peer, work: str, seconds: float, figures: Figures) -> None:
    own = "confirmed" if work == "transactions" and not peer.confirms_by_commit else work
    try:
        measured = peer.stomp.run(own, seconds)
    except subprocess.CalledProcessError as error:
        raise click.ClickException(f"the client of {peer.name} failed at: {_STOMP[work]}") from error
    figures.add(_STOMP[work], _short(peer.name), measured.rates[-1], measured.cpu[-1])


def _measure_openwire(peer: Peer, work: str, seconds: float, figures: Figures) -> None:
    if peer.openwire is not None:
        measured = peer.openwire.run(work, seconds)
        figures.add(_OPENWIRE[work], _short(peer.name), measured.rates[-1], measured.cpu[-1])


def _short(name: str) -> str:
    return name.partition(" ")[0]


def _print(figures: Figures, names: Sequence[str]) -> None:
    rows = [*_STOMP.values(), *_OPENWIRE.values()]
    click.echo(
        f"| messages a second | {' | '.join(names)} | {OURS} ÷ ActiveMQ |\n{'|---' * (len(names) + 2)}|"
    )
    for row in rows:
        cells = [figures.rate(row, _short(name)) for name in names]
        click.echo(f"| {row} | {' | '.join(cells)} | {figures.ratio(row, OURS, 'ActiveMQ')} |")
    click.echo(f"\n| CPU of the broker, µs a message | {' | '.join(names)} |\n{'|---' * (len(names) + 1)}|")
    for row in rows:
        cells = [figures.microseconds(row, _short(name)) for name in names]
        click.echo(f"| {row} | {' | '.join(cells)} |")


def _store(figures: Figures, loads: Sequence[float], database: str, path: Path) -> None:
    """Write the medians, with the lowest and highest, in place of those of the same database.

    ``loads`` are those before the run and after each round, also of the first one.
    """
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    stored["date"] = time.strftime("%Y-%m-%d")
    rows = [*_STOMP.values(), *_OPENWIRE.values()]
    stored.setdefault("brokers", {})[database] = {row: figures.stored(row, "ActiveMQ") for row in rows}
    stored.setdefault("library", {})[database] = {
        row: figures.stored(row, library.DATABASE) for row in library.ROWS
    }
    stored.setdefault("loads", {})[database] = [*loads]
    path.write_text(json.dumps(stored, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _print_memory(peers: Sequence[Peer], backlog: int) -> None:
    click.echo(f"\n| resident memory, MB | {' | '.join(peer.name for peer in peers)} |")
    click.echo(f"{'|---' * (len(peers) + 1)}|")
    before = [_resident(peer.stomp.process) for peer in peers]
    for peer in peers:
        peer.stomp.fill(backlog)
    after = [_resident(peer.stomp.process) for peer in peers]
    for what, figures in (("after the rounds", before), (f"with {backlog:,} messages of 1 KB", after)):
        click.echo(f"| {what} | {' | '.join(f'{figure:,.0f}' for figure in figures)} |")


def _resident(process: int) -> float:
    """Return megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
