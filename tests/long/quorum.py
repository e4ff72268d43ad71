"""``python -m tests.long.quorum --faults 100 --seed N``: three machines, of which any may fail, in any way.

Each has a broker, a nats-server and a ZooKeeper, in a namespace. Eight clients of STOMP, two of
OpenWire and eight of JMS on ``failover:`` work, while a fault is done every few seconds: processes are killed
or stopped, a store is wiped or a disk is full, a machine is cut off in one direction or both, or ZooKeeper
alone, and two of three servers are stopped. A broker goes on with the version of a day before, or of
``--version``, and with this one again. The brokers share a PostgreSQL or, with ``--replicated``, have an
SQLite each. The master is elected by a lease or by ZooKeeper, in turns. The checker judges the
history. With ``--newer``, the servers of ``make nats`` sync before they acknowledge. ``--serve 20`` measures
the time to serve after the master was killed. It needs root, PostgreSQL, ZooKeeper and ActiveMQ's client.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from statistics import median

import click

from tests.support import ROOT
from tests.support.backends import BACKENDS
from tests.support.campaign.mutations import MUTATIONS
from tests.support.campaign.versions import previous_version
from tests.support.histories.checker import Violation
from tests.support.histories.events import to_json
from tests.support.quorum.faults import Faults
from tests.support.quorum.surroundings import machines
from tests.support.quorum.world import LEASE, Plan, World
from tests.support.streams import NEWER

_FIRST = "d42cb47b711b"
"""The first version that can go on beside this one: a master of an earlier one does not see its followers."""


@click.command(help=__doc__)
@click.option("--faults", default=100, show_default=True)
@click.option("--world", "size", default=25, show_default=True, help="Faults until all is looked at.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option("--first", default=0, show_default=True, help="The number of the first world.")
@click.option("--kind", "kinds", multiple=True, help="Only these kinds.")
@click.option("--newer", is_flag=True, help="With the servers of make nats, and syncs.")
@click.option("--replicated", is_flag=True, help="Each broker has a database of its own.")
@click.option("--mutation", type=click.Choice(tuple(MUTATIONS)), help="A defect put into the brokers.")
@click.option("--version", default="", metavar="COMMIT", help="The other version that brokers may have.")
@click.option("--serve", default=0, help="Instead, kill the master so many times, with each election.")
def main(
    faults: int,
    size: int,
    seed: int | None,
    first: int,
    kinds: tuple[str, ...],
    mutation: str | None,
    version: str,
    serve: int,
    *,
    newer: bool,
    replicated: bool,
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # what is mounted must go
    seed = random.randrange(10**6) if seed is None else seed
    previous = None
    if not mutation:  # which the other version has not
        previous = previous_version(version) if version else previous_version(since=_FIRST)
    click.echo(f"seed {seed}; the other version: {previous.name if previous else 'none'}")
    total, wrong = Counter[str](), 0

    def plan(number: int) -> Plan:
        return Plan(f"{seed}-{number}", bool(number % 2), newer, replicated, mutation or "", previous)

    if serve:
        for number in (0, 1):
            wrong += len(_world(plan(number), 0, (), serve)[1])
        sys.exit(1 if wrong else 0)
    for number, begin in enumerate(range(0, faults, size), first):
        done, found = _world(plan(number), min(size, faults - begin), kinds, 0)
        total += done
        wrong += len(found)
    click.echo(f"{total.total()} faults: {dict(total)}, {wrong} wrong")
    sys.exit(1 if wrong else 0)


def _world(
    plan: Plan, faults: int, kinds: tuple[str, ...], serve: int
) -> tuple[Counter[str], list[Violation]]:
    """Make a world, do so many faults to it, and judge it."""
    program = str(NEWER) if plan.syncs else shutil.which("nats-server", path="/usr/sbin:/usr/bin")
    if program is None:
        raise click.ClickException("no nats-server: .ci/packages nats-server")
    chance, begin = random.Random(plan.seed), time.monotonic()
    with ExitStack() as opened:
        url = None
        if not plan.replicated:
            [backend] = [one for one in BACKENDS if one.id == "postgresql"]
            assert backend.private is not None
            server = backend.private()
            opened.callback(server.close)
            url = backend.database(backend.private_url(server)).url
        setting = "sync_interval: always" if plan.syncs else ""
        switch, three = opened.enter_context(machines(program, setting))
        world = World(switch, three, url, plan)
        opened.callback(world.close)
        world.start()
        broken = Faults(world, chance)
        if serve:
            _measure(world, serve)
        for _ in range(faults):
            kind = chance.choice([*(kinds or broken.kinds)])
            what = broken.do(kind)
            click.echo(f"  {what}: back after {world.await_service(what):.1f} s")
            broken.mend()
        found, counts = world.finish()
        seconds = f"{time.monotonic() - begin:.0f} s"
        click.echo(f"{plan}: {faults} faults in {seconds}, {dict(broken.done)}, {counts}, {len(found)} wrong")
        for text in world.ended:
            click.echo(f"  ended: {text.strip().splitlines()[-1]}")
        if found:
            _show(world, found)
        return broken.done, found


def _measure(world: World, count: int) -> None:
    seconds = []
    for _ in range(count):
        seconds.append(world.time_to_serve())
        click.echo(f"  {seconds[-1]:.2f} s")
        world.await_service("a kill")
    text = (
        f"median {median(seconds):.2f} s of {count}, at most {max(seconds):.2f} s, with a lease or session of"
    )
    click.echo(f"{world.plan}: {text} {LEASE:g} s")


def _show(world: World, found: list[Violation]) -> None:
    for violation in found[:10]:
        click.echo(f"  {violation.rule}: {violation.text[:500]}")
    kept = ROOT / ".build" / f"quorum-{world.plan.seed}.wrong"
    with kept.open("w") as lines:
        lines.writelines(f"{violation.rule}: {violation.text}\n" for violation in found)
        lines.writelines(f"ended: {text}\n" for text in world.ended)
        lines.writelines(f"{to_json(event)}\n" for event in world.recorder.events)
        for machine in world.machines:
            lines.write(f"--- {machine.number}\n{machine.log.read_text(errors='replace')}\n")
    click.echo(f"  all of it is in {kept}")


if __name__ == "__main__":
    main()
