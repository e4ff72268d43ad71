"""A world of one store with a journal in front of the database, on a machine that goes down."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import ClassVar

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal, StoreError
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from tests.simulation.masters import CONFIG, SCOPES, Broker, Masters
from tests.simulation.scheduler import Process, Task, current
from tests.simulation.world import Step, World
from tests.support.histories.checker import Violation
from tests.support.journal.crashing import CrashingFiles, State

_JOURNAL = "journal"


class SimulatedFiles(CrashingFiles):
    """A disk that takes its time."""

    def write(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        self._wait()
        return super().write(file, data, offset)

    def sync(self, file: int) -> None:
        self._wait()
        super().sync(file)

    @staticmethod
    def _wait() -> None:
        scheduler = current()
        chance = scheduler.chance.random()
        if chance < 0.7:
            scheduler.sleep(0.003 * chance if chance < 0.68 else 0.2 * chance)


_RESTART = 0.05
"""Seconds until a process that has ended is started again."""


class JournalBroker(Broker):
    """The only process."""

    def __init__(self, world: Journaling, number: int) -> None:
        super().__init__(world, number)
        self.state: State = {}
        self.files: SimulatedFiles | None = None

    def _live(self, process: Process) -> None:
        world, scheduler = self.world, current()
        assert isinstance(world, Journaling)
        while not world.is_corrupt:
            root = world.server.folder / f"{_JOURNAL}{self.lives}"
            shutil.rmtree(root, ignore_errors=True)
            (root / _JOURNAL).mkdir(parents=True)
            self.files = files = SimulatedFiles(root, self.state)
            try:
                store = self._opened(root, files)
            except CorruptJournal:
                if not world.is_damaged:
                    raise
                world.is_corrupt = True
                return
            except StoreError:
                self.leave_disk(None)
                scheduler.sleep(0.1)
                continue
            self.cursors = dict.fromkeys(SCOPES)
            self.held = {scope: {} for scope in SCOPES}
            world.trace("open", process.name)
            self.store = store
            for _ in range(self.workers):
                self.wake()
            return

    def _opened(self, root: Path, files: SimulatedFiles) -> JournaledStore:
        behind = JdbcStore(self.world.server.url, CONFIG, clock=self.clock, journaled=True)
        config = JournalConfig(
            directory=str(root / _JOURNAL),
            journal_log_file_size=4096,
            checkpoint_size=random.Random(self.world.seed).choice((2_000, 1 << 20)),
            max_checkpoint_message_add_size=1_000,
            preallocation_scope="none",
            journal_disk_sync_strategy="always",
        )
        try:
            return JournaledStore(behind, config, clock=self.clock, files=files)
        except BaseException:
            behind.close()
            raise

    def leave_disk(self, chance: random.Random | None) -> None:
        """End the disk of this life: as the process leaves it, or as the machine does that goes down."""
        files = self.files
        if files is None:
            return
        files.go_down()
        self.state = files.everything() if chance is None else files.after_some(chance)
        shutil.rmtree(files.root, ignore_errors=True)
        self.files = None

    def do_checkpoint(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        self.store.checkpoint()


class Journaling(Masters):
    """A store with a journal."""

    operations: ClassVar = {**Masters.operations, "checkpoint": 3}
    faults: ClassVar = {
        "kill": 3,
        "doom": 2,
        "crash": 5,
        "flip": 1,
        "cut": 1,
        "lost": 2,
        "unknown": 2,
        "late": 1,
        "busy": 1,
        "restart": 1,
    }
    members_count = 1
    is_damaged = False
    """Whether a bit of an acknowledged record was flipped: then anything may be lost, if that is noticed."""
    is_corrupt = False
    """Whether the store has refused to open."""
    doomed: Process | None = None
    """A process that is killed with its next commit under way."""

    def prepare(self) -> None:
        self.server.on_late = self._end_doomed
        super().prepare()

    def new_members(self) -> list[Broker]:
        return [JournalBroker(self, 0)]

    def fail(self, step: Step) -> None:
        broker: JournalBroker = self.members[0]
        chance = random.Random(step.chance)
        if step.what == "doom":
            self.doomed = broker.process
            broker.process.faults.appendleft("late")
        elif step.what in ("kill", "crash", "flip"):
            self.trace("fault", broker.process.name, kind=step.what)
            self._kill(broker, None if step.what == "kill" else chance, flips=step.what == "flip")
        else:
            super().fail(step)

    def _end_doomed(self, process: Process) -> None:
        broker = self.members[0]
        if process is self.doomed and process is broker.process and not process.is_dead:
            Task(self._kill, (broker, None), process=self.scheduler.machine).start()

    def _kill(self, broker: JournalBroker, chance: random.Random | None, *, flips: bool = False) -> None:
        """Kill the process, and start it later; ``chance`` says what the machine's disk has then."""
        process = broker.process
        broker.kill()
        broker.leave_disk(chance)
        if flips and chance is not None:
            self._flip(broker, chance)
        Task(self._start_later, (broker, process, _RESTART), process=self.scheduler.machine).start()

    def _flip(self, broker: JournalBroker, chance: random.Random) -> None:
        files = {name: content for name, content in broker.state.items() if content.strip(b"\0")}
        if files:
            name = chance.choice(sorted(files))
            content = bytearray(files[name])
            content[chance.randrange(len(content.rstrip(b"\0")))] ^= 1 << chance.randrange(8)
            broker.state[name] = bytes(content)
            self.is_damaged = True

    def is_idle(self) -> bool:
        return self.is_corrupt or super().is_idle()

    def drain(self) -> None:
        if self.is_corrupt:
            return
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

    def end(self) -> None:
        World.end(self)
        self.members[0].leave_disk(None)
        for branch in self.branches.values():
            self.note(branch.write(is_prepared=False))
        self._note_left()

    def judge(self) -> list[Violation]:
        found = super().judge()
        if not self.is_damaged:
            return found
        return [one for one in found if one.rule in ("phantom", "renamed") or "thread" in one.text]
