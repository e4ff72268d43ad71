"""Callers that wait for their writes commit for each other; the writer's thread does the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jdbcstore
from jdbcstore import JdbcStore, Message, MessageId, ProducerId
from jdbcstore.errors import OutcomeUnknown, StoreClosed, StoreError
from jdbcstore.stores.jdbc.writer.committer import Committer
from jdbcstore.stores.jdbc.writer.units import WriteUnit
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held
from tests.support.faults.effects import WAIT

pytestmark = pytest.mark.backends("sqlite", "postgresql")

THREAD = "jdbcstore-writer"


@pytest.fixture
def store(database: Database) -> Iterator[JdbcStore]:
    with jdbcstore.open(database.url, cleanup_period=0) as store:
        assert isinstance(store, JdbcStore)
        store.queue("Q").add_message(Message("first"))
        yield store


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The name of the thread that committed each batch, and how many units that were."""
    seen: list[tuple[str, int]] = []
    write = Committer.write

    def noted(self: Committer, units: list[WriteUnit], *rest: Any) -> Any:
        seen.append((threading.current_thread().name, len(units)))
        return write(self, units, *rest)

    monkeypatch.setattr(Committer, "write", noted)
    return seen


class Caller:
    """A thread that makes one call."""

    def __init__(self, call: Callable[[], Any], name: str) -> None:
        self.outcome: Any = None
        self._call = call
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self._call()
        except BaseException as error:
            self.outcome = error

    def end(self) -> Any:
        self._thread.join(WAIT)
        assert not self._thread.is_alive(), "it hangs"
        return self.outcome


def queued(store: JdbcStore) -> int:
    assert isinstance(store._writes, Writer)
    return len(store._writes._queue)


def in_flight(store: JdbcStore) -> int:
    assert isinstance(store._writes, Writer)
    return len(store._writes._commits.in_flight)


def adding(store: JdbcStore, number: int) -> Caller:
    """A caller whose message is queued, or being written, when this returns."""
    before = queued(store) + in_flight(store)
    caller = Caller(lambda: store.queue("Q").add_message(Message(str(number))), f"caller-{number}")
    wait_until(lambda: queued(store) + in_flight(store) > before, WAIT)
    return caller


def test_callers_commit_for_each_other(
    database: Database, store: JdbcStore, commits: list[tuple[str, int]]
) -> None:
    with writes_held(database):
        callers = [adding(store, number) for number in range(5)]
    sequences = [caller.end().sequence for caller in callers]

    assert sequences == sorted(sequences)
    assert commits == [("caller-0", 1), ("caller-1", 4)]


def test_a_future_is_completed_by_the_thread(
    database: Database, store: JdbcStore, commits: list[tuple[str, int]]
) -> None:
    """What its callback takes, a caller that waits may hold."""
    held, completed = threading.Lock(), list[str]()

    def add_holding() -> None:
        with held:
            store.queue("Q").add_message(Message("holding"))

    def completing(_: object) -> None:
        with held:
            completed.append(threading.current_thread().name)

    with writes_held(database):
        first = adding(store, 0)
        holder = Caller(add_holding, "holder")
        wait_until(lambda: queued(store) == 1, WAIT)
        future = store.queue("Q").add_message_async(Message("future"))
        future.add_done_callback(completing)
        last = adding(store, 1)
    for caller in (first, holder, last):
        caller.end()
    assert future.result(WAIT).sequence > 0
    wait_until(lambda: completed, WAIT)

    assert completed == [THREAD]
    assert sum(units for _, units in commits) == 4


def test_the_main_thread_is_served_and_does_not_write_for_others(
    database: Database, store: JdbcStore, commits: list[tuple[str, int]]
) -> None:
    """A signal may interrupt it at any moment."""
    holding, others = threading.Event(), list[Caller]()

    def hold() -> None:
        with writes_held(database):
            holding.set()
            wait_until(lambda: in_flight(store) == 1 and queued(store) == 1, WAIT)
            others.extend(adding(store, number) for number in (1, 2))

    holder = Caller(hold, "holder")
    holding.wait(WAIT)
    first = adding(store, 0)
    assert store.queue("Q").add_message(Message("main")).sequence > 0
    assert holder.end() is None
    assert all(caller.end().sequence > 0 for caller in (first, *others))

    assert commits == [("caller-0", 1), (THREAD, 3)]


