"""Batches that are sent before the ones before them are answered: each has its effect only after those."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

import pytest

import jdbcstore
from jdbcstore import Message, MessageReference, MessageStore, Store
from jdbcstore.errors import InvalidMessage, OutcomeUnknown, StoreUnavailable
from jdbcstore.stores.jdbc.writer import writer
from jdbcstore.testing.polling import wait_until
from tests.faults.test_late_writes import SHORT, LateLine, _waiting_for_a_standby
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held
from tests.support.faults.effects import WAIT
from tests.support.faults.line import Line
from tests.support.faults.proxy import ProxyLine, _Pair
from tests.support.faults.refusing import refuse_bad
from tests.support.servers import Server

pytestmark = [pytest.mark.servers, pytest.mark.backends("postgresql")]

STORED = "SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID"
COMMITTED = "SELECT ID FROM ACTIVEMQ_MSGS ORDER BY CAST(CAST(xmin AS TEXT) AS BIGINT), ID"
_SYNC, _READY = b"S\0\0\0\4", b"Z\0\0\0\5"
Added = list[tuple[str, Future[MessageReference]]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five messages are a batch."""
    monkeypatch.setattr(writer, "_MOST", 5)


class CountingLine(ProxyLine):
    """Counts the statements that a connection has under way."""

    def __init__(self, url: str) -> None:
        self._under_way: Counter[_Pair] = Counter()
        self.most = 0
        super().__init__(url)

    def _carry_statements(self, pair: _Pair) -> None:
        for data in pair.received(pair.client):
            self._under_way[pair] += data.count(_SYNC)
            self.most = max(self.most, self._under_way[pair])
            pair.send(pair.server, data)

    def _carry_answers(self, pair: _Pair) -> None:
        for data in pair.received(pair.server):
            self._under_way[pair] = max(0, self._under_way[pair] - data.count(_READY))
            pair.send(pair.client, data)


def added(store: Store, database: Database, count: int = 40) -> Added:
    """Messages that were queued while the writer waited."""
    queue = store.queue("GOOD")
    with writes_held(database):
        return [(str(number), queue.add_message_async(Message(str(number)))) for number in range(count)]


def check_stored(store: Store, database: Database, certain: list[str], doubtful: list[str]) -> None:
    """Make sure that what is stored is so once, in order, and was committed in the order of the IDs."""
    stored = [str(message.body) for message in store.queue("GOOD").recover(limit=1000)]
    assert [body for body in stored if body not in doubtful] == certain
    assert stored == sorted({*stored}, key=int)
    assert {*stored} <= {*certain, *doubtful}
    assert database.rows(COMMITTED) == database.rows(STORED)


def test_two_batches_are_under_way(database: Database) -> None:
    line = CountingLine(database.url)
    try:
        with jdbcstore.open(line.url, cleanup_period=0) as store:
            for _ in range(2):  # what is sent behind is prepared after the first time
                messages = added(store, database)
                sequences = [future.result(WAIT).sequence for _, future in messages]
                assert sequences == sorted(sequences)
                check_stored(store, database, [body for body, _ in messages], [])
                store.queue("GOOD").acknowledge(*sequences)
            assert line.most == 2
    finally:
        line.close()


def _broken(line: Line, *, lasting: bool) -> Iterator[None]:
    for how in line.breaks:
        for number in itertools.count(1):
            line.arm(how, number, lasting=lasting)
            yield
            line.mend()
            if not line.broke:
                break


def _until_taken(call: Callable[[], object]) -> None:
    while True:
        try:
            call()
        except StoreUnavailable:
            continue
        return


def test_after_a_lost_connection_each_is_stored_once(line: Line, database: Database) -> None:
    with jdbcstore.open(line.url, cleanup_period=0) as store:
        added(store, database)[-1][1].result(WAIT)
        count = 0
        for _ in _broken(line, lasting=False):
            count += 1
            store.queue("GOOD").remove_all_messages()
            messages = added(store, database)
            references = [future.result(WAIT).sequence for _, future in messages]
            check_stored(store, database, [body for body, _ in messages], [])
            assert [(id_,) for id_ in references] == database.rows(STORED)
    assert count > 10


