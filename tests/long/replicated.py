"""``python -m tests.long.replicated``: three brokers without anything shared, under faults, with producers.

They start with Example 5.1 of the manual of the Replicated LevelDB store, addresses aside: a cluster of
nats-servers has the stream, and a ZooKeeper elects. In each round producers send, and what the seed says
happens: the master or a follower is killed, the master is paused beyond its session, or a follower's folder
is removed. At the end each message whose receipt came is delivered, and none twice but where a receipt was
lost.
"""

from __future__ import annotations

import logging
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import click

from jdbcstore.config.journal import JournalConfig
from jdbcstore.journal.stream.members import group
from jdbcstore.testing.polling import wait_until
from tests.support.broker.load import Load, drained
from tests.support.broker.programs import BrokerProcess
from tests.support.places import a_folder
from tests.support.ports import free_port
from tests.support.streams import NatsCluster
from tests.support.zookeeper import ZooKeeper

EXAMPLE = """
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="broker" persistent="true">
  <persistenceAdapter>
    <replicatedLevelDB
      directory="{directory}"
      replicas="3"
      bind="tcp://0.0.0.0:0"
      zkAddress="{zookeeper}"
      zkPassword="password"
      zkPath="/activemq/leveldb-stores"
      hostname="{host}"
      />
  </persistenceAdapter>
</broker>
"""
SMALL = {
    "JDBCSTORE_JOURNAL_JOURNAL_LOG_FILE_SIZE": "64 kb",
    "JDBCSTORE_JOURNAL_KEPT_FOR_FOLLOWERS": "128 kb",
    "JDBCSTORE_JOURNAL_CHECKPOINT_INTERVAL": "2",
}
"""Much is released, so that some need a copy."""
FAULTS = ("kill master", "kill master", "kill follower", "pause master", "wipe follower", "none")


class Node:
    """One of three brokers; it is started again when it is gone."""

    def __init__(self, folder: Path, number: int, zookeeper: str, environment: dict[str, str]) -> None:
        self._environment = environment
        self.name = f"broker{number}"
        self._folder = folder / self.name
        self._folder.mkdir()
        self.port = free_port()
        self._directory = self._folder / "activemq-data"
        self._file = self._folder / "activemq.xml"
        host = f"{self.name}.example.org"
        self._file.write_text(EXAMPLE.format(directory=self._directory, zookeeper=zookeeper, host=host))
        self.node = host.replace(".", "_")
        self.process = self._started()

    def _started(self) -> BrokerProcess:
        config = str(self._file)
        stomp = f"127.0.0.1:{self.port}"
        return BrokerProcess(self._folder, "--config", config, stomp=stomp, **self._environment)

    def kill(self) -> None:
        self.process.kill()

    def pause(self) -> None:
        self.process.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Start it again, if it has ended."""
        if self.process.process.poll() is not None:
            self.process = self._started()

    def end(self) -> None:
        self.process.kill()


class Run:
    """The rounds of one run."""

    def __init__(self, nodes: list[Node], journal: JournalConfig, chance: random.Random) -> None:
        self._nodes = nodes
        self._journal = journal
        self._chance = chance
        self.faults: Counter[str] = Counter()
        self.loads: list[Load] = []
        self.took: list[float] = []
        """Seconds until a producer went on after the master was killed."""

    def round(self, number: int) -> None:
        """Send, break something, and mend it once the producers went on."""
        self._wait_level()
        ports = [node.port for node in self._nodes]
        with Load(*ports, to=f"Q{number}", count=self._chance.randrange(100, 400)) as load:
            load.wait_for(20)
            self._break(load)
        self.loads.append(load)

    def _break(self, load: Load) -> None:
        fault = self._chance.choice(FAULTS)
        self.faults[fault] += 1
        if fault == "none":
            return
        master, followers = self._roles()
        node = master if fault.endswith("master") else self._chance.choice(followers)
        begin = time.monotonic()
        if fault == "pause master":
            node.pause()
        else:
            node.kill()
        if fault == "pause master":
            wait_until(lambda: self._roles()[0] is not node, what="another master")
            node.resume()
            wait_until(lambda: node.process.process.poll() is not None, what="the end of a deposed master")
        before = len(load.stored)
        wait_until(lambda: not load.is_running or len(load.stored) > before + 5, what="a producer")
        if fault == "kill master":
            self.took.append(time.monotonic() - begin)
        if fault == "wipe follower":
            node.wipe()
        for one in self._nodes:
            one.start()

    def _roles(self) -> tuple[Node, list[Node]]:
        masters = [one for one in group(self._journal).members if one.role == "master"]
        last = min(masters, key=lambda one: one.silent).node  # one that has ended has not said so
        master = next(one for one in self._nodes if one.node == last)
        return master, [one for one in self._nodes if one is not master]

    def _wait_level(self) -> None:
        """Wait until one serves, and the others have everything."""

        def is_level() -> bool:
            for node in self._nodes:
                node.start()  # one that gets no answer of ZooKeeper in time ends, as a service's
            found = group(self._journal)
            alive = [one for one in found.members if one.is_alive and one.is_complete and not one.wants]
            masters = [one for one in alive if one.role == "master"]
            followers = [one for one in alive if one.role == "follower" and found.lag(one) == 0]
            return (len(masters), len(followers)) == (1, 2)

        wait_until(is_level, what="three brokers that have everything")

    def check(self) -> None:
        """Have everything delivered."""
        self._wait_level()
        master, _ = self._roles()
        for load in self.loads:
            found = Counter(drained(load.queue, master.port))
            lost = {*load.stored} - found.keys()
            twice = {body for body, count in found.items() if count > 1} - load.doubtful
            assert not lost, f"lost: {sorted(lost)[:10]} of {len(lost)}"
            assert not twice, f"twice: {sorted(twice)[:10]} of {len(twice)}"


@click.command(help=__doc__)
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same faults again.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the files are.")
def main(rounds: int, seed: int | None, folder: Path | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    logging.disable()
    with ExitStack() as stack:
        place = stack.enter_context(a_folder(folder))
        cluster, zookeeper = stack.enter_context(NatsCluster()), stack.enter_context(ZooKeeper())
        environment = {"JDBCSTORE_JOURNAL_STREAM": cluster.url, **SMALL}
        journal = JournalConfig(stream=cluster.url, stream_name="activemq-leveldb-stores")
        nodes = [Node(place, number, zookeeper.address, environment) for number in (1, 2, 3)]
        for node in nodes:
            stack.callback(node.end)
        run, begin = Run(nodes, journal, random.Random(seed)), time.monotonic()
        for number in range(rounds):
            run.round(number)
        run.check()
        took = sorted(run.took)
        median = f", {took[len(took) // 2]:.1f} s until it went on (median)" if took else ""
        click.echo(
            f"{time.monotonic() - begin:.0f} s: {sum(len(load.stored) for load in run.loads)} messages,"
            f" {dict(run.faults)}, {sum(len(load.doubtful) for load in run.loads)} in doubt{median}"
        )


if __name__ == "__main__":
    main()
