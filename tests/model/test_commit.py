"""The group commit, replayed against its model: two stores without a locker, under the simulation's faults.

The stores are closed and opened again now and then.

The trace has what callers see: units that are submitted and answered, what a reader finds behind its mark,
and what it removes. Each event is noted at the moment at which it takes effect.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

import pytest

from jdbcstore import Message, MessageId, MessageReference, ProducerId
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import SEQUENCE_ROW
from jdbcstore.errors import OutcomeUnknown, StoreError
from jdbcstore.stores.jdbc.sequence import SequenceAllocator
from jdbcstore.stores.jdbc.store import JdbcStore
from tests.model.conftest import Compiled
from tests.simulation.ahead import AHEAD
from tests.simulation.mutations import mutated
from tests.simulation.run import Simulation
from tests.simulation.scheduler import Process, current
from tests.simulation.world import Member, Step, World
from tests.support.spin import Event, Model

pytestmark = [pytest.mark.xdist_group("models"), pytest.mark.ours]

SEEDS = range(30)
UNITS, FAULTS = 8, 2
OK, FAILED, UNKNOWN = 1, 2, 3
PRODUCER = ProducerId("ID:host-1-2-0:1", 1, 1)
BEHIND = "SELECT ID, MSGID_SEQ FROM ACTIVEMQ_MSGS WHERE ID > {mark} ORDER BY ID LIMIT 1"


class Writing(Member):
    """A process with a store, which adds one message after the other in each of its threads."""

    def _live(self, process: Process) -> None:
        while process is self.process and self.store is None:
            try:
                self.store = JdbcStore(self.world.server.url, AHEAD, clock=self.clock)
            except StoreError:
                current().sleep(0.1)
        for _ in range(self.workers):
            self.wake()

    def do_close(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        """Close the store, which first stores what was given to it, and open it again."""
        world = self.world
        assert isinstance(world, Committing)
        store, self.store = self.store, None
        store.close()
        world.event("CLOSE", self.number)
        self._live(self.process)

    def do_send(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        world = self.world
        assert isinstance(world, Committing)
        if len(world.writers) == UNITS:
            return
        message = len(world.writers)
        world.writers[message] = self.number
        name = MessageId(PRODUCER, message)
        future = self.store.queue("Q").add_message_async(Message("x", message_id=name))
        # Units are numbered as they are in the queue.
        unit = world.submitted
        world.submitted += 1
        world.event("SUBMIT", unit, message, self.number)
        world.when_done(future, "ANSWER", unit)
        while not future.done():
            current().sleep(0.01)


class Committing(World):
    """Two such processes, and a reader that removes what it has read."""

    operations: ClassVar = {"send": 5, "read": 4, "remove": 2, "close": 1}
    faults: ClassVar = {"lost": 1, "unknown": 2, "late": 2}

    def prepare(self) -> None:
        self.submitted = self.failed = self.mark = 0
        self.writers: dict[int, int] = {}
        self.read: list[tuple[int, int]] = []
        """The IDs and messages that were read, and not removed."""
        self.is_removing = False
        self.members = [Writing(self, number) for number in range(self.members_count)]
        for member in self.members:
            member.start()
        self.scheduler.wait_until(self.is_idle, 60)

    def event(self, what: str, *numbers: int) -> None:
        """Note an event of the model."""
        self.trace(what, "", numbers=numbers)

    def when_done(
        self, future: Future[Any], what: str, number: int, then: Callable[[int], None] | None = None
    ) -> None:
        """Note how it ends, at that moment."""

        def note(done: Future[Any]) -> None:
            error = done.exception()
            outcome = OK if error is None else UNKNOWN if isinstance(error, OutcomeUnknown) else FAILED
            self.event(what, number, outcome)
            if then is not None:
                then(outcome)

        future.add_done_callback(note)

    def fail(self, step: Step) -> None:
        if self.failed < FAULTS:
            self.failed += 1
            super().fail(step)

    def ask(self, step: Step) -> None:
        if step.what in ("send", "close"):
            super().ask(step)
        elif step.what == "read":
            self.read_one()
        elif self.read and not self.is_removing:
            sequence, message = random.Random(step.chance).choice(self.read)
            if self.members[self.writers[message]].store is not None:
                self.remove(sequence, message)

    def read_one(self) -> bool:
        """Read the next row; whether there was one."""
        found = self.server.rows(BEHIND.format(mark=self.mark))
        if not found:
            self.event("READ_NONE")
            return False
        [(self.mark, message)] = found
        self.read.append((self.mark, message))
        self.event("READ", message)
        return True

    def remove(self, sequence: int, message: int) -> None:
        """Acknowledge a message at the store that has added it."""

        def removed(outcome: int) -> None:
            self.is_removing = False
            if outcome == OK:
                self.read.remove((sequence, message))

        self.is_removing = True
        self.event("REMOVE", message)
        queue = self.members[self.writers[message]].store.queue("Q")
        reference = MessageReference(sequence, MessageId(PRODUCER, message))
        self.when_done(queue.acknowledge_async(reference), "REMOVED", message, removed)

    def is_idle(self) -> bool:
        return not self.is_removing and super().is_idle()

    def drain(self) -> None:
        while self.read_one():
            pass


@pytest.fixture
def of_commits(compiled: Compiled) -> Model:
    return compiled("commit", WRITERS=2, UNITS=UNITS, MESSAGES=UNITS, FAULTS=FAULTS)


def run(simulation: Simulation, model: Model, seed: int) -> tuple[list[Event], int]:
    """The events of a seed, and how many faults there were."""
    world = Committing(simulation.server, simulation.sessions, seed)
    world.traced = []
    assert simulation.run_world(world) == []
    steps = [step for step in world.traced if "numbers" in step]
    return [(model.numbers[step["step"]], *step["numbers"]) for step in steps], world.failed


def refused_at(model: Model, events: list[Event], faults: int) -> int | None:
    return model.refused_at((2, UNITS, faults, 0, 0), events)


def test_stores_do_what_the_model_allows(of_commits: Model, simulation: Simulation) -> None:
    answered = removed = failed = closed = 0
    for seed in SEEDS:
        events, faults = run(simulation, of_commits, seed)
        refused = refused_at(of_commits, events, faults)
        assert refused is None, (seed, refused, events)
        answered += sum(event[0] == of_commits.numbers["ANSWER"] for event in events)
        removed += sum(event[0] == of_commits.numbers["REMOVED"] for event in events)
        closed += sum(event[0] == of_commits.numbers["CLOSE"] for event in events)
        failed += faults
    assert answered > 7 * len(SEEDS)
    assert removed > 3 * len(SEEDS)
    assert failed > len(SEEDS)
    assert closed > len(SEEDS)


def is_refused(model: Model, simulation: Simulation) -> bool:
    """Whether the model does not allow what one of the seeds does."""
    runs = (run(simulation, model, seed) for seed in SEEDS)
    return any(refused_at(model, *one) is not None for one in runs)


def test_a_defect_of_the_commit_is_refused(of_commits: Model, simulation: Simulation) -> None:
    with mutated("a commit in doubt taken for not done"):
        assert is_refused(of_commits, simulation)


def test_a_defect_of_closing_is_refused(
    of_commits: Model, simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_back(self: SequenceAllocator, connection: Connection) -> None:
        """Give IDs back though another store has reserved some after them."""
        if self._reserved != self.last:
            with connection.transaction():
                connection.execute(self._statements.update_number, name_=SEQUENCE_ROW, new=self.last)
            self._reserved = self.last

    monkeypatch.setattr(SequenceAllocator, "give_back", give_back)
    assert is_refused(of_commits, simulation)