def test_an_error_says_what_is_stored(line: Line, database: Database) -> None:
    """Several batches may be in doubt; what has failed otherwise is not there."""
    doubts = failures = 0
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=0.0) as store:
        added(store, database)[-1][1].result(WAIT)
        store.queue("GOOD").remove_all_messages()
        for _ in _broken(line, lasting=True):
            messages = added(store, database)
            errors = {body: future.exception(WAIT) for body, future in messages}
            line.mend()
            _until_taken(lambda: store.queue("LAST").add_message(Message("last")))
            _until_taken(store.queue("LAST").remove_all_messages)
            doubtful = [body for body, error in errors.items() if isinstance(error, OutcomeUnknown)]
            check_stored(store, database, [body for body, error in errors.items() if error is None], doubtful)
            doubts, failures = max(doubts, len(doubtful)), failures + sum(map(bool, errors.values()))
            _until_taken(store.queue("GOOD").remove_all_messages)
    assert doubts == 10
    assert failures > doubts


def test_what_is_refused_fails_alone(line: Line, database: Database) -> None:
    with jdbcstore.open(line.url, cleanup_period=0) as store:
        refuse_bad(database)
        added(store, database)[-1][1].result(WAIT)
        store.queue("GOOD").remove_all_messages()
        good, bad = store.queue("GOOD"), store.queue("BAD")
        with writes_held(database):
            first = good.add_message_async(Message("0"))
            results = [good.add_message_async(Message(str(number))) for number in range(1, 8)]
            refused = bad.add_message_async(Message("bad"))
            results += [good.add_message_async(Message(str(number))) for number in range(8, 40)]
        first.result(WAIT)
        for result in results:
            result.result(WAIT)
        with pytest.raises(InvalidMessage):
            refused.result(WAIT)
        check_stored(store, database, [str(number) for number in range(40)], [])


def test_what_arrives_late_has_no_effect(database: Database) -> None:
    """Two batches are on the line of a connection that was given up, and are sent again."""
    late = LateLine(database)
    try:
        with jdbcstore.open(late.url, cleanup_period=0, network_timeout=SHORT) as store:
            added(store, database)[-1][1].result(WAIT)
            store.queue("GOOD").remove_all_messages()
            queue = store.queue("GOOD")
            late.hold()
            futures = [queue.add_message_async(Message(str(number))) for number in range(40)]
            for future in futures:
                future.result(WAIT)
            late.let_go()
            check_stored(store, database, [str(number) for number in range(40)], [])
    finally:
        late.close()


@pytest.mark.new_database
def test_none_is_confirmed_before_a_standby_has_it(server: Server, database: Database) -> None:
    """The waits of two commits for a standby are cancelled, and their messages become visible."""
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
    before = {*writer._open}
    with jdbcstore.open(database.url, cleanup_period=0) as store:
        [its_writer] = {*writer._open} - before
        for _ in range(2):
            added(store, database)[-1][1].result(WAIT)
            store.queue("GOOD").remove_all_messages()
        queue = store.queue("GOOD")
        with _waiting_for_a_standby(server, database):
            with its_writer._lock:
                futures = [queue.add_message_async(Message(str(number))) for number in range(40)]
            for count in (5, 10):
                wait_until(lambda: bool(database.rows(waiting)), WAIT, "that a commit waits")
                database.rows(f"SELECT pg_cancel_backend(pid) FROM ({waiting}) found")
                wait_until(partial(_has, queue, count), WAIT, "that it is visible")
            wait_until(lambda: bool(database.rows(waiting)), WAIT, "that the store waits")
            assert queue.message_count() == 10
            assert not any(future.done() for future in futures)
        for future in futures:
            future.result(WAIT)
        check_stored(store, database, [str(number) for number in range(40)], [])


def _has(queue: MessageStore, count: int) -> bool:
    return queue.message_count() >= count
