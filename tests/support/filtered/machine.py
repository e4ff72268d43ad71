"""A FilteredStore and a store in memory under random operations, failures, crashes and restarts."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

import jdbcstore
from jdbcstore import Destination, MemoryStore, Store, XATransactionId, pages
from jdbcstore.errors import OutcomeUnknown, StoreError, StoreUnavailable
from jdbcstore.stores.filtered import FilteredStore
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.machine import (
    PLACES,
    Step,
    TransactionStep,
    added_to,
    attempt,
    everything,
    messages,
    names,
    numbers,
    places,
    transact,
)
from tests.support.contract.xa_machine import XAMachine, decide, prepare, subscribers, xids
from tests.support.databases import Database
from tests.support.filtered.model import Model
from tests.support.filtered.mortal import Died
from tests.support.filtered.world import CONFIG, JOURNAL, MEMORY, NAMES, FilteredWorld

NewWorld = Callable[[Mapping[Destination, str], FakeClock], FilteredWorld]

seeds = st.integers(0, 1 << 16)
calls = st.integers(0, 6)
"""Of the phases of XA, before or after which something happens."""
steps_in_several = st.lists(
    st.tuples(st.sampled_from(["add", "ack", "sub"]), places, messages, numbers).filter(
        lambda step: step[0] != "ack" or not step[1].is_topic
    ),
    min_size=3,
    max_size=6,
)
"""What a transaction over several stores does not refuse."""
again = st.sampled_from([None, None, 0, 1, 2])
"""Such a call while this is mended at the next start; None is none."""


class FilteredMachine(XAMachine):
    """Each destination has one of three stores; what is in memory is lost with each process."""

    model: Model
    real: FilteredStore

    def __init__(self, new_world: NewWorld, clock: FakeClock) -> None:
        nothing = MemoryStore(CONFIG)
        super().__init__(nothing, nothing, self.open_again, clock)
        self._new_world = new_world

    @initialize(
        stores=st.tuples(*[st.sampled_from(NAMES)] * len(PLACES)).filter(lambda names: len({*names}) > 1)
    )
    def route(self, stores: Sequence[str]) -> None:
        of = {place.destination: store for place, store in zip(PLACES, stores, strict=True)}
        self.model = Model(of, CONFIG, self.clock)
        self.world = self._new_world(of, self.clock)
        self.real = self.world.open()

    def open_again(self) -> Store:
        self.world.close()
        self.model.lose(MEMORY)
        return self.world.open()

    def both_adding(self, operation: Callable[[Store], Any], added: Sequence[Destination]) -> Any:
        found = attempt(operation, self.real)
        if not isinstance(found, type):
            self.number(added)
        assert attempt(operation, self.model) == found
        return found

    def number(self, added: Sequence[Destination]) -> None:
        """Let the model give the sequences that these messages have, the last of their stores."""
        for name, count in Counter(self.model.stores[destination] for destination in added).items():
            inner = self.world.inner[name]
            found = [
                message.sequence or 0
                for place in PLACES if self.model.stores[place.destination] == name
                for page in pages(place.on(inner))
                for message in page
            ]  # fmt: skip
            first = max(found) - count
            assert first >= self.model.counting[name].last_sequence
            self.model.counting[name].last_sequence = first

    @invariant()
    def cannot_be_told_apart(self) -> None:
        for name, shared in self.model.counting.items():
            # Prepared messages have sequences that they lose, and a crash loses some that nobody got.
            last = self.world.inner[name].last_sequence()
            assert last >= shared.last_sequence
            shared.last_sequence = last
        super().cannot_be_told_apart()

    def among(self, at: int, steps: list[Step]) -> int:
        """One of the calls that a transaction over these places takes, if it has several stores."""
        return at % (2 * len({self.model.stores[place.destination] for _, place, *_ in steps}))

    def is_changed(self, *, lost: bool) -> bool:
        """Whether the real one has something else; in memory too, unless that was ``lost``."""
        seen, expected = everything(self.real), everything(self.model)
        places = [place for place in PLACES if not lost or self.model.stores[place.destination] != MEMORY]
        return any(
            seen.get(key) != expected.get(key)
            for key in {*seen, *expected}
            if any(key.startswith(f"{place} ") for place in places)
        )

    def start_again(self, seed: int | None, at: int | None = None) -> None:
        """Crash, and perhaps once more before the next process has mended what this one left."""
        self.world.crash(None if seed is None else random.Random(seed))
        if at is not None:
            self.world.fate.strike(at, Died, done=at % 2 == 0, lasting=True)
        try:
            self.real = self.world.open()
        except Died:
            self.world.crash()
            self.real = self.world.open()
        self.world.fate.spare()

    @rule()
    def checkpoint(self) -> None:
        self.world.inner[JOURNAL].checkpoint()

    @rule(seed=seeds)
    def crash(self, seed: int) -> None:
        self.start_again(seed)
        self.model.lose(MEMORY)

    @rule()
    def kill(self) -> None:
        self.start_again(None)
        self.model.lose(MEMORY)

    @rule(
        steps=steps_in_several,
        who=subscribers,
        by=names,
        at=calls,
        done=st.booleans(),
        seed=seeds,
        at_again=again,
    )
    def crash_in_a_commit(
        self, steps: list[Step], who: tuple[str, str], by: str, at: int, done: bool, seed: int, at_again: int
    ) -> None:
        writes = self.steps(steps, who, by)
        self.world.fate.strike(self.among(at, steps), Died, done=done, lasting=True)
        try:
            said = attempt(lambda store: transact(store, writes, "commit"), self.real)
        except Died:
            self.start_again(seed, at_again)
            self.agree(writes, OutcomeUnknown, lost=True)
        else:
            self.world.fate.spare()
            self.agree(writes, said, lost=False)

    @rule(steps=steps_in_several, who=subscribers, by=names, operation=st.integers(0, 8), seed=seeds)
    def lose_the_disk_in_a_commit(
        self, steps: list[Step], who: tuple[str, str], by: str, operation: int, seed: int
    ) -> None:
        """The machine goes down when the journal asks it for something."""
        writes = self.steps(steps, who, by)
        files = self.world.journal.files
        files.stop_at = files.operations + operation
        said = attempt(lambda store: transact(store, writes, "commit"), self.real)
        self.start_again(seed)
        self.agree(writes, said, lost=True)

    @rule(
        steps=steps_in_several,
        who=subscribers,
        by=names,
        at=calls,
        how=st.sampled_from([(StoreUnavailable, False), (OutcomeUnknown, False), (OutcomeUnknown, True)]),
        lasting=st.booleans(),
    )
    def fail_in_a_commit(
        self,
        steps: list[Step],
        who: tuple[str, str],
        by: str,
        at: int,
        how: tuple[Callable[[], StoreError], bool],
        lasting: bool,
    ) -> None:
        """A store does not answer, once or until the transaction is over."""
        writes = self.steps(steps, who, by)
        self.world.fate.strike(self.among(at, steps), how[0], done=how[1], lasting=lasting)
        said = attempt(lambda store: transact(store, writes, "commit"), self.real)
        self.world.fate.spare()
        self.real.outcomes.finish()
        self.agree(writes, said, lost=False)

    def agree(self, writes: list[TransactionStep], said: Any, *, lost: bool) -> None:
        """The model does what the transaction has come to, of which its caller was told nothing wrong."""
        committed = self.is_changed(lost=lost) if said is OutcomeUnknown else not isinstance(said, type)
        if committed:
            self.number([one for one in added_to(writes) if not (lost and self.model.stores[one] == MEMORY)])
            done = transact(self.model, writes, "commit")
            self.refer(writes, *done)
            if said is not OutcomeUnknown:
                assert said == done
        if lost:
            self.model.lose(MEMORY)

    @rule(
        steps=steps_in_several, who=subscribers, by=names, xid=xids, at=calls, done=st.booleans(), seed=seeds
    )
    def crash_in_a_prepare(
        self,
        steps: list[Step],
        who: tuple[str, str],
        by: str,
        xid: XATransactionId,
        at: int,
        done: bool,
        seed: int,
    ) -> None:
        """The transaction manager has heard nothing, and rolls back."""
        writes = self.steps(steps, who, by)
        before = [one for one in self.model.xa.recover() if one.xid == xid]
        self.world.fate.strike(at, Died, done=done, lasting=True)
        try:
            found = attempt(lambda store: prepare(store, xid, writes), self.real)
        except Died:
            self.start_again(seed)
            if not before:
                attempt(lambda store: decide(store, xid, False), self.real)
            self.model.lose(MEMORY)
        else:
            assert found == attempt(lambda store: prepare(store, xid, writes), self.model)
        self.world.fate.spare()

    @rule(xid=xids, commits=st.booleans(), at=calls, done=st.booleans(), seed=seeds)
    def crash_in_a_decision(
        self, xid: XATransactionId, commits: bool, at: int, done: bool, seed: int
    ) -> None:
        """The transaction manager has heard nothing, and says it again."""
        added = self.prepared_adds(xid) if commits else []
        self.world.fate.strike(at, Died, done=done, lasting=True)
        try:
            self.both_adding(lambda store: decide(store, xid, commits), added)
        except Died:
            self.start_again(seed)
            attempt(lambda store: decide(store, xid, commits), self.real)
            self.number([one for one in added if self.model.stores[one] != MEMORY])
            attempt(lambda store: decide(store, xid, commits), self.model)
            self.model.lose(MEMORY)
        self.world.fate.spare()

    def teardown(self) -> None:
        self.model.close()
        self.world.close()


def over(database: Database, behind: Database, folder: Path) -> Callable[[], FilteredMachine]:
    """Makes machines of which each has both databases for itself, emptied."""
    for one in (database, behind):
        jdbcstore.open(one.url).close()

    def new_world(stores: Mapping[Destination, str], clock: FakeClock) -> FilteredWorld:
        for one in (database, behind):
            one.empty()
        return FilteredWorld(Path(tempfile.mkdtemp(dir=folder)), database, behind, stores, clock)

    return lambda: FilteredMachine(new_world, FakeClock())
