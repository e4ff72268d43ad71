"""No write of a deposed master commits, whatever it is and whatever deposed it."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

import pytest

import jdbcstore
from jdbcstore import JdbcStore, Message, MessageStore
from jdbcstore.config.locker import DatabaseLockerConfig, LockerConfig
from jdbcstore.errors import LockLost, NotMaster
from jdbcstore.stores.shared.checkpoint import Changes, JournalMark
from jdbcstore.testing.polling import wait_until
from tests.faults.conftest import line
from tests.lockers.conftest import LEASE, OpenLocked
from tests.support.databases import Database
from tests.support.faults.blocking import WAITING
from tests.support.faults.effects import WAIT
from tests.support.faults.line import Break, Line

__all__ = ["line"]

ROWS = ("SELECT * FROM ACTIVEMQ_MSGS", "SELECT * FROM ACTIVEMQ_ACKS", "SELECT * FROM JDBCSTORE_ACKS")
DEPOSERS = {
    "an ActiveMQ takes the lease": "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'activemq' WHERE ID = 1",
    "another begins an epoch": "UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER + 1 WHERE NAME = 'epoch'",
    "the lock's row is gone": "DELETE FROM ACTIVEMQ_LOCK",
}


def contents(database: Database) -> list[list[tuple[object, ...]]]:
    return [sorted(database.rows(query), key=str) for query in ROWS]


def add_in_transaction(store: JdbcStore) -> object:
    with store.transaction() as transaction:
        transaction.queue("Q").add_message(Message("in a transaction"))
    return None


WRITES: dict[str, Callable[[JdbcStore], object]] = {
    "add": lambda store: store.queue("Q").add_message(Message("late")),
    "transaction": add_in_transaction,
    "remove": lambda store: store.queue("Q").acknowledge(1),
    "purge": lambda store: store.queue("Q").remove_all_messages(),
    "subscribe": lambda store: store.topic("T").subscribe("new", "new"),
    "acknowledge": lambda store: store.topic("T").subscription("client", "sub").acknowledge(2),
    "unsubscribe": lambda store: store.topic("T").unsubscribe("client", "sub"),
    "apply": lambda store: store.apply(
        Changes(JournalMark(1, 1, 99), adds=[(99, store.queue("Q").encode(Message("late")))])
    ),
    "update": lambda store: store.queue("Q").update_message(store.queue("Q").get_message(1)),
}


def prepare(store: JdbcStore) -> None:
    store.topic("T").subscribe("client", "sub")
    store.queue("Q").add_message(Message("first"))
    store.topic("T").add_message(Message("second"))


def test_a_deposed_master_writes_nothing(open_locked: OpenLocked, database: Database) -> None:
    prepare(open_locked())
    for write, how in zip(WRITES, itertools.cycle(DEPOSERS), strict=False):
        database.execute("DELETE FROM ACTIVEMQ_LOCK")
        database.execute("INSERT INTO ACTIVEMQ_LOCK (ID) VALUES (1)")
        store = open_locked()
        database.execute(DEPOSERS[how])
        before = contents(database)
        with pytest.raises(LockLost, match="open it again") as lost:
            WRITES[write](store)
        assert not lost.value.in_doubt
        assert store.fence is not None
        assert store.fence.lost is not None
        # It has closed itself to writes, and says so to each.
        with pytest.raises(LockLost):
            store.queue("Q").add_message(Message("later"))
        assert contents(database) == before, (write, how)
        assert [message.body for message in store.queue("Q").recover()] == ["first"]
        store.close()


def test_everybody_who_waits_is_told(open_locked: OpenLocked, database: Database) -> None:
    store = open_locked()
    told: list[LockLost] = []
    assert store.fence is not None
    store.fence.on_lost(told.append)
    database.execute(DEPOSERS["another begins an epoch"])
    queue = store.queue("Q")
    futures = [queue.add_message_async(Message(str(n))) for n in range(100)]
    for future in futures:
        assert isinstance(future.exception(180), LockLost)
    assert len(told) == 1
    assert database.rows("SELECT * FROM ACTIVEMQ_MSGS") == []


@pytest.mark.backends("sqlite")
def test_a_listener_that_fails_keeps_nobody_from_hearing(open_locked: OpenLocked) -> None:
    fence = open_locked().fence
    assert fence is not None
    told: list[object] = []
    for listener in (lambda _: sys.exit("a listener's"), told.append):
        fence.on_lost(listener)
    for cut in (lambda: sys.exit("a cut's"), lambda: told.append("cut")):
        fence.cuts.append(cut)
    fence.lose("the test says so")
    fence.cut()
    assert [type(one) for one in told] == [LockLost, str]


@pytest.mark.needs("row_locks")
def test_an_epoch_begins_when_what_was_being_written_has_ended(
    open_locked: OpenLocked, database: Database
) -> None:
    """The next master waits for the last transaction of the one before, and then sees all it wrote."""
    store = open_locked()
    database.execute("UPDATE ACTIVEMQ_LOCK SET TIME = 0")
    began = threading.Event()
    follower: list[JdbcStore] = []

    def follow() -> None:
        follower.append(open_locked(broker_name="two"))
        began.set()

    thread = threading.Thread(target=follow)

    with_other: list[bool] = []

    def slowly(_connection: object) -> None:
        thread.start()
        with_other.append(began.wait(1.5))

    # The lease may have gone to the other already.
    with suppress(LockLost):
        store._writes.call(slowly)
    assert with_other == [False], "another master began while this one was writing"
    thread.join(180)
    assert follower
    with pytest.raises(LockLost):
        store.queue("Q").add_message(Message("late"))
    follower[0].queue("Q").add_message(Message("from the new master"))


@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize(
    "write",
    [
        lambda queue: queue.add_message_async(Message("late")),
        lambda queue: queue.add_messages_async([Message("late"), Message("late")]),
        lambda queue: queue.acknowledge_async(1),
        lambda queue: queue.acknowledge_async(1, 2),
    ],
    ids=["adds one", "adds two", "removes one", "removes two"],
)
def test_a_write_that_waits_for_the_next_epoch_is_refused(
    open_locked: OpenLocked, database: Database, write: Callable[[MessageStore], Future[object]]
) -> None:
    """What guards it is read once the row is free, whatever the statement has seen before."""
    queue = open_locked().queue("Q")
    queue.add_message(Message("before"))
    with database.engine.connect() as other:
        other.exec_driver_sql("BEGIN")
        other.exec_driver_sql(DEPOSERS["another begins an epoch"])
        waiting = database.rows(WAITING[other.dialect.name])
        late = write(queue)
        wait_until(lambda: database.rows(WAITING[other.dialect.name]) > waiting, what="the wait")
        other.exec_driver_sql("COMMIT")
    assert isinstance(late.exception(WAIT), LockLost)
    assert [message.body for message in queue.recover()] == ["before"]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize(
    "locker",
    [LEASE, pytest.param(DatabaseLockerConfig(), marks=pytest.mark.needs("row_locks"))],
    ids=lambda locker: locker.type,
)
@pytest.mark.parametrize("how", [Break.ANSWER, Break.STATEMENT])
def test_a_commit_in_doubt_is_settled_when_another_has_begun(
    open_locked: OpenLocked, database: Database, line: Line, how: Break, locker: LockerConfig
) -> None:
    store = open_locked(locker, url=line.url, reconnect_timeout=180.0)
    queue = store.queue("Q")
    queue.add_message(Message("before"))
    line.arm(how, 1, lasting=True)
    future = queue.add_message_async(Message("in doubt"))
    wait_until(lambda: line.broke, what="the break")
    database.execute(DEPOSERS["another begins an epoch"])
    line.mend()
    error = future.exception(180)
    stored = [body for (body,) in database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")] == [2]
    # Told of a failure, nobody may find it stored, unless it was told to look.
    assert stored or isinstance(error, LockLost)
    assert not stored or error is None or (isinstance(error, LockLost) and error.in_doubt)


@pytest.mark.backends("sqlite", "postgresql")
def test_a_removal_in_doubt_stays_in_doubt_when_another_has_begun(
    open_locked: OpenLocked, database: Database, line: Line
) -> None:
    """Its row may have been removed by either."""
    queue = open_locked(url=line.url, reconnect_timeout=180.0).queue("Q")
    reference = queue.add_message(Message("consumed"))
    line.arm(Break.ANSWER, 1, lasting=True)
    future = queue.acknowledge_async(reference)
    wait_until(lambda: line.broke, what="the break")
    database.execute(DEPOSERS["another begins an epoch"])
    line.mend()
    error = future.exception(180)
    assert isinstance(error, LockLost)
    assert error.in_doubt


def test_a_second_store_waits_or_is_told_who_holds_the_lock(open_locked: OpenLocked) -> None:
    open_locked(broker_name="first")
    with pytest.raises(NotMaster, match="first") as raised:
        open_locked(broker_name="second", lock_timeout=0.0)
    assert str(raised.value.holder).startswith("first#")


def test_reading_needs_no_lock(open_locked: OpenLocked) -> None:
    open_locked().queue("Q").add_message(Message("seen"))
    reader = open_locked(read_only=True)
    assert [message.body for message in reader.queue("Q").recover()] == ["seen"]
    assert reader.fence is None


def test_a_store_without_a_locker_is_refused_beside_a_master(
    open_locked: OpenLocked, database: Database
) -> None:
    """Both would deliver the same messages."""
    master = open_locked()
    for opened in (jdbcstore.open, JdbcStore):
        with pytest.raises(
            NotMaster, match="holds the lock and delivers the messages of these tables"
        ) as error:
            opened(database.url)
        assert error.value.holder
    master.queue("Q").add_message(Message("fenced"))
    with JdbcStore(database.url, read_only=True) as reader:
        assert reader.queue("Q").message_count() == 1
    master.close()
    with jdbcstore.open(database.url) as other:
        assert [message.body for message in other.queue("Q").recover()] == ["fenced"]


def test_a_store_that_wants_no_locker_asks_for_no_lock(open_locked: OpenLocked, database: Database) -> None:
    """It is not fenced, and does not depose: that is what a locker is for."""
    master = open_locked()
    with jdbcstore.open(database.url, locker=None) as other:
        other.queue("Q").add_message(Message("unfenced"))
    master.queue("Q").add_message(Message("fenced"))
    assert len(database.rows("SELECT ID FROM ACTIVEMQ_MSGS")) == 2
