"""``python -m tests.analytics.killing --kills 10 --seed N``: the long run of killing a stream.

On each database, a Spark application streams into files what processes store that commit out of order. At
moments that the seed chooses, all of Spark is killed, or its Pythons alone, or the database's server. What is
missing in the files at the end, or there twice, is printed, and the exit code says whether there was any.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

import jdbcstore
from jdbcstore.testing.polling import wait_until
from tests.support.analytics.application import Application, Checkpoint
from tests.support.analytics.streams import LONG, Producers
from tests.support.backends import BACKENDS, Backend
from tests.support.databases import Database, SqliteDatabase
from tests.support.servers import Server

STORED = "SELECT ID FROM ACTIVEMQ_MSGS"


class Run:
    """A stream of one database, and those who store."""

    def __init__(self, database: Database, server: Server | None, folder: Path, seed: int, kind: str) -> None:
        jdbcstore.open(database.url, cleanup_period=0.0).close()
        self.kills: Counter[str] = Counter()
        self.starts: list[int] = []
        """How often a stream had to be started whose Pythons were killed."""
        self._database = database
        self._server = server
        self._folder = folder
        self._kind = kind
        self._random = random.Random(seed)
        self._checkpoint = Checkpoint(folder)
        self._producers = Producers(database.url, folder, messages=sys.maxsize)
        self._producers.start()
        self._application = self._start()
        self._application.ask("stream")

    def _start(self) -> Application:
        return Application(self._database.url, self._folder, self._kind)

    def kill(self) -> None:
        """One of them at some moment, after the stream has gone on."""
        before = self._checkpoint.done()
        wait_until(lambda: self._checkpoint.done() > before, LONG, "whether a batch is done")
        time.sleep(self._random.random() * 2)  # the moment, which is not waited for
        kinds = [self._kill_spark, self._kill_spark, self._kill_pythons]
        if self._server is not None:
            kinds += [self._kill_server]
        self._random.choice(kinds)()

    def _kill_spark(self) -> None:
        """At any moment, within a batch, or when its files are there and it is not done, if that is met."""
        checkpoint = self._checkpoint
        moments = {
            "at any moment": lambda: True,
            "within a batch": lambda: checkpoint.planned() >= 0,
            "with files of a batch": lambda: checkpoint.in_sink() >= 0,
        }
        moment = self._random.choice([*moments])
        met = self._application.stop_when(moments[moment], tries=50)
        self._application.kill()
        self.kills[f"Spark {moment if met else 'at any moment'}"] += 1
        self._application = self._start()
        self._application.ask("stream")

    def _kill_pythons(self) -> None:
        assert self._application.kill_pythons()
        self.kills["Pythons"] += 1
        self.starts.append(self._application.ask("again"))

    def _kill_server(self) -> None:
        assert self._server is not None
        self._server.kill()
        self.kills["server"] += 1
        time.sleep(self._random.random() * 3)  # how long it is away
        self._server.start()

    def finish(self) -> tuple[int, list[str]]:
        """How many messages are stored, and what is wrong with the files."""
        self.close()
        # What a killed process has sent may be committed after its death.
        wait_until(lambda: self._database.connections() == 0, LONG, "whether all connections are closed")
        self._application = self._start()
        seen = Counter(int(text) for text in self._application.ask("finish"))
        stored = {id_ for (id_,) in self._database.rows(STORED)}
        wrong = [f"{id_} is missing" for id_ in sorted(stored - {*seen})]
        wrong += [f"{id_} is there {count} times" for id_, count in sorted(seen.items()) if count > 1]
        return len(stored), wrong + [f"{id_} was never stored" for id_ in sorted({*seen} - stored)]

    def batches(self) -> int:
        return self._checkpoint.done() + 1

    def close(self) -> None:
        self._application.kill()
        self._producers.kill()


@click.command(help=__doc__)
@click.option("--kills", default=10, show_default=True, help="On each database.")
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option(
    "--database", "names", type=click.Choice(["postgresql", "sqlite", "mariadb", "mysql"]), multiple=True
)
@click.option("--connect", is_flag=True, help="Over Spark Connect.")
def main(kills: int, seed: int | None, names: tuple[str, ...], connect: bool) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    wrong: list[str] = []
    for backend in BACKENDS:
        if backend.id in (names or ("postgresql", "sqlite")):
            wrong += _run_on(backend, kills, seed, "connect" if connect else "classic")
    click.echo(f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


def _run_on(backend: Backend, kills: int, seed: int, kind: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="jdbcstore-stream-") as folder:
        server = None if backend.private is None else backend.private()
        try:
            database = (
                SqliteDatabase(Path(folder))
                if server is None
                else backend.database(backend.private_url(server))
            )
            return _run(backend.id, Run(database, server, Path(folder), seed, kind), kills)
        finally:
            if server is not None:
                server.close()


def _run(name: str, run: Run, kills: int) -> list[str]:
    begin, stored = time.monotonic(), 0
    try:
        for _ in range(kills):
            run.kill()
        stored, wrong = run.finish()
    except AssertionError as error:
        wrong = [f"the run was given up: {error}"]
    finally:
        run.close()
    done = ", ".join(f"{count} {kind}" for kind, count in sorted(run.kills.items()))
    click.echo(f"{name}: {run.kills.total()} kills in {time.monotonic() - begin:.0f} s: {done}")
    click.echo(f"  {stored} messages in {run.batches()} batches, {len(wrong)} wrong")
    if run.starts:
        click.echo(f"  started {max(run.starts)} times, at most, before it went on without its Pythons")
    for one in wrong[:30]:
        click.echo(f"  WRONG: {one}")
    return wrong


if __name__ == "__main__":
    main()
