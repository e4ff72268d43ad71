"""Each error code that a server may answer: at COMMIT it may mean that all was written, or nothing.

A real server does the write, and its answer is replaced by each code; or it does not get the statement.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import jdbcstore
from jdbcstore import (
    Claims,
    JournaledStore,
    Message,
    MessageId,
    ProducerId,
    Store,
    StoreConfig,
    XATransactionId,
)
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.codes import MYSQL, MYSQL_TEXTS
from jdbcstore.database.adapters.registry import adapter_class
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import OutcomeUnknown, StoreError
from jdbcstore.lockers.database import DatabaseLocker, LeaseDatabaseLocker
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.testing.messages import content, fill
from tests.conftest import small_journal
from tests.support.databases import Database
from tests.support.faults.answers import AnswerLine, answers_of, each_answer, examples

PRODUCER = ProducerId("ID:till", 1, 1)
WAIT = 180.0


@pytest.fixture
def line(database: Database) -> Iterator[AnswerLine]:
    line = AnswerLine(database.url)
    yield line
    line.close()


@pytest.fixture
def store(line: AnswerLine) -> Iterator[Store]:
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=60.0) as store:
        store.queue("Q").add_message(_message(0))
        yield store


def _message(number: int) -> Message:
    return Message(str(number), message_id=MessageId(PRODUCER, number))


def _alone(store: Store, numbers: list[int]) -> None:
    store.queue("Q").add_message(_message(numbers[0]))


def _in_the_background(store: Store, numbers: list[int]) -> None:
    # The first makes the others wait for the writer, which then sends them together.
    futures = [store.queue("Q").add_message_async(_message(number)) for number in numbers]
    failures = [future.exception(WAIT) for future in futures]
    for failure in failures:
        if failure is not None:
            raise failure


def _in_a_transaction(store: Store, numbers: list[int]) -> None:
    transaction = store.transaction()
    for number in numbers:
        transaction.queue("Q").add_message(_message(number))
    transaction.queue("Q").acknowledge(1)
    transaction.commit()


def _distributed(store: Store, numbers: list[int]) -> None:
    xid = XATransactionId(86, str(numbers[0]).encode(), b"branch")
    transaction = store.xa.start(xid)
    for number in numbers:
        transaction.queue("Q").add_message(_message(number))
    transaction.prepare()
    store.xa.commit(xid)


SENDS: tuple[Callable[[Store, list[int]], None], ...] = (
    *(_alone, _in_the_background, _in_a_transaction),
    _distributed,
)


def _check(database: Database, numbers: list[int], error: StoreError | None, which: object) -> None:
    placed = ", ".join(str(number) for number in numbers)
    rows = database.rows(
        f"SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS WHERE XID IS NULL AND MSGID_SEQ IN ({placed}) ORDER BY ID"
    )
    stored = [number for (number,) in rows]
    told = (which, error, stored)
    assert len({*stored}) == len(stored), told
    if error is None:
        assert stored == numbers, told
    elif not isinstance(error, OutcomeUnknown):
        assert stored == [], told


@pytest.mark.slow
@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("send", SENDS, ids=lambda send: send.__name__)
def test_messages_are_stored_once_or_in_doubt(
    send: Callable[[Store, list[int]], None],
    store: Store,
    line: AnswerLine,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    count = 1 if send in (_alone, _distributed) else 3
    answers = answers_of(database) if send is _alone else examples(database)
    fresh = itertools.count(1)
    for which in each_answer(line, answers):
        caplog.clear()
        numbers = [next(fresh) for _ in range(count)]
        error: StoreError | None = None
        try:
            send(store, numbers)
        except StoreError as raised:
            error = raised
        line.mend()
        if send is _in_the_background:
            for number in numbers:  # each has its own outcome, and one that succeeded is stored once
                _check(database, [number], OutcomeUnknown() if error else None, (which, error))
        else:
            _check(database, numbers, error, which)
        if which[0].failure is not Failure.DUPLICATE:
            assert "does another process write" not in caplog.text, which


@pytest.mark.slow
@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_what_is_repeated_under_its_ids_is_found(store: Store, line: AnswerLine, database: Database) -> None:
    """Even of a conflict that is none: nothing is taken for undone that has its own row under its own ID."""
    conflicts = [one for one in answers_of(database) if one.failure is Failure.TRANSIENT]
    for number, answer in enumerate(conflicts, 1):
        line.replace(answer.code, 1, done=True, text=answer.text)
        store.queue("Q").add_message(_message(number))
        assert line.lied
        _check(database, [number], None, answer)


@pytest.mark.slow
@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_removals_and_claims(line: AnswerLine, database: Database) -> None:
    with Claims(line.url, StoreConfig(cleanup_period=0)) as claims:
        queue = claims.queue("Q")
        queue.add(_message(0))
        fresh = itertools.count(1)
        for which in each_answer(line, examples(database)):
            number = next(fresh)
            error: StoreError | None = None
            try:
                queue.add(_message(number))
            except StoreError as raised:
                error = raised
            line.mend()
            _check(database, [number], error, which)
        for answer, done, at in each_answer(line, [one for one in examples(database) if one.may_be_done]):
            number = next(fresh)
            line.mend()
            queue.add(_message(number))
            [claim] = queue.claim(1, wait=WAIT)
            line.replace(answer.code, at, done=done, text=answer.text)
            error = None
            try:
                queue.acknowledge(claim)
            except StoreError as raised:
                error = raised
            line.mend()
            left = database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE ID = :id", id=claim.sequence)
            assert isinstance(error, OutcomeUnknown) or (left == [(0,)]) is (error is None), (
                answer,
                done,
                at,
            )
            for queued in queue.claim(1000):
                queue.acknowledge(queued)


@pytest.mark.slow
@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize(
    "quick",
    [
        pytest.param(False, marks=pytest.mark.whole("postgresql"), id="journal"),
        pytest.param(True, marks=pytest.mark.whole("mariadb", "mysql"), id="quick"),
    ],
)
def test_a_checkpoint_writes_everything_once(
    quick: bool, line: AnswerLine, database: Database, tmp_path: Path
) -> None:
    """It fails, or not; the next one completes it."""
    config = StoreConfig(cleanup_period=0, reconnect_timeout=WAIT)
    options = {"checkpoint_interval": 0, "use_quick_journal": quick, "journal_log_file_size": 1 << 16}
    journal = small_journal(tmp_path / "journal", **options)
    with JournaledStore(JdbcStore(line.url, config, journaled=True), journal) as store:
        queue, topic = store.queue("Q"), store.topic("NEWS")
        topic.subscribe("client", "reader")
        reader = topic.subscription("client", "reader")
        fill(queue, "a", "b", "c")
        store.checkpoint()
        for number, which in enumerate(each_answer(line, examples(database))):
            answer, done, at = which
            line.mend()
            first, second, *_ = queue.recover(limit=2)
            queue.update_message(first.replace(body=f"{number} changed"))
            queue.acknowledge(second)
            fill(queue, f"{number} a", f"{number} b" + "x" * (1 << 14))
            fill(topic, f"{number} a", f"{number} b")
            reader.acknowledge(reader.recover(limit=1)[0])
            expected = content(queue), content(reader)
            line.replace(answer.code, at, done=done, text=answer.text)
            with contextlib.suppress(StoreError):
                store.checkpoint()
            line.mend()
            store.checkpoint()
            assert (content(queue), content(reader)) == expected, which
            assert queue.message_count() == len(expected[0]), which
            rows = "SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://Q'"
            assert database.rows(rows) == [(len(expected[0]),)], which
            assert not store.journal_state().refused, which
        assert number > 50


@pytest.mark.slow
@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("kind", [LeaseDatabaseLocker, DatabaseLocker], ids=["lease", "database"])
def test_a_slave_stays_one(
    kind: type[LeaseDatabaseLocker] | type[DatabaseLocker], line: AnswerLine, database: Database
) -> None:
    """Whatever the answers to one attempt: the next one may succeed."""
    session = DatabaseSession(line.url, StoreConfig())
    locker = kind(lock_acquire_sleep_interval=0.2, lock_keep_alive_period=1000.0)
    locker.configure(session)
    answers = [answer for answer in examples(database) if answer.failure is Failure.UNKNOWN]
    for which in each_answer(line, answers):
        assert locker.start(WAIT), which
        line.mend()
        with contextlib.suppress(StoreError):
            locker.stop()
    session.close()


def test_what_vendors_say_of_a_read_only_server_or_a_commit() -> None:
    """Each code of a decision at COMMIT is in a table, of an engine that can be run here or not."""
    from jdbcstore.database.adapters.codes import MSSQL, ORACLE, failure_of

    assert {MYSQL[code] for code in (8005, 8022, 8028, 9007, 3101, 3797, 3798)} == {Failure.TRANSIENT}
    assert {MYSQL[1290], MYSQL[1792], MYSQL[1836], MSSQL[3906], ORACLE[16000]} == {Failure.READ_ONLY}
    assert {MYSQL[3100], ORACLE[25405], failure_of("40003"), failure_of("XX000"), failure_of(None)} == {
        Failure.UNKNOWN
    }
    assert ORACLE[25402] is Failure.TRANSIENT
    assert failure_of("08007") is Failure.DISCONNECTED
    azure = (976, 983, 40197, 40501, 40613, 49918, 49919, 49920, 10928, 10929)
    assert {MSSQL[code] for code in azure} == {Failure.DISCONNECTED}
    assert 1180 in MYSQL_TEXTS


def test_an_answer_that_fits_no_question_ends_the_connection() -> None:
    """psycopg raises it itself, and would for each statement that follows."""
    error = psycopg.InternalError("unexpected result status from query: PIPELINE_SYNC")
    assert adapter_class("postgresql")().classify(error) is Failure.DISCONNECTED
