"""``python -m tests.long.jms_pair --kills 50 --database postgresql --seed N``: a mixed pair, JMS clients.

An ActiveMQ (5.17.2, or that of ``JDBCSTORE_ACTIVEMQ``) and a ``jdbcstore broker`` share a database. The one
that serves is killed or stopped, so many times, under transacted and plain producers, transacted and
acknowledging consumers, and durable subscribers on ``failover:``. What must not be is printed, and the exit
code says whether there was any.
``--brokers java,java`` and ``--brokers ours,ours`` are for comparison.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from tests.support.backends import BACKENDS
from tests.support.jms_pair.harness import PairHarness

PAIRS = {"java,ours": ("java", "ours"), "java,java": ("java", "java"), "ours,ours": ("ours", "ours")}
"""Pairs of brokers, of which the first serves first."""


@click.command(help=__doc__)
@click.option("--kills", default=50, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option("--database", type=click.Choice(["postgresql", "mariadb", "mysql"]), default="postgresql")
@click.option("--brokers", type=click.Choice(list(PAIRS)), default="java,ours", show_default=True)
def main(kills: int, seed: int | None, database: str, brokers: str) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    backend = next(one for one in BACKENDS if one.id == database)
    assert backend.private is not None
    server = backend.private()
    try:
        with tempfile.TemporaryDirectory(prefix="jdbcstore-pair-") as folder:
            tables = backend.database(backend.private_url(server))
            harness = PairHarness(tables, Path(folder), seed, PAIRS[brokers])
            wrong = _run(harness, kills)
    finally:
        server.close()
    sys.exit(1 if wrong else 0)


def _run(harness: PairHarness, kills: int) -> int:
    begin, history = time.monotonic(), harness.history
    try:
        harness.start()
        for number in range(1, kills + 1):
            harness.end_master()
            who, how = harness.ends[-1]
            seconds = time.monotonic() - begin
            click.echo(f"{number}: {who} {how} at {seconds:.0f} s, {history.number} confirmed")
        found = harness.finish()
    finally:
        harness.close()
    sends = Counter(sent.end.value for sent in history.sent)
    again = len(history.deliveries) - len({(one.reader, one.body) for one in history.deliveries})
    click.echo(f"{dict(Counter(f'{who} {how}' for who, how in harness.ends))}")
    click.echo(f"sends and transactions: {dict(sends)}")
    click.echo(f"{len(history.deliveries)} deliveries, {again} of them again")
    click.echo(
        f"{found.unmarked_by_java} came again from ActiveMQ without a mark; {found.in_doubt} in doubt;"
        f" {found.dead} dead letters; {len(found.wrong)} wrong"
    )
    click.echo(f"{len(found.skipped_by_java)} skipped by ActiveMQ's last acknowledged number")
    click.echo(f"{len(found.lost_by_java)} lost by ActiveMQ, {found.held_by_java} held by it until the end")
    for one in found.skipped_by_java[:5]:
        click.echo(f"SKIPPED: {one}")
    for one in found.lost_by_java[:5]:
        click.echo(f"LOST: {one}")
    for one in found.wrong[:30]:
        click.echo(f"WRONG: {one}")
    return len(found.wrong)


if __name__ == "__main__":
    main()
