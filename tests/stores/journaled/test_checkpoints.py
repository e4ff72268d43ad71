"""When checkpoints are made, what they write, and what happens while they cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from jdbcstore import Destination, JournaledStore, MemoryStore, Message, Page, StoreConfig, XATransactionId
from jdbcstore.errors import JournalFailed, JournalInUse, LockLost, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.journal.directory import DirectoryLock
from jdbcstore.journal.inspection import records
from jdbcstore.journal.layout import Record
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled.records import PREPARE
from jdbcstore.stores.shared.checkpoint import Changes
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.futures import StoreFuture
from tests.conftest import small_journal
from tests.support.databases import Database
from tests.support.journaled.world import Behind, World

CONFIG = StoreConfig(cleanup_period=0)
T = TypeVar("T")
Open = Callable[..., tuple[JournaledStore, Behind]]


@pytest.fixture
def open_journaled(tmp_path: Path) -> Iterator[Open]:
    """Opens stores over one in memory, which can be taken down."""
    opened: list[tuple[JournaledStore, Behind]] = []

    def open_journaled(clock: FakeClock | None = None, **options: Any) -> tuple[JournaledStore, Behind]:
        behind = Behind(MemoryStore(CONFIG))
        directory = tmp_path / str(len(opened))
        store = JournaledStore(behind, small_journal(directory, **options), clock=clock)
        opened.append((store, behind))
        return store, behind

    yield open_journaled
    for store, behind in opened:
        behind.down = False
        store.close()


def test_the_state_of_a_journal(open_journaled: Open) -> None:
    clock = FakeClock()
    store, behind = open_journaled(clock, checkpoint_interval=0)
    store.queue("ORDERS").add_messages([Message("1"), Message("2")])
    clock.advance(5)
    state = store.journal_state()
    assert state.last_record > state.applied
    assert (state.pending_bytes > 0, state.checkpoint_age, state.failure) == (True, 5, None)
    assert (state.segments, state.refused, state.in_doubt) == (1, 0, 0)
    behind.down = True
    with pytest.raises(StoreError):
        store.checkpoint()
    assert store.journal_state().failure is not None
    behind.down = False
    store.checkpoint()
    state = store.journal_state()
    assert (state.last_record, state.pending_bytes, state.failure) == (state.applied, 0, None)


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_what_is_gone_before_a_checkpoint_never_reaches_the_database(
    database: Database, tmp_path: Path
) -> None:
    counter = INSERTS[database.engine.dialect.name]
    if database.engine.dialect.name == "mariadb":
        database.execute("SET GLOBAL userstat = 1")
    before = StoreConfig(cleanup_period=0)
    with JournaledStore(
        JdbcStore(database.url, before, journaled=True), small_journal(tmp_path / "journal")
    ) as store:
        queue = store.queue("ORDERS")
        added = [queue.add_message_async(Message(f"{number}")) for number in range(10_000)]
        done = [
            queue.acknowledge_async(future.result(180)) for number, future in enumerate(added) if number % 100
        ]
        for acknowledged in done:
            acknowledged.result(180)
        assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]
        store.checkpoint()
        assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(100,)]
        assert content(queue) == [str(number) for number in range(0, 10_000, 100)]
    wait_until(lambda: database.rows(counter) != [] and database.rows(counter)[0][0] > 0)
    assert database.rows(counter) == [(100,)]


INSERTS = {
    "postgresql": "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'activemq_msgs'",
    "mariadb": "SELECT ROWS_CHANGED FROM information_schema.TABLE_STATISTICS"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'ACTIVEMQ_MSGS'",
    "mysql": "SELECT COUNT_INSERT FROM performance_schema.table_io_waits_summary_by_table"
    " WHERE OBJECT_SCHEMA = DATABASE() AND OBJECT_NAME = 'ACTIVEMQ_MSGS'",
}
"""Rows that were ever written there, as the database counts them."""


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_sequence_of_another_destination_removes_nothing(
    database: Database, tmp_path: Path, in_memory: bool
) -> None:
    config = StoreConfig(cleanup_period=0)
    behind = MemoryStore(config) if in_memory else JdbcStore(database.url, config, journaled=True)
    with JournaledStore(behind, small_journal(tmp_path / "journal")) as store:
        theirs = [*fill(store.queue("ORDERS"), "a"), *fill(store.topic("NEWS"), "b")]
        store.checkpoint()

        store.queue("HERE").acknowledge(*theirs)
        store.topic("THERE").acknowledge(*[one.sequence for one in theirs])
        transaction = store.xa.start(XATransactionId(1, b"a", b"b"))
        transaction.queue("HERE").acknowledge(*theirs)
        assert not transaction.prepare()
        store.checkpoint()

        assert content(store.queue("ORDERS")) == ["a"]
        assert content(store.topic("NEWS")) == ["b"]
        assert store.queue("ORDERS").message_count() == 1
        if not in_memory:
            assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(2,)]


def test_at_times(open_journaled: Open) -> None:
    clock = FakeClock()
    store, behind = open_journaled(clock, checkpoint_interval=300.0)
    fill(store.queue("A"), "a", "b")
    assert behind.message_count("A") == 0

    clock.advance(300)

    wait_until(lambda: behind.message_count("A") == 2)
    fill(store.queue("A"), "c")
    clock.advance(299)
    assert content(store.queue("A")) == ["a", "b", "c"]
    assert behind.message_count("A") == 2


def test_by_bytes_in_the_journal(open_journaled: Open) -> None:
    store, behind = open_journaled(checkpoint_size=20_000)
    queue = store.queue("A")
    while not behind.message_count("A"):
        queue.acknowledge(*fill(queue, "x" * 1_000)[:-1])


def test_adders_wait_for_room_and_consumers_do_not(open_journaled: Open) -> None:
    store, behind = open_journaled(memory_limit=20_000)
    queue = store.queue("A")
    behind.down = True
    references = []
    for _ in range(12):  # of some 1,700 bytes each, with what it takes to keep them
        references += fill(queue, "x" * 1_000)
    added = threading.Event()

    def add() -> None:
        fill(queue, "late")
        added.set()

    thread = threading.Thread(target=add)
    thread.start()
    assert not added.wait(0.3)
    # Once a checkpoint has begun, what is acknowledged makes no room before it ends.
    wait_until(lambda: store._overlay.frozen is not None)
    queue.acknowledge(references[0])
    assert queue.message_count() == 11
    behind.down = False
    assert added.wait(180)
    thread.join(180)
    assert queue.message_count() == 12


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits looks at the clock, which does not go by itself, often."""
    monkeypatch.setattr("jdbcstore.stores.journaled.admission._LOOK", 0.01)


