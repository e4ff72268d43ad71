"""A world of masters with their journal in a stream: the next one replays what the tables do not have."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import JournalFailed, LockLost, NotMaster, StoreError, StoreUnavailable
from jdbcstore.journal.stream.connection import PATIENCE
from jdbcstore.lockers import Fence
from jdbcstore.stores.guarded import JournaledJdbcStore
from jdbcstore.stores.jdbc.store import JdbcStore
from tests.simulation.jetstream import SimulatedConnection, Stream
from tests.simulation.masters import CONFIG, Broker, Led, Masters
from tests.simulation.scheduler import Process
from tests.simulation.world import Step

_PASSING = (StoreUnavailable, NotMaster, LockLost)
"""Errors after which a broker waits, and opens its store again."""
_CHECKED = 1.0
"""Seconds between two looks of a broker at its store."""


OF_THE_STREAM = {
    "stream cut": 2,
    "stream elects": 4,
    "stream lags": 1,
    "stream lost": 2,
    "stream unknown": 3,
    "stream late": 3,
    "stream failed": 2,
    "stream full": 1,
    "stream away": 1,
}
"""Faults of a stream, with their weights."""


def journal_of(**more: Any) -> JournalConfig:
    """Return a journal in the stream that writes little at once."""
    return JournalConfig(
        stream="nats://simulated",
        stream_name="s",
        replicas=3,
        journal_log_file_size=4_096,
        max_checkpoint_message_add_size=1_000,
        **more,
    )


class StreamBroker(Broker):
    """A process that serves while it is the master, and writes a journal."""

    def _is_for_good(self, process: Process, error: StoreError) -> bool:
        self.world.trace("refused", process.name, error=repr(error))
        if isinstance(error, JournalFailed) or not isinstance(error, _PASSING):
            self.world.problem(f"{self.name} does not open: {error!r}")
            return True
        return False

    def _hold(self, process: Process, store: Led, fence: Fence) -> None:
        while not fence.wait_lost(_CHECKED):
            try:
                store.check()
            except (JournalFailed, LockLost) as error:
                self.world.trace("failed", process.name, error=repr(error))
                return
            except StoreError:
                continue

    def _open(self) -> Led:
        url, locker = self.world.server.url, self._locker()
        behind = JdbcStore(url, CONFIG, clock=self.clock, locker=locker, journaled=True)
        config = journal_of(checkpoint_size=random.Random(self.world.seed).choice((2_000, 1 << 20)))
        try:
            return JournaledJdbcStore(behind, config, clock=self.clock)
        except BaseException:
            behind.close()
            raise

    def do_checkpoint(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        self.store.checkpoint()


class Streaming(Masters):
    """Two brokers on one database, with their journal in a stream."""

    operations: ClassVar = {**Masters.operations, "checkpoint": 3}
    faults: ClassVar = {
        "kill": 3,
        "pause": 3,
        "cut": 1,
        "lost": 1,
        "unknown": 1,
        "late": 1,
        "busy": 1,
        "restart": 1,
        "step": 1,
        **OF_THE_STREAM,
    }

    share = 0.35

    def prepare(self) -> None:
        self.stream = SimulatedConnection.stream = Stream(self.seed)
        super().prepare()

    def new_members(self) -> list[Broker]:
        return [StreamBroker(self, number) for number in range(self.members_count)]

    def fail(self, step: Step) -> None:
        group, _, what = step.what.partition(" ")
        if group != "stream":
            super().fail(step)
            return
        chance, stream = random.Random(step.chance), self.stream
        process = self.members[step.who].process
        seconds = chance.choice((0.5, 2.0, 8.0, 40.0))
        self.trace("fault", process.name, kind=step.what, seconds=seconds)
        match what:
            case "cut":
                stream.cut(process, seconds)
            case "elects":
                old = chance.choice((0.0, 6.0, 12.0))
                stream.elect(process.name[:1], seconds, old)
            case "lags":
                stream.lag(min(seconds / 8, 1.0))
            case _:
                stream.fail_next(process, what)

    def _settle(self) -> bool:
        if not self.seed % 4:
            self.scheduler.sleep(PATIENCE + 1.0)  # who waits for the servers gives up
        self.stream.calm()
        return super()._settle()

    def drain(self) -> None:
        for one in self.members:
            one.waiting.clear()  # of one that has never served; the next master is to have nothing new
        super().drain()
        for _ in range(20):
            broker = self.master
            try:
                if broker is not None:
                    broker.store.checkpoint()
                    return
            except StoreError:
                pass
            self.scheduler.sleep(0.3)
        self.problem("no checkpoint could be made")
