"""``python -m tests.long.streamed``: a store with its journal in a cluster of nats-servers, under faults.

In each round a storing process runs, one of three servers is killed, paused or wiped, chosen by the seed, and
comes back; then the process is killed. Every other time the store is opened and closed, and nothing that it
confirmed may be undone. With ``--newer``, the servers of ``make nats`` sync before they acknowledge.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
from sqlalchemy import NullPool, create_engine

from tests.support.crash.ledger import Ledger, Tables
from tests.support.crash.work import QUICKLY, open_store
from tests.support.crash.zygote import StoringProcesses
from tests.support.places import a_database, a_folder
from tests.support.streams import NEWER, NatsCluster

FAULTS = ("none", "kill", "pause", "wipe")


@click.command(help=__doc__)
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same faults again.")
@click.option("--database", default="sqlite", show_default=True)
@click.option("--quick", is_flag=True, help="The database gets references into the journal.")
@click.option("--newer", is_flag=True, help="With the servers of make nats, and syncs.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the files are.")
def main(
    rounds: int, seed: int | None, database: str, folder: Path | None, *, quick: bool, newer: bool
) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    logging.disable()
    program, setting = (str(NEWER), "sync_interval: always\n") if newer else (None, "")
    with (
        a_folder(folder) as place,
        a_database(database, place) as behind,
        NatsCluster(program=program, jetstream=setting) as cluster,
    ):
        journal = f"{cluster.url}/long{QUICKLY if quick else ''}"
        processes = StoringProcesses(behind.url, journal)
        begin = time.monotonic()
        try:
            run = Run(behind.url, journal, processes, cluster, random.Random(seed))
            for number in range(rounds):
                run.round(number)
        finally:
            processes.close()
        click.echo(f"{time.monotonic() - begin:.0f} s: {dict(run.faults)}, {dict(run.ledger.said)}")


class Run:
    """The rounds of one run."""

    def __init__(
        self, url: str, journal: str, processes: StoringProcesses, cluster: NatsCluster, chance: random.Random
    ) -> None:
        self._url = url
        self._journal = journal
        self._processes = processes
        self._cluster = cluster
        self._chance = chance
        self._engine = create_engine(url, poolclass=NullPool)
        self.ledger = Ledger()
        self.faults: Counter[str] = Counter()

    def round(self, number: int) -> None:
        """Run, break, kill, and look."""
        pid = self._processes.start(number)
        self._note(islice(self._processes.lines(), self._chance.randrange(20, 500)))
        self._break()
        os.kill(pid, signal.SIGKILL)
        self._note(self._processes.lines())
        if number % 2:
            open_store(self._url, self._journal).close()
            with self._engine.connect() as connection:
                self.ledger.check(Tables(connection, self.ledger.decoded))

    def _note(self, lines: Iterator[list[str]]) -> None:
        for words in lines:
            self.ledger.note(words)

    def _break(self) -> None:
        """Break a server, have the process go on without it, and mend it."""
        fault, server = self._chance.choice(FAULTS), self._chance.choice(self._cluster.servers)
        self.faults[fault] += 1
        more = self._chance.randrange(20, 300)
        if fault == "pause":
            server.pause()
            self._note(islice(self._processes.lines(), more))
            server.resume()
        elif fault != "none":
            server.kill()
            self._note(islice(self._processes.lines(), more))
            if fault == "wipe":
                shutil.rmtree(server.folder / "data")
            server.start()
        self._note(islice(self._processes.lines(), self._chance.randrange(1, 300)))


if __name__ == "__main__":
    main()