def within_reason(work: Callable[[], T], behind: Behind) -> T:
    """What it returns; the store behind is up again once it has taken far too long."""
    rescue = threading.Timer(20, lambda: setattr(behind, "down", False))
    rescue.start()
    try:
        return work()
    finally:
        rescue.cancel()
        assert behind.down, "the caller waited for the store behind"


def test_no_caller_of_an_async_write_waits_for_room(open_journaled: Open) -> None:
    store, behind = open_journaled(memory_limit=20_000)
    queue = store.queue("A")
    behind.down = True

    def add() -> list[StoreFuture[Any]]:
        added = [queue.add_message_async(Message(f"{number:04}" * 250)) for number in range(40)]
        transaction = store.transaction()
        transaction.queue("A").add_message(Message("committed"))
        together = [Message("apart", destination=Destination.queue("A"))]
        committed = transaction.commit_async()
        apart = store.add_each_async(together)
        batch = queue.add_messages_async(Message(f"batch {number}") for number in range(2))
        each = queue.add_each_async([Message("each")])
        return [*added, committed, apart, batch, each]

    futures = within_reason(add, behind)

    futures[8].result(180)
    stored = [future for future in futures if future.done()]
    assert len(stored) < 20
    assert stored == futures[: len(stored)]
    withdrawn = futures.pop(30)
    assert withdrawn.cancel()
    behind.down = False
    for future in futures:
        future.result(180)
    bodies = [str(number)[:4] for number in content(queue)]
    late = ("comm", "apar", "batc", "batc", "each")
    assert bodies == [*(f"{number:04}" for number in range(40) if number != 30), *late]


