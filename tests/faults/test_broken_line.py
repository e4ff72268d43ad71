"""The line to the database breaks at each statement and each answer in turn.

What a call then says is true: it was done once, it was not done, or it is one or the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import Connection

import jdbcstore
from jdbcstore import Message
from jdbcstore.abc import MessageReference, Store
from jdbcstore.errors import OutcomeUnknown, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.support.crash.work import Names
from tests.support.databases import Database
from tests.support.faults.effects import WAIT, Call, Places, stored_places
from tests.support.faults.line import Break, Line
from tests.support.faults.refusing import refused

HERE, THERE, TOPIC = "queue://HERE", "queue://THERE", "topic://NEWS"
SUBSCRIPTION = "reader"


class Script:
    """Calls of every kind, made one after the other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = store.queue("HERE")
        self._topic = store.topic("NEWS")
        self._subscription = self._topic.subscribe("client", SUBSCRIPTION)
        self._rounds = itertools.count(1)

    def prepare(self) -> tuple[list[MessageReference], list[MessageReference]]:
        """Messages to acknowledge, in the queue and in the topic."""
        self._names = Names("name", next(self._rounds))
        old = self._queue.add_messages([self._names.message() for _ in range(5)])
        news = self._topic.add_messages([self._names.message() for _ in range(4)])
        return old, news

    def run(self, old: list[MessageReference], news: list[MessageReference]) -> Iterator[Call]:
        """Make each call."""
        message = self._names.message()
        call = Call("add_message", adds=_places(HERE, message))
        call.make(partial(self._queue.add_message, message))
        yield call

        messages = [self._names.message() for _ in range(3)]
        call = Call("add_messages", adds=_places(HERE, *messages))
        call.make(lambda: self._queue.add_messages(messages))
        yield call

        for message in [self._names.message() for _ in range(12)]:
            call = Call("add_message_async", adds=_places(HERE, message))
            call.make(partial(self._queue.add_message_async, message))
            yield call
        call = Call("acknowledge_async", takes=_places(HERE, old[0]))
        call.make(lambda: self._queue.acknowledge_async(old[0]))
        yield call

        call = Call("acknowledge", takes=_places(HERE, *old[1:3]))
        call.make(lambda: self._queue.acknowledge(*old[1:3]))
        yield call

        yield self._transaction(old[3], news[2])

        for some in (news[1:2], news[0:1]):
            call = Call("acknowledge for a subscription", takes=_places(SUBSCRIPTION, *some))
            call.make(partial(self._subscription.acknowledge, *some))
            yield call

        call = Call("subscribe and unsubscribe")
        call.make(lambda: self._topic.subscribe("client", "passing"))
        if call.error is None:
            call.make(lambda: self._topic.unsubscribe("client", "passing"))
        yield call

        call = Call("recover")
        call.make(self._queue.recover)
        yield call

    def _transaction(self, old: MessageReference, news: MessageReference) -> Call:
        here, there = self._names.message(), self._names.message()
        call = Call(
            "transaction",
            adds=_places(HERE, here) | _places(THERE, there),
            takes=_places(HERE, old) | _places(SUBSCRIPTION, news),
        )

        def commit() -> None:
            with self._store.transaction() as transaction:
                transaction.queue("HERE").add_message(here)
                transaction.queue("HERE").acknowledge(old)
                transaction.queue("THERE").add_message(there)
                transaction.topic("NEWS").acknowledge_subscription("client", SUBSCRIPTION, news)

        call.make(commit)
        return call


def _places(where: str, *messages: object) -> Places:
    return {(where, str(message.message_id)) for message in messages}  # type: ignore[attr-defined]


@pytest.fixture
def store(line: Line) -> Iterator[Store]:
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=180.0) as store:
        yield store


def test_a_line_that_breaks_once_is_not_noticed(line: Line, store: Store, connection: Connection) -> None:
    script, decoded = Script(store), dict[int, tuple[str, bytes]]()
    for how in line.breaks:
        for number in itertools.count(1):
            old, news = script.prepare()
            line.arm(how, number)
            calls = list(script.run(old, news))
            for call in calls:
                call.finish()
            line.mend()

            stored = stored_places(connection, TOPIC, SUBSCRIPTION, decoded)
            for call in calls:
                assert call.error is None, f"{call.what} at {how} {number}"
                call.check(stored)
            store.queue("HERE").remove_all_messages()
            if not line.broke:
                break
        assert number > 10


def test_a_line_that_stays_broken_is_told(line: Line, connection: Connection) -> None:
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=0.02) as store:
        script, decoded = Script(store), dict[int, tuple[str, bytes]]()
        for how in line.breaks:
            failed = 0
            for number in itertools.count(1, 2):
                old, news = script.prepare()
                line.arm(how, number, lasting=True)
                calls = list(script.run(old, news))
                for call in calls:
                    call.finish()
                line.mend()

                stored = stored_places(connection, TOPIC, SUBSCRIPTION, decoded)
                for call in calls:
                    call.check(stored)
                failed += sum(call.error is not None for call in calls)
                _reopen(store)
                if not line.broke:
                    break
            assert failed > number


@pytest.mark.backends("sqlite", "postgresql")
def test_a_close_does_not_decide_what_is_in_doubt(line: Line) -> None:
    store = jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=180.0)
    queue = store.queue("HERE")
    queue.add_message(Message("0"))
    line.arm(Break.ANSWER, 1, lasting=True)
    with ThreadPoolExecutor() as pool:
        adding = pool.submit(queue.add_message, Message("1"))
        wait_until(lambda: line.broke)
        with pytest.raises(StoreClosed):
            store.close(timeout=0.1)
        assert isinstance(adding.exception(), OutcomeUnknown)


@pytest.mark.backends("sqlite")
def test_what_the_database_then_refuses_is_not_in_doubt(line: Line, store: Store, database: Database) -> None:
    queue = store.queue("HERE")
    reference = queue.add_message(Message("0"))
    with refused(database, "DELETE ON ACTIVEMQ_MSGS"):
        line.arm(Break.STATEMENT, 1)
        with pytest.raises(StoreError, match="refused") as error:
            queue.acknowledge(reference)
    assert line.broke
    assert not isinstance(error.value, OutcomeUnknown)


@pytest.mark.backends("sqlite", "postgresql")
def test_what_cannot_be_looked_for_stays_in_doubt(line: Line, store: Store, database: Database) -> None:
    queue = store.queue("HERE")
    queue.add_message(Message("0"))
    line.arm(Break.ANSWER, 1, lasting=True)
    adding = queue.add_message_async(Message("1"))
    wait_until(lambda: line.broke)
    database.execute("ALTER TABLE ACTIVEMQ_MSGS RENAME TO ELSEWHERE")
    line.mend()
    assert isinstance(adding.exception(WAIT), OutcomeUnknown)
    database.execute("ALTER TABLE ELSEWHERE RENAME TO ACTIVEMQ_MSGS")


def _reopen(store: Store) -> None:
    """The line is whole again, and so is the store, without anybody's help."""
    while True:
        try:
            store.queue("HERE").remove_all_messages()
        except StoreUnavailable:
            continue
        return
