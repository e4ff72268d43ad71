"""Two processes that store into the same tables at once."""

from __future__ import annotations

import subprocess

import pytest

import jdbcstore
from jdbcstore import JdbcStore, Message, XATransactionId
from jdbcstore.abc import Store, pages
from jdbcstore.lockers.database import LeaseDatabaseLocker
from jdbcstore.testing.polling import wait_until
from tests.support.cli.zygote import fork_main
from tests.support.databases import Database
from tests.support.faults.blocking import WAITING
from tests.support.faults.effects import WAIT

BATCHES, SIZE = 60, 200
"""More than one block of sequences for each."""


def test_nothing_is_lost_and_no_sequence_given_twice(url: str) -> None:
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    adders = {
        name: fork_main("tests.support.faults.adder", url, name, str(BATCHES), str(SIZE), **streams)
        for name in ("ONE", "TWO")
    }
    for adder in adders.values():
        assert adder.stdin is not None
        adder.stdin.write("\n")
        adder.stdin.flush()
    said = {name: adder.communicate(timeout=WAIT * 2) for name, adder in adders.items()}
    told: dict[str, dict[int, str]] = {}
    for name, (output, errors) in said.items():
        assert not errors
        told[name] = {int(line.split()[0]): line.split()[1] for line in output.splitlines()}
        assert len(told[name]) == BATCHES * SIZE
    assert not told["ONE"].keys() & told["TWO"].keys()
    with jdbcstore.open(url, cleanup_period=0) as store:
        for name in adders:
            stored = {message.sequence: message.body for page in pages(store.queue(name)) for message in page}
            assert stored == told[name]
        assert store.last_sequence() >= max(max(of_one) for of_one in told.values())


def _bodies(store: Store, *, acknowledge: bool = False) -> list[object]:
    subscription = store.topic("PRICES").subscription("client", "sub")
    found = [message for page in pages(subscription) for message in page]
    if acknowledge:
        subscription.acknowledge(*found)
    return [message.body for message in found]


@pytest.mark.parametrize("locked", [False, True], ids=["plain", "beside a master"])
def test_a_durable_subscription_gets_what_is_stored_after_another_writers_message(
    url: str, database: Database, locked: bool
) -> None:
    locker = LeaseDatabaseLocker(name="boss") if locked else None
    with (
        JdbcStore(url, locker=locker) as one,
        jdbcstore.open(url, cleanup_period=0, locker=None) as two,
    ):
        one.topic("PRICES").subscribe("client", "sub")
        one.topic("PRICES").add_message(Message("before"))
        two.topic("PRICES").add_message(Message("the other's"))
        assert _bodies(one, acknowledge=True) == ["before", "the other's"]
        two.topic("PRICES").subscribe("late", "sub")
        later = [f"later {number}" for number in range(20)]
        for body in later:
            one.topic("PRICES").add_message(Message(body))
        one.cleanup()
        assert _bodies(two) == later
        assert two.topic("PRICES").subscription("late", "sub").message_count() == len(later)
        assert database.rows("SELECT count(*) FROM ACTIVEMQ_MSGS") == [(len(later),)]


def test_a_cursor_misses_nothing_that_another_writer_stores(url: str) -> None:
    with jdbcstore.open(url, cleanup_period=0) as one, jdbcstore.open(url, cleanup_period=0) as two:
        cursor, seen, sent = None, [], []
        for number, store in enumerate((one, two) * 4):
            if number < 4:
                store.queue("Q").add_message(Message(str(number)))
            else:
                branch = store.xa.start(XATransactionId(1, bytes([number]), b""))
                branch.queue("Q").add_message(Message(str(number)))
                assert branch.prepare()
                store.xa.commit(branch.xid)
            sent.append(str(number))
            page = one.queue("Q").recover(after=cursor)
            seen += [message.body for message in page]
            cursor = page.cursor
        assert seen == sent


@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("count", [1, 3])
def test_who_waits_for_a_reservation_gets_later_sequences(url: str, database: Database, count: int) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store, database.engine.connect() as other:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        other.exec_driver_sql("BEGIN")
        other.exec_driver_sql("UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER + 10000 WHERE NAME = 'sequence'")
        waiting = database.rows(WAITING[other.dialect.name])
        late = queue.add_messages_async([Message("late")] * count)
        wait_until(lambda: database.rows(WAITING[other.dialect.name]) > waiting, what="the wait")
        other.exec_driver_sql("COMMIT")
        assert [reference.sequence for reference in late.result(WAIT)] == [20_001, 20_002, 20_003][:count]
        assert queue.message_count() == 1 + count
