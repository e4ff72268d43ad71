"""The IDs of a message whose outcome was not learned: no other message gets them, then or later."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message, MessageId, MessageStore, ProducerId, Store
from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from jdbcstore.stores.jdbc.sequence import BLOCK
from tests.support.databases import Database
from tests.support.faults.line import Break, Line

PRODUCER = ProducerId("ID:till", 1, 1)
PATIENCE = 0.1
STORED = "SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS ORDER BY ID"


def message(number: int) -> Message:
    return Message(str(number), message_id=MessageId(PRODUCER, number))


def open_store(line: Line) -> Store:
    return jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=PATIENCE)


@pytest.fixture
def store(line: Line) -> Iterator[Store]:
    with open_store(line) as store:
        assert store.queue("Q").add_message(message(0)).sequence == 1
        yield store


class Doubt:
    """Messages that are stored, although their producer was told that this is unknown."""

    def __init__(self, line: Line, database: Database, queue: MessageStore) -> None:
        self._line, self._database, self._queue = line, database, queue
        self._at = 1
        self.numbers = itertools.count(1)
        """Numbers of messages that were not used."""

    def stored(self) -> list[int]:
        return [number for (number,) in self._database.rows(STORED)]

    def begins(self, at: int) -> int | None:
        """Add a message, whose answer number ``at`` is lost; return its number if it is stored, in doubt."""
        number = next(self.numbers)
        self._line.arm(Break.ANSWER, at, lasting=True)
        error = _error_of(lambda: self._queue.add_message(message(number)))
        self._line.mend()
        return number if isinstance(error, OutcomeUnknown) and number in self.stored() else None

    def add(self) -> int:
        """Add a message in doubt and return its number."""
        while (number := self.begins(self._at)) is None:
            # How many statements there are depends on whether it is connected and has IDs.
            self._at = self._at + 1 if self._line.broke else 1
        return number


def _error_of(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except StoreUnavailable as error:
        return error
    return None


def close(store: Store) -> None:
    """Close a store that is connected again, and so could give IDs back."""
    store.queue("Q").acknowledge(1)
    store.close()


@pytest.fixture
def doubt(line: Line, database: Database, store: Store) -> Doubt:
    return Doubt(line, database, store.queue("Q"))


@pytest.mark.backends("sqlite", "postgresql")
def test_it_is_not_given_again_when_the_message_was_consumed(
    doubt: Doubt, store: Store, line: Line, database: Database
) -> None:
    doubt.add()
    [(last,)] = database.rows("SELECT MAX(ID) FROM ACTIVEMQ_MSGS")
    close(store)
    with open_store(line) as after:
        after.queue("Q").remove_all_messages()
    with open_store(line) as after:
        assert after.queue("Q").add_message(message(100)).sequence > last


@pytest.mark.backends("sqlite", "postgresql")
def test_an_older_block_of_another_store_is_not_in_force_again(
    store: Store, line: Line, database: Database
) -> None:
    """Its messages would be behind the mark of whoever has read the one in doubt."""
    for at in itertools.count(1):
        older = store.queue("Q").add_message(message(1000 + 2 * at)).sequence
        with open_store(line) as newer:
            if Doubt(line, database, newer.queue("Q")).begins(at) is None:
                assert line.broke
                continue
            [(last,)] = database.rows("SELECT MAX(ID) FROM ACTIVEMQ_MSGS")
            assert last - older == BLOCK
            close(newer)
            assert store.queue("Q").add_message(message(1001 + 2 * at)).sequence > last
            break


@pytest.mark.backends("sqlite")
def test_what_is_sent_with_its_repeat_is_not_taken_for_stored(doubt: Doubt, store: Store, line: Line) -> None:
    """The row of a message in doubt proves nothing about what its producer sends with it again."""
    for how in line.breaks:
        for at in itertools.count(1):
            first, second = doubt.add(), next(doubt.numbers)
            line.arm(how, at)
            transaction = store.transaction()
            for number in (first, second):
                transaction.queue("Q").add_message(message(number))
            error = _error_of(transaction.commit)
            line.mend()
            assert error is not None or second in doubt.stored(), (how, at)
            if not line.broke:
                break
