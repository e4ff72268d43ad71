"""What the worlds of the simulation share: processes that work, steps, faults, and the history."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

from jdbcstore.errors import LockLost, OutcomeUnknown, StoreError
from tests.simulation import database
from tests.simulation.database import Server, Sessions
from tests.simulation.scheduler import Exhausted, Killed, Process, ProcessClock, Scheduler, Task, current
from tests.support.histories.checker import Rules, Violation, check
from tests.support.histories.events import Event, Fault, Outcome, Problem, Write

_PATIENCE = 120.0
"""Seconds after the last fault within which every operation must end."""


class Step(NamedTuple):
    """One event of a script: an operation of a member, or a fault."""

    wait: float
    """Seconds before it."""
    what: str
    who: int
    chance: int
    """The seed of what else it has to choose."""


class Member:
    """A process that is started again after each end, with workers that do one operation after the other."""

    workers = 2

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.lives = 0
        self.process = Process("")
        self.process.is_dead = True
        self.waiting: deque[Step] = deque()
        self._idle: list[Task] = []
        self.busy = 0
        self.store: Any = None
        """What the operations use; None while it is not open."""

    @property
    def name(self) -> str:
        """The name of this life."""
        return self.process.name

    def start(self) -> None:
        """Begin another life."""
        self.lives += 1
        before = self.process
        self.process = process = Process(f"{'abcd'[self.number]}{self.lives}")
        process.offset_ms, process.cut_until = before.offset_ms, before.cut_until
        self.store, self.busy = None, 0
        self.waiting, self._idle = deque(), []
        self.clock = ProcessClock(process)
        Task(self._live, (process,), name=process.name, process=process).start()
        for number in range(self.workers):
            name = f"{process.name}w{number}"
            Task(self._work, (process, name), name=name, process=process).start()

    def give(self, step: Step) -> None:
        """Let a worker do a step, once there is one and the store is open."""
        self.waiting.append(step)
        self.wake()

    def wake(self) -> None:
        """Let an idle worker look for steps."""
        if self._idle and self.store is not None:
            current().wake(self._idle.pop())

    def kill(self) -> None:
        """End the process; its memory is gone."""
        scheduler = current()
        process, self.store = self.process, None
        scheduler.kill(process)
        for server in self.world.servers:
            server.kill(process)

    def _live(self, process: Process) -> None:
        raise NotImplementedError

    def _work(self, process: Process, name: str) -> None:
        scheduler = current()
        mine, idle = self.waiting, self._idle
        while True:
            if not mine or self.store is None:
                idle.append(scheduler.current)
                scheduler.block()
                continue
            step = mine.popleft()
            self.busy += 1
            try:
                operation = getattr(self, f"do_{step.what}")
                operation(name, random.Random(step.chance))
            except StoreError:
                pass  # the history has it
            finally:
                if process is self.process:
                    self.busy -= 1

    def write(
        self, client: str, run: Callable[[], Any], *, sends: Iterable[tuple[str, str]] = (), **facts: Any
    ) -> Any:
        """Run a write, and note its outcome.

        :raises StoreError: it failed
        """
        scheduler = current()
        begun, outcome = scheduler.now, Outcome.UNKNOWN
        self.world.trace("begin", client, **_plain(facts), sends=[*sends])
        try:
            result = run()
            outcome = Outcome.OK
        except OutcomeUnknown:
            raise
        except LockLost as error:
            outcome = Outcome.UNKNOWN if error.in_doubt else Outcome.FAILED
            raise
        except StoreError:
            outcome = Outcome.FAILED
            raise
        except Killed:
            raise
        except BaseException as error:
            self.world.problem(f"{client}: {error!r}")
            raise
        finally:
            self.world.note(Write(begun, scheduler.now, client, outcome, sends=tuple(sends), **facts))
            self.world.trace("end", client, outcome=outcome.value)
        return result


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: [*value] if isinstance(value, tuple) else value for name, value in facts.items()}


class World:
    """One seed: members, a script of steps, and a history that is checked in the end."""

    operations: ClassVar[dict[str, int]] = {}
    """The steps that members do, each with its weight."""
    faults: ClassVar[dict[str, int]] = {
        "kill": 2,
        "pause": 2,
        "cut": 1,
        "lost": 2,
        "unknown": 3,
        "late": 3,
        "busy": 1,
        "restart": 1,
        "step": 1,
    }
    share = 0.25
    """How many of the steps are faults."""
    longest = 0.3
    """The most seconds before a fault."""
    members_count = 2
    claimed = False
    rules = Rules()

    def __init__(self, server: Server, sessions: Sessions, seed: int) -> None:
        self.server = server
        self.servers = [server]
        """All of them, with those of other machines."""
        self.sessions = sessions
        self.seed = seed
        self.scheduler = Scheduler(seed)
        self.history: list[Event] = []
        self.traced: list[dict[str, Any]] | None = None
        self.members: list[Any] = []
        self._names = 0
        self._is_over = False

    @classmethod
    def script(cls, seed: int, length: int) -> list[Step]:
        """Return the steps of a seed."""
        chance = random.Random(seed)
        operations, weights = [*cls.operations], [*cls.operations.values()]
        faults, heavy = [*cls.faults], [*cls.faults.values()]
        share = chance.choice((0.0, cls.share / 2, cls.share, cls.share))
        steps = []
        for _ in range(length):
            is_fault = chance.random() < share
            [what] = chance.choices(faults, heavy) if is_fault else chance.choices(operations, weights)
            wait = chance.choice((0.0, 0.001, 0.01, 0.05, cls.longest if is_fault else 0.05))
            steps.append(Step(wait, what, chance.randrange(cls.members_count), chance.getrandbits(30)))
        return steps

    def note(self, event: Event) -> None:
        """Append to the history."""
        self.history.append(event)

    def problem(self, text: str) -> None:
        """Note something that is wrong by itself."""
        self.note(Problem(self.scheduler.now, text))

    def trace(self, step: str, actor: str, **facts: Any) -> None:
        """Note a step for a reader of traces."""
        if self.traced is not None:
            self.traced.append({"at": round(self.scheduler.now, 6), "actor": actor, "step": step, **facts})

    def new_name(self, producer: str) -> str:
        """Return the next name of a message."""
        self._names += 1
        return f"{producer}.{self._names}"

    def run(self, steps: Iterable[Step]) -> list[Violation]:
        """Run a script to its end, and return what was wrong."""
        database.use(*self.servers)
        database.forget_connections()
        self.sessions.begin()
        with self.scheduler as scheduler:
            for server in self.servers:
                server.begin(scheduler, claimed=self.claimed)
            try:
                self._play(steps)
            except Exhausted:
                self.problem("the simulation does not come to an end")
            self.end()
            for task, error in scheduler.failures:
                self.problem(f"a thread of {task.process.name} ended: {error!r}")
        for server in self.servers:
            server.scheduler = None
            server.on_change = server.on_claims = server.on_commit = server.on_late = None
        return self.judge()

    def judge(self) -> list[Violation]:
        """Return what is wrong with the history."""
        return check(self.history, self.rules)

    def _play(self, steps: Iterable[Step]) -> None:
        self.prepare()
        for step in steps:
            if step.wait:
                self.scheduler.sleep(step.wait)
            if step.what in self.faults:
                self.fail(step)
            else:
                self.ask(step)
        if self._settle():
            self.drain()

    def prepare(self) -> None:
        """Start the members."""

    def ask(self, step: Step) -> None:
        """Hand a step to the member that is to do it."""
        self.members[step.who].give(step)

    def fail(self, step: Step) -> None:
        """Let something fail."""
        scheduler, chance = self.scheduler, random.Random(step.chance)
        member: Member = self.members[step.who]
        process = member.process
        seconds = chance.choice((0.01, 0.1, 0.5, 2.0))
        self.trace("fault", process.name, kind=step.what, seconds=seconds)
        match step.what:
            case "kill":
                member.kill()
                Task(self._start_later, (member, process, seconds), process=scheduler.machine).start()
            case "pause":
                process.paused_until = scheduler.now + 2 * seconds
            case "cut":
                process.cut_until = scheduler.now + seconds
            case "restart":
                self.server.restart(seconds / 2)
            case "step":
                process.offset_ms += chance.choice((-5000, -300, 300, 5000))
            case _:
                process.faults.append(step.what)

    def _start_later(self, member: Member, process: Process, seconds: float) -> None:
        self.scheduler.sleep(seconds)
        if member.process is process and not self._is_over:
            member.start()

    def _settle(self) -> bool:
        """End all faults, and wait until every operation has ended; return whether it has."""
        scheduler = self.scheduler
        for server in self.servers:
            server.down_until = 0.0
            server.is_calm = True
        for member in self.members:
            process = member.process
            process.faults.clear()
            process.paused_until = process.cut_until = 0.0
        begun = scheduler.now
        if scheduler.wait_until(self.is_idle, _PATIENCE):
            self.note(Fault(begun, begun, "the last fault"))
            return True
        left = {member.name: (member.busy, [step.what for step in member.waiting]) for member in self.members}
        self.problem(f"after {_PATIENCE:g} s these have not ended: {left}")
        return False

    def is_idle(self) -> bool:
        """Return whether there is nothing to wait for."""
        return all(
            member.store is not None and not member.busy and not member.waiting for member in self.members
        )

    def drain(self) -> None:
        """Consume what is left."""

    def end(self) -> None:
        """End all processes without closing anything, and note what is left."""
        self._is_over = True
        for member in self.members:
            self.scheduler.kill(member.process)
        self.scheduler.sleep(10.0)  # late commits end, too
        alive = [task.name for member in self.members for task in member.process.tasks if task.is_alive()]
        if alive:
            self.problem(f"threads that survived their process: {alive}")
