"""``python -m tests.long.lake``: exports to a Delta and an Iceberg table, which are killed.

Beside the export, producers commit out of order and roll back, and a consumer removes messages. Each export
is killed at a random time, and the next one has nothing of it but the table. At the end every message that
is left in the store is in the table once, no other one is but those that were consumed, and an export
without news writes nothing. With ``--s3``, the tables are on moto's S3 server.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import click
import numpy as np

import jdbcstore
from jdbcstore.analytics.lake import Exported, to_lake
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.analytics.lakes import Lake
from tests.support.analytics.storm import BLOCK
from tests.support.databases import Database
from tests.support.places import a_database, a_folder
from tests.support.servers.s3 import S3Server

_STORM = [sys.executable, "-m", "tests.support.analytics.storm"]
_LONGEST = 3.0
"""The most seconds to a kill, from the start of an export or from its first commit."""


@click.command(help=__doc__)
@click.option("--messages", default=1_000_000, show_default=True)
@click.option("--kills", default=50, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same times again.")
@click.option("--database", default="postgresql", show_default=True)
@click.option("--kind", "kinds", multiple=True, default=["delta", "iceberg"], show_default=True)
@click.option("--s3", is_flag=True, help="The tables are on moto's S3 server.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the files are.")
def main(
    messages: int,
    kills: int,
    seed: int | None,
    database: str,
    kinds: tuple[str, ...],
    folder: Path | None,
    *,
    s3: bool,
) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    for kind in kinds:
        with ExitStack() as opened:
            place = opened.enter_context(a_folder(folder))
            behind = opened.enter_context(a_database(database, place))
            server = opened.enter_context(closing(S3Server(place))) if s3 else None
            begin = time.monotonic()
            said = Run(behind, Lake(kind, place, server), place, random.Random(seed)).run(messages, kills)
            where = "S3" if s3 else "disk"
            click.echo(f"{kind} on {where}: {time.monotonic() - begin:.0f} s, {said}")


class Run:
    """One table, until it has all messages."""

    def __init__(self, database: Database, lake: Lake, folder: Path, chance: random.Random) -> None:
        self._database, self._lake, self._folder, self._chance = database, lake, folder, chance

    def run(self, messages: int, kills: int, producers: int = 2) -> str:
        """Return what was done, in words."""
        url = self._database.url
        jdbcstore.open(url, cleanup_period=0.0).close()
        counter = self._folder / "counter"
        counter.touch()
        with ExitStack() as running:
            logs = [running.enter_context((self._folder / f"{n}.log").open("w")) for n in range(producers)]
            storm = [
                subprocess.Popen(
                    [*_STORM, "produce", url, str(counter), str(messages // producers), str(n)],
                    stdout=log,
                    cwd=ROOT,
                )
                for n, log in enumerate(logs)
            ]
            consumer = subprocess.Popen([*_STORM, "consume", url, "1"], stdin=subprocess.PIPE, cwd=ROOT)
            for each in (*storm, consumer):
                running.callback(each.kill)  # if something fails
            commits = self._kill(kills, storm)
            assert [each.wait() for each in storm] == [0] * producers
            consumer.communicate()
            assert consumer.returncode == 0
        last = to_lake(url, self._lake.table())
        before = self._lake.commits()
        assert to_lake(url, self._lake.table()) == Exported(0, 0)
        assert self._lake.commits() == before, "a run without news has written"
        done = f"{kills} kills, {commits} after a commit, the last export had {last.messages}"
        return f"{done}: {self._check()}"

    def _kill(self, kills: int, storm: list[subprocess.Popen[bytes]]) -> int:
        """Kill exports at random times, and return how many had committed something."""
        command = [
            sys.executable,
            "-m",
            "jdbcstore",
            "--url",
            self._database.url,
            "export",
            *self._lake.arguments,
        ]
        busy = committed = 0
        to_lake(self._database.url, self._lake.table())
        for number in range(kills):
            before = self._lake.commits()
            # Nothing of the one before is there: neither its folder nor its home.
            elsewhere = self._folder / f"machine{number}"
            elsewhere.mkdir()
            environment = {**os.environ, "HOME": str(elsewhere), "PYTHONPATH": str(ROOT)}
            news = any(each.poll() is None for each in storm)
            busy += news
            exporting = subprocess.Popen(
                [*command, "--follow", "--interval=0.1"], cwd=elsewhere, env=environment
            )
            try:
                if self._chance.random() < 0.8 and news:
                    wait_until(lambda: self._lake.commits() != before, 600.0, what="a commit")  # noqa: B023
                time.sleep(self._chance.uniform(0, _LONGEST))
                assert exporting.poll() is None, "an export ended by itself"
            finally:
                exporting.kill()
                exporting.wait()
            committed += self._lake.commits() != before
        click.echo(f"{busy} of {kills} exports ran beside producers")
        return committed

    def _check(self) -> str:
        """Compare the table with the store and with what producers have committed."""
        logs = self._folder.glob("*.log")
        firsts = [int(line) for log in logs if log.stem.isdigit() for line in log.read_text().splitlines()]
        sent = np.sort(np.add.outer(firsts, np.arange(BLOCK)).ravel())
        left = np.array([id_ for (id_,) in self._database.rows("SELECT ID FROM ACTIVEMQ_MSGS")])
        ids, wrong = [np.empty(0, np.int64)], Counter[str]()
        for batch in self._lake.batches("properties", "error"):
            ids.append(batch["id"].to_numpy())
            for row in batch.select(["id", "properties", "error"]).to_pylist():
                number = dict(row["properties"])["number"]["long"]
                wrong["other properties"] += number != row["id"]
                wrong["not decoded"] += row["error"] is not None
        exported = np.concatenate(ids)
        wrong["twice"] = len(exported) - len(np.unique(exported))
        wrong["lost"] = len(np.setdiff1d(left, exported))
        wrong["never sent"] = len(np.setdiff1d(exported, sent))
        assert not +wrong, dict(+wrong)
        return f"{len(sent)} sent, {len(left)} left, {len(exported)} exported, each once"


if __name__ == "__main__":
    main()