def test_the_main_thread_is_served_by_others(
    database: Database, store: JdbcStore, commits: list[tuple[str, int]]
) -> None:
    holding = threading.Event()

    def hold() -> None:
        with writes_held(database):
            holding.set()
            wait_until(lambda: queued(store) == 2, WAIT)

    holder = Caller(hold, "holder")
    holding.wait(WAIT)
    callers = [adding(store, number) for number in (0, 1)]
    assert store.queue("Q").add_message(Message("main")).sequence > 0
    assert holder.end() is None
    assert all(caller.end().sequence > 0 for caller in callers)

    assert sum(units for _, units in commits) == 3
    assert threading.main_thread().name not in [name for name, _ in commits]


def test_an_interrupted_leader_loses_nothing_of_others(
    database: Database, store: JdbcStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its callers learn that the outcome is not known; who comes next is served."""
    write = Committer.write

    def broken(self: Committer, units: list[WriteUnit], *rest: Any) -> Any:
        if len(units) == 1:
            return write(self, units, *rest)
        monkeypatch.setattr(Committer, "write", write)
        raise SystemExit("a defect")

    monkeypatch.setattr(Committer, "write", broken)
    with writes_held(database):
        callers = [adding(store, number) for number in range(4)]
    first, leader, *others = [caller.end() for caller in callers]

    assert first.sequence > 0
    assert isinstance(leader, SystemExit)
    assert [type(error) for error in others] == [OutcomeUnknown] * 2
    assert Caller(lambda: store.queue("Q").add_message(Message("next")), "next").end().sequence > 0


def test_a_close_that_takes_too_long_frees_all_callers(database: Database) -> None:
    with jdbcstore.open(database.url, cleanup_period=0, reconnect_timeout=0.0) as store:
        assert isinstance(store, JdbcStore)
        store.queue("Q").add_message(Message("first"))
        with writes_held(database):
            callers = [adding(store, number) for number in range(4)]
            with pytest.raises(StoreClosed) as closed:
                store.close(timeout=0.1)
            # They need not wait until the first is through.
            errors = [caller.end() for caller in callers[1:]]
        callers[0].end()

    assert closed.value.unwritten == 4
    assert {type(error) for error in errors} == {StoreClosed}
    assert all(isinstance(error, StoreError) for error in errors)


def test_a_close_in_the_middle_of_a_halved_batch_gives_up_the_rest(
    database: Database, store: JdbcStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written before has its result, and is not counted."""
    write, is_stuck = Committer.write, threading.Event()

    def stuck_in_the_second_half(self: Committer, units: list[WriteUnit], *rest: Any) -> Any:
        if len(units) == 4:
            raise StoreError("one of them is refused")
        if [add.message_id for unit in units for add in unit.adds] == ids[2:]:
            is_stuck.set()
            self.pause(WAIT)
        return write(self, units, *rest)

    queue, ids = store.queue("Q"), [MessageId(ProducerId("ID:c", 1, 1), number) for number in range(4)]
    monkeypatch.setattr(Committer, "write", stuck_in_the_second_half)
    with writes_held(database):
        queue.add_message_async(Message("in flight"))
        wait_until(lambda: in_flight(store) == 1, WAIT)
        futures = [queue.add_message_async(Message("m", message_id=id_)) for id_ in ids]
    assert is_stuck.wait(WAIT)
    assert [future.done() for future in futures] == [True, True, False, False]
    with pytest.raises(StoreClosed) as closed:
        store.close(timeout=0.0)
    assert closed.value.unwritten == 2
    assert [future.exception(WAIT) is None for future in futures] == [True, True, False, False]
    wait_until(lambda: database.connections() == 0, WAIT)
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(4,)]
