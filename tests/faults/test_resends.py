"""With ``enable_audit``, what is sent again until it is taken is stored once, whatever became of it first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Destination, Message, MessageId, ProducerId, Store, XATransactionId
from jdbcstore.errors import InvalidMessage, StoreUnavailable, TransactionNotFound
from jdbcstore.testing import OpenStore
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held
from tests.support.faults.effects import WAIT
from tests.support.faults.line import Line
from tests.support.faults.refusing import refuse_bad

NAMES = "SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS ORDER BY MSGID_SEQ"
PRODUCER = ProducerId("ID:till", 1, 1)
GOOD, BAD = Destination.queue("GOOD"), Destination.queue("BAD")
XID = XATransactionId(86, b"transaction", b"branch")


def message(number: int, destination: Destination = GOOD) -> Message:
    return Message(str(number), destination=destination, message_id=MessageId(PRODUCER, number))


def _add(store: Store, numbers: list[int]) -> None:
    for number in numbers:
        store.queue(GOOD).add_message(message(number))


def _add_async(store: Store, numbers: list[int]) -> None:
    futures = [store.queue(GOOD).add_message_async(message(number)) for number in numbers]
    errors = [future.exception(WAIT) for future in futures]
    for error in errors:
        if error is not None:
            raise error


def _transaction(store: Store, numbers: list[int]) -> None:
    with store.transaction() as transaction:
        for number in numbers:
            transaction.queue(GOOD).add_message(message(number))


def _commit_async(store: Store, numbers: list[int]) -> None:
    transaction = store.transaction()
    for number in numbers:
        transaction.queue(GOOD).add_message(message(number))
    transaction.commit_async().result(WAIT)


SENDS = {"add": _add, "async": _add_async, "transaction": _transaction, "commit_async": _commit_async}


@pytest.fixture
def store(line: Line) -> Iterator[Store]:
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=0.0, enable_audit=True) as store:
        yield store


@pytest.fixture
def audited(open_store: OpenStore, database: Database) -> Store:
    audited = open_store(cleanup_period=0, enable_audit=True)
    refuse_bad(database)
    return audited


def _broken(line: Line, call: Callable[[], Any]) -> Iterator[bool]:
    """Make a call over a line that breaks at each point in turn; whether it said that it failed."""
    for how in line.breaks:
        for number in itertools.count(1):
            line.arm(how, number, lasting=True)
            failed = False
            try:
                call()
            except StoreUnavailable:
                failed = True
            line.mend()
            yield failed
            if not line.broke:
                break


def _until_taken(call: Callable[[], Any]) -> Any:
    while True:
        try:
            return call()
        except StoreUnavailable:
            continue


@pytest.mark.backends("sqlite", "postgresql")
@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
def test_after_the_line_was_lost(
    line: Line, store: Store, database: Database, send: Callable[[Store, list[int]], None]
) -> None:
    _until_taken(lambda: store.queue(GOOD).add_message(Message("first")))
    store.queue(GOOD).remove_all_messages()
    numbers, first = [0, 1, 2], itertools.count(0, 3)

    def once() -> None:
        numbers[:] = range(start := next(first), start + 3)
        send(store, numbers)

    failures = 0
    for failed in _broken(line, once):
        failures += failed
        _until_taken(lambda: send(store, numbers))
        assert database.rows(NAMES) == [(number,) for number in numbers]
        _until_taken(store.queue(GOOD).remove_all_messages)
    assert failures > 1


@pytest.mark.backends("sqlite", "postgresql")
def test_after_it_was_consumed_meanwhile(line: Line, store: Store, database: Database) -> None:
    """It was stored, though its sender does not know: it is not stored again."""
    queue, numbers = store.queue(GOOD), itertools.count()
    last = 0

    def once() -> None:
        nonlocal last
        last = next(numbers)
        queue.add_message(message(last))

    consumed = 0
    for failed in _broken(line, once):
        if failed and database.rows(NAMES):
            consumed += 1
            _until_taken(lambda: queue.acknowledge(MessageId(PRODUCER, last)))
            assert _until_taken(lambda: queue.add_message(message(last))).sequence == -1
            assert database.rows(NAMES) == []
        _until_taken(queue.remove_all_messages)
    assert consumed


@pytest.mark.backends("sqlite")
def test_after_a_prepare_in_doubt(line: Line, store: Store, database: Database) -> None:
    """What is prepared is seen, wherever it is decided; what is not may come again."""
    numbers, number = itertools.count(), 0

    def prepare() -> None:
        nonlocal number
        number = next(numbers)
        transaction = store.xa.start(XID)
        transaction.queue(GOOD).add_message(message(number))
        transaction.prepare()

    found, queue = set(), store.queue(GOOD)
    for failed in _broken(line, prepare):
        is_prepared = bool(_until_taken(store.xa.recover))
        found.add((failed, is_prepared))
        assert (_until_taken(lambda: queue.add_message(message(number))).sequence == -1) == is_prepared
        assert database.rows(NAMES) == [(number,)]
        if is_prepared:
            _until_taken(lambda: store.xa.commit(XID))
        _until_taken(queue.remove_all_messages)
    assert {(True, False), (True, True)} <= found


@pytest.mark.backends("sqlite", "postgresql")
def test_after_a_rollback_in_doubt(line: Line, store: Store, database: Database) -> None:
    """A prepared message that is rolled back may come again."""
    numbers, queue = itertools.count(), store.queue(GOOD)
    number = 0

    def prepare() -> None:
        nonlocal number
        number = next(numbers)
        transaction = store.xa.start(XID)
        transaction.queue(GOOD).add_message(message(number))
        transaction.prepare()

    prepare()
    for _ in _broken(line, lambda: store.xa.rollback(XID)):
        if _until_taken(store.xa.recover):
            with suppress(TransactionNotFound):  # the server went on, and rolled it back after that
                _until_taken(lambda: store.xa.rollback(XID))
        assert database.rows(NAMES) == []
        assert _until_taken(lambda: queue.add_message(message(number))).sequence > 0
        assert database.rows(NAMES) == [(number,)]
        _until_taken(queue.remove_all_messages)
        prepare()


@pytest.mark.backends("sqlite")
def test_while_the_first_is_under_way_and_then_fails(audited: Store, database: Database) -> None:
    with writes_held(database):
        audited.queue(GOOD).add_message_async(message(0))
        first = audited.queue(BAD).add_message_async(message(1, BAD))
        again = audited.queue(GOOD).add_message_async(message(1))
        cancelled = audited.queue(GOOD).add_message_async(message(2))
        later = audited.queue(GOOD).add_message_async(message(2))
        assert cancelled.cancel()
    with pytest.raises(InvalidMessage):
        first.result(WAIT)
    assert again.result(WAIT).sequence > 0
    assert later.result(WAIT).sequence > 0
    assert database.rows(NAMES) == [(0,), (1,), (2,)]


@pytest.mark.backends("sqlite")
def test_while_the_first_is_under_way_and_then_stored(audited: Store, database: Database) -> None:
    with writes_held(database):
        audited.queue(GOOD).add_message_async(message(0))
        first = audited.queue(GOOD).add_message_async(message(1))
        again = audited.queue(GOOD).add_message_async(message(1))
        transaction = audited.transaction()
        for number in (1, 2, 2):
            transaction.queue(GOOD).add_message(message(number))
        both = transaction.commit_async()
    stored = first.result(WAIT).sequence
    assert again.result(WAIT).sequence == -1
    assert [one.sequence for one in both.result(WAIT)] == [-1, stored + 1, -1]
    assert database.rows(NAMES) == [(0,), (1,), (2,)]