@pytest.mark.usefixtures("quick_looks")
def test_what_finds_no_room_is_refused_after_a_while(open_journaled: Open) -> None:
    clock = FakeClock()
    store, behind = open_journaled(clock, memory_limit=20_000)
    queue = store.queue("A")
    behind.down = True
    futures = [queue.add_message_async(Message("x" * 1_000)) for _ in range(20)]
    raised: list[BaseException] = []

    def add() -> None:
        try:
            queue.add_message(Message("waited for"))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=add)
    thread.start()
    waiting = store._writer.admission._for_room
    wait_until(lambda: len(waiting) > 5 and waiting[-1].is_waited_for)
    clock.advance(CONFIG.reconnect_timeout - 1)
    assert not futures[-1].done()
    clock.advance(1)

    error = futures[-1].exception(180)
    thread.join(180)
    assert isinstance(error, StoreUnavailable)
    assert "memory_limit" in str(error)
    assert "has committed nothing for 10 seconds" in str(error)
    assert [type(one) for one in raised] == [StoreUnavailable]
    stored = sum(future.exception(180) is None for future in futures)
    assert queue.message_count() == stored
    queue.acknowledge(*[message.sequence or 0 for message in queue.recover()])
    behind.down = False
    assert fill(queue, "again")


@pytest.mark.usefixtures("quick_looks")
def test_a_store_behind_that_hangs_is_told_of(
    open_journaled: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    store, behind = open_journaled(clock)
    asked, goes_on, apply = threading.Event(), threading.Event(), behind.apply

    def hanging(changes: Changes) -> None:
        asked.set()
        assert goes_on.wait(180)
        apply(changes)

    monkeypatch.setattr(behind, "apply", hanging)
    fill(store.queue("A"), "a")
    thread = threading.Thread(target=store.checkpoint)
    thread.start()
    assert asked.wait(180)
    clock.advance(4)
    assert "has not answered" not in caplog.text
    clock.advance(3)
    wait_until(lambda: "has not answered a checkpoint for 7 seconds" in caplog.text)
    clock.advance(35)
    goes_on.set()
    thread.join(180)

    assert "answers again after 42 seconds" in caplog.text
    assert caplog.text.count("has not answered") == 1


def test_what_waits_for_room_is_written_before_a_close(open_journaled: Open) -> None:
    store, behind = open_journaled(memory_limit=20_000)
    queue = store.queue("A")
    behind.down = True
    futures = [queue.add_message_async(Message("x" * 1_000)) for _ in range(40)]
    assert not futures[-1].done()
    behind.down = False

    store.close()

    assert [future.exception(0) for future in futures] == [None] * 40
    assert sum(len(changes.adds) for changes in behind.applied) == 40


def test_a_close_says_what_it_gave_up(open_journaled: Open) -> None:
    store, behind = open_journaled(memory_limit=20_000)
    behind.down = True
    futures = [store.queue("A").add_message_async(Message("x" * 1_000)) for _ in range(40)]

    with pytest.raises(StoreClosed) as closed:
        store.close(timeout=0.1)

    failed = [future for future in futures if future.exception(0) is not None]
    assert 20 < closed.value.unwritten == len(failed)
    assert all(isinstance(future.exception(), StoreClosed) for future in failed)


def prepared(store: JournaledStore, number: int, size: int) -> XATransactionId:
    xid = XATransactionId(7, b"%d" % number, b"b")
    branch = store.xa.start(xid)
    branch.queue("P").add_message(Message("x" * size))
    assert branch.prepare()
    return xid


def prepares(directory: Path) -> int:
    return sum(isinstance(one, Record) and one.kind == PREPARE for one in records(directory))


def test_what_is_prepared_is_not_written_again_and_again(tmp_path: Path) -> None:
    """Also not if it is more than what begins a checkpoint."""
    world = World(tmp_path, memory_behind(), FakeClock(), closes=False)
    world.options |= {"checkpoint_size": 20_000, "journal_log_file_size": 8_192}
    store = world.open()
    xids = [prepared(store, number, 10_000) for number in range(4)]
    wait_until(lambda: store._checkpointer.mark.applied >= 2)
    for number in range(3):
        fill(store.queue("A"), f"{number}")
        store.checkpoint()
    journal = Path(store._journal._config.directory)
    assert store._overlay.last_number == 7
    assert prepares(journal) == 4

    world.crash()
    store = world.open()
    assert [one.xid for one in store.xa.recover()] == xids
    store.xa.rollback(xids[0])
    for _ in range(20):
        # So much that they are in the way of files that could be released.
        fill(store.queue("A"), "y" * 10_000)
    store.checkpoint()
    journal = Path(store._journal._config.directory)
    numbers = [one.number for one in records(journal) if isinstance(one, Record) and one.kind == PREPARE]
    assert numbers
    assert numbers[0] > 4
    # Three transactions may retain four times their own 30,000 bytes, and are written again behind these;
    # each file holds one message. Never written again, they would retain all 24 files.
    assert len(list(journal.glob("journal-*.log"))) <= 12 + 3 + 2

    world.crash()
    store = world.open()
    assert [one.xid for one in store.xa.recover()] == xids[1:]
    store.xa.commit(xids[1])
    assert store.queue("P").message_count() == 1
    world.crash()
    store = world.open()
    assert [one.xid for one in store.xa.recover()] == xids[2:]
    store.checkpoint()
    world.crash()
    assert [one.xid for one in world.open().xa.recover()] == xids[2:]
    assert world.store.queue("P").message_count() == 1
    world.close()


def memory_behind() -> Callable[[], MemoryStore]:
    """One that outlives its machine."""
    behind = MemoryStore(CONFIG, clock=FakeClock())
    return lambda: behind


@pytest.mark.usefixtures("quick_looks")
def test_what_is_prepared_counts_in_the_memory(open_journaled: Open) -> None:
    clock = FakeClock()
    store, behind = open_journaled(clock, memory_limit=20_000)
    queue = store.queue("A")
    xids = [prepared(store, number, 5_000) for number in range(2)]
    for _ in range(20):
        fill(queue, "x" * 1_000)  # what room is left is used again and again
    assert behind.message_count("A") >= 15
    xids += [prepared(store, number, 5_000) for number in range(2, 4)]
    added = queue.add_message_async(Message("late"))
    branch = store.xa.start(XATransactionId(7, b"more", b"b"))
    branch.queue("P").add_message(Message("late"))

    def wait() -> None:
        wait_until(lambda: is_waiting(store, 2))
        clock.advance(60)

    threading.Thread(target=wait).start()

    with pytest.raises(StoreUnavailable, match=r"prepared transactions take 2\d,.*jdbcstore xa list"):
        branch.prepare()
    with pytest.raises(StoreUnavailable):
        added.result(180)

    store.xa.rollback(xids[0])
    assert fill(queue, "again")
    store.xa.commit(xids[1])
    assert store.queue("P").message_count() == 1


def is_waiting(store: JournaledStore, count: int) -> bool:
    return len(store._writer.admission._for_room) == count


def test_a_store_that_is_away_is_tried_again(open_journaled: Open, caplog: pytest.LogCaptureFixture) -> None:
    store, behind = open_journaled(memory_limit=20_000)
    queue = store.queue("A")
    behind.down = True
    fill(queue, *["x" * 1_000] * 9)
    wait_until(lambda: "tried again" in caplog.text)
    with pytest.raises(StoreUnavailable):
        store.checkpoint()
    assert len(fill(queue, "small")) == 1
    behind.down = False

    wait_until(lambda: behind.message_count("A") >= 9)
    assert queue.message_count() == 10
    wait_until(lambda: "succeed again" in caplog.text)
    assert caplog.text.count("tried again") == 1


def test_who_keeps_up_asks_the_store_behind_nothing(
    open_journaled: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when that had messages, or has some of a checkpoint."""
    store, behind = open_journaled()
    queue = store.queue("A")
    fill(queue, "a", "b")
    store.checkpoint()
    cursor = queue.recover().cursor

    def away(*_: object) -> Page:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(behind.store.queue("A"), "recover", away)
    with pytest.raises(StoreUnavailable):
        queue.recover()
    fill(queue, "c", "d")
    page = queue.recover(1, cursor)
    assert [message.body for message in page] == ["c"]
    store.checkpoint()
    with pytest.raises(StoreUnavailable):
        queue.recover(1, page.cursor)
    fill(queue, "e")
    monkeypatch.undo()
    assert [message.body for message in queue.recover(5, page.cursor)] == ["d", "e"]


def test_a_lost_lock_ends_it(open_journaled: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store, behind = open_journaled()
    queue = store.queue("A")
    fill(queue, "a")

    def lost(_: Changes) -> None:
        raise LockLost("another is the master")

    monkeypatch.setattr(behind, "apply", lost)
    with pytest.raises(LockLost):
        store.checkpoint()

    for write in (
        lambda: queue.add_message(Message("b")),
        lambda: queue.add_message_async(Message("b")),
        lambda: queue.acknowledge(1),
        lambda: store.queue("B").add_message(Message("b")),
    ):
        with pytest.raises(LockLost):
            write()
    assert content(queue) == ["a"]


def test_a_journal_that_failed_refuses_writes_and_not_reads(tmp_path: Path) -> None:
    clock, behind = FakeClock(), MemoryStore(CONFIG)
    world = World(tmp_path, lambda: behind, clock, closes=False)
    store = world.open()
    queue = store.queue("A")
    fill(queue, "a", "b")
    world.files.go_down()

    with pytest.raises(StoreError):
        fill(queue, "c")
    for _ in range(2):
        with pytest.raises(JournalFailed):
            queue.add_message(Message("d"))
        with pytest.raises(JournalFailed):
            queue.acknowledge(1)
    assert content(queue) == ["a", "b"]
    assert queue.message_count() == 2
    world.crash()
    store = world.open()
    assert content(store.queue("A"))[:2] == ["a", "b"]
    world.close()


def test_waiting_adders_learn_of_the_close(open_journaled: Open) -> None:
    store, behind = open_journaled(memory_limit=5_000)
    behind.down = True
    queue = store.queue("A")
    ends: list[type[BaseException]] = []

    def add() -> None:
        try:
            while True:
                fill(queue, "x" * 1_000)
        except StoreClosed as error:
            ends.append(type(error))

    thread = threading.Thread(target=add)
    thread.start()
    wait_until(lambda: queue.message_count() >= 3)
    store.close(timeout=30)
    thread.join(180)

    assert ends == [StoreClosed]


@pytest.mark.backends("sqlite")
def test_a_close_that_the_database_keeps_waiting_leaves_the_rest_to_the_journal(
    database: Database, tmp_path: Path
) -> None:
    def opened() -> JournaledStore:
        behind = JdbcStore(database.url, CONFIG, journaled=True)
        try:
            return JournaledStore(behind, small_journal(tmp_path / "journal"))
        except BaseException:
            behind.close()
            raise

    store = opened()
    fill(store.queue("A"), "a", "b")
    with database.blocked():
        store.close(timeout=0.2)
        with pytest.raises(StoreClosed):
            fill(store.queue("A"), "c")
    wait_until(lambda: database.connections() == 0)
    wait_until(lambda: not is_in_use(tmp_path / "journal"))

    with opened() as store:
        assert content(store.queue("A")) == ["a", "b"]


def is_in_use(directory: Path) -> bool:
    try:
        DirectoryLock(directory).release()
    except JournalInUse:
        return True
    return False
